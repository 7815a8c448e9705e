import type { KeyRange } from '../../contract.js';

/** A key range for LMDB: bounds are at most as long as the longest key, and empty bounds are absent. */
export interface KeyBounds {
  readonly from: Buffer | undefined;
  readonly isFromExclusive: boolean;
  readonly to: Buffer | undefined;
  readonly isToInclusive: boolean;
}

/**
 * Converts a range; undefined for an empty range. A bound longer than any key is truncated, which makes a lower bound
 * exclusive and an upper bound inclusive.
 */
export function toKeyBounds(range: KeyRange, maxKey: number): KeyBounds | undefined {
  const { from, to } = range;
  if (to && (to.length === 0 || (from && Buffer.compare(from, to) >= 0))) return undefined;
  const isFromCut = from !== undefined && from.length > maxKey;
  const isToCut = to !== undefined && to.length > maxKey;
  return {
    from: isFromCut ? from.subarray(0, maxKey) : from?.length ? from : undefined,
    isFromExclusive: isFromCut,
    to: isToCut ? to.subarray(0, maxKey) : to,
    isToInclusive: isToCut,
  };
}
