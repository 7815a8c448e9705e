import { sameBytes } from '../bytes/compare.js';

/** Spellings of one description that differ only in case, and where the record in hand has it. */
export interface NameGroup {
  readonly lower: string;
  /** Number of the record that used it last, and the place among its attributes. */
  record: number;
  index: number;
}

/** An attribute description as spelled in the file. */
export interface Name {
  readonly text: string;
  readonly bytes: Buffer;
  readonly group: NameGroup;
  /** What followed it the last time: records of one kind have the same attributes in the same order. */
  next: Name | undefined;
}

const BUCKETS = 4096;
/** A file with more spellings than this is no directory's; the table then starts anew. */
const MAX_NAMES = 20_000;
/** RFC 4512 §2.5 and, since old directories wrote them, underscores: whether a type exists is the schema's to say. */
const description = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:;[A-Za-z0-9_-]+)*$/;

/**
 * Interns attribute descriptions: the same bytes give the same string, without making one to look it up. Every line of
 * a bulk load goes through here.
 */
export class Names {
  #buckets: Name[][] = [];
  #groups = new Map<string, NameGroup>();
  #size = 0;
  /** Found last. */
  #last: Name | undefined;

  /** The description that begins at `from`, where it is the one found last, or what followed that the last time. */
  guess(bytes: Buffer, from: number, to: number): Name | undefined {
    const last = this.#last;
    if (!last || stands(last, bytes, from, to)) return last;
    const { next } = last;
    if (!next || !stands(next, bytes, from, to)) return undefined;
    this.#last = next;
    return next;
  }

  /** The description in `bytes[from, to)`, whose hash is `hash` (see `hashStep`); undefined when it is none. */
  get(bytes: Buffer, from: number, to: number, hash: number): Name | undefined {
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

  /** To be called between records only: groups are told apart by record. */
  trim(): void {
    if (this.#size <= MAX_NAMES) return;
    this.#buckets = [];
    this.#groups = new Map();
    this.#size = 0;
    this.#last = undefined;
  }

  #add(bytes: Buffer, from: number, to: number, hash: number): Name | undefined {
    const text = bytes.toString('latin1', from, to);
    if (!description.test(text)) return undefined;
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
function stands({ bytes: name }: Name, bytes: Buffer, from: number, to: number): boolean {
  const end = from + name.length;
  return end < to && bytes[end] === COLON && sameBytes(name, bytes, from, end);
}

/** Hash of a name after one more byte; it begins with 0. */
export function hashStep(hash: number, byte: number): number {
  return (Math.imul(hash, 31) + byte) | 0;
}
