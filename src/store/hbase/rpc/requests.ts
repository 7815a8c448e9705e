import { StoreError } from '../../store-error.js';
import type { TableCodec } from './cells.js';
import { MessageWriter } from './protobuf.js';
import type { ReadOptions } from './rpc-types.js';

/** Maximum length of a row key in HBase, bytes. */
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
export function filterMessage(name: string, fields: MessageWriter): Buffer {
  return new MessageWriter()
    .string(1, FILTER + name)
    .message(2, fields)
    .finish();
}

export function filterList(all: boolean, filters: readonly Buffer[]): Buffer {
  const list = new MessageWriter().uint(1, all ? MUST_PASS_ALL : MUST_PASS_ONE);
  for (const filter of filters) list.bytes(2, filter);
  return filterMessage('FilterList', list);
}

/** Returns cells without their values. */
export const KEY_ONLY = filterMessage('KeyOnlyFilter', new MessageWriter().bool(1, false));
/** Returns the first cell of each row, without its value. */
export const FIRST_KEY_ONLY = filterList(true, [filterMessage('FirstKeyOnlyFilter', new MessageWriter()), KEY_ONLY]);

/**
 * Encodes the columns to be read as Column messages (family 1, qualifier 2). A family listed in `families` is read as a
 * whole, whatever `columns` contains.
 */
export function encodeColumnList(table: TableCodec, options: ReadOptions): Buffer[] {
  const out: Buffer[] = [];
  const names = new Map<number, Buffer[]>();
  for (const family of options.families ?? []) names.set(family, []);
  for (const { family, qualifier } of options.columns ?? []) {
    if (!options.families?.includes(family)) names.set(family, [...(names.get(family) ?? []), qualifier]);
  }
  for (const [family, qualifiers] of names) {
    const column = new MessageWriter().bytes(1, table.family(family));
    for (const qualifier of qualifiers) column.bytes(2, qualifier);
    out.push(column.finish());
  }
  return out;
}
