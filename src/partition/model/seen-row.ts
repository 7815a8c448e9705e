import { cellFamily, nextCell, qualifierLength, qualifierStart } from '../../store/row.js';
import { type DescriptionTable, INDEX_BYTES, type StoredDescription } from './descriptions.js';
import { MASTER } from './tables.js';
import type { Sight, Use } from './viewer.js';

/**
 * Returns a master row without the attributes that the viewer may not use in this way; `row` itself if all are allowed.
 * If all other attributes are allowed, secrets remain in the row, so code that sends the row must leave them out.
 */
export function seenRow(descriptions: DescriptionTable, row: Buffer, sight: Sight | undefined, use: Use): Buffer {
  if (!sight || sight.all(use)) return row;
  let result: Buffer | undefined;
  let resultLength = 0;
  let keptStart = 0;
  let last: StoredDescription | undefined;
  let isAllowed = false;
  for (let at = 0; at < row.length; ) {
    const cellEnd = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const start = qualifierStart(at);
      const stored = descriptions.internNext(last, row, start, start + qualifierLength(row, at) - INDEX_BYTES);
      if (stored !== last) isAllowed = sight.allows(use, stored.description);
      last = stored;
      if (!isAllowed) {
        result ??= Buffer.from(row);
        if (at > keptStart) result.copyWithin(resultLength, keptStart, at);
        resultLength += at - keptStart;
        keptStart = cellEnd;
      }
    }
    at = cellEnd;
  }
  return result ? result.copyWithin(resultLength, keptStart).subarray(0, resultLength + row.length - keptStart) : row;
}
