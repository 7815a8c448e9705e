import { openMemoryStore } from '../../src/store/memory/index.js';
import { storeSuite } from './suite.js';

storeSuite('memory', async () => {
  const store = openMemoryStore();
  return { store, cleanup: () => store.close() };
});
