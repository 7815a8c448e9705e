import { cellFamily, nextCell } from '../../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { MASTER } from './tables.js';
import type { Sight, Use } from './viewer.js';

/**
 * A master row without the attributes that may not be used so; the row itself where all may. Secrets stay in it where
 * all the others do, so that whoever hands it out still leaves them out.
 */
export function seenRow(descriptions: DescriptionTable, row: Buffer, sight: Sight | undefined, use: Use): Buffer {
  if (!sight || sight.all) return row;
  const kept: Buffer[] = [];
  let from = 0;
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const { description } = descriptions.ofCell(row, at);
      if (!sight.allows(use, description)) {
        if (at > from) kept.push(row.subarray(from, at));
        from = next;
      }
    }
    at = next;
  }
  if (from === 0) return row;
  kept.push(row.subarray(from));
  return Buffer.concat(kept);
}
