#!/usr/bin/env node
// Starts the compiled command line. In a checkout whose compiled form is missing or older than its sources, it compiles
// first. Node 12 must be able to parse this file, which tells it that it is too old.
/** As in package.json: major, minor. */
const LEAST_NODE = [20, 12];

function fail(message) {
  process.stderr.write('rowan: ' + message + '\n');
  process.exit(1);
}

function isOldNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major < LEAST_NODE[0] || (major === LEAST_NODE[0] && minor < LEAST_NODE[1]);
}

if (isOldNode()) fail('Rowan needs Node.js ' + LEAST_NODE.join('.') + ' or later; this is ' + process.versions.node);

const { spawnSync } = require('node:child_process');
const { existsSync, readdirSync, realpathSync, statSync, utimesSync } = require('node:fs');
const { dirname, join } = require('node:path');
const { pathToFileURL } = require('node:url');

const root = dirname(dirname(realpathSync(__filename)));
const main = join(root, 'dist/bundle/cli/main.js');
const stamp = join(root, 'dist/.tsbuildinfo');
const compiler = join(root, 'node_modules/typescript/bin/tsc');
const parent = process.ppid;

/** Returns the time of the latest change below a folder, in milliseconds since 1970. */
function newest(folder) {
  let latest = 0;
  readdirSync(folder, { withFileTypes: true }).forEach((item) => {
    const file = join(folder, item.name);
    if (item.isDirectory()) latest = Math.max(latest, newest(file));
    else if (item.name.endsWith('.ts')) latest = Math.max(latest, statSync(file).mtimeMs);
  });
  return latest;
}

function isStale() {
  if (!existsSync(join(root, 'src/cli/main.ts'))) return false;
  if (!existsSync(main) || !existsSync(stamp)) return true;
  return newest(join(root, 'src')) > statSync(stamp).mtimeMs;
}

function build() {
  if (!existsSync(compiler)) fail('not compiled yet, and the compiler is not installed; run "npm ci" first');
  process.stderr.write('rowan: compiling the sources\n');
  [[compiler, '-p', join(root, 'tsconfig.json')], [join(root, 'scripts/bundle.mjs')]].forEach((args) => {
    const run = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
    if (run.status !== 0) fail(run.stdout + run.stderr + 'rowan: the sources do not compile');
  });
  // The compiler does not touch its record when nothing changed, but `isStale` looks at the time of the record.
  const now = new Date();
  utimesSync(stamp, now, now);
  // npm was told to end meanwhile.
  if (process.env.npm_lifecycle_script && process.ppid !== parent) process.exit(1);
}

if (isStale()) build();
void import(pathToFileURL(main).href);
