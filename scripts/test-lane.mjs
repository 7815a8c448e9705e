/**
 * A process of `scripts/test.mjs` that runs test files one after another. Gets messages `{ folder, file, part, grep,
 * bail, hangMs }` (see `keep` for part) and answers each with `{ output, passed, failed, skipped, failures, leftOut }`;
 * `null` ends it. A test or hook that has run for `hangMs` (60 s when absent) is reported on standard error, with what
 * it waits for.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';
import Mocha from 'mocha';

const GRACE_MS = 60_000;
/** Time limit that ends a hanging test. On a busy machine a process may take ten times its usual time. */
const TEST_MS = 300_000;
/** Time after which a test that runs is reported, and again each time. */
const HANG_MS = 60_000;
/** Length of each list in that report. */
const MOST_ITEMS = 10;
const { Base, Spec } = Mocha.reporters;

// Mocha would ignore the rejection, and the test that waits for the promise would run into its time limit.
process.on('unhandledRejection', (reason) => {
  throw reason;
});
process.setSourceMapsEnabled(true);

let lines = [];
Base.consoleLog = (...args) => lines.push(format(...args));

function taken() {
  const text = lines.join('\n');
  lines = [];
  return text;
}

/** Prints passed and failed tests. The reasons of failures are printed at the end of the run. */
class Progress extends Spec {
  epilogue() {}
}

/** Part `hbase`: tests with that word in their title. Part `rest`: the other tests. Part `all`: both. */
function keep(suite, part) {
  const wanted = (test) => part === 'all' || /\bhbase\b/i.test(test.fullTitle()) === (part === 'hbase');
  suite.tests = suite.tests.filter(wanted);
  for (const child of suite.suites) keep(child, part);
}

/** Starts HBase before the first test needs it, since the start may take longer than a test may. */
async function startHBase(folder) {
  const { isPresent } = await import(pathToFileURL(join(folder, 'require.js')).href);
  if (process.env.ROWAN_HBASE_URL || !isPresent('hbase')) return;
  const { runningHBase } = await import(pathToFileURL(join(folder, 'hbase/server.js')).href);
  // The tests report why HBase does not start.
  await runningHBase().catch(() => undefined);
}

/** Returns the processes that this one has started, with their command lines. */
function childProcesses() {
  const readText = (path) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      // The process has ended, or the system has no /proc.
      return '';
    }
  };
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task') : [];
  const pids = threads.flatMap((thread) => readText(`/proc/self/task/${thread}/children`).split(' ').filter(Boolean));
  return pids.map((pid) => `${pid} ${readText(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()}`);
}

/** Reports each test or hook of `runner` that has run for `hangMs`. Returns a function that ends the reports. */
function reportHangs(runner, openWaits, hangMs) {
  let timer;
  const end = () => clearInterval(timer);
  const begin = (runnable) => {
    end();
    const begun = Date.now();
    timer = setInterval(() => {
      const parts = [
        ['waits for', openWaits()],
        ['processes', childProcesses()],
        ['open', process.getActiveResourcesInfo()],
      ];
      const seconds = Math.round((Date.now() - begun) / 1000);
      process.stderr.write(`\n"${runnable.fullTitle()}" has run for ${seconds} s\n`);
      for (const [name, items] of parts)
        process.stderr.write(`  ${name}: ${items.slice(0, MOST_ITEMS).join('; ') || 'nothing known'}\n`);
    }, hangMs).unref();
  };
  for (const event of ['test', 'hook']) runner.on(event, begin);
  return end;
}

async function run({ folder, file, part, grep, bail, hangMs = HANG_MS }) {
  if (part === 'hbase') await startHBase(folder);
  const mocha = new Mocha({
    ui: 'bdd',
    reporter: Progress,
    timeout: TEST_MS,
    slow: 2_000,
    forbidOnly: true,
    bail,
    ...(grep === undefined ? {} : { grep }),
  });
  mocha.addFile(file);
  await mocha.loadFilesAsync();
  keep(mocha.suite, part);
  const failed = [];
  const { openWaits } = await import(pathToFileURL(join(folder, 'waits.js')).href);
  let endReports;
  const { stats } = await new Promise((resolve) => {
    const runner = mocha.run(() => resolve(runner));
    runner.on('fail', (test) => failed.push(test));
    endReports = reportHangs(runner, openWaits, hangMs);
  });
  endReports();
  const output = taken();
  const failures = failed.map((test) => {
    Base.list([test]);
    return taken();
  });
  mocha.dispose();
  return { output, passed: stats.passes, failed: failed.length, skipped: stats.pending, failures };
}

/** Returns the reasons for which tests of this process were left out so far. */
async function leftOut(folder) {
  const require = await import(pathToFileURL(join(folder, 'require.js')).href);
  return require.leftOut();
}

/** Exits when nothing is running any more, or reports what is still running. */
function leave() {
  process.off('disconnect', abandoned);
  process.disconnect();
  setTimeout(() => {
    process.stderr.write(`tests left open: ${process.getActiveResourcesInfo().join(', ')}\n`);
    process.exit(1);
  }, GRACE_MS).unref();
}

function abandoned() {
  process.exit(1);
}

process.once('disconnect', abandoned);
process.on('message', async (order) => {
  if (order === null) return leave();
  const result = await run(order).catch((error) => ({
    ...{ output: taken(), passed: 0, failed: 1, skipped: 0 },
    failures: [`  1) ${order.file} cannot be loaded:\n${error.stack}\n`],
  }));
  process.send({ ...result, leftOut: await leftOut(order.folder) });
});
