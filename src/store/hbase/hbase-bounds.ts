import type { KeyRange } from '../contract.js';
import { afterPrefix } from '../tables.js';
import { MAX_KEY } from './rpc/requests.js';

/** Returns the range with bounds of at most `MAX_KEY` bytes, HBase's limit, or undefined for an empty range. */
export function hbaseRange({ from, to }: KeyRange): KeyRange | undefined {
  if (to?.length === 0) return undefined;
  const lowBound = from && shortenBound(from);
  const highBound = to && shortenBound(to);
  if (lowBound === 'end' || (lowBound && highBound && highBound !== 'end' && Buffer.compare(lowBound, highBound) >= 0))
    return undefined;
  return { from: lowBound?.length ? lowBound : undefined, to: highBound === 'end' ? undefined : highBound };
}

/** Returns the smallest key at or above a bound, or `end` if there is none. */
function shortenBound(bound: Buffer): Buffer | 'end' {
  if (bound.length <= MAX_KEY) return bound;
  return afterPrefix(bound.subarray(0, MAX_KEY)) ?? 'end';
}
