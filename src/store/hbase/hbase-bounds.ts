import type { KeyRange } from '../contract.js';
import { afterPrefix } from '../tables.js';
import { MAX_KEY } from './journal/plan-rows.js';

/** The range as HBase takes it, which knows no keys beyond `MAX_KEY`; undefined when nothing can be in it. */
export function boundsOf({ from, to }: KeyRange): KeyRange | undefined {
  if (to?.length === 0) return undefined;
  const low = from && cut(from);
  const high = to && cut(to);
  if (low === 'end' || (low && high && high !== 'end' && Buffer.compare(low, high) >= 0)) return undefined;
  return { from: low?.length ? low : undefined, to: high === 'end' ? undefined : high };
}

/** The smallest key that can be at or above a bound; `end` when there is none. */
function cut(bound: Buffer): Buffer | 'end' {
  if (bound.length <= MAX_KEY) return bound;
  return afterPrefix(bound.subarray(0, MAX_KEY)) ?? 'end';
}
