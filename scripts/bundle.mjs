/**
 * Bundles the command line into `dist/bundle/cli`, from which `scripts/rowan.cjs` starts it: a few files instead of
 * hundreds, so that a command starts fast. What a command does not need stays in files that it does not load. Programs
 * that import the package use `dist/src`; the tests of the command line run what is made here.
 *
 * All files land in one folder, in which `new URL('./NAME.js', import.meta.url)` finds the programs of threads and
 * processes, as deep below the project's folder as the sources that look for files there.
 */
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const outdir = `${root}dist/bundle/cli`;

/**
 * Packages with native parts, loaded as CommonJS: as modules each of their files would be looked up and scanned for its
 * exports.
 */
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

rmSync(outdir, { recursive: true, force: true });
await build({
  absWorkingDir: root,
  entryPoints: [
    'src/cli/main.ts',
    'src/cli/workers/worker.ts',
    'src/cli/long/thread.ts',
    'src/store/lmdb/ingest/ingest-worker.ts',
    'src/password/crypt/crypt-worker.ts',
    'src/password/quality/quality-worker.ts',
  ],
  entryNames: '[name]',
  chunkNames: '[name]-[hash]',
  outdir,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.12',
  sourcemap: 'linked',
  sourcesContent: false,
  plugins: [required],
  // Read by few commands.
  external: ['hbase', 'yaml'],
  // What CommonJS packages ask for by `require`.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
  logLevel: 'warning',
});
