import { StoreError } from '../../store-error.js';
import type { TableCodec } from './cells.js';
import { MessageWriter } from './protobuf.js';
import type { ReadOptions } from './rpc-types.js';

/** Maximum length of a row key in HBase, bytes. */
export const MAX_KEY = 0x7fff;

export function checkKey(key: Buffer): void {
  if (key.length === 0 || key.length > MAX_KEY)
    throw new StoreError('limit', `key of ${key.length} bytes; 1 to ${MAX_KEY} are taken`);
}

/** Encodes Column messages (family 1, qualifier 2). Families in `families` are read as a whole. */
export function encodeColumnList(table: TableCodec, options: ReadOptions): Buffer[] {
  const out: Buffer[] = [];
  const qualifiersByFamily = new Map<number, Buffer[]>();
  for (const family of options.families ?? []) qualifiersByFamily.set(family, []);
  for (const { family, qualifier } of options.columns ?? []) {
    if (!options.families?.includes(family))
      qualifiersByFamily.set(family, [...(qualifiersByFamily.get(family) ?? []), qualifier]);
  }
  for (const [family, qualifiers] of qualifiersByFamily) {
    const column = new MessageWriter().bytes(1, table.family(family));
    for (const qualifier of qualifiers) column.bytes(2, qualifier);
    out.push(column.finish());
  }
  return out;
}
