import type { KeyRange, Maybe, Reader } from '../store/contract.js';
import { isPromise } from '../store/maybe.js';
import { UUID_BYTES } from './tables.js';

/** Where candidates come from: rows of one index, all of one key prefix, or all in a range of keys; or one id that is known. */
export type Source =
  | { readonly id: Buffer }
  | { readonly table: string; readonly prefix: Buffer }
  | { readonly table: string; readonly range: KeyRange };

/** Ids of one source, at most `limit`; of a prefix those after `after`, in rising order. */
export function sourceIds(source: Source, reader: Reader, limit: number, after?: Buffer): Maybe<Buffer> {
  if ('id' in source) return source.id;
  if ('prefix' in source) return reader.postings(source.table, source.prefix, limit, after);
  return rangeIds(source, reader);
}

async function rangeIds(source: Extract<Source, { range: KeyRange }>, reader: Reader): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const ids of rangeBatches(source, reader)) parts.push(ids);
  return Buffer.concat(parts);
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
      const ids = Buffer.allocUnsafe(batch.keys.length * UUID_BYTES);
      let at = 0;
      for (const key of batch.keys) at += key.copy(ids, at, key.length - UUID_BYTES);
      yield ids;
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
