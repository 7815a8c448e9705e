import type { Store, StoreFilter } from '../../store/contract.js';
import { batchesOf, isPromise } from '../../store/maybe.js';
import type { IndexSet } from '../model/index-set.js';
import { MASTER, MASTER_TABLE } from '../model/tables.js';

export interface WarmResult {
  readonly entryCount: number;
  readonly indexRowCount: number;
}

/** A store filter that passes no row: all rows are read and none is returned. */
const NO_ROW: StoreFilter = { op: 'hasColumn', family: MASTER.treeInfo, qualifier: Buffer.alloc(0) };

/**
 * Reads the indexes and the entries, so that the first searches find them in the page cache of the system. `onProgress`
 * receives what is being read and the number of entries read.
 */
export async function warm(
  store: Store,
  indexes: IndexSet,
  onProgress: (what: string, entries: number) => void,
): Promise<WarmResult> {
  let indexRowCount = 0;
  for (const { table, type } of indexes.list) {
    onProgress(`index of ${type.name}`, 0);
    const count = store.count(table, {}, Number.MAX_SAFE_INTEGER);
    indexRowCount += isPromise(count) ? await count : count;
  }
  let entryCount = 0;
  const scan = store.scan(MASTER_TABLE.name, {}, { filter: NO_ROW });
  for await (const { scannedCount: scanned } of batchesOf(scan)) {
    entryCount += scanned;
    onProgress('entries', entryCount);
  }
  return { entryCount, indexRowCount };
}
