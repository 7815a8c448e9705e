import type { DescriptionTable, StoredDescription } from '../../partition/descriptions.js';
import { largeQualifiers } from '../../partition/tables.js';
import { descriptionMatches } from '../../schema/describer.js';
import type { AttributeDescription } from '../../schema/types.js';
import { CELL_HEADER, INDEX_BYTES, UP_ATTRIBUTES } from './row.js';

const REFERRAL = '2.16.840.1.113730.3.1.34';

/**
 * Compares a value with those of an entry's row, by the type's equality rule. Undefined where the row alone does not decide or
 * the answer is an error: the partition's own compare says it then. It looks at the whole row even when an early value is
 * equal: a referral object, told by its `ref`, is never compared itself (RFC 3296 §5.3).
 */
export function compareRow(
  table: DescriptionTable,
  row: Buffer,
  asked: AttributeDescription,
  value: Buffer,
): boolean | undefined {
  const rule = asked.type.equality;
  const wanted = rule?.test === undefined ? rule?.normalizeAssertion(value) : undefined;
  if (!rule || !wanted || largeQualifiers(row)) return undefined;
  let present = false;
  let last: StoredDescription | undefined;
  let matches = false;
  let equal = false;
  for (let at = 0; at < row.length; ) {
    const start = at + CELL_HEADER;
    const valueAt = start + ((row[at + 1]! << 8) | row[at + 2]!);
    const next = valueAt + row.readUInt32BE(at + 3);
    if (next > row.length) throw new RangeError(`packed row of ${row.length} bytes is cut at offset ${at}`);
    if (row[at] === UP_ATTRIBUTES) {
      const stored = table.internNext(last, row, start, valueAt - INDEX_BYTES);
      if (stored !== last) {
        last = stored;
        if (stored.description.type.oid === REFERRAL) return undefined;
        matches = asked === stored.description || descriptionMatches(asked, stored.description);
      }
      if (matches && !equal) {
        present = true;
        equal = rule.normalize(row.subarray(valueAt, next))?.equals(wanted) ?? false;
      }
    }
    at = next;
  }
  return present ? equal : undefined;
}
