import { damageOf, INDEX_BYTES, largeQualifiers, MASTER } from '../../partition/index.js';
import type { LargeReader } from '../../partition/model/large-reader.js';
import type { SalvagedEntry } from '../../partition/upkeep/salvage.js';
import type { Schema } from '../../schema/index.js';
import { cellFamily, nextCell, qualifierLength, qualifierStart, valueStart } from '../../store/row.js';

export class AttributeSelection {
  readonly #schema: Schema;
  readonly #operational: boolean;
  readonly #cache = new Map<string, boolean>();

  constructor(schema: Schema, operational: boolean) {
    this.#schema = schema;
    this.#operational = operational;
  }

  includes(description: string): boolean {
    if (this.#operational) return true;
    let wanted = this.#cache.get(description);
    if (wanted === undefined) {
      wanted = this.#schema.describe(description)?.type.operational !== true;
      this.#cache.set(description, wanted);
    }
    return wanted;
  }
}

/** A value, or its pieces if it is long. */
export type ExportValue = Buffer | AsyncIterable<Buffer>;

export interface ExportAttribute {
  readonly type: string;
  readonly values: readonly ExportValue[];
}

/** Longer values, in bytes, are not held in memory as a whole. */
const MAX_HELD_BYTES = 1024 * 1024;

/**
 * Returns the attributes of an entry that the selection includes, passwords too, in stored order. Long values are read
 * from `large`, which must stay open until they are written and may be undefined only if the row has all values.
 * Damaged values are left out and reported to `onLost`.
 */
export async function entryAttributes(
  { row }: SalvagedEntry,
  selection: AttributeSelection,
  large: LargeReader | undefined,
  onLost: (attribute: string) => void,
): Promise<ExportAttribute[]> {
  const largeValues = largeQualifiers(row);
  const attributes: ExportAttribute[] = [];
  let last: { readonly type: string; readonly values: ExportValue[] } | undefined;
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const start = qualifierStart(at);
      const end = start + qualifierLength(row, at);
      const type = row.toString('utf8', start, end - INDEX_BYTES);
      const included = selection.includes(type);
      if (last?.type !== type) {
        last = { type, values: [] };
        if (included) attributes.push(last);
      }
      const isApart = included && largeValues?.has(row.toString('latin1', start, end)) === true;
      const value = isApart
        ? await largeValue(large!, row.subarray(start, end))
        : row.subarray(valueStart(row, at), next);
      if (value) last.values.push(value);
      else onLost(type);
    }
    at = next;
  }
  return attributes.filter(({ values }) => values.length > 0);
}

/** Returns undefined for a damaged value. Long values are read twice, since output cannot be taken back. */
async function largeValue(large: LargeReader, qualifier: Buffer): Promise<ExportValue | undefined> {
  const isLong = large.valueLength(qualifier) > MAX_HELD_BYTES;
  const whole: Buffer[] = [];
  try {
    for await (const piece of large.chunks(qualifier)) if (!isLong) whole.push(piece);
  } catch (error) {
    if (damageOf(error)) return undefined;
    throw error;
  }
  return isLong ? large.chunks(qualifier) : Buffer.concat(whole);
}
