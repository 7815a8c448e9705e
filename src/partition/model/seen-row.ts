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
  let seen: Buffer | undefined;
  let length = 0;
  let from = 0;
  let before: StoredDescription | undefined;
  let allowed = false;
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const start = qualifierStart(at);
      const stored = descriptions.internNext(before, row, start, start + qualifierLength(row, at) - INDEX_BYTES);
      if (stored !== before) allowed = sight.allows(use, stored.description);
      before = stored;
      if (!allowed) {
        seen ??= Buffer.from(row);
        if (at > from) seen.copyWithin(length, from, at);
        length += at - from;
        from = next;
      }
    }
    at = next;
  }
  return seen ? seen.copyWithin(length, from).subarray(0, length + row.length - from) : row;
}
