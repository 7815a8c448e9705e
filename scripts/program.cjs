// Loads the bundled command line with what V8 made of it in `code-cache.mjs`, which spares its processes a third of
// their start. Without that, or with what another Node or V8 made, V8 compiles it as usual.
const { readFileSync } = require('node:fs');
const { createRequire, wrap } = require('node:module');
const { dirname, join } = require('node:path');
const { Script } = require('node:vm');

const FILE = join(__dirname, '../dist/bundle/cli/program.cjs');
/** V8 itself only compares lengths, so the build removes it with the program that it is of. */
const CACHE = `${FILE}.cache`;

function readCache() {
  try {
    return readFileSync(CACHE);
  } catch {
    return undefined;
  }
}

function loadProgram() {
  const cachedData = readCache();
  const script = new Script(wrap(readFileSync(FILE, 'utf8')), { filename: FILE, cachedData });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(FILE), module, FILE, dirname(FILE));
  return { program: module.exports, script };
}

/** Node's own loader alone finds the map to the sources. */
const program = () => (process.env.ROWAN_DEBUG === '1' ? require(FILE) : loadProgram().program);

module.exports = { CACHE, loadProgram, program };
