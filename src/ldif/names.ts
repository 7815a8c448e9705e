import { sameBytes } from '../bytes/compare.js';

/** The spellings of one attribute description, which differ only in case. `key`: the description in lower case. */
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
/** The table of names is cleared when it has more spellings than this number, which no directory reaches. */
const MAX_NAMES = 20_000;
/** RFC 4512 §2.5, and underscores, which old directories wrote. The schema decides whether a type exists. */
export const ATTRIBUTE_DESCRIPTION = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:;[A-Za-z0-9_-]+)*$/;

export function isAttributeDescription(text: string): boolean {
  return ATTRIBUTE_DESCRIPTION.test(text);
}

/** Maps the bytes of attribute descriptions, in every line of a bulk load, to shared objects, without strings. */
export class NameTable {
  #buckets: AttributeName[][] = [];
  #groups = new Map<string, NameGroup>();
  #nameCount = 0;
  #lastName: AttributeName | undefined;

  /** Returns the description at `start` if it is `#lastName` or the successor of that name; otherwise undefined. */
  predict(bytes: Buffer, start: number, end: number): AttributeName | undefined {
    const lastName = this.#lastName;
    if (!lastName || startsWithName(lastName, bytes, start, end)) return lastName;
    const { successor } = lastName;
    if (!successor || !startsWithName(successor, bytes, start, end)) return undefined;
    this.#lastName = successor;
    return successor;
  }

  /** Returns the description in `bytes[start, end)`, given its `hash` (`extendHash`); undefined when malformed. */
  intern(bytes: Buffer, start: number, end: number, hash: number): AttributeName | undefined {
    const name = this.#findName(bytes, start, end, hash) ?? this.#addName(bytes, start, end, hash);
    if (name && this.#lastName) this.#lastName.successor = name;
    this.#lastName = name;
    return name;
  }

  #findName(bytes: Buffer, start: number, end: number, hash: number): AttributeName | undefined {
    const bucket = this.#buckets[hash & (BUCKETS - 1)];
    if (bucket) {
      for (const name of bucket) if (sameBytes(name.bytes, bytes, start, end)) return name;
    }
    return undefined;
  }

  /** Clears a table that is too large. Must be called between records, since groups refer to the current record. */
  clearIfLarge(): void {
    if (this.#nameCount <= MAX_NAMES) return;
    this.#buckets = [];
    this.#groups = new Map();
    this.#nameCount = 0;
    this.#lastName = undefined;
  }

  #addName(bytes: Buffer, start: number, end: number, hash: number): AttributeName | undefined {
    const text = bytes.toString('latin1', start, end);
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

/** Whether `bytes[start, stop)` begins with the name and a colon. */
function startsWithName({ bytes: name }: AttributeName, bytes: Buffer, start: number, stop: number): boolean {
  const end = start + name.length;
  return end < stop && bytes[end] === COLON && sameBytes(name, bytes, start, end);
}

/** Adds a byte to the hash of a name. The initial hash is 0. */
export function extendHash(hash: number, byte: number): number {
  return (Math.imul(hash, 31) + byte) | 0;
}
