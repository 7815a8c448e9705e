import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Plan, Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import type { Failpoint } from '../../src/store/lmdb/lmdb-options.js';
import { packRow } from '../../src/store/row.js';
import { bytes, cell, codeOf } from './suite/fixture.js';

const run = promisify(execFile);
const INDEX = join(import.meta.dirname, '../../src/store/lmdb/index.js');
const NO_PLAN: Plan = { steps: [], decisive: 0 };
const ROW = packRow([cell(0, 'q', 'value')]);

describe('lmdb: what fails beside the event loop', () => {
  let folder: string;
  let store: Store;
  let failpoint: Failpoint = () => undefined;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rowan-threads-'));
    failpoint = () => undefined;
    store = await openLmdbStore(folder, { failpoint: (name) => failpoint(name) });
    await store.createTable({ name: 't', families: [{ name: 'a' }] });
  });
  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });

  const load = (key: string) => store.ingest([{ table: 't', rows: [{ key: bytes(key), row: ROW }] }], NO_PLAN);
  const put = (key: string) =>
    store.commit({ steps: [{ table: 't', key: bytes(key), put: [cell(0, 'q', 'value')] }], decisive: 0 });
  const has = async (key: string) => (await store.get('t', bytes(key))) !== undefined;
  const throwOnce = (at: string): Failpoint => {
    let thrown = false;
    return (name) => {
      if (name !== at || thrown) return;
      thrown = true;
      throw new Error('as asked');
    };
  };

  it('a batch that comes while the thread of the one before ends is written, by a new thread', async () => {
    failpoint = throwOnce('ingest begin');
    // The thread dies; its end is told twice, and the next batch comes in between.
    const next = load('first').then(
      () => 'written',
      async (error) => {
        expect(error).to.include({ code: 'unavailable', applied: 'unknown' });
        await load('second');
        return 'refused';
      },
    );
    expect(await next).to.equal('refused');
    expect([await has('first'), await has('second')]).to.deep.equal([false, true]);
    // The thread that wrote it is the one that is kept: batches that wait together are all written.
    await Promise.all(['third', 'fourth', 'fifth'].map(load));
    expect(await has('fifth')).to.equal(true);
  });

  it('a batch that fails in the thread is refused alone, and its thread goes on', async () => {
    failpoint = throwOnce('ingest rows');
    expect(await codeOf(load('first'))).to.equal('unavailable');
    await load('second');
    expect([await has('first'), await has('second')]).to.deep.equal([false, true]);
  });

  it('who commits when tables cannot be opened anew hears so, and the next one is served', async () => {
    const program = `import { openLmdbStore } from '${INDEX}';
      const store = await openLmdbStore('${folder}');
      await store.createTable({ name: 'other', families: [{ name: 'a' }] });
      await store.close();`;
    await run(process.execPath, ['--input-type=module', '-e', program]);
    failpoint = throwOnce('tables changed');
    expect(await codeOf(put('first'))).to.equal('unavailable');
    await put('second');
    await store.commit({ steps: [{ table: 'other', key: bytes('x'), put: [cell(0, 'q', '')] }], decisive: 0 });
    expect([await has('first'), await has('second')]).to.deep.equal([false, true]);
  });
});
