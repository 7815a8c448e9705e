import type { KeyRange, Maybe, Reader } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import type { RecentCounts } from './recent-counts.js';
import { GRAM, UUID_BYTES } from './tables.js';

/** Where candidates come from: rows of one index, all of one key prefix, or all in a range of keys; or ids that are known. */
export type Source =
  | { readonly ids: Buffer }
  | { readonly table: string; readonly prefix: Buffer }
  | { readonly table: string; readonly range: KeyRange };

/** Ids of one source, at most `limit`; of a prefix those after `after`, in rising order, in `into` perhaps. */
export function sourceIds(source: Source, reader: Reader, limit: number, after?: Buffer, into?: Buffer): Maybe<Buffer> {
  if ('ids' in source) return source.ids;
  if ('prefix' in source) return reader.postings(source.table, source.prefix, limit, after, into);
  return reader.rangePostings(source.table, source.range, limit);
}

/** A source and how many index rows it has. */
export interface Counted {
  readonly source: Source;
  readonly count: number;
  /** Its ids rise. */
  readonly rising: boolean;
}

/** The rows of one key, which an embedded engine counts at once. */
const POSTING_CAP = 1_000_000_000;

/**
 * Counts a source; a range is read for it, up to `cap` rows, and one that ends before gives its ids instead. What `recent` knows
 * of substring rows is good enough.
 */
export function countSource(source: Source, reader: Reader, cap: number, recent?: RecentCounts): Maybe<Counted> {
  if ('ids' in source) return { source, count: source.ids.length / UUID_BYTES, rising: true };
  if ('prefix' in source) {
    const { table, prefix } = source;
    const memory = prefix[0] === GRAM ? recent : undefined;
    const known = memory?.get(table, prefix);
    if (known !== undefined) return { source, count: known, rising: true };
    return chain(reader.postingCount(table, prefix, POSTING_CAP), (count) => {
      memory?.set(table, prefix, count);
      return { source, count, rising: true };
    });
  }
  return chain(sourceIds(source, reader, cap + 1), (ids) => {
    const count = ids.length / UUID_BYTES;
    return { source: count > cap ? source : { ids }, count, rising: false };
  });
}

/** The entryUUIDs at the end of index keys. */
function idsOf(keys: readonly Buffer[]): Buffer {
  const ids = Buffer.allocUnsafe(keys.length * UUID_BYTES);
  let at = 0;
  for (const key of keys) at += key.copy(ids, at, key.length - UUID_BYTES);
  return ids;
}

/** Ids of one source as they come, some at a time; from a range the same one may come again under another value. */
export function idBatches(source: Source, reader: Reader, limit: number): AsyncGenerator<Buffer> {
  return 'range' in source ? rangeBatches(source, reader) : prefixBatches(source, reader, limit);
}

async function* prefixBatches(
  source: Exclude<Source, { range: KeyRange }>,
  reader: Reader,
  limit: number,
): AsyncGenerator<Buffer> {
  if ('ids' in source) {
    const step = limit * UUID_BYTES;
    for (let at = 0; at < source.ids.length; at += step) yield source.ids.subarray(at, at + step);
    return;
  }
  let after: Buffer | undefined;
  for (;;) {
    const read = sourceIds(source, reader, limit, after);
    const ids = isPromise(read) ? await read : read;
    if (ids.length > 0) yield ids;
    if (ids.length < limit * UUID_BYTES) return;
    after = ids.subarray(ids.length - UUID_BYTES);
  }
}

async function* rangeBatches(source: Extract<Source, { range: KeyRange }>, reader: Reader): AsyncGenerator<Buffer> {
  const scan = reader.scan(source.table, source.range, { keysOnly: true });
  try {
    for (;;) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch) return;
      yield idsOf(batch.keys);
    }
  } finally {
    scan.close();
  }
}

/** Sorts 16-byte ids and drops repeated ones. */
export function sortIds(ids: Buffer): Buffer {
  const n = ids.length / UUID_BYTES;
  const order = Array.from({ length: n }, (_, i) => ids.subarray(i * UUID_BYTES, (i + 1) * UUID_BYTES)).sort(
    Buffer.compare,
  );
  const sorted = Buffer.allocUnsafe(ids.length);
  let to = 0;
  for (let i = 0; i < n; i++) {
    if (i > 0 && order[i]!.equals(order[i - 1]!)) continue;
    sorted.set(order[i]!, to);
    to += UUID_BYTES;
  }
  return sorted.subarray(0, to);
}

/** Places of ids plus one, by hash; 0 is free. */
let slots = new Int32Array(4096);
const WORDS = UUID_BYTES / 4;

/** The 16-byte ids that both have, in the order of `b`. */
export function commonIds(a: Buffer, b: Buffer): Buffer {
  const x = wordsOf(a);
  const y = wordsOf(b);
  const wanted = (a.length / UUID_BYTES) * 2;
  if (wanted > slots.length) slots = new Int32Array(2 ** Math.ceil(Math.log2(wanted)));
  const mask = slots.length - 1;
  for (let i = 0; i < x.length; i += WORDS) {
    let slot = hashAt(x, i) & mask;
    while (slots[slot] !== 0) slot = (slot + 1) & mask;
    slots[slot] = i + 1;
  }
  const common: number[] = [];
  for (let j = 0; j < y.length; j += WORDS) {
    let slot = hashAt(y, j) & mask;
    while (slots[slot] !== 0 && !isSameAt(x, slots[slot]! - 1, y, j)) slot = (slot + 1) & mask;
    if (slots[slot] !== 0) common.push(j * 4);
  }
  slots.fill(0);
  const ids = Buffer.allocUnsafe(common.length * UUID_BYTES);
  let to = 0;
  for (const at of common) for (let k = 0; k < UUID_BYTES; k++) ids[to++] = b[at + k]!;
  return ids;
}

/** In the machine's byte order. */
function wordsOf(ids: Buffer): Int32Array {
  const aligned = ids.byteOffset % 4 === 0 ? ids : new Uint8Array(ids);
  return new Int32Array(aligned.buffer, aligned.byteOffset, ids.length / 4);
}

/** Of a UUID of any version: whichever part of it is the same in all. */
function hashAt(ids: Int32Array, at: number): number {
  const some = Math.imul(ids[at]! ^ Math.imul(ids[at + 1]!, 0x85ebca6b), 0x9e3779b1);
  const mixed = some ^ ids[at + 2]! ^ Math.imul(ids[at + 3]!, 0xc2b2ae35);
  return mixed ^ (mixed >>> 15);
}

function isSameAt(x: Int32Array, i: number, y: Int32Array, j: number): boolean {
  return x[i + 3] === y[j + 3] && x[i + 2] === y[j + 2] && x[i + 1] === y[j + 1] && x[i] === y[j];
}
