/** npm run bench -- hbase: Rowan over an Apache HBase of its own on this machine. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { hbaseTables, recordHBase, rowLine } from './hbase-report.mjs';
import { FrontEnd, HBase } from './hbase-servers.mjs';
import { compileLoad, driveBeside, makePeople } from './load.mjs';
import { cpuSeconds, describeMachine, machineCpuSeconds } from './machine.mjs';
import { median } from './report.mjs';
import { ADMIN, CONNECTIONS } from './rows.mjs';

/** Numbers reserved for each turn that adds people. */
const NEW_A_TURN = 10_000_000;

/** The measured rows, with the required rates a second for 1 and for 16 requests in flight on each of 8 connections. */
const ROWS = [
  { name: 'search', title: '(uid=x), all attributes', wanted: [8000, 20_000] },
  { name: 'base', title: 'base object', wanted: [8000, 20_000] },
  { name: 'compare', title: 'compare uid', wanted: [8000, 20_000] },
  { name: 'bind', title: 'bind, {SSHA}', wanted: [8000, 20_000] },
  { name: 'add', title: 'add, durable', wanted: [undefined, 500], write: true },
  { name: 'modify', title: 'modify, durable', wanted: [undefined, 1500], write: true },
];
const NAMES = [...ROWS.map((row) => row.name), 'rpc', 'two'];
const LOAD_WANTED = 3000;
const DEPTHS = [1, 16];
/** Uncounted turns at the start, in which Java compiles. */
const WARM_TURNS = 4;
/** Rows that are also measured with two front ends. */
const TWO = ['search', 'modify'];

const USAGE = `npm run bench -- hbase [options]
  --entries N      people to load (100000)
  --turns N        turns of each row, medians are taken (3)
  --seconds N      length of a turn (3)
  --only ROW,ROW   only these: ${NAMES.join(', ')}
  --memory SIZE    heap of HBase's process (2g)
  --store URL      over this HBase, which runs already, instead of one of its own: its processor time is not measured
  --record         append the tables to docs/lab/runs.md
Environment: ROWAN_BENCH_DIST is the compiled form to measure instead of dist; ROWAN_BENCH_NODE_FLAGS gives Node flags to the
front ends, such as --cpu-prof.
`;

function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '100000' },
      turns: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '3' },
      only: { type: 'string' },
      memory: { type: 'string', default: '2g' },
      store: { type: 'string' },
      record: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const { entries, turns, seconds } = values;
  const numbers = { entries: Number(entries), turns: Number(turns), seconds: Number(seconds) };
  for (const [name, value] of Object.entries(numbers))
    if (!(value > 0)) throw new Error(`--${name} needs a number above 0`);
  const only = values.only?.split(',');
  const unknown = only?.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`no row is called ${unknown}; there are ${NAMES.join(', ')}`);
  return { ...values, ...numbers, only };
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

class Run {
  rows = [];
  rpc = [];
  #added = 0;

  constructor(root, folder, options) {
    this.root = root;
    this.folder = folder;
    this.options = options;
    this.dist = process.env.ROWAN_BENCH_DIST;
    this.hbase = new HBase(root, join(folder, 'hbase'), options.memory, options.store);
    this.frontEnds = [];
  }

  wants(name) {
    return this.options.only?.includes(name) ?? true;
  }

  add(row) {
    this.rows.push(row);
    process.stderr.write(`${rowLine(row)}\n`);
  }

  /** Stops all started processes. */
  clear() {
    for (const { process: child } of this.frontEnds) child?.kill('SIGKILL');
    this.hbase.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async measure() {
    await this.hbase.start();
    this.frontEnds = [0, 1].map(() => new FrontEnd(this.folder, this.root, this.hbase.url, this.dist));
    this.load();
    this.probe('flush');
    const [first, second] = this.frontEnds;
    await first.start();
    for (let i = 0; i < WARM_TURNS; i++) await this.drive([first], { name: 'search' }, 16);
    for (const row of ROWS) {
      if (!this.wants(row.name)) continue;
      await this.alone(row, first);
      for (const [i, depth] of DEPTHS.entries()) await this.row(row, depth, row.wanted[i], [first]);
    }
    if (this.wants('rpc') && this.hbase.pid)
      this.rpc = JSON.parse(this.probe('rates', this.options.seconds, this.hbase.pid));
    if (this.wants('two')) {
      await second.start();
      await this.drive([second], { name: 'search' }, 16);
      for (const row of ROWS.filter(({ name }) => TWO.includes(name))) {
        // Measures one front end again, so that both rates are of the same minute.
        await this.row(row, 16, undefined, [first]);
        await this.row(row, 16, undefined, [first, second]);
      }
    }
    for (const one of this.frontEnds) await one.stop();
  }

  load() {
    const { entries } = this.options;
    const [frontEnd] = this.frontEnds;
    const file = join(this.folder, 'people.ldif');
    makePeople(this.root, entries, file);
    frontEnd.init();
    const clock = this.clock([]);
    const seconds = frontEnd.load(file);
    // The processor time of the loader itself is part of the others here, since the parent cannot read it after the
    // end.
    this.add({
      title: 'bulk load',
      wanted: LOAD_WANTED,
      frontEnds: 1,
      rate: (entries + 2) / seconds,
      ...clock(entries + 2),
    });
  }

  /**
   * Starts measuring. The returned function takes a number of operations and reports, per operation, the processor time
   * of each process in µs, and the time of all processes a second.
   */
  clock(frontEnds) {
    const pids = [this.hbase.pid, ...frontEnds.map((one) => one.process.pid)];
    const before = pids.map((pid) => pid && cpuSeconds(pid));
    const machine = machineCpuSeconds();
    const began = performance.now();
    return (operations) => {
      const elapsed = (performance.now() - began) / 1000;
      const [hbase, ...front] = pids.map((pid, i) => pid && ((cpuSeconds(pid) - before[i]) / operations) * 1e6);
      return { hbase, front, busy: (machineCpuSeconds() - machine) / elapsed };
    };
  }

  /** Runs hbase-probe.mjs and returns its output. */
  probe(...args) {
    const program = join(this.root, 'scripts/bench/hbase-probe.mjs');
    const dist = this.dist ?? join(this.root, 'dist');
    const all = [program, dist, this.hbase.url, ...args].map(String);
    const run = spawnSync(process.execPath, all, { encoding: 'utf8' });
    if (run.status !== 0) throw new Error(`hbase-probe ${args.join(' ')} failed: ${run.stderr}`);
    return run.stdout;
  }

  /** Drives one turn with the connections divided among the front ends. */
  async drive(frontEnds, row, depth, connections = CONNECTIONS) {
    const { entries, seconds } = this.options;
    const requests = await Promise.all(frontEnds.map((one) => one.requests()));
    const clock = this.clock(frontEnds);
    const loads = frontEnds.map((frontEnd) => {
      const args = ['-m', row.name, '-c', connections / frontEnds.length, '-d', depth, '-t', seconds, '-n', entries];
      if (row.write) args.push('-D', ADMIN, '-W', frontEnd.password);
      if (row.name === 'add') args.push('-s', entries + ++this.#added * NEW_A_TURN);
      return driveBeside(this.root, frontEnd.port, args);
    });
    const taken = await Promise.all(loads.map((end) => end()));
    const rate = sum(taken.map((one) => one.ops));
    const times = clock(rate * seconds);
    const after = await Promise.all(frontEnds.map((one) => one.requests()));
    return {
      rate,
      p99: Math.max(...taken.map((one) => one.p99_ms)),
      requests: sum(after.map((count, i) => count - requests[i])) / (rate * seconds),
      ...times,
      load: sum(taken.map((one) => one.load_cpu / 100)) * (1e6 / rate),
    };
  }

  async row({ title, ...row }, depth, wanted, frontEnds) {
    const turns = [];
    for (let i = 0; i < this.options.turns; i++) turns.push(await this.drive(frontEnds, row, depth));
    const of = (value) => median(turns.map(value));
    const figures = Object.fromEntries(
      ['rate', 'p99', 'requests', 'hbase', 'load', 'busy'].map((name) => [name, of((turn) => turn[name])]),
    );
    const front = frontEnds.map((_, i) => of((turn) => turn.front[i]));
    this.add({ title, depth, wanted, frontEnds: frontEnds.length, ...figures, front });
  }

  /**
   * Uses one client with one request at a time: nothing is batched, so the HBase requests are those of one operation.
   */
  async alone({ title, ...row }, frontEnd) {
    this.add({ title, depth: 'alone', frontEnds: 1, ...(await this.drive([frontEnd], row, 1, 1)) });
  }
}

export async function main(root, args) {
  if (args.includes('--help')) {
    process.stdout.write(USAGE);
    return;
  }
  const options = readOptions(args);
  compileLoad(root);
  const machine = describeMachine(root);
  const run = new Run(root, mkdtempSync(join(tmpdir(), 'rowan-bench-hbase-')), options);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));
  process.once('exit', () => run.clear());
  await run.measure();
  const command = ['npm run bench -- hbase', ...args].join(' ');
  process.stdout.write(`\n${hbaseTables(run)}\n`);
  if (options.record) recordHBase(join(root, 'docs/lab/runs.md'), { machine, command, run });
}
