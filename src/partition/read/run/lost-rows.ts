import type { Reader } from '../../../store/contract.js';
import { damaged } from '../../../store/store-error.js';
import { OBJECT_CLASS_OID } from '../../model/index-set.js';
import { countEntries } from '../../model/sample-runs.js';
import { equalityPrefix, indexTable, MASTER_TABLE, TREE_TABLE } from '../../model/tables.js';
import type { SearchContext } from './search-context.js';

const OBJECT_CLASS_TABLE = indexTable(OBJECT_CLASS_OID).name;

/**
 * Handles a candidate without master row: either the entry has been deleted since the index was read, or the row is
 * lost. Throws `damaged` if in one snapshot the index of objectClass has the entry (every entry is in its list for
 * `top`) and the master row is missing. Does nothing on an engine without snapshots.
 */
export async function requireDeleted({ store, schema }: SearchContext, id: Buffer): Promise<void> {
  if (!store.supports.snapshot) return;
  const norm = schema.attribute('objectClass')?.equality?.normalize(Buffer.from('top'));
  if (!norm) return;
  const snapshot = store.snapshot();
  try {
    if (await snapshot.getHead(MASTER_TABLE.name, id, true)) return;
    const indexRow = await snapshot.get(OBJECT_CLASS_TABLE, Buffer.concat([equalityPrefix(norm), id]));
    if (indexRow) throw lostRowError(id, 'an index names its entry');
  } finally {
    snapshot.close();
  }
}

/** Handles an entry that has a tree row but no master row. Throws `damaged` if one snapshot shows both. */
export function checkMissingRow(context: SearchContext, id: Buffer): void {
  if (context.store.supports.snapshot) throw lostRowError(id, 'a tree row names its entry');
}

/** Returns the error for a missing master row whose entry another row of the same snapshot names. */
function lostRowError(id: Buffer, reason: string): Error {
  return damaged(MASTER_TABLE.name, Buffer.from(id), `it is missing, and ${reason}`);
}

/** Checks the `count` of a scan of the whole tree table. Throws `damaged` if counters in the snapshot say more. */
export async function requireAllRows(context: SearchContext, reader: Reader, count: number): Promise<void> {
  if (!context.store.supports.snapshot) return;
  const countedRows = await countEntries(reader);
  if (count < countedRows)
    throw damaged(TREE_TABLE.name, undefined, `it has ${count} rows, and its counters say ${countedRows}`);
}
