import { expect } from 'chai';
import type { QualifierMatch, StoreFilter } from '../../../src/store/contract.js';
import { A, B, bytes, type Fixture, PEOPLE, scanAll, under } from './fixture.js';

const has = (family: number, qualifier: string): StoreFilter => ({
  op: 'hasColumn',
  family,
  qualifier: bytes(qualifier),
});
const any = (family: number, match: QualifierMatch): StoreFilter => ({ op: 'anyColumn', family, match });
const starts = (family: number, prefix: string): StoreFilter => any(family, { prefix: bytes(prefix) });
const equals = (qualifier: string, value: string): StoreFilter => ({
  op: 'columnEquals',
  family: A,
  qualifier: bytes(qualifier),
  value: bytes(value),
});
const pattern = (initial: string | undefined, middle: string[], final: string | undefined): StoreFilter =>
  any(A, {
    prefix: bytes('cn='),
    initial: initial === undefined ? undefined : bytes(initial),
    any: middle.map(bytes),
    final: final === undefined ? undefined : bytes(final),
  });

const ROWS = {
  '1': { '0:cn=ann lee': '', '0:cn': '', '0:sn=lee': '1' },
  '2': { '0:cn=bob': '', '0:cn': '', '1:cn=ann lee': '' },
  '3': { '0:cn=ababab': '', '0:cn': '', '0:uid=\x00\x05': 'v' },
  '4': { '0:uid=\x00\x07': 'v', '0:cnx': '' },
  '5': { '1:only b': '' },
};

const CASES: [string, StoreFilter, string][] = [
  ['hasColumn', has(A, 'cn=bob'), '2'],
  ['hasColumn of another family', has(B, 'cn=ann lee'), '2'],
  ['hasColumn takes the whole name', has(A, 'cn'), '123'],
  ['hasColumn of none', has(A, 'cn=bo'), ''],
  ['anyColumn by prefix', starts(A, 'cn='), '123'],
  ['anyColumn by empty prefix', starts(B, ''), '25'],
  ['anyColumn by range', any(A, { from: bytes('uid=\x00\x05'), to: bytes('uid=\x00\x07') }), '3'],
  ['anyColumn by a wider range', any(A, { from: bytes('uid=\x00'), to: bytes('uid>') }), '34'],
  ['anyColumn by an empty range', any(A, { from: bytes('uid='), to: bytes('uid=') }), ''],
  ['pattern initial', pattern('ann', [], undefined), '1'],
  ['pattern final', pattern(undefined, [], 'b'), '23'],
  ['pattern any', pattern(undefined, ['b', 'b'], undefined), '23'],
  ['pattern any without overlap', pattern(undefined, ['aba', 'bab'], undefined), '3'],
  ['pattern any that would overlap', pattern(undefined, ['abab', 'bab'], undefined), ''],
  ['pattern initial and final that would overlap', pattern('ababab', [], 'b'), ''],
  ['pattern of all parts', pattern('ab', ['a'], 'bab'), '3'],
  ['pattern any that would run into final', pattern('ab', ['aba'], 'bab'), ''],
  ['pattern with no part', pattern(undefined, [], undefined), '123'],
  ['columnEquals', equals('sn=lee', '1'), '1'],
  ['columnEquals of another value', equals('sn=lee', '11'), ''],
  ['columnEquals of an empty value', equals('cn', ''), '123'],
  ['and', { op: 'and', of: [has(A, 'cn'), starts(A, 'uid=')] }, '3'],
  ['or', { op: 'or', of: [has(A, 'cn=bob'), starts(A, 'uid=')] }, '234'],
  ['not', { op: 'not', of: has(A, 'cn') }, '45'],
  ['an empty and, which is true', { op: 'and', of: [] }, '12345'],
  ['an empty or, which is false', { op: 'or', of: [] }, ''],
  [
    'nested',
    {
      op: 'and',
      of: [
        { op: 'or', of: [has(A, 'cn'), has(B, 'only b')] },
        { op: 'not', of: equals('sn=lee', '1') },
      ],
    },
    '235',
  ],
];

/** All engines evaluate them exactly; one that may widen would list its cases here. */
export function filterSuite(f: Fixture): void {
  describe('filters', () => {
    before(() => f.put(Object.fromEntries(Object.entries(ROWS).map(([key, cells]) => [`filter/${key}`, cells]))));
    for (const [name, filter, expected] of CASES) {
      it(name, async () => {
        const keys = [...expected].map((n) => `filter/${n}`);
        const found = await scanAll(f.store, PEOPLE.name, under('filter/'), { filter });
        expect(found.keys).to.deep.equal(keys);
        expect(found.rows.every((row) => row !== undefined)).to.equal(true);
        const reverse = await scanAll(f.store, PEOPLE.name, under('filter/'), {
          filter,
          reverse: true,
          keysOnly: true,
        });
        expect(reverse.keys).to.deep.equal(keys.reverse());
        const limited = await scanAll(f.store, PEOPLE.name, under('filter/'), { filter, limit: 1 });
        expect(limited.keys).to.deep.equal(keys.reverse().slice(0, 1));
      });
    }
  });
}
