import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { TREE_TABLE } from '../../src/partition/model/tables.js';
import { HAS_CHILDREN } from '../../src/partition/read/filter/store-filter.js';
import type { Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { counted } from '../store/counted.js';
import { delayedStore } from '../store/delayed.js';
import { faulty } from '../store/faulty.js';
import { ACTOR, ENGINES, Fixture, openFixture, SUFFIX, testSchema } from './fixture.js';

/** More than a search would read instead of counting, and few enough for the index among so many times as many. */
const ENTRIES = 160;
const OTHERS = 5;
/** Of more than two batches; with the suffix and a unit they are all the rows. */
const MANY = 2500;
const ROWS = MANY + 2;
const FORTIES = Math.ceil(MANY / 40);

describe('explain', () => {
  for (const [kind, open] of [
    ['answers at once', openMemoryStore],
    ['is beyond a network', delayedStore],
  ] as const) {
    it(`counts the rows of an index once, over a store that ${kind}`, async () => {
      let counted: string[] = [];
      const store: Store = faulty(open(), (point) => {
        if (point.at === 'postingCount' || point.at === 'count') counted.push(point.table);
        return undefined;
      });
      const names = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
      await initDirectory(store, names, testSchema());
      const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      try {
        await fixture.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
        for (let n = 0; n < ENTRIES * OTHERS; n++)
          await fixture.add(`cn=p${n},${SUFFIX}`, { objectClass: 'person', cn: `p${n}`, sn: `s${n % OTHERS}` });
        await fixture.find('(cn=p0)');
        counted = [];
        const explained = await fixture.partition.explain(fixture.params({ filter: '(sn=s1)' }));
        expect(explained).to.include({ plan: 'index', candidates: ENTRIES, entries: ENTRIES });
        expect(explained.terms.map(({ term, count, taken }) => [term, count, taken])).to.deep.equal([
          ['sn equality', ENTRIES, true],
        ]);
        expect(counted).to.have.length(1);
        counted = [];
        const both = await fixture.partition.explain(fixture.params({ filter: '(&(objectClass=person)(sn=s1))' }));
        expect(both).to.include({ plan: 'index', candidates: ENTRIES });
        expect(both.terms).to.have.length(2);
        expect(counted).to.have.length(2);
      } finally {
        await fixture.close();
      }
    });
  }
});

/** Rows that a scan with a filter goes through: HBase counts those that were deleted and are still held. */
async function inTable(store: Store): Promise<number> {
  const scan = store.scan(TREE_TABLE.name, {}, { filter: HAS_CHILDREN });
  let rows = 0;
  for (let batch = await scan.next(); batch; batch = await scan.next()) rows += batch.scannedCount;
  expect(rows).to.be.at.least(ROWS);
  return rows;
}

describe('rows that a search without an index looks at', () => {
  for (const engine of ENGINES) {
    describe(engine, () => {
      let loaded: Fixture;

      before(async () => {
        loaded = await openFixture(engine);
        await loaded.unit('people');
        await loaded.load(
          Array.from({ length: MANY }, (_, n) => ({
            dn: `cn=p${n},ou=people,${SUFFIX}`,
            values: {
              objectClass: 'inetOrgPerson',
              cn: `p${n}`,
              sn: 's',
              description: n % 40 === 0 ? 'forty' : `d${n}`,
            },
          })),
        );
      });

      after(() => loaded?.close());

      for (const [filter, entries] of [
        ['(description=nobody)', 0],
        ['(description=d77)', 1],
        ['(description=forty)', FORTIES],
        ['(sn=*)', MANY],
        ['(entryUUID=*)', ROWS],
      ] as const)
        it(`are read and counted once: ${filter}`, async () => {
          const { store, work } = counted(loaded.store);
          // It has just been started: what names the entries is still to be fetched.
          const fresh = await Partition.open(store, testSchema());
          const explained = await fresh.explain(loaded.params({ filter }));
          const rows = await inTable(loaded.store);
          expect(explained).to.include({ plan: 'table', rowsExamined: rows, entries });
          // The names on the way are rows of that table, too.
          expect(work.rowsOf.get(TREE_TABLE.name)).to.be.within(rows, rows + 10);
        });
    });
  }
});
