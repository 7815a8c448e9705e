import { sameBytes } from '../bytes/compare.js';

/** The spellings of one description, which differ only in case. `key`: in lower case. */
export interface NameGroup {
  readonly key: string;
  /** Number of the record that used the group last, and the index of its attribute there. */
  lastRecordNumber: number;
  attributeIndex: number;
}

/** An attribute description as spelled in the file. */
export interface AttributeName {
  readonly text: string;
  readonly bytes: Buffer;
  readonly group: NameGroup;
  /** The name that followed this one last time. Similar records have the same attributes in the same order. */
  successor: AttributeName | undefined;
}

const BUCKETS = 4096;
/** Above this number of spellings, which no directory has, the table is cleared. */
const MAX_NAMES = 20_000;
/** RFC 4512 §2.5, and underscores, which old directories wrote. The schema decides whether a type exists. */
export const ATTRIBUTE_DESCRIPTION = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:;[A-Za-z0-9_-]+)*$/;

/** Interns attribute descriptions without a string per lookup. Every line of a bulk load is looked up here. */
export class NameTable {
  #buckets: AttributeName[][] = [];
  #groups = new Map<string, NameGroup>();
  #nameCount = 0;
  #lastName: AttributeName | undefined;

  /** Returns the description at `from` if it equals `#lastName` or its successor; otherwise undefined. */
  predict(bytes: Buffer, from: number, to: number): AttributeName | undefined {
    const lastName = this.#lastName;
    if (!lastName || startsWithName(lastName, bytes, from, to)) return lastName;
    const { successor } = lastName;
    if (!successor || !startsWithName(successor, bytes, from, to)) return undefined;
    this.#lastName = successor;
    return successor;
  }

  /** Returns the description in `bytes[from, to)`, whose hash (`hashStep`) is `hash`; undefined when malformed. */
  intern(bytes: Buffer, from: number, to: number, hash: number): AttributeName | undefined {
    const name = this.#findName(bytes, from, to, hash) ?? this.#addName(bytes, from, to, hash);
    if (name && this.#lastName) this.#lastName.successor = name;
    this.#lastName = name;
    return name;
  }

  #findName(bytes: Buffer, from: number, to: number, hash: number): AttributeName | undefined {
    const bucket = this.#buckets[hash & (BUCKETS - 1)];
    if (bucket) {
      for (const name of bucket) if (sameBytes(name.bytes, bytes, from, to)) return name;
    }
    return undefined;
  }

  /** Clears a table that is too large. May only be called between records, since groups refer to the current record. */
  clearIfLarge(): void {
    if (this.#nameCount <= MAX_NAMES) return;
    this.#buckets = [];
    this.#groups = new Map();
    this.#nameCount = 0;
    this.#lastName = undefined;
  }

  #addName(bytes: Buffer, from: number, to: number, hash: number): AttributeName | undefined {
    const text = bytes.toString('latin1', from, to);
    if (!ATTRIBUTE_DESCRIPTION.test(text)) return undefined;
    const key = text.toLowerCase();
    let group = this.#groups.get(key);
    if (!group) {
      group = { key, lastRecordNumber: -1, attributeIndex: 0 };
      this.#groups.set(key, group);
    }
    const name: AttributeName = { text, bytes: Buffer.from(text, 'latin1'), group, successor: undefined };
    const bucketIndex = hash & (BUCKETS - 1);
    const bucket = this.#buckets[bucketIndex];
    if (bucket) bucket.push(name);
    else this.#buckets[bucketIndex] = [name];
    this.#nameCount++;
    return name;
  }
}

const COLON = 0x3a;

/** Whether `bytes[from, to)` begins with the name and a colon. */
function startsWithName({ bytes: name }: AttributeName, bytes: Buffer, from: number, to: number): boolean {
  const end = from + name.length;
  return end < to && bytes[end] === COLON && sameBytes(name, bytes, from, end);
}

/** Adds a byte to the hash of a name. The initial hash is 0. */
export function extendHash(hash: number, byte: number): number {
  return (Math.imul(hash, 31) + byte) | 0;
}
