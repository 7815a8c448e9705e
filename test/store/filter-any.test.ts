import { expect } from 'chai';
import type { QualifierMatch, StoreFilter } from '../../src/store/contract.js';
import { packRow } from '../../src/store/row.js';
import { compileFilter } from '../../src/store/row-filter.js';
import { random } from './suite/fixture.js';

/** What the parts of an OR mean, one by one. */
function naive(names: readonly Buffer[], of: readonly StoreFilter[]): boolean {
  return of.some((filter) => {
    if (filter.op === 'or') return naive(names, filter.of);
    if (filter.op === 'hasColumn') return names.some((name) => name.equals(filter.qualifier));
    if (filter.op !== 'anyColumn') throw new TypeError('not made here');
    return names.some((name) => fits(name, filter.match));
  });
}

function fits(name: Buffer, match: QualifierMatch): boolean {
  if ('from' in match) return Buffer.compare(name, match.from) >= 0 && Buffer.compare(name, match.to) < 0;
  if (!('any' in match)) return name.subarray(0, match.prefix.length).equals(match.prefix);
  const parts = match.any.map((part) => `.*?${part.toString()}`).join('');
  const pattern = `^${match.prefix}${match.initial ?? ''}${parts}.*${match.final ?? ''}$`;
  return new RegExp(pattern).test(name.toString());
}

describe('an OR of many names, prefixes, patterns and ranges', () => {
  it('is each of them, in one walk', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const bytes = () => Buffer.from(Array.from({ length: next(4) }, () => 'ab'.charCodeAt(next(2))));
    const maybe = (): Buffer | undefined => (next(2) === 0 ? bytes() : undefined);
    const match = (kind: number): QualifierMatch => {
      if (kind < 4) return { prefix: bytes() };
      if (kind === 4) return { from: bytes(), to: bytes() };
      return { prefix: bytes(), initial: maybe(), any: Array.from({ length: next(3) }, bytes), final: maybe() };
    };
    const part = (depth: number): StoreFilter => {
      const kind = next(depth > 0 ? 7 : 6);
      if (kind === 6) return { op: 'or', of: Array.from({ length: next(4) }, () => part(depth - 1)) };
      if (kind < 2) return { op: 'hasColumn', family: 1, qualifier: bytes() };
      return { op: 'anyColumn', family: 1, match: match(kind) };
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
    expect(matched).to.be.within(500, 4800);
  });
});
