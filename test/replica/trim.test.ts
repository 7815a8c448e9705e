import { expect } from 'chai';
import { trimChanges } from '../../src/partition/feed/history.js';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { entryTimeMs, LOG_TABLE } from '../../src/store/log.js';
import { keysOf } from '../../src/store/maybe.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { cellAt, counterBytes, EMPTY } from '../../src/store/row.js';
import { exited, heard, rowanDoes, Sandbox, startRowan } from '../cli/rowan.js';
import { addPerson, personDn, read } from '../cli/workers.js';
import { contentOf, Machine } from './servers.js';

const HOUR_MS = 3_600_000;

async function numbers(store: Store): Promise<bigint[]> {
  return (await keysOf(store.scan(LOG_TABLE.name, {}, { keysOnly: true }))).map((key) => key.readBigUInt64BE());
}

/** Makes the entry older than it is. */
async function age(store: Store, number: bigint, ms: number): Promise<void> {
  const key = counterBytes(number);
  const row = (await store.get(LOG_TABLE.name, key))!;
  const value = Buffer.from(cellAt(row, 0).value);
  value.writeBigUInt64BE(BigInt(entryTimeMs(row) - ms));
  const put = [{ family: 0, qualifier: EMPTY, value }];
  await store.commit({ steps: [{ table: LOG_TABLE.name, key, put }], decisive: 0, unlogged: true });
}

/** Makes all entries of the log older, in a folder that no server has open. Resolves with their number. */
async function ageLog(data: string, ms: number): Promise<number> {
  const store = await openLmdbStore(data);
  try {
    const all = await numbers(store);
    for (const number of all) await age(store, number, ms);
    return all.length;
  } finally {
    await store.close();
  }
}

async function logLength(data: string): Promise<number> {
  return ageLog(data, 0);
}

describe('replica: the log is trimmed', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  it('from the oldest entry on, but for the last one, and the log does not have the removal', async () => {
    const store = openMemoryStore();
    expect(await trimChanges(store, Date.now(), undefined, LOG_TABLE.name)).to.equal(0);
    await store.createTable({ name: 'rows', families: [{ name: 'a' }] });
    await store.createTable(LOG_TABLE);
    const put = [{ family: 0, qualifier: EMPTY, value: EMPTY }];
    for (const key of ['1', '2', '3', '4'])
      await store.commit({ steps: [{ table: 'rows', key: Buffer.from(key), put }], decisive: 0 });
    const now = Date.now();
    for (const number of [1n, 2n, 4n]) await age(store, number, HOUR_MS);
    expect(await trimChanges(store, now - HOUR_MS / 2, undefined, LOG_TABLE.name)).to.equal(2);
    expect(await numbers(store)).to.deep.equal([3n, 4n]);
    expect(await trimChanges(store, now + HOUR_MS, undefined, LOG_TABLE.name)).to.equal(1);
    expect(await numbers(store)).to.deep.equal([4n]);
    expect(await store.settled(LOG_TABLE.name)).to.equal(4n);
    await store.close();
  });

  it('by job trim at the primary, by a replica itself; a replica behind it copies anew', async () => {
    const first = new Machine(sandbox, 'data');
    const second = new Machine(sandbox, 'second');
    await sandbox.initSample();
    await first.start();
    await second.follow(first);
    await second.start();
    const client = await first.client();
    for (const uid of ['one', 'two']) expect((await addPerson(client, uid)).code).to.equal(0);
    await first.says('replica second: follows, 0 changes behind');
    await second.stop();
    await addPerson(client, 'three');
    await addPerson(client, 'four');
    client.close();
    await first.stop();

    const kept = await ageLog(second.data, 10 * HOUR_MS);
    expect(kept).to.be.greaterThan(1);
    await second.start('--replica-log-hours', '9');
    await second.says('is not reached since');
    await second.stop();
    expect(await logLength(second.data)).to.equal(1);

    await ageLog(first.data, 10 * HOUR_MS);
    const env = { ROWAN_REPLICA_LOG_HOURS: '9' };
    expect(await rowanDoes(['jobs', 'run', 'trim', '--data', first.data], { env })).to.match(
      /0 change records, \d+ entries of the log for replicas removed/,
    );
    await first.start();
    const behind = startRowan(['serve', '--data', second.data, '--listen', second.socketUrl]);
    await heard(behind, 'the next start copies the directory anew');
    expect(await exited(behind)).to.equal(1);
    await second.start();
    const anew = await second.client();
    expect(await read(anew, personDn('four'), 'uid')).to.equal('four');
    anew.close();
    await second.says('0 changes behind');
    expect(await contentOf(second.data)).to.equal(await contentOf(first.data));
  });
});
