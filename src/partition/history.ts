import type { Store } from '../store/contract.js';
import { cellValue } from '../store/row.js';
import { CHANGES_TABLE } from './tables.js';

const CSN = Buffer.from('csn');

/** entryCSN of the last change record, above which new ones start; undefined when there is none. */
export async function latestCsn(store: Store): Promise<string | undefined> {
  const scan = store.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1 });
  try {
    const batch = await scan.next();
    const row = batch?.rows[0];
    return row && cellValue(row, 0, CSN)?.toString();
  } finally {
    scan.close();
  }
}
