import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Client, ResultCodeError } from 'ldapts';
import { Partition } from '../../src/partition/index.js';
import type { Store } from '../../src/store/contract.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { borrowTables, returnTables } from '../hbase/recycled.js';
import { ENGINES, type Engine, openStore } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { ADMIN, CHEAP, emptyPartition, fill, PEOPLE, type Running, SUFFIX, start, testSchema } from './directory.js';

const CLIENTS = 16;
const IN_HBASE = 300_000;

/** How an add ended: undefined, or the result code and what the server said. */
type Ended = { readonly code: number; readonly message: string } | undefined;

for (const engine of ENGINES) {
  describe(`server: one value and sixteen clients of two front ends (${engine})`, () => {
    const fronts: Running[] = [];
    const clients: Client[] = [];
    let folder: string | undefined;
    let borrowed: HBaseSettings | undefined;

    before(async function () {
      if (engine === 'hbase') this.timeout(IN_HBASE);
      const open = await opener(this, engine);
      const first = await emptyPartition(await open());
      await fill(first, 0);
      await first.addUnique({ attributes: ['uid'], subtree: PEOPLE });
      await first.finishUnique();
      for (const partition of [first, await Partition.open(await open(), testSchema())])
        fronts.push(await start(CHEAP, 0, partition));
      for (let n = 0; n < CLIENTS; n++) {
        const client = new Client({ url: fronts[n % 2]!.url });
        clients.push(client);
        await client.bind(ADMIN.dn, ADMIN.password);
      }
    });
    after(async () => {
      for (const client of clients) await client.unbind();
      for (const one of fronts) await one.stop();
      for (const { partition } of fronts.slice(engine === 'lmdb' || engine === 'hbase' ? 0 : 1))
        await partition.close();
      returnTables(borrowed);
      if (folder) rmSync(folder, { recursive: true });
    });

    /** As two processes have it, where the engine is for several. */
    async function opener(context: Mocha.Context, of: Engine): Promise<() => Promise<Store>> {
      if (of === 'hbase') {
        const settings = await borrowTables(context);
        borrowed = settings;
        return () => openHBaseStore(settings);
      }
      if (of === 'lmdb') {
        const made = mkdtempSync(join(tmpdir(), 'rowan-unique-'));
        folder = made;
        return () => openLmdbStore(made);
      }
      const { store } = await openStore(of);
      return async () => store;
    }

    async function add(n: number, cn: string, uid: string): Promise<Ended> {
      try {
        await clients[n]!.add(`cn=${cn},${PEOPLE}`, { objectClass: 'inetOrgPerson', cn, sn: cn, uid });
        return undefined;
      } catch (error) {
        if (error instanceof ResultCodeError) return error;
        throw error;
      }
    }

    it('a unique value goes to one of sixteen clients at two front ends, and the others learn the constraint', async () => {
      for (let round = 0; round < rounds(4, 40); round++) {
        const ended = await Promise.all(clients.map((_, n) => add(n, `p${round}-${n}`, `u${round}`)));
        const refused = ended.filter((end) => end !== undefined);
        expect(refused).to.have.lengthOf(CLIENTS - 1);
        for (const { code, message } of refused) {
          expect(code, message).to.equal(19);
          expect(message).to.include("'uid'").and.to.include(PEOPLE);
        }
        const { searchEntries } = await clients[round % 2]!.search(SUFFIX, { filter: `(uid=u${round})` });
        const found = searchEntries.map(({ dn }) => dn);
        expect(found).to.deep.equal([`cn=p${round}-${ended.indexOf(undefined)},${PEOPLE}`]);
      }
    }).timeout(IN_HBASE);
  });
}
