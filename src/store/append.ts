import type { Maybe, Reader } from './contract.js';
import { chain } from './maybe.js';

/**
 * Number of the last row of a table whose rows are appended; 0 when it is empty. `Store.settled` of an engine with
 * atomic plans.
 */
export function lastNumber(reader: Reader, table: string): Maybe<bigint> {
  const scan = reader.scan(table, {}, { reverse: true, limit: 1, keysOnly: true });
  return chain(scan.next(), (batch) => {
    scan.close();
    return batch?.keys[0]?.readBigUInt64BE() ?? 0n;
  });
}
