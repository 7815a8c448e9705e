import { StoreError } from '../../store-error.js';
import type { TableCodec } from './cells.js';
import { Writer } from './protobuf.js';
import type { ReadOptions } from './rpc-types.js';

/** Longest row key that HBase takes, bytes. */
const MAX_KEY = 0x7fff;
const FILTER = 'org.apache.hadoop.hbase.filter.';
const MUST_PASS_ALL = 1;
const MUST_PASS_ONE = 2;

export function checkKey(key: Buffer): void {
  if (key.length === 0 || key.length > MAX_KEY) {
    throw new StoreError('limit', `key of ${key.length} bytes; 1 to ${MAX_KEY} are taken`);
  }
}

/** `hbase.pb.Filter`: name 1, serialized_filter 2. */
export function filterMessage(name: string, fields: Writer): Buffer {
  return new Writer()
    .string(1, FILTER + name)
    .message(2, fields)
    .finish();
}

export function filterList(all: boolean, filters: readonly Buffer[]): Buffer {
  const list = new Writer().uint(1, all ? MUST_PASS_ALL : MUST_PASS_ONE);
  for (const filter of filters) list.bytes(2, filter);
  return filterMessage('FilterList', list);
}

/** Cells without their values. */
export const KEY_ONLY = filterMessage('KeyOnlyFilter', new Writer().bool(1, false));
/** Of each row its first cell, without its value. */
export const FIRST_KEY_ONLY = filterList(true, [filterMessage('FirstKeyOnlyFilter', new Writer()), KEY_ONLY]);

/**
 * The messages Column (family 1, qualifier 2) of what is to be read; a family beside one of its columns is read whole.
 */
export function columnsOf(table: TableCodec, options: ReadOptions): Buffer[] {
  const out: Buffer[] = [];
  const names = new Map<number, Buffer[]>();
  for (const family of options.families ?? []) names.set(family, []);
  for (const { family, qualifier } of options.columns ?? []) {
    if (!options.families?.includes(family)) names.set(family, [...(names.get(family) ?? []), qualifier]);
  }
  for (const [family, qualifiers] of names) {
    const column = new Writer().bytes(1, table.family(family));
    for (const qualifier of qualifiers) column.bytes(2, qualifier);
    out.push(column.finish());
  }
  return out;
}
