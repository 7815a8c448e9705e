import { expect } from 'chai';
import type { StoreFilter } from '../../src/store/contract.js';
import { compileFilter } from '../../src/store/filter.js';
import { packRow } from '../../src/store/row.js';
import { random } from './suite/fixture.js';

/** What the parts of an OR mean, one by one. */
function naive(names: readonly Buffer[], of: readonly StoreFilter[]): boolean {
  return of.some((filter) => {
    if (filter.op === 'or') return naive(names, filter.of);
    if (filter.op === 'hasColumn') return names.some((name) => name.equals(filter.qualifier));
    if (filter.op !== 'anyColumn' || !('prefix' in filter.match)) throw new TypeError('not made here');
    const { prefix } = filter.match;
    return names.some((name) => name.subarray(0, prefix.length).equals(prefix));
  });
}

describe('an OR of many names and prefixes', () => {
  it('is each of them, in one walk', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const bytes = () => Buffer.from(Array.from({ length: next(4) }, () => 'ab'.charCodeAt(next(2))));
    const part = (depth: number): StoreFilter => {
      const kind = next(depth > 0 ? 5 : 4);
      if (kind === 4) return { op: 'or', of: Array.from({ length: next(4) }, () => part(depth - 1)) };
      return kind < 2
        ? { op: 'hasColumn', family: 1, qualifier: bytes() }
        : { op: 'anyColumn', family: 1, match: { prefix: bytes() } };
    };
    let matched = 0;
    for (let round = 0; round < 5000; round++) {
      const names = Array.from({ length: next(5) }, bytes);
      const row = packRow([
        { family: 0, qualifier: bytes(), value: bytes() },
        ...names.map((qualifier) => ({ family: 1, qualifier, value: bytes() })),
        { family: 2, qualifier: bytes(), value: bytes() },
      ]);
      const of = Array.from({ length: next(6) }, () => part(2));
      const expected = naive(names, of);
      if (expected) matched++;
      expect(compileFilter({ op: 'or', of })(row)).to.equal(expected, JSON.stringify({ names, of }));
    }
    expect(matched).to.be.within(500, 4500);
  });
});
