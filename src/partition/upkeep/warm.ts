import { batchesOf } from '../../store/batches.js';
import type { Store, StoreFilter } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import type { IndexSet } from '../model/index-set.js';
import { MASTER, MASTER_TABLE } from '../model/tables.js';

/** What `warm` reads. */
export interface Warmed {
  /** Rows of entries. */
  readonly entries: number;
  /** Rows of indexes. */
  readonly indexed: number;
}

/** No row has it: each is looked at, none is handed out. */
const NOTHING: StoreFilter = { op: 'hasColumn', family: MASTER.treeInfo, qualifier: Buffer.alloc(0) };

/**
 * Reads what searches with an index read, the indexes and the entries, so that the system has it in its cache.
 * `onProgress` gets what is being read and how many entries were.
 */
export async function warm(
  store: Store,
  indexes: IndexSet,
  onProgress: (what: string, entries: number) => void,
): Promise<Warmed> {
  let indexed = 0;
  for (const { table, type } of indexes.list) {
    onProgress(`index of ${type.name}`, 0);
    const count = store.count(table, {}, Number.MAX_SAFE_INTEGER);
    indexed += isPromise(count) ? await count : count;
  }
  let entries = 0;
  const scan = store.scan(MASTER_TABLE.name, {}, { filter: NOTHING });
  for await (const { scanned } of batchesOf(scan)) {
    entries += scanned;
    onProgress('entries', entries);
  }
  return { entries, indexed };
}
