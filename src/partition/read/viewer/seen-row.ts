import { cellFamily, nextCell } from '../../../store/row.js';
import type { DescriptionTable } from '../../model/descriptions.js';
import { MASTER } from '../../model/tables.js';
import type { Sight, Use } from './viewer.js';

/** A master row without the attributes that may not be used so; the row itself where all may. */
export function seenRow(descriptions: DescriptionTable, row: Buffer, sight: Sight | undefined, use: Use): Buffer {
  if (!sight) return row;
  const kept: Buffer[] = [];
  let from = 0;
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const { type } = descriptions.ofCell(row, at).description;
      if (!sight.allows(use, type)) {
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
