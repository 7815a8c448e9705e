import { sameBytes } from '../../bytes/compare.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { RowLayout } from '../../store/contract.js';
import { CELL_HEADER, qualifierLength } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { groupTypes } from './group-rows.js';
import { hashBytes } from './hash.js';

/** Bytes of the value index at the end of an upAttributes qualifier. */
export const INDEX_BYTES = 4;

export interface StoredDescription {
  /** Small, dense number that is stable for the life of the table, used as an array index by searches. */
  readonly number: number;
  readonly text: Buffer;
  /** `text` as Latin-1. */
  readonly name: string;
  readonly description: AttributeDescription;
  /** True if the values are URLs that select the members of a group. */
  readonly isMemberUrl: boolean;
  /** The description after this one in the last row. Similar entries have their descriptions in the same order. */
  next: StoredDescription | undefined;
}

/**
 * Interns the descriptions of rows by their bytes, so that walking a row allocates no strings. Stored entries have
 * passed the schema check, which bounds the number of descriptions. Beyond `MAX`, a description is not kept.
 */
export class DescriptionTable {
  static readonly MAX = 65_536;
  readonly #schema: Schema;
  #slots: (StoredDescription | undefined)[] = new Array(1024);
  readonly #all: StoredDescription[] = [];
  /** Where the store describes the row that it decoded last, for the entry readers that use this table. */
  readonly rowLayout: RowLayout | undefined;

  constructor(schema: Schema, rowLayout?: RowLayout) {
    this.#schema = schema;
    this.rowLayout = rowLayout;
  }

  get all(): readonly StoredDescription[] {
    return this.#all;
  }

  /** Returns the description of the upAttributes cell at offset `at`. */
  ofCell(row: Buffer, at: number): StoredDescription {
    const start = at + CELL_HEADER;
    return this.intern(row, start, start + qualifierLength(row, at) - INDEX_BYTES);
  }

  /** Like `intern`, for a cell whose predecessor in the row has the description `before`. */
  internNext(before: StoredDescription | undefined, bytes: Buffer, start: number, end: number): StoredDescription {
    if (before && sameBytes(before.text, bytes, start, end)) return before;
    const next = before?.next;
    if (next && sameBytes(next.text, bytes, start, end)) return next;
    const found = this.intern(bytes, start, end);
    if (before) before.next = found;
    return found;
  }

  /** Returns the description in `bytes[start, end)`. Throws `corrupt` if the schema does not define the attribute. */
  intern(bytes: Buffer, start: number, end: number): StoredDescription {
    const hash = hashBytes(bytes, start, end);
    const mask = this.#slots.length - 1;
    for (let slot = (hash ^ (hash >>> 15)) & mask; ; slot = (slot + 1) & mask) {
      const found = this.#slots[slot];
      if (found === undefined) return this.#addDescription(bytes, start, end, slot);
      if (sameBytes(found.text, bytes, start, end)) return found;
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
    const stored: StoredDescription = {
      number: this.#all.length,
      text: Buffer.from(text, 'latin1'),
      name: text,
      description,
      isMemberUrl: groupTypes(this.#schema).urls.has(description.type),
      next: undefined,
    };
    if (this.#all.length >= DescriptionTable.MAX) return stored;
    this.#all.push(stored);
    this.#slots[slot] = stored;
    if (this.#all.length * 2 > this.#slots.length) this.#grow();
    return stored;
  }

  #grow(): void {
    const slots: (StoredDescription | undefined)[] = new Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (const stored of this.#all) {
      const hash = hashBytes(stored.text);
      let slot = (hash ^ (hash >>> 15)) & mask;
      while (slots[slot] !== undefined) slot = (slot + 1) & mask;
      slots[slot] = stored;
    }
    this.#slots = slots;
  }
}
