/** npm run bench -- logs: what the access log and scrapes of /metrics cost, in searches a second of processor time. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compileLoad, drive, makePeople } from './load.mjs';
import { cpuSeconds } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { BASE } from './rows.mjs';
import { freePort, Rowan } from './servers.mjs';

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
  const [off, on, scraped] = ['off', 'on', 'scraped'].map((name) => new Rowan(join(folder, name), root));
  const servers = [off, on, scraped];
  on.flags = ['--access-log-output', join(folder, 'access.log')];
  const httpPort = await freePort();
  scraped.flags = ['--http', `127.0.0.1:${httpPort}`];
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    for (const server of servers) server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'people.ldif');
  makePeople(root, PEOPLE, file);
  for (const server of servers) {
    server.load(file);
    await server.start();
  }
  // A process of its own, because the load blocks this one.
  const scrape = `setInterval(() => fetch('http://127.0.0.1:${httpPort}/metrics').then((r) => r.text()), 1000)`;
  const scraper = spawn(process.execPath, ['-e', scrape], { stdio: ['ignore', 'ignore', 'inherit'] });
  process.once('exit', () => scraper.kill());
  const lines = searches.map((row) => lineOf(root, servers, row, Number(options.turns), Number(options.seconds)));
  scraper.kill();
  for (const server of servers) await server.stop();
  const title = ['searches a second of processor time', 'neither', 'access log', '/metrics each second'];
  process.stdout.write(`\n${formatRows([title, ...lines])}\n`);
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
  const [off, ...others] = taken.map(median);
  const cells = [Math.round(off), ...others.map((rate) => `${Math.round(rate)} (${(rate / off).toFixed(2)})`)];
  process.stderr.write(`${row.title}  ${cells.join('  ')}\n`);
  return [row.title, ...cells.map(String)];
}
