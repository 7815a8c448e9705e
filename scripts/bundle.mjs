/**
 * Bundles the command line into `dist/bundle/cli`, from which `scripts/rowan.cjs` starts it: a few files instead of
 * hundreds, so that a command starts fast. Programs that import the package use `dist/src`; the tests of the command
 * line run what is made here.
 *
 * The program of commands and workers is one CommonJS file: V8 can keep what it has compiled of that (`program.cjs`).
 * The files beside it are what Node starts: the command line, a worker, and the threads, which are bundled on their
 * own. All are in one folder, in which `new URL('./NAME.js', import.meta.url)` finds the programs of threads and
 * processes, as deep below the project's folder as the sources that look for files there.
 */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = `${root}dist/bundle/cli`;

/** Modules that re-export what the file of commands and workers contains. */
const reExports = {
  name: 're-export',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(?:\.\/program\.js|worker)$/ }, ({ path }) => ({ path, namespace: 're-export' }));
    onLoad({ filter: /.*/, namespace: 're-export' }, ({ path }) => {
      const program = "require('../../../scripts/program.cjs').program()";
      const run = `export const run = async () => (await ${program}.main()).run();`;
      return { contents: path === 'worker' ? `await ${program}.worker();` : run };
    });
  },
};

/** Packages with native parts. They are loaded as CommonJS, since Node would look up and scan each file of a module. */
const required = {
  name: 'required',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(?:lmdb|@node-rs\/argon2)$/ }, ({ path, namespace }) =>
      namespace === 'required' ? { path, external: true } : { path, namespace: 'required' },
    );
    onLoad({ filter: /.*/, namespace: 'required' }, ({ path }) => ({
      contents: `module.exports = require('${path}');`,
    }));
  },
};

const common = {
  absWorkingDir: root,
  outdir,
  bundle: true,
  platform: 'node',
  target: 'node20.12',
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
  // A shorter text is read faster, and is in ASCII, since non-ASCII characters are in comments alone.
  minifyWhitespace: true,
  lineLimit: 120,
};

rmSync(outdir, { recursive: true, force: true });
await Promise.all([
  build({
    ...common,
    stdin: {
      contents: `export const main = () => import('./src/cli/program.js');
        export const worker = () => import('./src/cli/workers/worker.js');`,
      resolveDir: root,
      sourcefile: 'program.js',
    },
    entryNames: 'program',
    outExtension: { '.js': '.cjs' },
    format: 'cjs',
    external: ['@node-rs/argon2', 'hbase', 'lmdb'],
    define: { 'import.meta.url': '__url' },
    banner: { js: "const __url = require('node:url').pathToFileURL(__filename).href;" },
  }),
  build({
    ...common,
    entryPoints: [
      'src/cli/main.ts',
      'worker',
      'src/cli/long/thread.ts',
      'src/store/lmdb/file/reader.ts',
      'src/store/lmdb/ingest/ingest-worker.ts',
      'src/password/crypt/crypt-worker.ts',
      'src/password/quality/quality-worker.ts',
    ],
    entryNames: '[name]',
    chunkNames: '[name]-[hash]',
    splitting: true,
    format: 'esm',
    plugins: [reExports, required],
    // Few commands read these.
    external: ['../../../scripts/program.cjs', 'hbase', 'yaml'],
    // Provides `require` for CommonJS packages.
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  }),
]);

const { status, stderr } = spawnSync(process.execPath, [`${root}scripts/code-cache.mjs`], { encoding: 'utf8' });
if (status !== 0) process.stderr.write(`the program starts slower, without a code cache: ${stderr}\n`);
