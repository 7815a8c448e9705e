import { expect } from 'chai';
import type { Client } from '../../src/fair/time-slice.js';
import { damageOf } from '../../src/partition/index.js';
import { MASTER_TABLE, TREE_TABLE, treeKey } from '../../src/partition/model/tables.js';
import type { SearchSink } from '../../src/partition/read/sink.js';
import { ENGINES, type Fixture, openFixture, refused, SUFFIX } from './fixture.js';

const PEOPLE = `ou=people,${SUFFIX}`;
/** More than one batch of a scan has. */
const COUNT = 600;

/** A client that takes so many entries at a time, and then has to be waited for. */
function takes(some: number): { sink: SearchSink; client: Client } {
  let count = 0;
  let wait: Promise<void> | undefined;
  const entry = (): Promise<void> | undefined => {
    if (++count % some === 0)
      wait = new Promise<void>((go) => setImmediate(go)).then(() => {
        wait = undefined;
      });
    return wait;
  };
  const client = {
    get isFull() {
      return wait !== undefined;
    },
    waitForDrain: () => wait,
  };
  return { sink: { entry, reference: () => undefined }, client };
}

for (const engine of ENGINES.filter((one) => one !== 'hbase')) {
  /** Without states of the store nobody can tell what is lost from what was deleted. */
  const tells = engine === 'delayed' ? () => undefined : it;

  describe(`rows that are lost (${engine})`, () => {
    let fixture: Fixture;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await Promise.all(
        Array.from({ length: COUNT }, (_, i) => fixture.person(`p${i}`, PEOPLE, { l: 'here', description: `d${i}` })),
      );
    });
    afterEach(() => fixture.close());

    const remove = (table: string, key: Buffer) =>
      fixture.store.commit({ steps: [{ table, key, deleteRow: true }], decisive: 0 });
    const idOf = async (name: string) => (await fixture.read(`cn=${name},${PEOPLE}`)).id;

    /** The search ends with an error that names the table and, where it is known, the key. */
    async function damaged(filter: string, table: string, key?: Buffer, base = SUFFIX): Promise<void> {
      const error = await refused('other', fixture.search({ filter, base }));
      expect(damageOf(error), filter).to.include({ table, key: key?.toString('hex') });
    }

    tells('a master row that a tree or an index row names ends each search that comes to it', async () => {
      const id = await idOf('p77');
      await remove(MASTER_TABLE.name, id);
      await damaged('(objectClass=*)', MASTER_TABLE.name, id);
      await damaged('(description=*)', MASTER_TABLE.name, id);
      await damaged('(objectClass=*)', MASTER_TABLE.name, id, PEOPLE);
      await damaged('(cn=p77)', MASTER_TABLE.name, id);
      await damaged('(cn=p7*)', MASTER_TABLE.name, id);
      await damaged('(|(cn=p77)(cn=p78)(sn=*77))', MASTER_TABLE.name, id);
      expect(await fixture.find('(cn=p78)')).to.deep.equal([`cn=p78,${PEOPLE}`]);
    });

    tells('tree rows that the counters of their suffix have ends a scan of all of it', async () => {
      const people = (await fixture.read(PEOPLE)).id;
      await remove(TREE_TABLE.name, treeKey(people, Buffer.from('2.5.4.3=p5')));
      await damaged('(objectClass=*)', TREE_TABLE.name);
      await damaged('(description=d1*)', TREE_TABLE.name);
      expect(await fixture.find('(cn=p78)')).to.deep.equal([`cn=p78,${PEOPLE}`]);
    });

    tells('a client that does not read at once is told, too', async () => {
      const people = (await fixture.read(PEOPLE)).id;
      await remove(TREE_TABLE.name, treeKey(people, Buffer.from('2.5.4.3=p5')));
      for (const filter of ['(objectClass=*)', '(description=d*)']) {
        let waits = 0;
        const sink = {
          entry: () => (++waits % 7 === 0 ? new Promise<void>((go) => setImmediate(go)) : undefined),
          reference: () => undefined,
        };
        const search = async () => fixture.partition.search(fixture.params({ filter }), sink);
        // One that rides alone, and several that ride together.
        for (const together of [1, 3]) {
          const errors = await Promise.all(Array.from({ length: together }, () => refused('other', search())));
          for (const error of errors) expect(damageOf(error)).to.include({ table: TREE_TABLE.name });
        }
      }
    });

    tells(
      'a client whose connection is full is told, too, and what is read again for it is looked at once',
      async () => {
        const filters = ['(objectClass=*)', '(description=d*)', '(description=d1*)'];
        const looked = async (filter: string, some: number): Promise<number> => {
          const { sink, client } = takes(some);
          return (await fixture.partition.search({ ...fixture.params({ filter }), client }, sink)).rowsExamined;
        };
        for (const filter of filters) {
          const all = await looked(filter, Number.MAX_SAFE_INTEGER);
          for (const some of [1, 7, 100]) expect(await looked(filter, some), filter).to.equal(all);
        }
        const people = (await fixture.read(PEOPLE)).id;
        await remove(TREE_TABLE.name, treeKey(people, Buffer.from('2.5.4.3=p5')));
        for (const filter of filters)
          for (const some of [1, 7, 100]) {
            const errors = await Promise.all([1, 2, 3].map(() => refused('other', looked(filter, some))));
            for (const error of errors) expect(damageOf(error), filter).to.include({ table: TREE_TABLE.name });
          }
      },
    );

    it('who is deleted while a search runs is none', async () => {
      const doomed = Array.from({ length: COUNT }, (_, i) => `cn=p${i},${PEOPLE}`);
      const searches: Promise<unknown>[] = [];
      for (let at = 0; at < doomed.length; at += 20) {
        for (const filter of ['(objectClass=*)', '(l=here)', '(cn=p*)', `(cn=p${at})`, '(|(sn=*7)(sn=*8))'])
          searches.push(fixture.search({ filter }));
        await Promise.all(doomed.slice(at, at + 20).map((dn) => fixture.delete(dn)));
      }
      await Promise.all(searches);
      expect(await fixture.find('(objectClass=*)')).to.have.length(2);
    });
  });
}
