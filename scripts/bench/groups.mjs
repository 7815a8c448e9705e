/** npm run bench -- groups: the cost of groups, in Rowan and in slapd with its overlay dynlist. */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from 'ldapts';
import { compileLoad, drive, makePeople } from './load.mjs';
import { isInstalled } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan, Slapd } from './servers.mjs';

/** Members of the large group. */
const MEMBERS = 100_000;
/** Groups of the first person in total. Groups are nested `DEPTH` deep, with `GROUPS / DEPTH` on each level. */
const GROUPS = 1000;
const DEPTH = 5;
/** First number for new members, so that numbers do not collide. */
const FIRST_NEW = 100_000_000;
const GROUP = `cn=group,${BASE}`;
const USAGE = `npm run bench -- groups [options]
  --turns N        turns of each server in each row, medians are taken (3)
  --seconds N      length of a turn (2)
  --no-slapd       Rowan alone
  --against FOLDER the compiled checkout of another version of Rowan in slapd's place
`;

const person = (n) => `uid=user.${n},ou=people,${BASE}`;

/** Access rules that grant less than everything to all users. */
const RULES = `rules:
  - { name: all read, who: {}, allow: [view] }
  - { name: but for phones, who: { users: true }, to: { attributes: [homePhone] }, deny: [view] }
`;
const USER = ['-D', person(1), '-W', 'password'];

/** One client that waits for each answer. `rowan`: slapd has no such feature. */
const rows = [
  { title: '(uid=x), its cn', args: ['-m', 'search', '-r', 'cn'] },
  { title: '(&(uid=x)(memberOf=G)), its cn', args: ['-m', 'and', '-o', `memberOf=${GROUP}`, '-r', 'cn'] },
  {
    title: '(&(uid=x)(memberOf=G)) of x that is in no such group',
    args: ['-m', 'and', '-o', `memberOf=cn=nested0,${BASE}`, '-l', 1, '-e', 0, '-r', 'cn'],
  },
  { title: '(uid=x), its cn, by a user', args: ['-m', 'search', '-r', 'cn', ...USER], rowan: true },
  {
    title: '(&(uid=x)(memberOf=G)), its cn, by a user',
    args: ['-m', 'and', '-o', `memberOf=${GROUP}`, '-r', 'cn', ...USER],
    rowan: true,
  },
  {
    title: '(member=x), of the groups their cn',
    args: ['-m', 'search', '-l', 1, '-a', 'member', '-v', person('%u'), '-r', 'cn'],
  },
  {
    title: `memberOf of one in ${GROUPS} groups nested ${DEPTH} deep`,
    args: ['-m', 'search', '-n', 1, '-r', 'memberOf'],
  },
  { title: `a group of ${MEMBERS.toLocaleString('en-US')}`, args: ['-m', 'search', '-a', 'cn', '-v', 'group'] },
  {
    title: 'member;range=0-999 of it',
    args: ['-m', 'search', '-a', 'cn', '-v', 'group', '-r', 'member;range=0-999'],
    rowan: true,
  },
  { title: 'add one member to it', args: ['-m', 'grow', '-a', 'member', '-f', GROUP, '-v', person('%u')], write: true },
  { title: `rename what ${MEMBERS.toLocaleString('en-US')} members lie below`, drive: driveRenames },
];

function group(cn, members) {
  const lines = members.map((dn) => `member: ${dn}\n`).join('');
  return `dn: cn=${cn},${BASE}\nobjectClass: groupOfNames\ncn: ${cn}\n${lines}\n`;
}

function makeGroups(file) {
  appendFileSync(
    file,
    `\n${group(
      'group',
      Array.from({ length: MEMBERS }, (_, n) => person(n)),
    )}`,
  );
  const wide = GROUPS / DEPTH;
  for (let n = 0; n < GROUPS; n++)
    appendFileSync(file, group(`nested${n}`, [n < wide ? person(0) : `cn=nested${n - wide},${BASE}`]));
}

function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      turns: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '2' },
      'no-slapd': { type: 'boolean', default: false },
      against: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  return { ...values, turns: Number(values.turns), seconds: Number(values.seconds) };
}

function otherServer(folder, root, { against, 'no-slapd': noSlapd }) {
  if (against !== undefined) return new Rowan(join(folder, 'before'), resolve(against));
  if (noSlapd || !isInstalled('slapd')) return undefined;
  const slapd = new Slapd(join(folder, 'slapd'), root);
  slapd.globals = ['include /etc/ldap/schema/dyngroup.schema', 'moduleload dynlist'];
  slapd.lines = [
    'index member eq',
    'overlay dynlist',
    'dynlist-attrset groupOfURLs memberURL member+memberOf@groupOfNames*',
  ];
  return slapd;
}

/**
 * Returns the median duration of a rename in milliseconds. At the end the entries are back in their place. Between
 * renames, references are awaited: an entry that takes an old name has to wait for them too.
 */
async function driveRenames(server) {
  const client = new Client({ url: `ldap://127.0.0.1:${server.port}` });
  const taken = [];
  try {
    await client.bind(ADMIN, server.password);
    for (const [from, to] of [
      ['people', 'folk'],
      ['folk', 'people'],
    ]) {
      const begin = performance.now();
      await client.modifyDN(`ou=${from},${BASE}`, `ou=${to}`);
      taken.push(performance.now() - begin);
      await client.add(`ou=${from},${BASE}`, { objectClass: 'organizationalUnit', ou: from });
      await client.del(`ou=${from},${BASE}`);
    }
  } finally {
    await client.unbind();
  }
  return median(taken);
}

/** Returns the median duration of the requests of a row in milliseconds; Infinity if none was answered in time. */
function driveRow(root, server, { args, write }, seconds, turn) {
  const load = ['-n', MEMBERS, '-c', 1, '-d', 1, '-t', seconds, '-b', BASE, ...args];
  if (write) load.push('-D', ADMIN, '-W', server.password, '-s', FIRST_NEW + turn * 1_000_000);
  const { ops, p50_ms } = drive(root, server.port, load);
  return ops > 0 ? p50_ms : Number.POSITIVE_INFINITY;
}

export async function main(root, args) {
  const options = readOptions(args);
  if (options.help) {
    process.stdout.write(USAGE);
    return;
  }
  compileLoad(root);
  const folder = mkdtempSync(join(tmpdir(), 'rowan-groups-'));
  const other = otherServer(folder, root, options);
  const servers = [new Rowan(join(folder, 'rowan'), root), ...(other ? [other] : [])];
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    for (const server of servers) server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'groups.ldif');
  makePeople(root, MEMBERS, file);
  makeGroups(file);
  const rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
  for (const server of servers) {
    server.load(file);
    if (server instanceof Rowan) server.run('access', 'apply', rules, '--data', server.data);
    await server.start();
  }
  const lines = [];
  for (const row of rows) lines.push(await lineOf(root, servers, row, options));
  for (const server of servers) await server.stop();
  const otherName = options.against === undefined ? 'slapd' : 'before';
  process.stdout.write(`\n${formatRows([['median, one client', 'Rowan', otherName], ...lines])}\n`);
}

async function lineOf(root, servers, row, { turns, seconds, against }) {
  const taken = servers.map(() => []);
  for (let turn = 0; turn < turns; turn++)
    for (const [n, server] of servers.entries())
      if (n === 0 || !row.rowan || against !== undefined)
        taken[n].push(await (row.drive?.(server, seconds) ?? driveRow(root, server, row, seconds, turn)));
  const cells = taken.map((values) => (values.length > 0 ? shown(median(values), seconds) : '–'));
  process.stderr.write(`${row.title}  ${cells.join('  ')}\n`);
  return [row.title, cells[0], cells[1] ?? '–'];
}

function shown(milliseconds, seconds) {
  return milliseconds === Number.POSITIVE_INFINITY ? `> ${seconds} s` : `${milliseconds.toFixed(3)} ms`;
}
