import { openHBaseStore } from '../../src/store/hbase/index.js';
import { freshPrefix, type HBaseServer, hbase } from '../hbase/server.js';
import { storeSuite } from './suite.js';

describe('HBase engine', () => {
  let server: HBaseServer;
  before(async function () {
    server = await hbase(this);
  });

  storeSuite('hbase', async () => {
    const settings = server.settings(freshPrefix());
    let store = await openHBaseStore(settings);
    return {
      store,
      async reopen() {
        await store.close();
        store = await openHBaseStore(settings);
        return store;
      },
      cleanup: () => store.close(),
    };
  });
});
