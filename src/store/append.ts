import type { Maybe, Reader } from './contract.js';
import { chain } from './maybe.js';

/** `Store.settled` of engines with atomic plans: the number of the last row of a table; 0 for an empty table. */
export function lastRowNumber(reader: Reader, table: string): Maybe<bigint> {
  const scan = reader.scan(table, {}, { reverse: true, limit: 1, keysOnly: true });
  return chain(scan.next(), (batch) => {
    scan.close();
    return batch?.keys[0]?.readBigUInt64BE() ?? 0n;
  });
}
