// Loads the bundled command line with the V8 code cache of `code-cache.mjs`, which saves a third of the start time.
// Without the cache, or with that of another Node or V8, V8 compiles as usual.
const { isAscii } = require('node:buffer');
const { readFileSync } = require('node:fs');
const { createRequire, wrap } = require('node:module');
const { dirname, join } = require('node:path');
const { Script } = require('node:vm');

const FILE = join(__dirname, '../dist/bundle/cli/program.cjs');
/** V8 only compares lengths, so the build removes the cache together with the program. */
const CACHE = `${FILE}.cache`;

function readCache() {
  try {
    return readFileSync(CACHE);
  } catch {
    return undefined;
  }
}

/** Reads ASCII as Latin-1: V8 then needs half the memory and less time. */
function readSource() {
  const source = readFileSync(FILE);
  return source.toString(isAscii(source) ? 'latin1' : 'utf8');
}

function loadProgram() {
  const cachedData = readCache();
  const script = new Script(wrap(readSource()), { filename: FILE, cachedData });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(FILE), module, FILE, dirname(FILE));
  return { program: module.exports, script };
}

/** Only the loader of Node itself finds the source map. */
const program = () => (process.env.ROWAN_DEBUG === '1' ? require(FILE) : loadProgram().program);

module.exports = { CACHE, loadProgram, program };
