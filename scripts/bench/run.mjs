/**
 * npm run bench [-- OPTIONS]: compares Rowan with slapd on the same data with the same load generator, in alternating
 * turns; reports medians. `--help` lists the options; docs/lab/runs.md takes the results.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { makeCertificate, rowsToDrive } from './certificate.mjs';
import { compileLoad, drive, makePeople } from './load.mjs';
import { commit, describeMachine, isInstalled } from './machine.mjs';
import { formatTable, median, record } from './report.mjs';
import { loadRows, rowArgs, rowNames, rowPort } from './rows.mjs';
import { Rowan, Slapd } from './servers.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

const USAGE = `npm run bench -- [options], or
npm run bench -- scale [options]   how cost grows with the number of entries
npm run bench -- access [options]  what access rules cost
npm run bench -- groups [options]  what groups cost
npm run bench -- tree [options]    how long a tree delete takes, and others meanwhile
npm run bench -- binds [options]   how long a bind takes that fails
npm run bench -- fairness [options] how long a search waits beside requests at their largest
npm run bench -- logs [options]    what the access log and scrapes of /metrics cost
npm run bench -- memory            what a server holds beside clients that ask for more than it may keep
npm run bench -- replica [options] what replicas and consumers cost the writes, and how fast a replica follows
npm run bench -- history [options] what a search as of a moment, a change record and a backup cost
npm run bench -- sort [options]    how long sorted searches and windows take
npm run bench -- flame [options]   where the time of a search goes, as a picture
npm run bench -- profile [options] in which part of the program each row spends its time
npm run bench -- hbase [options]   Rowan over Apache HBase on this machine
  --entries N      people to load (100000)
  --turns N        turns of each server in each row, medians are taken (3)
  --seconds N      length of a turn (3)
  --only ROW,ROW   only these: ${rowNames().join(', ')}
  --all            the rows that are usually left out, too
  --workers N      processes of Rowan that serve (1)
  --no-slapd       Rowan alone
  --against FOLDER the compiled checkout of another version of Rowan in slapd's place: what a change costs
  --json FILE      every single figure
  --record         append to docs/lab/runs.md a run that is not a whole one, too
Environment: ROWAN_BENCH_NODE_FLAGS gives Node flags to what Rowan runs, such as --cpu-prof.
`;

function readOptions() {
  const { values } = parseArgs({
    options: {
      entries: { type: 'string', default: '100000' },
      turns: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '3' },
      workers: { type: 'string', default: '1' },
      only: { type: 'string' },
      all: { type: 'boolean', default: false },
      'no-slapd': { type: 'boolean', default: false },
      against: { type: 'string' },
      json: { type: 'string' },
      record: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const only = values.only?.split(',');
  const unknown = only?.find((name) => !rowNames().includes(name));
  if (unknown !== undefined) throw new Error(`no row is called ${unknown}; there are ${rowNames().join(', ')}`);
  const { entries, turns, seconds, workers } = values;
  const numbers = {
    entries: Number(entries),
    turns: Number(turns),
    seconds: Number(seconds),
    workers: Number(workers),
  };
  for (const [name, value] of Object.entries(numbers))
    if (!(value > 0)) throw new Error(`--${name} needs a number above 0`);
  return { ...values, ...numbers, only };
}

const programs = {
  scale: './scale.mjs',
  access: './access.mjs',
  groups: './groups.mjs',
  tree: './tree.mjs',
  binds: './binds.mjs',
  fairness: './fairness.mjs',
  logs: './logs.mjs',
  memory: './memory.mjs',
  replica: './replica.mjs',
  history: './history.mjs',
  sort: './sort.mjs',
  flame: './flame.mjs',
  profile: './profile.mjs',
  hbase: './hbase.mjs',
};
const other = programs[process.argv[2]];
const options = other ? undefined : readOptions();
const wanted = (name, extra) => (options.only ? options.only.includes(name) : options.all || !extra);
const say = (text) => process.stderr.write(`${text}\n`);

/** Drives one turn of one row. */
function driveRow(server, row, depth, first) {
  const { entries, seconds } = options;
  return drive(root, rowPort(row, server), rowArgs(row, { entries, depth, seconds, first, password: server.password }));
}

/** Runs `turn` for each server in alternation. Returns the measurements by server. */
async function inTurns(servers, turn) {
  const taken = new Map(servers.map((server) => [server, []]));
  for (let i = 0; i < options.turns; i++) {
    for (const server of i % 2 === 0 ? servers : [...servers].reverse()) taken.get(server).push(await turn(server));
  }
  return servers.map((server) => taken.get(server));
}

/** Numbers reserved for each turn that adds people. */
const NEW_A_TURN = 10_000_000;
let firstNew = 0;

const otherName = options?.against === undefined ? 'slapd' : 'before';
const results = [];
function add(result) {
  results.push(result);
  say(formatTable([result], otherName).split('\n').at(-1));
}

async function measureLoading(servers, file) {
  const turns = wanted('load') ? options.turns : 1;
  const people = options.entries + 2;
  const seconds = servers.map(() => []);
  for (let i = 0; i < turns; i++) {
    for (const [s, server] of servers.entries()) seconds[s].push(server.load(file));
  }
  if (!wanted('load')) return;
  const rate = (taken) => taken && people / median(taken);
  add({
    name: 'load',
    title: 'bulk load',
    unit: 'rate',
    rowan: rate(seconds[0]),
    other: rate(seconds[1]),
    turns: seconds,
  });
}

async function measureStart(servers) {
  if (wanted('start')) {
    const turns = await inTurns(servers, async (server) => {
      const ms = await server.start();
      await server.stop();
      return ms;
    });
    const [rowan, other] = turns.map(median);
    add({ name: 'start', title: 'start until a bind is answered', unit: 'milliseconds', rowan, other, turns });
  }
  for (const server of servers) await server.start();
}

/** One uncounted turn per server comes first, so that warm servers are measured. */
async function measureRow(servers, row) {
  if (row.argon2id) for (const server of servers) await server.hashPasswords?.(row.argon2id);
  for (const depth of row.depths) {
    const turn = async (server) => {
      if (row.grows) firstNew += NEW_A_TURN;
      return driveRow(server, row, depth, firstNew);
    };
    for (const server of servers) await turn(server);
    const turns = await inTurns(servers, turn);
    const of = (key) => turns.map((list) => median(list.map((one) => one[key])));
    const [rowan, other] = of(row.perEntry ? 'entries' : 'ops');
    const [rowanP99, otherP99] = of('p99_ms');
    const title = row.perEntry ? `${row.title}, entries` : row.title;
    add({ name: row.name, title, depth, unit: 'rate', rowan, other, rowanP99, otherP99, turns });
    if (row.tls === 'resumed') sayResumed(servers, of('resumed'));
  }
}

/** Some servers cannot resume: GnuTLS in this slapd issues no tickets, and makes full handshakes instead. */
function sayResumed(servers, shares) {
  const said = servers.map(({ name }, i) => `${name} ${Math.round(100 * shares[i])} %`);
  say(`resumed of the handshakes: ${said.join(', ')}`);
}

function measureMemory(servers) {
  const [rowan, other] = servers.map((server) => server.memory());
  add({ name: 'memory', title: 'memory outside the page cache, afterwards', unit: 'bytes', rowan, other });
}

async function main() {
  const rows = rowsToDrive(
    loadRows.filter((row) => wanted(row.name, row.extra)),
    say,
  );
  const tls = rows.some((row) => row.tls);
  compileLoad(root, tls);
  firstNew = options.entries;
  const machine = describeMachine(root);
  const folder = mkdtempSync(join(tmpdir(), 'rowan-bench-'));
  const servers = [new Rowan(join(folder, 'rowan'), root, options.workers)];
  if (options.against) servers.push(new Rowan(join(folder, 'before'), resolve(options.against), options.workers));
  else if (!options['no-slapd'] && isInstalled('slapd')) servers.push(new Slapd(join(folder, 'slapd'), root));
  else say('slapd is not installed or not wanted: Rowan alone');
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    for (const server of servers) server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  if (tls) {
    const certificate = makeCertificate(folder);
    for (const server of servers) server.certificate = certificate;
  }
  const file = join(folder, 'people.ldif');
  makePeople(root, options.entries, file);
  await measureLoading(servers, file);
  if (wanted('middle', true)) for (const server of servers) server.addMiddleIndex();
  await measureStart(servers);
  for (const row of rows) await measureRow(servers, row);
  if (wanted('memory')) measureMemory(servers);
  for (const server of servers) await server.stop();
  finish(machine);
}

function finish(machine) {
  // Leaves out options with paths of this machine.
  const given = process.argv
    .slice(2)
    .filter((_, i, all) => !['--json', '--against'].some((flag) => all[i] === flag || all[i - 1] === flag));
  const command = ['npm run bench', ...(given.length > 0 ? ['--', ...given] : [])].join(' ');
  const against = options.against && `Rowan of commit ${commit(resolve(options.against))}`;
  const run = { command, entries: options.entries, turns: options.turns, seconds: options.seconds, against };
  process.stdout.write(`\n${formatTable(results, otherName)}\n`);
  const whole = options.only === undefined && machine.slapd !== undefined && !options['no-slapd'] && !against;
  if (whole || options.record) record(join(root, 'docs/lab/runs.md'), { machine, run, results });
  if (options.json) writeFileSync(options.json, `${JSON.stringify({ machine, run, results }, undefined, 2)}\n`);
}

try {
  if (other) await (await import(other)).main(root, process.argv.slice(3));
  else await main();
} catch (error) {
  say(`bench: ${error.message}`);
  process.exit(1);
}
