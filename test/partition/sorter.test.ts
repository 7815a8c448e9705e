import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect } from 'chai';
import { DescriptionTable } from '../../src/partition/model/descriptions.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER } from '../../src/partition/model/tables.js';
import { resolveKeys, SortOrder } from '../../src/partition/read/order/sort-order.js';
import { Sorter } from '../../src/partition/read/order/sorter.js';
import type { Spill, SpillRoom } from '../../src/partition/read/order/spill.js';
import type { Hit } from '../../src/partition/read/sink.js';
import { packSorted } from '../../src/store/row.js';
import { rounds } from '../rounds.js';
import { type Random, refused, seeded, testSchema } from './fixture.js';

const GIBIBYTE = 1024 ** 3;

function sortOrder(...keys: string[]): SortOrder {
  const schema = testSchema();
  const named = keys.map((key) => ({ attribute: key.replace('-', ''), rule: undefined, isReverse: key[0] === '-' }));
  const resolved = resolveKeys(schema, named);
  if ('result' in resolved) throw new Error(resolved.result);
  return new SortOrder(schema, new DescriptionTable(schema), resolved);
}

interface Item {
  readonly id: Buffer;
  readonly value: string | undefined;
}

async function sorted(
  items: readonly Item[],
  order: SortOrder,
  room: SpillRoom,
  limit = Number.POSITIVE_INFINITY,
): Promise<Spill> {
  const sorter = new Sorter(order, room, { limit, leavesOut: () => false, client: undefined });
  try {
    const stage = sorter.stage({ entry: () => undefined, reference: () => undefined });
    for (const { id, value } of items) {
      const cell = { family: MASTER.upAttributes, qualifier: valueQualifier('sn', 0), value: Buffer.from(value ?? '') };
      await stage.entry({ id, row: packSorted(value === undefined ? [] : [cell]), sight: undefined } as Hit);
    }
    return await sorter.finish();
  } finally {
    await sorter.close();
  }
}

function randomItems(random: Random, count: number): Item[] {
  return Array.from({ length: count }, (_, n) => {
    const id = Buffer.alloc(16);
    id.writeUInt32BE(random.int(2 ** 32));
    id.writeUInt32BE(n, 12);
    const value = random.chance(0.1)
      ? undefined
      : `${random.pick(['a', 'B', 'zz'])}${random.int(count)}${'x'.repeat(random.int(60))}`;
    return { id, value };
  });
}

function naive(items: readonly Item[], isReverse: boolean): string[] {
  const rank = ({ value }: Item): string => (value === undefined ? '\uffff' : value.toLowerCase());
  const compare = (a: Item, b: Item): number => {
    const order = rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0;
    return order === 0 ? Buffer.compare(a.id, b.id) : isReverse ? -order : order;
  };
  return [...items].sort(compare).map(({ id }) => id.toString('hex'));
}

const hexes = (ids: Buffer): string[] => ids.toString('hex').match(/.{32}/g) ?? [];
const files = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('rowan-sort-'));

describe('sorting of entries', () => {
  it('in memory and over a temporary file agrees with a naive sort, whole and limited', () =>
    seeded(async (random) => {
      for (let round = 0; round < rounds(3, 30); round++) {
        const items = randomItems(random, random.pick([0, 1, 300, 4096, 30_000]));
        const room = { usedBytes: 0, maxBytes: GIBIBYTE };
        const isReverse = random.chance(0.5);
        const wanted = naive(items, isReverse);
        for (const limit of [Number.POSITIVE_INFINITY, 10, 3000]) {
          const ids = await sorted(items, sortOrder(isReverse ? '-sn' : 'sn'), room, limit);
          const count = Math.min(limit, wanted.length);
          expect(ids.length, `limit ${limit}`).to.equal(16 * count);
          const start = random.int(count + 1);
          const found = hexes(await ids.read(start * 16, count * 16));
          expect(found.join() === wanted.slice(start, count).join(), `${items.length} items, limit ${limit}`).to.equal(
            true,
          );
          await ids.close();
          expect(room.usedBytes).to.equal(0);
        }
      }
    }));

  it('has a file without a name, and gives its room back', () =>
    seeded(async (random) => {
      const before = files();
      const room = { usedBytes: 0, maxBytes: GIBIBYTE };
      const ids = await sorted(randomItems(random, 50_000), sortOrder('sn'), room);
      expect(room.usedBytes).to.be.greaterThan(0);
      expect(files()).to.deep.equal(before);
      await ids.close();
      expect(room.usedBytes).to.equal(0);
      await refused('unwillingToPerform', ids.read(0, 16));
    }));

  it('ends where the room ends, and gives that back, too', () =>
    seeded(async (random) => {
      const room = { usedBytes: 0, maxBytes: 1024 * 1024 };
      await refused('adminLimitExceeded', sorted(randomItems(random, 50_000), sortOrder('sn'), room), /no room/);
      expect(room.usedBytes).to.equal(0);
    }));

  it('has no order of secrets, unknown and computed attributes, or by a rule of another kind', () => {
    const result = (attribute: string, rule?: string): unknown => {
      const keys = resolveKeys(testSchema(), [{ attribute, rule, isReverse: false }]);
      return 'result' in keys ? keys.result : keys.length;
    };
    expect(result('sn')).to.equal(1);
    expect(result('sn', 'caseExactOrderingMatch')).to.equal(1);
    expect(result('SN;lang-de', '2.5.13.3')).to.equal(1);
    expect(result('nosuch')).to.equal('noSuchAttribute');
    for (const attribute of ['userPassword', 'jpegPhoto', 'memberOf', 'entryDN', 'numSubordinates'])
      expect(result(attribute), attribute).to.equal('inappropriateMatching');
    expect(result('userPassword', 'octetStringOrderingMatch')).to.equal('inappropriateMatching');
    for (const rule of ['caseIgnoreMatch', 'integerOrderingMatch', 'nosuch', '1.2.3'])
      expect(result('sn', rule), rule).to.equal('inappropriateMatching');
  });
});
