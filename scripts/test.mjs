/**
 * Runs the compiled tests with mocha: `node scripts/test.mjs [FILE …] [-g PATTERN] [--soak] [--times N] [--dist
 * FOLDER]`.
 *
 * FILE is a part of a test file's path (`cli`, `store/suite`); none means all. The files are run by several processes
 * (`test-lane.mjs`), each one file after another: those over HBase by one, which starts a single HBase for them, the
 * others by `--lanes` (2). What failed is told once more at the end, then the tests that `test/require.ts` left out
 * because a program is missing. The last line is `N passed, N failed`.
 *
 * `--soak` runs the tests that take longer than one wants to wait, those of `test/rounds.ts`, at their full length,
 * `--times N` at N times that.
 */
import { fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** A file that takes longer blocks its process, and no time-out of mocha's is heard. */
const FILE_MS = 20 * 60_000;
const root = fileURLToPath(new URL('..', import.meta.url));
const LANE = fileURLToPath(new URL('test-lane.mjs', import.meta.url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    grep: { type: 'string', short: 'g' },
    dist: { type: 'string', default: 'dist' },
    bail: { type: 'boolean', default: false },
    lanes: { type: 'string', default: '2' },
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
  // What was compiled of a file that is gone by now stays in the folder.
  const isThere = (name) => existsSync(join(root, 'test', name.replace(/\.js$/, '.ts')));
  const all = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.test.js') && isThere(name));
  const wanted = positionals.map((name) => name.replace(/^test\//, '').replace(/\.[jt]s$/, ''));
  const chosen = wanted.length === 0 ? all : all.filter((name) => wanted.some((part) => name.includes(part)));
  return chosen.sort().map((name) => join(folder, name));
}

/** The test modules that a module imports at its head, itself included. */
function imported(file, seen = new Set()) {
  if (seen.has(file) || !file.startsWith(folder)) return seen;
  seen.add(file);
  for (const [, path] of readFileSync(file, 'utf8').matchAll(/^(?:import|export) .*?from '(\.[^']*)';$/gm))
    imported(join(dirname(file), path), seen);
  return seen;
}

const RUNS_OVER_EACH_ENGINE = /\bENGINES\b|\bopenRecycled\b/;

/** Files and which part of them (see `test-lane.mjs`): what runs over HBase, and all else. */
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

const env = values.soak ? { ...process.env, ROWAN_SOAK: String(times) } : process.env;
const total = { passed: 0, failed: 0, skipped: 0 };
const failures = [];
const missing = new Map();

function failed(title, why) {
  total.failed++;
  failures.push(`  1) ${title}:\n     ${why}\n`);
}

function count(result) {
  for (const name of Object.keys(total)) total[name] += result[name];
  failures.push(...result.failures);
}

/** One process after another, until the queue is empty. */
class Lane {
  #queue;
  #leftOut = [];

  constructor(queue) {
    this.#queue = queue;
  }

  async run() {
    while (this.#queue.length > 0) await this.#process();
  }

  /** Resolves when it has ended: all is done, or it died of a file. */
  #process() {
    const child = fork(LANE, [], { env, stdio: 'inherit' });
    let task;
    let begun;
    let timer;
    const next = () => {
      clearTimeout(timer);
      if (values.bail && total.failed > 0) this.#queue.length = 0;
      task = this.#queue.shift();
      if (!task) return child.send(null);
      begun = Date.now();
      const { grep, bail } = values;
      child.send({ folder, ...task, grep, bail });
      timer = setTimeout(() => child.kill('SIGKILL'), FILE_MS);
    };
    child.on('message', (result) => {
      const name = relative(folder, task.file);
      const seconds = Math.round((Date.now() - begun) / 1000);
      if (result.output)
        process.stdout.write(
          `\n${name}${task.part === 'hbase' ? ', over HBase' : ''} (${seconds} s)${result.output}\n`,
        );
      count(result);
      this.#leftOut = result.leftOut;
      next();
    });
    next();
    return new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        clearTimeout(timer);
        for (const { part, remedy, tests } of this.#leftOut)
          missing.set(part, { remedy, tests: [...(missing.get(part)?.tests ?? []), ...tests] });
        this.#leftOut = [];
        if (task)
          failed(relative(folder, task.file), `its process ended before it did, with ${signal ?? `code ${code}`}`);
        else if (code !== 0) failed('the tests', 'some of them left something open, see above');
        resolve();
      });
    });
  }
}

function report() {
  if (failures.length > 0) process.stdout.write('\n=== FAILED ===\n');
  for (const [n, text] of failures.entries()) process.stdout.write(`${text.replace(/^(\s*)1\) /, `$1${n + 1}) `)}\n`);
  if (missing.size > 0) process.stdout.write('\n=== LEFT OUT: these tests did not run ===\n');
  for (const [part, { remedy, tests }] of missing)
    process.stdout.write(`${part} is missing (${remedy}):\n${tests.map((test) => `  - ${test}\n`).join('')}`);
  if (missing.size > 0) process.stdout.write('=== set ROWAN_TEST_REQUIRE=all to make this a failure ===\n');
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  process.stdout.write(`\n${total.passed} passed, ${total.failed} failed${skipped}\n`);
}

const { overHBase, others } = queues();
if (overHBase.length + others.length === 0)
  usage(`no test file in ${relative(root, folder)} matches ${positionals.join(', ')}`);
await Promise.all([new Lane(overHBase).run(), ...Array.from({ length: lanes }, () => new Lane(others).run())]);
if (total.passed + total.failed + total.skipped === 0) failed('the tests', `none matches ${values.grep}`);
report();
process.exitCode = total.failed > 0 ? 1 : 0;
