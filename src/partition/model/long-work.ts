import { MASTER } from './tables.js';
import { LONG_ROW, LONG_VALUES, SHORT_ROW } from './thresholds.js';
import { isWhole, wideAttributes } from './wide.js';

/** Thrown before any change if the caller has set `refuseLong`. The caller moves the operation to another thread. */
export class LongWork extends Error {
  constructor() {
    super('this is left to whoever may take his time');
  }
}

/** Throws `LongWork` if `isRefused` is set and the entry is long. `row` may be only the head of a split row. */
export function refuseLongEntry(isRefused: boolean | undefined, row: Buffer): void {
  if (isRefused && (row.length > SHORT_ROW || !isWhole(row)) && isLongEntry(row)) throw new LongWork();
}

function isLongEntry(row: Buffer): boolean {
  if (row.length > LONG_ROW) return true;
  let valueCount = 0;
  if (row[0] === MASTER.treeInfo) for (const wide of wideAttributes(row)) valueCount += wide.valueCount;
  return valueCount > LONG_VALUES;
}
