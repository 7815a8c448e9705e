import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { memoryLimit, openRoot } from '../../src/store/lmdb/file/environment.js';
import type { LmdbOptions } from '../../src/store/lmdb/lmdb-options.js';

const MAPS = '/proc/self/smaps';
const GIB = 2 ** 30;

/** Flags that Linux keeps of the mapping of a file: `rr`, it is read at random. */
function flagsOf(path: string): string[] {
  const lines = readFileSync(MAPS, 'utf8').split('\n');
  const at = lines.findIndex((line) => line.endsWith(path));
  const flags = lines.slice(at).find((line) => line.startsWith('VmFlags:'))!;
  return flags.split(/\s+/).slice(1);
}

describe('lmdb: reading ahead', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-ahead-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  async function isRandom(access: LmdbOptions, memory: number): Promise<boolean> {
    const root = openRoot(folder, access, memory);
    try {
      return flagsOf(join(folder, 'data.mdb')).includes('rr');
    } finally {
      await root.close();
    }
  }

  it('is left where the data file fits into memory, and to those who read in order', async function () {
    if (!existsSync(MAPS)) this.skip();
    expect(await isRandom({}, GIB), 'a new folder').to.equal(false);
    expect(await isRandom({}, GIB)).to.equal(false);
    expect(await isRandom({}, 10_000), 'larger than the memory').to.equal(true);
    expect(await isRandom({ readOnly: true }, 10_000), 'only read').to.equal(true);
    expect(await isRandom({ readOnly: true, inOrder: true }, 10_000)).to.equal(false);
  });

  it('is judged by what the process may use', () => {
    expect(memoryLimit()).to.be.within(2 ** 26, Number.MAX_SAFE_INTEGER);
  });
});
