import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { storeSuite } from './suite.js';

storeSuite('lmdb', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'rowan-store-'));
  let store = await openLmdbStore(folder);
  return {
    store,
    async reopen() {
      await store.close();
      store = await openLmdbStore(folder);
      return store;
    },
    async cleanup() {
      await store.close();
      await rm(folder, { recursive: true });
    },
  };
});
