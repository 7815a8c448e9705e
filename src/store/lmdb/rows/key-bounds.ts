import type { KeyRange } from '../../contract.js';

/** A key range as LMDB can take it: bounds no longer than a key may be, empty ones absent. */
export interface Bounds {
  readonly from: Buffer | undefined;
  readonly fromExclusive: boolean;
  readonly to: Buffer | undefined;
  readonly toInclusive: boolean;
}

/** `undefined` for a range that holds nothing. A bound longer than any key is cut, which turns its side around. */
export function boundsOf(range: KeyRange, maxKey: number): Bounds | undefined {
  const { from, to } = range;
  if (to && (to.length === 0 || (from && Buffer.compare(from, to) >= 0))) return undefined;
  const cutFrom = from !== undefined && from.length > maxKey;
  const cutTo = to !== undefined && to.length > maxKey;
  return {
    from: cutFrom ? from.subarray(0, maxKey) : from?.length ? from : undefined,
    fromExclusive: cutFrom,
    to: cutTo ? to.subarray(0, maxKey) : to,
    toInclusive: cutTo,
  };
}
