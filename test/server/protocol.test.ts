import ldapjs from 'ldapjs';
import { mount } from '../../src/server/mount/mount.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { openRecycled } from '../hbase/recycled.js';
import { hbase } from '../hbase/server.js';
import { delayedStore } from '../store/delayed.js';
import { ADMIN, emptyPartition, start } from './directory.js';
import { type Lack, protocolSuite } from './protocol-suite.js';

/** Cheap hashes: the suite binds a hundred times. */
const SETTINGS = {
  'passwords.argon2.memoryKiB': 64,
  'passwords.argon2.timeCost': 1,
  'passwords.upgradeAtBind': false,
} as const;
/** ldapjs parses requests itself: what it refuses or alters never reaches the operations. */
const LDAPJS_LACKS: readonly Lack[] = [
  'abandon',
  'cancel',
  'strictParser',
  'oidSelection',
  'binaryValues',
  'increment',
  'policyControl',
];
const admin = { adminDn: ADMIN.dn, adminPassword: ADMIN.password };

protocolSuite('RowanServer', async () => {
  const partition = await emptyPartition();
  const { url, port, stop } = await start(SETTINGS, 0, partition);
  return { url, port, ...admin, stop };
});

protocolSuite('RowanServer, over a store that never answers at once', async () => {
  const partition = await emptyPartition(delayedStore());
  const { url, port, stop } = await start(SETTINGS, 0, partition);
  return { url, port, ...admin, stop };
});

describe('HBase', () => {
  before(async function () {
    if (!process.env.ROWAN_HBASE_URL) await hbase(this);
  });

  protocolSuite('RowanServer, over HBase', async () => {
    const partition = await emptyPartition(await openRecycled());
    const running = await start(SETTINGS, 0, partition);
    const stop = async (): Promise<void> => {
      await running.stop();
      await partition.close();
    };
    return { url: running.url, port: running.port, ...admin, stop };
  });
});

protocolSuite('mounted on ldapjs', async () => {
  const partition = await emptyPartition();
  const server = ldapjs.createServer();
  mount(server, partition, makeConfig(SETTINGS));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const port = Number(new URL(server.url).port);
  const stop = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()));
  return { url: `ldap://127.0.0.1:${port}`, port, ...admin, lacks: LDAPJS_LACKS, stop };
});
