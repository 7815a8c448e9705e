import { expect } from 'chai';
import type { KeyRange } from '../../../src/store/contract.js';
import { EMPTY, MARK, packSorted } from '../../../src/store/row.js';
import { bytes, codeOf, type Fixture, INDEX, random, scanAll, under } from './fixture.js';

const TABLE = INDEX.name;

export function indexSuite(f: Fixture): void {
  const add = (...keys: string[]) => f.commit(...keys.map((key) => ({ table: TABLE, key: bytes(key), put: [MARK] })));
  const postings = async (prefix: string, limit: number, after?: string) =>
    (await f.store.postings(TABLE, bytes(prefix), limit, after === undefined ? undefined : bytes(after))).toString(
      'latin1',
    );
  /** Suffixes, of four bytes, of the rows in a range; sorted. */
  const inRange = async (range: KeyRange, limit: number) => {
    const found = (await f.store.rangePostings(TABLE, range, limit)).toString('latin1');
    return (found.match(/.{4}/gs) ?? []).sort();
  };
  /** Keys of a range, sorted: their order is the engine's own. */
  const scanned = async (range: KeyRange) => (await scanAll(f.store, TABLE, range)).keys.sort();
  /** Who goes on behind any row gets the rest, in the same order. */
  const expectResumable = async (range: KeyRange) => {
    const { keys } = await scanAll(f.store, TABLE, range);
    for (const [i, key] of keys.entries())
      expect((await scanAll(f.store, TABLE, range, { after: bytes(key) })).keys).to.deep.equal(keys.slice(i + 1));
  };

  describe('tables with suffixes', () => {
    before(() => add('=ann\x000003', '=ann\x000001', '=ann\x000002', '=bob\x000001', '*0001', '*0002'));

    it('gives the suffixes of a prefix in order', async () => {
      expect(await postings('=ann\0', 10)).to.equal('000100020003');
      expect(await postings('=bob\0', 10)).to.equal('0001');
      expect(await postings('*', 10)).to.equal('00010002');
      expect(await postings('=none\0', 10)).to.equal('');
      expect(await postings('=an', 10)).to.equal('');
      expect(await postings('', 10)).to.equal('');
      expect(await postings('x'.repeat(5000), 10)).to.equal('');
    });

    it('goes on after a suffix, there or not, and stops at the limit', async () => {
      expect(await postings('=ann\0', 1)).to.equal('0001');
      expect(await postings('=ann\0', 2)).to.equal('00010002');
      expect(await postings('=ann\0', 0)).to.equal('');
      expect(await postings('=ann\0', 10, '0001')).to.equal('00020003');
      expect(await postings('=ann\0', 1, '0001')).to.equal('0002');
      expect(await postings('=ann\0', 10, '0000')).to.equal('000100020003');
      expect(await postings('=ann\0', 10, '0003')).to.equal('');
      expect(await postings('=bob\0', 10, '0001')).to.equal('');
      expect(await postings('=none\0', 10, '0001')).to.equal('');
    });

    it('gives the same into memory of the caller, whether that has room or not', async () => {
      const many = Array.from({ length: 3000 }, (_, i) => String(i).padStart(4, '0'));
      await add(...many.map((suffix) => `~${suffix}`));
      for (const [prefix, limit, expected] of [
        ['=ann\0', 10, '000100020003'],
        ['~', 5000, many.join('')],
        ['~', 2000, many.slice(0, 2000).join('')],
      ] as const) {
        for (const room of [4, 12, 8000, 12_000]) {
          const found = await f.store.postings(TABLE, bytes(prefix), limit, undefined, Buffer.alloc(room));
          expect(found.toString('latin1'), `${prefix} ${limit} into ${room}`).to.equal(expected);
        }
      }
    });

    it('gives of many prefixes what it gives of each, rising or not, there or not', async () => {
      const there = ['*', '=ann\0', '=bob\0', '~'];
      const around = there.flatMap((prefix) => [
        prefix.slice(0, -1),
        prefix,
        `${prefix}\0`,
        `${prefix}m`,
        `${prefix}n`,
      ]);
      const prefixes = [
        ...around,
        'x'.repeat(5000),
        '',
        '\xff',
        ...[...around].sort(),
        ...[...around].sort().reverse(),
      ];
      for (const [limit, after] of [[2], [5000], [0], [10, '0001'], [10, '9999']] as const) {
        const one = await Promise.all(prefixes.map((prefix) => postings(prefix, limit, after)));
        const many = await f.store.postingsMany(TABLE, prefixes.map(bytes), limit, after && bytes(after));
        expect(many.map((list) => list.toString('latin1'))).to.deep.equal(one);
      }
      expect(await f.store.postingsMany(TABLE, [], 10)).to.deep.equal([]);
    });

    it('counts the suffixes of a prefix up to the cap', async () => {
      expect(await f.store.postingCount(TABLE, bytes('=ann\0'), 10)).to.equal(3);
      expect(await f.store.postingCount(TABLE, bytes('=ann\0'), 2)).to.equal(2);
      expect(await f.store.postingCount(TABLE, bytes('=ann'), 10)).to.equal(0);
      expect(await f.store.postingCount(TABLE, bytes(''), 10)).to.equal(0);
    });

    it('gives the mark as the row of a whole key', async () => {
      expect(await f.store.get(TABLE, bytes('=ann\x000001'))).to.deep.equal(packSorted([MARK]));
      expect(await f.store.getMany(TABLE, ['=ann\x000009', '=ann\0', '0001', '=bob\x000001'].map(bytes))).to.deep.equal(
        [undefined, undefined, undefined, packSorted([MARK])],
      );
    });

    it('keeps rows of a prefix that starts with another apart, and finds them in any range', async () => {
      // The rows of `n=a` and of `n=ab` lie between one another.
      const keys = ['n=aaaaa', 'n=abbbb', 'n=abaaaa', 'n=abczzz', 'n=azzzz', 'n=abzzzz', 'n=abcaaaa', 'n=b0000'];
      await add(...keys);
      const sorted = [...keys].sort();
      expect(await scanned(under('n='))).to.deep.equal(sorted);
      expect(await postings('n=a', 10)).to.equal('aaaabbbbzzzz');
      expect(await postings('n=ab', 10)).to.equal('aaaaczzzzzzz');
      for (let i = 0; i < sorted.length; i++) {
        for (let j = i; j <= sorted.length; j++) {
          const range = { from: bytes(sorted[i]!), to: j < sorted.length ? bytes(sorted[j]!) : bytes('n>') };
          expect(await scanned(range)).to.deep.equal(sorted.slice(i, j));
          expect(await f.store.count(TABLE, range, 100)).to.equal(j - i);
          await expectResumable(range);
        }
      }
      const { keys: all } = await scanAll(f.store, TABLE, under('n='));
      await f.commit(...all.slice(2, 5).map((key) => ({ table: TABLE, key: bytes(key), deleteRow: true })));
      for (const gone of all.slice(2, 5))
        expect((await scanAll(f.store, TABLE, under('n='), { after: bytes(gone) })).keys).to.deep.equal(all.slice(5));
    });

    it('scans, counts and pages through any prefixes, nested or not, like a sorted list', async function () {
      const { seed, next } = random();
      this.test!.title += ` (seed ${seed})`;
      const letters = ['a', 'b', '\0', '\xff'];
      const word = (max: number) => Array.from({ length: 1 + next(max) }, () => letters[next(4)]).join('');
      const keys = new Set<string>();
      for (let i = 0; i < 300; i++)
        keys.add(`r=${word(i % 3 ? 3 : 8)}${letters[next(4)]!.repeat(3)}${letters[next(4)]}`);
      await add(...keys);
      const sorted = [...keys].sort();
      for (let i = 0; i < f.rounds(60); i++) {
        const [low, high] = [`r=${word(9)}`, `r=${word(9)}`].sort() as [string, string];
        const inside = sorted.filter((key) => key >= low && key < high);
        const range = { from: bytes(low), to: bytes(high) };
        expect(await scanned(range)).to.deep.equal(inside);
        expect(await f.store.count(TABLE, range, 1000)).to.equal(inside.length);
        expect(await f.store.count(TABLE, range, 5)).to.equal(Math.min(5, inside.length));
        const suffixes = inside.map((key) => key.slice(-4)).sort();
        expect(await inRange(range, 1000)).to.deep.equal(suffixes);
        const some = await inRange(range, 5);
        expect(some).to.have.length(Math.min(5, inside.length));
        expect(suffixes).to.include.members(some);
        const limit = 1 + next(7);
        const first = (await scanAll(f.store, TABLE, range, { limit })).keys;
        expect(new Set(first).size).to.equal(Math.min(limit, inside.length));
        expect(inside).to.include.members(first);
        if (i % 3 === 0) await expectResumable(range);
      }
    });

    it('resumes in the middle of a long list', async () => {
      const keys = Array.from({ length: 5000 }, (_, i) => `long\0${String(i).padStart(4, '0')}`);
      await f.ingest(TABLE, [{ key: bytes('long\0'), row: bytes(keys.map((key) => key.slice(-4)).join('')) }]);
      expect((await scanAll(f.store, TABLE, under('long'))).keys).to.deep.equal(keys);
      expect(await f.store.count(TABLE, under('long'), 10_000)).to.equal(5000);
      expect(await f.store.count(TABLE, { from: bytes('long\x000100'), to: bytes('long\x000200') }, 1000)).to.equal(
        100,
      );
      const wanted = Array.from({ length: 100 }, (_, i) => `${100 + i}`.padStart(4, '0'));
      expect(await inRange({ from: bytes('long\x000100'), to: bytes('long\x000200') }, 1000)).to.deep.equal(wanted);
      expect(await inRange(under('long'), 4000)).to.have.length(4000);
      const page = await postings('long\0', 100, '2499');
      expect([page.length, page.slice(0, 8), page.slice(-4)]).to.deep.equal([400, '25002501', '2599']);
    });

    it('takes one row away and leaves the others', async () => {
      await add('del\x000001', 'del\x000002', 'del\x000003');
      await f.commit({ table: TABLE, key: bytes('del\x000002'), deleteRow: true });
      expect(await postings('del\0', 10)).to.equal('00010003');
      await f.commit({ table: TABLE, key: bytes('del\x000001'), delete: [{ family: 0, qualifier: EMPTY }] });
      await f.commit({ table: TABLE, key: bytes('del\x000009'), deleteRow: true });
      expect(await postings('del\0', 10)).to.equal('0003');
    });

    it('refuses to scan from the end', async () => {
      let error: unknown;
      try {
        await f.store.scan(TABLE, {}, { reverse: true }).next();
      } catch (thrown) {
        error = thrown;
      }
      expect(error).to.be.instanceOf(TypeError);
    });

    it('guards index rows', async () => {
      const key = bytes('guard\x000001');
      const absent = { op: 'absent', family: 0, qualifier: EMPTY } as const;
      await f.commit({ table: TABLE, key, guards: [absent], put: [MARK] });
      expect(await codeOf(f.commit({ table: TABLE, key, guards: [absent], put: [MARK] }))).to.equal('guard');
    });

    it('refuses keys that are too short or too long', async () => {
      expect(await codeOf(add('0001'))).to.equal('limit');
      expect(await codeOf(add('x'.repeat(40_000)))).to.equal('limit');
    });
  });
}
