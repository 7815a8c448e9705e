/**
 * Runs the compiled tests with mocha, in this process: `node scripts/test.mjs [FILE …] [-g PATTERN] [--dist FOLDER]`.
 *
 * FILE is a part of a test file's path (`cli`, `store/suite`); none means all. The last line is `N passed, N failed`.
 * Tests that lack a program are left out by `test/require.ts`, and named at the end.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import Mocha from 'mocha';

const GRACE_MS = 10_000;
const root = fileURLToPath(new URL('..', import.meta.url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    grep: { type: 'string', short: 'g' },
    dist: { type: 'string', default: 'dist' },
    reporter: { type: 'string', default: 'spec' },
    bail: { type: 'boolean', default: false },
  },
});

const folder = join(root, values.dist, 'test');

function testFiles() {
  // What was compiled of a file that is gone by now stays in the folder.
  const isThere = (name) => existsSync(join(root, 'test', name.replace(/\.js$/, '.ts')));
  const all = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.test.js') && isThere(name));
  const wanted = positionals.map((name) => name.replace(/^test\//, '').replace(/\.[jt]s$/, ''));
  const chosen = wanted.length === 0 ? all : all.filter((name) => wanted.some((part) => name.includes(part)));
  return chosen.sort().map((name) => join(folder, name));
}

function report(leftOut) {
  if (leftOut.length === 0) return;
  process.stdout.write('\n=== LEFT OUT: these tests did not run ===\n');
  for (const { part, remedy, tests } of leftOut) {
    process.stdout.write(`${part} is missing (${remedy}):\n${tests.map((test) => `  - ${test}\n`).join('')}`);
  }
  process.stdout.write('=== set ROWAN_TEST_REQUIRE=all to make this a failure ===\n');
}

/** Leaves when nothing runs any more, or says what still does. */
function leave(code) {
  process.exitCode = code;
  setTimeout(() => {
    process.stderr.write(`tests left open: ${process.getActiveResourcesInfo().join(', ')}\n`);
    process.exit(1);
  }, GRACE_MS).unref();
}

// Mocha would leave it unheard, and whoever waits for that promise waits until the test's time is over.
process.on('unhandledRejection', (reason) => {
  throw reason;
});

process.setSourceMapsEnabled(true);
const files = testFiles();
if (files.length === 0) {
  process.stderr.write(`no test file in ${relative(root, folder)} matches ${positionals.join(', ')}\n`);
  process.exit(2);
}
const mocha = new Mocha({
  ui: 'bdd',
  reporter: values.reporter,
  timeout: 60_000,
  slow: 2_000,
  forbidOnly: true,
  failZero: true,
  bail: values.bail,
  ...(values.grep === undefined ? {} : { grep: values.grep }),
});
for (const file of files) mocha.addFile(file);
await mocha.loadFilesAsync();
const { leftOut } = await import(pathToFileURL(join(folder, 'require.js')).href);
const runner = mocha.run((failures) => {
  const { passes, pending } = runner.stats;
  report(leftOut());
  const skipped = pending > 0 ? `, ${pending} skipped` : '';
  process.stdout.write(`\n${passes} passed, ${failures} failed${skipped}\n`);
  leave(failures > 0 ? 1 : 0);
});
