import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { TableSpec } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { Relay } from '../store/hbase/rpc/relay.js';
import { bytes, cell, errorOf } from '../store/suite/fixture.js';
import { patiently } from './load.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'f' }] };
const OPERATION_MS = 2_000;

describe('a write beside an HBase that stands still', () => {
  let server: HBaseServer;
  let store: HBaseStore;
  let stopAt: string | undefined;
  let stopped: (() => void) | undefined;

  before(async function () {
    server = await hbase(this);
    const settings = server.settings(freshPrefix());
    const patient = await openHBaseStore(settings);
    await patient.createTable(TABLE);
    await patient.close();
    const failpoint = async (name: string): Promise<void> => {
      if (name !== stopAt) return;
      stopAt = undefined;
      await server.suspend();
      stopped?.();
    };
    const hasty = { ...settings, operationTimeoutMs: OPERATION_MS };
    store = await patiently(() => openHBaseStore(hasty, { failpoint, leaseMs: 60_000 }));
    await patiently(async () => store.get(TABLE.name, bytes('none')));
  });
  after(() => store?.close());

  for (const point of ['lock before', 'row 0 before'])
    it(`that stopped at "${point}" is told within the time of one operation`, async () => {
      stopAt = point;
      const standing = new Promise<void>((resolve) => {
        stopped = resolve;
      });
      const steps = [
        {
          table: TABLE.name,
          key: bytes(point),
          guards: [{ op: 'absent', family: 0, qualifier: bytes('q') } as const],
          put: [cell(0, 'q', 'v')],
        },
      ];
      const writing = errorOf(store.commit({ steps, decisive: 0 }));
      await standing;
      try {
        // Who waits for a second operation is told later.
        const late = sleep(1.9 * OPERATION_MS, undefined, { ref: false });
        expect(await Promise.race([writing, late])).to.include({ code: 'unavailable' });
      } finally {
        server.resume();
      }
    });
});

describe('a store whose HBase is gone', () => {
  it('closes without an answer of it when nothing is in flight', async function () {
    const server = await hbase(this);
    const addresses = [server.master, ...server.regionServers];
    const relays = await Promise.all(addresses.map((address) => Relay.before(address)));
    const route = (address: string): string => {
      const at = addresses.findIndex((other) => other.split(':')[1] === address.split(':')[1]);
      return relays[at]!.address;
    };
    const settings = server.settings(freshPrefix());
    // So long that nobody lives to see it.
    const store = await openHBaseStore({ ...settings, route, operationTimeoutMs: 3_600_000 });
    await store.createTable(TABLE);
    const add = [{ family: 0, qualifier: bytes('n'), by: 1n }];
    await store.commit({ steps: [{ table: TABLE.name, key: bytes('held'), add }], decisive: 0 });
    for (const relay of relays) {
      relay.refusing = true;
      relay.cut();
    }
    await store.close();
    for (const relay of relays) relay.close();
  });
});
