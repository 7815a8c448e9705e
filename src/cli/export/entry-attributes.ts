import { damageOf, INDEX_BYTES, largeQualifiers, MASTER } from '../../partition/index.js';
import type { LargeReader } from '../../partition/model/large.js';
import type { SalvagedEntry } from '../../partition/upkeep/salvage.js';
import type { Schema } from '../../schema/index.js';
import { cellFamily, nextCell, qualifierLength, qualifierStart, valueStart } from '../../store/row.js';

export class AttributeSelection {
  readonly #schema: Schema;
  readonly #hasOperational: boolean;
  readonly #decisions = new Map<string, boolean>();

  constructor(schema: Schema, operational: boolean) {
    this.#schema = schema;
    this.#hasOperational = operational;
  }

  includes(description: string): boolean {
    if (this.#hasOperational) return true;
    let isIncluded = this.#decisions.get(description);
    if (isIncluded === undefined) {
      isIncluded = this.#schema.describe(description)?.type.operational !== true;
      this.#decisions.set(description, isIncluded);
    }
    return isIncluded;
  }
}

/** A value, or its chunks if it is over `MAX_HELD_BYTES`. */
export type ExportValue = Buffer | AsyncIterable<Buffer>;

export interface ExportAttribute {
  readonly type: string;
  readonly values: readonly ExportValue[];
}

/** Longer values, in bytes, are not held in memory as a whole. */
const MAX_HELD_BYTES = 1024 * 1024;

/**
 * Returns the attributes of an entry that the selection includes, passwords too, in stored order. Long values are read
 * from `largeReader`, which must stay open until they are written and may be undefined only if the row has all values.
 * Damaged values are left out and reported to `onLost`.
 */
export async function readEntryAttributes(
  { row }: SalvagedEntry,
  selection: AttributeSelection,
  largeReader: LargeReader | undefined,
  onLost: (attribute: string) => void,
): Promise<ExportAttribute[]> {
  const largeValues = largeQualifiers(row);
  const attributes: ExportAttribute[] = [];
  let lastAttribute: { readonly type: string; readonly values: ExportValue[] } | undefined;
  for (let at = 0; at < row.length; ) {
    const cellEnd = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const qualifierOffset = qualifierStart(at);
      const qualifierEnd = qualifierOffset + qualifierLength(row, at);
      const type = row.toString('utf8', qualifierOffset, qualifierEnd - INDEX_BYTES);
      const isIncluded = selection.includes(type);
      if (lastAttribute?.type !== type) {
        lastAttribute = { type, values: [] };
        if (isIncluded) attributes.push(lastAttribute);
      }
      const isLarge = isIncluded && largeValues?.has(row.toString('latin1', qualifierOffset, qualifierEnd)) === true;
      const value = isLarge
        ? await readLargeValue(largeReader!, row.subarray(qualifierOffset, qualifierEnd))
        : row.subarray(valueStart(row, at), cellEnd);
      if (value) lastAttribute.values.push(value);
      else onLost(type);
    }
    at = cellEnd;
  }
  return attributes.filter(({ values }) => values.length > 0);
}

/** Returns undefined for a damaged value. Streamed values are read twice, since output cannot be taken back. */
async function readLargeValue(largeReader: LargeReader, qualifier: Buffer): Promise<ExportValue | undefined> {
  const isStreamed = largeReader.valueLength(qualifier) > MAX_HELD_BYTES;
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of largeReader.chunks(qualifier)) if (!isStreamed) chunks.push(chunk);
  } catch (error) {
    if (damageOf(error)) return undefined;
    throw error;
  }
  return isStreamed ? largeReader.chunks(qualifier) : Buffer.concat(chunks);
}
