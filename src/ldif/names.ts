import { sameBytes } from '../bytes/compare.js';

/** The spellings of one description, which differ only in case. */
export interface NameGroup {
  readonly lower: string;
  /** Number of the record that used the group last, and the index of its attribute there. */
  record: number;
  index: number;
}

/** An attribute description as spelled in the file. */
export interface Name {
  readonly text: string;
  readonly bytes: Buffer;
  readonly group: NameGroup;
  /** The name that followed this one last time. Similar records have the same attributes in the same order. */
  next: Name | undefined;
}

const BUCKETS = 4096;
/** Above this number of spellings, which no directory has, the table is cleared. */
const MAX_NAMES = 20_000;
/** RFC 4512 §2.5, and underscores, which old directories wrote. The schema decides whether a type exists. */
export const ATTRIBUTE_DESCRIPTION = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:;[A-Za-z0-9_-]+)*$/;

/** Interns attribute descriptions without a string per lookup. Every line of a bulk load is looked up here. */
export class NameTable {
  #buckets: Name[][] = [];
  #groups = new Map<string, NameGroup>();
  #size = 0;
  /** The name returned last. */
  #last: Name | undefined;

  /** Returns the description at `from` if it equals `#last` or the successor of `#last`; otherwise undefined. */
  predict(bytes: Buffer, from: number, to: number): Name | undefined {
    const last = this.#last;
    if (!last || startsWithName(last, bytes, from, to)) return last;
    const { next } = last;
    if (!next || !startsWithName(next, bytes, from, to)) return undefined;
    this.#last = next;
    return next;
  }

  /** Returns the description in `bytes[from, to)`, whose hash (`hashStep`) is `hash`; undefined when malformed. */
  intern(bytes: Buffer, from: number, to: number, hash: number): Name | undefined {
    const name = this.#find(bytes, from, to, hash) ?? this.#add(bytes, from, to, hash);
    if (name && this.#last) this.#last.next = name;
    this.#last = name;
    return name;
  }

  #find(bytes: Buffer, from: number, to: number, hash: number): Name | undefined {
    const bucket = this.#buckets[hash & (BUCKETS - 1)];
    if (bucket) {
      for (const name of bucket) if (sameBytes(name.bytes, bytes, from, to)) return name;
    }
    return undefined;
  }

  /** Clears a table that is too large. May only be called between records, since groups refer to the current record. */
  clearIfLarge(): void {
    if (this.#size <= MAX_NAMES) return;
    this.#buckets = [];
    this.#groups = new Map();
    this.#size = 0;
    this.#last = undefined;
  }

  #add(bytes: Buffer, from: number, to: number, hash: number): Name | undefined {
    const text = bytes.toString('latin1', from, to);
    if (!ATTRIBUTE_DESCRIPTION.test(text)) return undefined;
    const lower = text.toLowerCase();
    let group = this.#groups.get(lower);
    if (!group) {
      group = { lower, record: -1, index: 0 };
      this.#groups.set(lower, group);
    }
    const name: Name = { text, bytes: Buffer.from(text, 'latin1'), group, next: undefined };
    const slot = hash & (BUCKETS - 1);
    const bucket = this.#buckets[slot];
    if (bucket) bucket.push(name);
    else this.#buckets[slot] = [name];
    this.#size++;
    return name;
  }
}

const COLON = 0x3a;

/** Whether `bytes[from, to)` begins with the name and a colon. */
function startsWithName({ bytes: name }: Name, bytes: Buffer, from: number, to: number): boolean {
  const end = from + name.length;
  return end < to && bytes[end] === COLON && sameBytes(name, bytes, from, end);
}

/** Adds a byte to the hash of a name. The initial hash is 0. */
export function hashStep(hash: number, byte: number): number {
  return (Math.imul(hash, 31) + byte) | 0;
}
