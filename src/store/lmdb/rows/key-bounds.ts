import type { KeyRange } from '../../contract.js';

/** A key range for LMDB: bounds are at most as long as the longest key, and empty bounds are absent. */
export interface Bounds {
  readonly from: Buffer | undefined;
  readonly fromExclusive: boolean;
  readonly to: Buffer | undefined;
  readonly toInclusive: boolean;
}

/**
 * Converts a range; undefined for an empty range. A bound longer than any key is truncated, which makes a lower bound
 * exclusive and an upper bound inclusive.
 */
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
