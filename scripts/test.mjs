/**
 * Runs the compiled tests with mocha: `node scripts/test.mjs [FILE …] [-g PATTERN] [--soak] [--times N] [--dist
 * FOLDER]`.
 *
 * FILE is a part of a test file's path (`cli`, `store/suite`); none means all. The files are run by several processes
 * (`test-lane.mjs`), each one file after another: those over HBase by one, which starts a single HBase for them, the
 * others by `--lanes` (3, since tests wait as much as they compute).
 *
 * When all files are done, a file that failed runs once more, alone. If it passes then, its tests count as passed, and
 * its first failure is printed under `=== FLAKY ===`. More than three flaky files fail the run. `--bail` gives no
 * second run.
 *
 * The end of the output lists the ten slowest files, the flaky files, the failures, and the tests that
 * `test/require.ts` left out because a program is missing. The last line is `N passed, N failed`.
 *
 * Temporary folders are in memory where it has room and `TMPDIR` names no other place.
 *
 * `--soak` runs, on the disk, the tests of `test/rounds.ts` at their full length, `--times N` at N times
 * that.
 */
import { fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** A file that takes longer blocks its process, and the time limits of mocha cannot fire. */
const FILE_MS = (process.argv.includes('--soak') ? 240 : 20) * 60_000;
/** Number of flaky files up to which the run passes. */
const MOST_FLAKY = 3;
/** Length of the list of the slowest files. */
const SLOWEST = 10;
/** Tests make much garbage: with 32 MiB for what is young, a lane takes a tenth less of the processor. */
const LANE_FLAGS = ['--max-semi-space-size=32'];
/** Niceness of the lanes beside HBase's, which is the longest and waits much, so that they use what it leaves. */
const NICENESS = 5;
const MEMORY = '/dev/shm';
/** Memory that must be free for temporary folders. */
const MEMORY_BYTES = 6 * 2 ** 30;
const root = fileURLToPath(new URL('..', import.meta.url));
const LANE = fileURLToPath(new URL('test-lane.mjs', import.meta.url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    grep: { type: 'string', short: 'g' },
    dist: { type: 'string', default: 'dist' },
    bail: { type: 'boolean', default: false },
    lanes: { type: 'string', default: '3' },
    soak: { type: 'boolean', default: false },
    times: { type: 'string', default: '1' },
  },
});

function usage(message) {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

const whole = (name) => {
  const number = Number(values[name]);
  return Number.isInteger(number) && number > 0 ? number : usage(`--${name} must be a whole number from 1`);
};
const lanes = whole('lanes');
const times = whole('times');
const folder = join(root, values.dist, 'test');

function testFiles() {
  // The compiled form of a deleted test stays in the folder.
  const isThere = (name) => existsSync(join(root, 'test', name.replace(/\.js$/, '.ts')));
  const all = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.test.js') && isThere(name));
  const wanted = positionals.map((name) => name.replace(/^test\//, '').replace(/\.[jt]s$/, ''));
  const chosen = wanted.length === 0 ? all : all.filter((name) => wanted.some((part) => name.includes(part)));
  return chosen.sort().map((name) => join(folder, name));
}

/** Returns the test modules that a module imports, directly or not, and the module itself. */
function imported(file, seen = new Set()) {
  if (seen.has(file) || !file.startsWith(folder)) return seen;
  seen.add(file);
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/^(?:import|export) .*?from '(\.[^']*)';$/gm))
    imported(join(dirname(file), path), seen);
  return seen;
}

/** With `NEAR_ENGINES`, HBase is used in soak runs only. */
const RUNS_OVER_EACH_ENGINE = values.soak ? /\b(?:NEAR_)?ENGINES\b|\bopenRecycled\b/ : /\bENGINES\b|\bopenRecycled\b/;

/** Returns the files and their parts (see `test-lane.mjs`): what runs over HBase, and the rest. */
function queues() {
  const overHBase = [];
  const others = [];
  for (const file of testFiles()) {
    const modules = imported(file);
    if (values.soak && !modules.has(join(folder, 'rounds.js'))) continue;
    if (RUNS_OVER_EACH_ENGINE.test(readFileSync(file, 'utf8'))) {
      overHBase.push({ file, part: 'hbase' });
      others.push({ file, part: 'rest' });
    } else if (modules.has(join(folder, 'hbase/server.js'))) overHBase.push({ file, part: 'all' });
    else others.push({ file, part: 'all' });
  }
  return { overHBase, others };
}

/**
 * Returns the place of temporary folders: in memory, since disk waits take half of the time otherwise; on disk for
 * soak.
 */
function temporary() {
  if (process.env.TMPDIR !== undefined || values.soak || !existsSync(MEMORY)) return {};
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize < MEMORY_BYTES ? {} : { TMPDIR: MEMORY };
}

/** With more certificates, each start of Node takes twice as long; no test needs them. */
const { NODE_EXTRA_CA_CERTS: _certificates, ...inherited } = process.env;
const env = { ...inherited, ...temporary(), ...(values.soak ? { ROWAN_SOAK: String(times) } : {}) };
/** The last result of each task: `{ passed, failed, skipped, failures }`. */
const results = new Map();
/** The failures of the first run of each task that passed in its second. */
const flaky = new Map();
const seconds = new Map();
const missing = new Map();
/** Results that belong to no file. */
const others = { passed: 0, failed: 0, skipped: 0, failures: [] };

const failure = (title, why) => `  1) ${title}:\n     ${why}\n`;
const nameOf = ({ file, part }) => `${relative(folder, file)}${part === 'hbase' ? ', over HBase' : ''}`;
const sum = (key) => [...results.values(), others].reduce((total, result) => total + result[key], 0);

function failed(title, why) {
  others.failed++;
  others.failures.push(failure(title, why));
}

/** Runs processes one after another until the queue is empty. */
class Lane {
  #queue;
  #niceness;
  #leftOut = [];

  constructor(queue, niceness = 0) {
    this.#queue = queue;
    this.#niceness = niceness;
  }

  async run() {
    while (this.#queue.length > 0) await this.#process();
  }

  /** Resolves when the process has ended, because the queue is empty or a file has ended the process. */
  #process() {
    const child = fork(LANE, [], { env, stdio: 'inherit', execArgv: LANE_FLAGS });
    setPriority(child.pid, Math.min(19, getPriority() + this.#niceness));
    let task;
    let begun;
    let timer;
    const done = (result) => {
      clearTimeout(timer);
      results.set(task, result);
      seconds.set(task, (Date.now() - begun) / 1000);
    };
    const next = () => {
      if (values.bail && sum('failed') > 0) this.#queue.length = 0;
      task = this.#queue.shift();
      if (!task) return child.send(null);
      begun = Date.now();
      const { grep, bail } = values;
      child.send({ folder, ...task, grep, bail });
      timer = setTimeout(() => child.kill('SIGKILL'), FILE_MS);
    };
    child.on('message', (result) => {
      done(result);
      if (result.output)
        process.stdout.write(`\n${nameOf(task)} (${Math.round(seconds.get(task))} s)${result.output}\n`);
      this.#leftOut = result.leftOut;
      next();
    });
    next();
    return new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        for (const { part, remedy, tests } of this.#leftOut)
          missing.set(part, { remedy, tests: new Set([...(missing.get(part)?.tests ?? []), ...tests]) });
        this.#leftOut = [];
        if (task) {
          const why = `its process ended before it did, with ${signal ?? `code ${code}`}`;
          done({ passed: 0, failed: 1, skipped: 0, failures: [failure(nameOf(task), why)] });
        } else if (code !== 0) failed('the tests', 'some of them left something open, see above');
        resolve();
      });
    });
  }
}

/** Runs each failed file once more, alone. */
async function secondRun() {
  const firsts = new Map([...results].filter(([, { failed }]) => failed > 0));
  if (values.bail || firsts.size === 0) return;
  process.stdout.write('\n=== AGAIN: the files that failed ===\n');
  // Each in a process of its own: a file that runs over HBase, too, is imported once in a process.
  for (const task of firsts.keys()) await new Lane([task]).run();
  for (const [task, { failures }] of firsts) if (results.get(task).failed === 0) flaky.set(task, failures);
  if (flaky.size > MOST_FLAKY) failed('the tests', `${flaky.size} files are flaky, and ${MOST_FLAKY} may be`);
}

function section(title, lines) {
  if (lines.length > 0) process.stdout.write(`\n=== ${title} ===\n${lines.join('')}`);
}

function report() {
  const slowest = [...seconds].sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  if (seconds.size > SLOWEST)
    section(
      'SLOWEST',
      slowest.map(([task, taken]) => `${taken.toFixed(0).padStart(5)} s  ${nameOf(task)}\n`),
    );
  section(
    'FLAKY: these files failed and then passed',
    [...flaky].flatMap(([task, failures]) => [`${nameOf(task)}\n`, ...failures.map((text) => `${text}\n`)]),
  );
  const failures = [...results.values(), others].flatMap((result) => result.failures);
  section(
    'FAILED',
    failures.map((text, n) => `${text.replace(/^(\s*)1\) /, `$1${n + 1}) `)}\n`),
  );
  section(
    'LEFT OUT: these tests did not run',
    [...missing].map(
      ([part, { remedy, tests }]) =>
        `${part} is missing (${remedy}):\n${[...tests].map((test) => `  - ${test}\n`).join('')}`,
    ),
  );
  if (missing.size > 0) process.stdout.write('=== set ROWAN_TEST_REQUIRE=all to make this a failure ===\n');
  const skipped = sum('skipped') > 0 ? `, ${sum('skipped')} skipped` : '';
  process.stdout.write(`\n${sum('passed')} passed, ${sum('failed')} failed${skipped}\n`);
}

const tasks = queues();
if (tasks.overHBase.length + tasks.others.length === 0)
  usage(`no test file in ${relative(root, folder)} matches ${positionals.join(', ')}`);
await Promise.all([
  // The HBase of this lane has ended by then, so the lane takes other files.
  new Lane(tasks.overHBase).run().then(() => new Lane(tasks.others).run()),
  ...Array.from({ length: lanes }, () => new Lane(tasks.others, NICENESS).run()),
]);
await secondRun();
if (sum('passed') + sum('failed') + sum('skipped') === 0) failed('the tests', `none matches ${values.grep}`);
report();
process.exitCode = sum('failed') > 0 ? 1 : 0;
