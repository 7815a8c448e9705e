/** npm run bench -- logs: what the access log costs a search, in searches a second of processor time. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compileLoad, drive, makePeople } from './load.mjs';
import { cpuSeconds } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { BASE } from './rows.mjs';
import { Rowan } from './servers.mjs';

const PEOPLE = 20_000;
const USAGE = `npm run bench -- logs [options]
  --turns N        turns of each server, medians are taken (5)
  --seconds N      length of a turn (2)
`;

const searches = [
  { title: '(uid=x), all attributes', args: ['-m', 'search', '-d', 16] },
  { title: '(uid=x), its cn', args: ['-m', 'search', '-r', 'cn', '-d', 16] },
  { title: 'base object', args: ['-m', 'base', '-d', 16] },
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
  const folder = mkdtempSync(join(tmpdir(), 'rowan-logs-'));
  const off = new Rowan(join(folder, 'off'), root);
  const on = new Rowan(join(folder, 'on'), root);
  on.flags = ['--access-log-output', join(folder, 'access.log')];
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    for (const server of [off, on]) server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'people.ldif');
  makePeople(root, PEOPLE, file);
  for (const server of [off, on]) {
    server.load(file);
    await server.start();
  }
  const lines = searches.map((row) => lineOf(root, [off, on], row, Number(options.turns), Number(options.seconds)));
  for (const server of [off, on]) await server.stop();
  process.stdout.write(`\n${formatRows([['searches a second of processor time', 'log off', 'log on'], ...lines])}\n`);
}

function lineOf(root, servers, row, turns, seconds) {
  const taken = servers.map(() => []);
  for (let turn = -1; turn < turns; turn++)
    for (const [n, server] of servers.entries()) {
      const before = cpuSeconds(server.process.pid);
      const { ops } = drive(root, server.port, ['-n', PEOPLE, '-c', 4, '-t', seconds, '-b', BASE, ...row.args]);
      // The first turn warms the servers.
      if (turn >= 0) taken[n].push((ops * seconds) / (cpuSeconds(server.process.pid) - before));
    }
  const [off, on] = taken.map(median);
  const cells = [Math.round(off), `${Math.round(on)} (${(on / off).toFixed(2)})`];
  process.stderr.write(`${row.title}  ${cells.join('  ')}\n`);
  return [row.title, ...cells.map(String)];
}
