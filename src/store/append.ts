import type { Maybe, Reader } from './contract.js';
import { chain } from './maybe.js';

/** Implements `Store.settled` of engines with atomic plans: the number of the table's last row, 0 if it is empty. */
export function lastRowNumber(reader: Reader, table: string): Maybe<bigint> {
  const scan = reader.scan(table, {}, { reverse: true, limit: 1, keysOnly: true });
  return chain(scan.next(), (batch) => {
    scan.close();
    return batch?.keys[0]?.readBigUInt64BE() ?? 0n;
  });
}
