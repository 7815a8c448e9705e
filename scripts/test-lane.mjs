/**
 * A process of `scripts/test.mjs` that runs test files one after another. Gets messages `{ folder, file, part, grep,
 * bail }` (see `keep` for part) and answers each with `{ output, passed, failed, skipped, failures, leftOut }`; `null`
 * ends it.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';
import Mocha from 'mocha';

const GRACE_MS = 60_000;
/** Ends a test that hangs; on a busy machine a process may take ten times its usual time. */
const TEST_MS = 300_000;
const { Base, Spec } = Mocha.reporters;

// Mocha would leave it unheard, and whoever waits for that promise waits until the test's time is over.
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

/** Tells what passed and failed; why it failed is told at the end of the run. */
class Progress extends Spec {
  epilogue() {}
}

/** Part `hbase` are the tests that have the word in their title, `rest` the others, `all` both. */
function keep(suite, part) {
  const wanted = (test) => part === 'all' || /\bhbase\b/i.test(test.fullTitle()) === (part === 'hbase');
  suite.tests = suite.tests.filter(wanted);
  for (const child of suite.suites) keep(child, part);
}

/** Before a test needs it: it may take longer to start than a test may take. */
async function startHBase(folder) {
  const { isPresent } = await import(pathToFileURL(join(folder, 'require.js')).href);
  if (process.env.ROWAN_HBASE_URL || !isPresent('hbase')) return;
  const { runningHBase } = await import(pathToFileURL(join(folder, 'hbase/server.js')).href);
  // The tests tell why it does not start.
  await runningHBase().catch(() => undefined);
}

async function run({ folder, file, part, grep, bail }) {
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
  const { stats } = await new Promise((resolve) => {
    const runner = mocha.run(() => resolve(runner));
    runner.on('fail', (test) => failed.push(test));
  });
  const output = taken();
  const failures = failed.map((test) => {
    Base.list([test]);
    return taken();
  });
  mocha.dispose();
  return { output, passed: stats.passes, failed: failed.length, skipped: stats.pending, failures };
}

/** What tests of this process were left out for so far. */
async function leftOut(folder) {
  const require = await import(pathToFileURL(join(folder, 'require.js')).href);
  return require.leftOut();
}

/** Leaves when nothing runs any more, or says what still does. */
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
