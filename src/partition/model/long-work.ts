import { MASTER } from './tables.js';
import { LONG_ROW, LONG_VALUES, SHORT_ROW } from './thresholds.js';
import { isWhole, wideAttributes } from './wide.js';

/** Thrown before any change if the caller has set `leaveLong`. The caller moves the operation to another thread. */
export class LongWork extends Error {
  constructor() {
    super('this is left to whoever may take his time');
  }
}

/** Throws `LongWork` if `leave` is set and the entry is long. `row` may be the head of a split row. */
export function leaveLong(leave: boolean | undefined, row: Buffer): void {
  if (leave && (row.length > SHORT_ROW || !isWhole(row)) && isLongEntry(row)) throw new LongWork();
}

function isLongEntry(row: Buffer): boolean {
  if (row.length > LONG_ROW) return true;
  let count = 0;
  if (row[0] === MASTER.treeInfo) for (const wide of wideAttributes(row)) count += wide.count;
  return count > LONG_VALUES;
}
