import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { run } from '../cli/rowan.js';
import { needs } from '../require.js';
import { freshPrefix, hbase } from './server.js';

const BENCH = fileURLToPath(new URL('../../../scripts/bench/run.mjs', import.meta.url));

describe('npm run bench -- hbase', () => {
  it('measures to the end, over the smallest directory', async function () {
    needs(this, 'gcc');
    const server = await hbase(this);
    const size = ['--entries', '1', '--turns', '1', '--seconds', '0.1', '--only', 'base'];
    const { code, stdout, stderr } = await run(process.execPath, [
      BENCH,
      'hbase',
      ...size,
      '--store',
      server.url(freshPrefix()),
    ]);
    expect(code, stderr).to.equal(0);
    for (const row of ['bulk load', 'base object']) expect(stdout).to.contain(`| ${row} `);
  });
});
