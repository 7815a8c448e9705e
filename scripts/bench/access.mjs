/**
 * npm run bench -- access: the cost of access rules for a search, compared with the administrator, to whom no rules
 * apply.
 */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compileLoad, drive, makePeople } from './load.mjs';
import { cpuSeconds } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan } from './servers.mjs';

const PEOPLE = 20_000;
const PASSWORD = 'password';
const USAGE = `npm run bench -- access [options]
  --turns N        turns of each who asks, medians are taken (5)
  --seconds N      length of a turn (2)
`;

const person = (n) => `uid=user.${n},ou=people,${BASE}`;
const group = (n) => `cn=rules ${n},${BASE}`;

/** The rules for all users plus others, 50 rules in total; five of them have a filter or a group. */
function rules() {
  const made = ['  - { name: users read, who: { users: true }, allow: [view] }'];
  for (let n = 0; n < 44; n++) {
    const to = n % 2 ? `{ base: "${person(n + 100)}" }` : `{ attributes: [description, "cn;x-${n}"] }`;
    made.push(`  - { name: plain ${n}, who: { dn: "${person(n + 200)}" }, to: ${to}, allow: [write] }`);
  }
  for (let n = 0; n < 4; n++)
    made.push(
      `  - { name: group ${n}, who: { group: "${group(n)}" }, to: { filter: "(sn=a*)", attributes: [mail] }, deny: [read] }`,
    );
  made.push(
    `  - { name: filter, who: { dn: "${person(1)}" }, to: { filter: "(mail=*)", attributes: [description] }, deny: [read] }`,
  );
  return `rules:\n${made.join('\n')}\n`;
}

/** The identities that search. `held`: a rule with a filter is evaluated on each entry. */
const askers = [
  { title: 'the administrator', dn: ADMIN },
  { title: 'a user, by 50 rules', dn: person(0), password: PASSWORD },
  { title: 'a user, one with a filter that applies', dn: person(1), password: PASSWORD },
];

const searches = [
  { title: '(uid=x)', args: ['-m', 'search'] },
  { title: '(uid=x), its cn', args: ['-m', 'search', '-r', 'cn'] },
  { title: 'base', args: ['-m', 'base'] },
];

export async function main(root, args) {
  const { values: options } = parseArgs({
    args,
    options: {
      turns: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      help: { type: 'boolean', default: false },
    },
  });
  if (options.help) {
    process.stdout.write(USAGE);
    return;
  }
  compileLoad(root);
  const folder = mkdtempSync(join(tmpdir(), 'rowan-access-'));
  const server = new Rowan(join(folder, 'rowan'), root);
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'people.ldif');
  makePeople(root, PEOPLE, file);
  for (let n = 0; n < 4; n++)
    appendFileSync(file, `\ndn: ${group(n)}\nobjectClass: groupOfNames\ncn: rules ${n}\nmember: ${person(300 + n)}\n`);
  server.load(file);
  const rulesFile = join(folder, 'rules.yaml');
  writeFileSync(rulesFile, rules());
  server.run('access', 'apply', rulesFile, '--data', server.data);
  await server.start();
  const lines = searches.map((row) => lineOf(root, server, row, Number(options.turns), Number(options.seconds)));
  await server.stop();
  process.stdout.write(
    `\n${formatRows([['searches a second of processor time', ...askers.map(({ title }) => title)], ...lines])}\n`,
  );
}

function lineOf(root, server, row, turns, seconds) {
  const taken = askers.map(() => []);
  for (let turn = 0; turn < turns; turn++)
    for (const [n, { dn, password = server.password }] of askers.entries()) {
      const load = ['-n', PEOPLE, '-c', 4, '-d', 4, '-t', seconds, '-b', BASE, '-D', dn, '-W', password, ...row.args];
      const before = cpuSeconds(server.process.pid);
      const { ops } = drive(root, server.port, load);
      taken[n].push((ops * seconds) / (cpuSeconds(server.process.pid) - before));
    }
  const [admin, ...users] = taken.map(median);
  const cells = [Math.round(admin), ...users.map((ops) => `${Math.round(ops)} (${(ops / admin).toFixed(2)})`)];
  process.stderr.write(`${row.title}  ${cells.join('  ')}\n`);
  return [row.title, ...cells.map(String)];
}
