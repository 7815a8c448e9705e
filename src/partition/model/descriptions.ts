import { sameBytes } from '../../bytes/compare.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { RowLayout } from '../../store/contract.js';
import { CELL_HEADER, qualifierLength } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { groupTypes } from './group-rows.js';

/** Bytes of the value index, which ends the qualifier of an upAttributes cell. */
export const INDEX_BYTES = 4;

export interface StoredDescription {
  /** Index in the table. Searches use it as an array index. */
  readonly number: number;
  readonly bytes: Buffer;
  /** `bytes` as Latin-1. */
  readonly text: string;
  readonly description: AttributeDescription;
  /** Whether the values are URLs that select the members of a group. */
  readonly isMemberUrl: boolean;
  /** The description after this one in the previous row. Similar entries have descriptions in the same order. */
  nextInRow: StoredDescription | undefined;
}

/**
 * Maps the bytes of attribute descriptions to shared objects, so that walking a row allocates no strings. Stored
 * entries have passed the schema check, which limits the number of descriptions. When the table has `MAX` descriptions,
 * further ones are not kept.
 */
export class DescriptionTable {
  static readonly MAX = 65_536;
  readonly #schema: Schema;
  #slots: (StoredDescription | undefined)[] = new Array(1024);
  readonly #descriptions: StoredDescription[] = [];
  /** Offsets of the cells in the row that the store returned last. Absent if the store does not provide them. */
  readonly rowLayout: RowLayout | undefined;

  constructor(schema: Schema, rowLayout?: RowLayout) {
    this.#schema = schema;
    this.rowLayout = rowLayout;
  }

  get descriptions(): readonly StoredDescription[] {
    return this.#descriptions;
  }

  /** Returns the description of the upAttributes cell at offset `offset`. */
  ofCell(row: Buffer, offset: number): StoredDescription {
    const start = offset + CELL_HEADER;
    return this.intern(row, start, start + qualifierLength(row, offset) - INDEX_BYTES);
  }

  /** Like `intern`. `preceding`: the description of the previous cell in the row. */
  internNext(preceding: StoredDescription | undefined, bytes: Buffer, start: number, end: number): StoredDescription {
    if (preceding && sameBytes(preceding.bytes, bytes, start, end)) return preceding;
    const successor = preceding?.nextInRow;
    if (successor && sameBytes(successor.bytes, bytes, start, end)) return successor;
    const description = this.intern(bytes, start, end);
    if (preceding) preceding.nextInRow = description;
    return description;
  }

  /** Returns the description in `bytes[start, end)`. Throws `corrupt` if the schema does not define the attribute. */
  intern(bytes: Buffer, start: number, end: number): StoredDescription {
    const hash = hashBytes(bytes, start, end);
    const mask = this.#slots.length - 1;
    for (let slot = (hash ^ (hash >>> 15)) & mask; ; slot = (slot + 1) & mask) {
      const description = this.#slots[slot];
      if (description === undefined) return this.#addDescription(bytes, start, end, slot);
      if (sameBytes(description.bytes, bytes, start, end)) return description;
    }
  }

  #addDescription(bytes: Buffer, start: number, end: number, slot: number): StoredDescription {
    const text = bytes.toString('latin1', start, end);
    const description = this.#schema.describe(text);
    if (!description) {
      throw new StoreError(
        'corrupt',
        `a row holds attribute '${text.slice(0, 100)}', which is not in the schema; load the schema that defines it`,
      );
    }
    const newDescription: StoredDescription = {
      number: this.#descriptions.length,
      bytes: Buffer.from(text, 'latin1'),
      text,
      description,
      isMemberUrl: groupTypes(this.#schema).urlTypes.has(description.type),
      nextInRow: undefined,
    };
    if (this.#descriptions.length >= DescriptionTable.MAX) return newDescription;
    this.#descriptions.push(newDescription);
    this.#slots[slot] = newDescription;
    if (this.#descriptions.length * 2 > this.#slots.length) this.#grow();
    return newDescription;
  }

  #grow(): void {
    const slots: (StoredDescription | undefined)[] = new Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (const description of this.#descriptions) {
      const hash = hashBytes(description.bytes);
      let slot = (hash ^ (hash >>> 15)) & mask;
      while (slots[slot] !== undefined) slot = (slot + 1) & mask;
      slots[slot] = description;
    }
    this.#slots = slots;
  }
}

const FNV_OFFSET = 0x811c9dc5;

/** Returns the 32-bit FNV-1a hash of the range, continued from `hash`. Faster than native code for short keys. */
export function hashBytes(bytes: Buffer, start = 0, end = bytes.length, hash = FNV_OFFSET): number {
  let result = hash;
  for (let i = start; i < end; i++) result = Math.imul(result ^ bytes[i]!, 0x01000193);
  return result;
}
