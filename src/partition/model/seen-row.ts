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
  let previous: StoredDescription | undefined;
  let isAllowed = false;
  for (let offset = 0; offset < row.length; ) {
    const cellEnd = nextCell(row, offset);
    if (cellFamily(row, offset) === MASTER.upAttributes) {
      const start = qualifierStart(offset);
      const stored = descriptions.internNext(previous, row, start, start + qualifierLength(row, offset) - INDEX_BYTES);
      if (stored !== previous) isAllowed = sight.allows(use, stored.description);
      previous = stored;
      if (!isAllowed) {
        result ??= Buffer.from(row);
        if (offset > keptStart) result.copyWithin(resultLength, keptStart, offset);
        resultLength += offset - keptStart;
        keptStart = cellEnd;
      }
    }
    offset = cellEnd;
  }
  return result ? result.copyWithin(resultLength, keptStart).subarray(0, resultLength + row.length - keptStart) : row;
}
