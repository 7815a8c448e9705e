import { expect } from 'chai';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { EntryReader } from '../../src/partition/model/entry-reader.js';
import { MASTER, MASTER_TABLE } from '../../src/partition/model/tables.js';
import { ENGINES, type Fixture, openFixture, type Random, SUFFIX, seeded } from './fixture.js';

const TYPES = ['description', 'description;lang-de', 'description;lang-de-at', 'mail', 'l', 'o', 'title', 'postalCode'];

/** Up to 90 values, whose numbers have any low byte. */
function attributesOf(random: Random): Record<string, string[]> {
  const chosen = TYPES.filter(() => random.int(2) === 0);
  const values = (type: string) =>
    Array.from(
      { length: 1 + random.int(random.int(6) === 0 ? 90 : 4) },
      (_, n) => `${type.slice(0, 2)}${n} ${random.int(50)}`,
    );
  return Object.fromEntries(chosen.map((type) => [type, values(type)]));
}

function told({
  attributeCount: count,
  descriptions: stored,
  firstValues: firsts,
  valueStarts: starts,
  valueEnds: ends,
}: EntryReader): unknown {
  return Array.from({ length: count }, (_, i) => ({
    name: stored[i]!.text,
    values: Array.from({ length: firsts[i + 1]! - firsts[i]! }, (_, n) => {
      const v = firsts[i]! + n;
      return [starts[v], ends[v]];
    }),
  }));
}

for (const engine of ENGINES) {
  describe(`the entry reader (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
    });
    after(() => fixture.close());

    it('reads the same from a row that the engine has laid out and from a copy', () =>
      seeded(async (random) => {
        const { descriptions } = fixture.partition;
        const reader = new EntryReader(descriptions);
        let laid = 0;
        for (let n = 0; n < (engine === 'hbase' ? 30 : 150); n++) {
          const id = await fixture.person(`r${n}`, SUFFIX, attributesOf(random));
          const row = (await fixture.store.get(MASTER_TABLE.name, id))!;
          if (fixture.store.rowLayout?.row === row) laid++;
          const found = told(reader.read(row));
          expect(found).to.deep.equal(told(new EntryReader(descriptions).read(Buffer.from(row))));
        }
        if (engine === 'lmdb') expect(laid).to.be.above(100);
      }));

    it('does not take what was noted of another row for its own', async () => {
      const id = await fixture.person('noted', SUFFIX, { description: ['one', 'two'] });
      const key = Buffer.alloc(16, 0xee);
      const value = { family: MASTER.upAttributes, qualifier: valueQualifier('cn', 0), value: Buffer.from('x') };
      await fixture.store.commit({ steps: [{ table: MASTER_TABLE.name, key, put: [value] }], decisive: 0 });
      const row = (await fixture.store.get(MASTER_TABLE.name, id))!;
      // It has nothing of the family that alone is asked for.
      await fixture.store.getHead(MASTER_TABLE.name, key, true);
      const { descriptions } = fixture.partition;
      const found = told(new EntryReader(descriptions).read(row));
      expect(found).to.deep.equal(told(new EntryReader(descriptions).read(Buffer.from(row))));
    });
  });
}
