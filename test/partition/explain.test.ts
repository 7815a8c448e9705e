import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import type { Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { delayedStore } from '../store/delayed.js';
import { faulty } from '../store/faulty.js';
import { ACTOR, Fixture, SUFFIX, testSchema } from './fixture.js';

/** More than a search would read instead of counting, and few enough for the index among so many times as many. */
const ENTRIES = 160;
const OTHERS = 5;

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
