import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Client, type ResultCodeError } from 'ldapts';
import { Partition } from '../../src/partition/index.js';
import { MASTER_TABLE } from '../../src/partition/model/tables.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { ADMIN, emptyPartition, fill, PEOPLE, personDn, type Running, SUFFIX, start, testSchema } from './directory.js';

describe('damage of what is stored', () => {
  let folder: string;
  let partition: Partition;
  let lost: Buffer;
  let running: Running | undefined;
  const clients: Client[] = [];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-damage-'));
    partition = await emptyPartition(await openLmdbStore(folder));
    await fill(partition, 20);
    lost = (await partition.read(testSchema().parseDn(personDn('p7')))).id;
    await partition.store.commit({ steps: [{ table: MASTER_TABLE.name, key: lost, deleteRow: true }], decisive: 0 });
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.unbind();
    await running?.stop();
    await partition.close();
    rmSync(folder, { recursive: true });
  });

  async function connect(settings: Parameters<typeof start>[0] = {}): Promise<Client> {
    running = await start(settings, 0, partition);
    const client = new Client({ url: running.url });
    clients.push(client);
    await client.bind(ADMIN.dn, ADMIN.password);
    return client;
  }
  const failure = async (promise: Promise<unknown>): Promise<ResultCodeError> =>
    promise.then(
      () => Promise.reject(new Error('it succeeded')),
      (error: ResultCodeError) => error,
    );
  const add = (client: Client, uid: string) =>
    client.add(`uid=${uid},${PEOPLE}`, { objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid });
  const reopen = async () => {
    await running!.stop();
    await partition.close();
    partition = await Partition.open(await openLmdbStore(folder), testSchema());
  };

  it('a damaged row ends a search with an incident, and the log names table and key', async () => {
    const client = await connect();
    const error = await failure(client.search(SUFFIX, { filter: '(objectClass=*)' }));
    expect(error.code).to.equal(80);
    const incident = /damaged; incident ([0-9a-f]{12}) in the server's log/.exec(error.message)?.[1];
    const lines = running!.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const told = lines.filter((line) => line.incident === incident);
    expect(told).to.have.length(1);
    expect(told[0]).to.include({ level: 50, table: MASTER_TABLE.name, key: lost.toString('hex') });
  });

  it('a damaged directory becomes read-only until it is released, also across a restart', async () => {
    let client = await connect();
    await add(client, 'before');
    await failure(client.search(SUFFIX, { filter: '(objectClass=*)' }));
    for (const round of ['at once', 'after a restart']) {
      for (const write of [
        add(client, 'after'),
        client.del(personDn('p1')),
        client.modifyDN(personDn('p2'), 'uid=p2x'),
      ]) {
        const error = await failure(write);
        expect(error.code, round).to.equal(53);
        expect(error.message).to.match(/damaged.*read-only/);
      }
      // What is sound is found.
      expect((await client.search(personDn('p1'), { scope: 'base' })).searchEntries).to.have.length(1);
      await reopen();
      client = await connect();
    }
    expect(await partition.store.releaseWrites!()).to.equal(true);
    await add(client, 'released');
  });

  it('a damaged directory stays writable where the setting says so', async () => {
    const client = await connect({ readOnlyWhenDamaged: false });
    expect((await failure(client.search(SUFFIX, { filter: '(objectClass=*)' }))).code).to.equal(80);
    await add(client, 'after');
  });
});
