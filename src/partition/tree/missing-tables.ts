import type { Store } from '../../store/contract.js';
import { guardsHold, isMissing, type StoreError } from '../../store/store-error.js';
import { formatIndexRecords, parseIndexRecords } from '../model/index-set.js';
import { storeFailureOf } from '../model/store-errors.js';
import {
  CHANGES_TABLE,
  DELETED_TABLE,
  indexTable,
  MASTER_TABLE,
  META_TABLE,
  STATE_TABLE,
  TREE_TABLE,
} from '../model/tables.js';
import { UNIQUE_TABLE } from '../model/unique-rows.js';
import type { TreeContext } from './tree-context.js';

/** Tables that cannot be made anew. */
const VITAL_TABLES: ReadonlySet<string> = new Set([MASTER_TABLE.name, META_TABLE.name]);
/** Tables that servers would take for the truth while repair fills them. */
const FILLED_AT_REST: ReadonlySet<string> = new Set([TREE_TABLE.name, UNIQUE_TABLE.name]);
/** Tables whose rows are in no other table. */
const ONLY_COPIES: ReadonlySet<string> = new Set([CHANGES_TABLE.name, DELETED_TABLE.name, STATE_TABLE.name]);

/** Whether repair makes the table anew. */
export function isMadeAnew({ table }: { readonly table: string }): boolean {
  return !VITAL_TABLES.has(table) && !FILLED_AT_REST.has(table);
}

/** Returns what a missing table means, and what helps. */
export function describeLoss(table: string): string {
  if (VITAL_TABLES.has(table)) return 'nothing works without it; restore it from a snapshot';
  if (table.startsWith('index_')) return 'searches do without the index; "rowan repair" builds it anew';
  if (FILLED_AT_REST.has(table))
    return 'what needs it is refused; stop all servers, make it with the command that "rowan hbase verify" names, then run "rowan repair"';
  const contents = ONLY_COPIES.has(table) ? 'empty' : 'from the entries';
  return `what needs it is refused; "rowan repair" makes it anew, ${contents}`;
}

/** Returns an error for each table that is listed and does not exist. Reads a row of each table. */
export async function missingTables(store: Store): Promise<(StoreError & { readonly table: string })[]> {
  const specs = await store.tables();
  const reads = await Promise.allSettled(specs.map(async ({ name }) => store.get(name, Buffer.alloc(1))));
  return reads.flatMap((read) => (read.status === 'rejected' && isMissing(read.reason) ? [read.reason] : []));
}

/**
 * Reports the table if `error` says that it is missing. An index without its table is lost: the list of indexes, which
 * all plans guard, says so, and nobody uses or updates the index from then on. Returns whether the table is an index's.
 */
export async function noteMissing({ shared, outage }: TreeContext, error: unknown): Promise<boolean> {
  const cause = storeFailureOf(error);
  if (!isMissing(cause)) return false;
  outage.reportMissing(cause.table);
  await shared.refresh();
  const isOf = ({ oid }: { oid: string }): boolean => indexTable(oid).name === cause.table;
  const records = parseIndexRecords(shared.indexes.bytes).map((one) =>
    isOf(one) ? { ...one, ready: false, lost: true } : one,
  );
  // If the guard fails, somebody else has changed the list, perhaps for the same reason.
  if (!formatIndexRecords(records).equals(shared.indexes.bytes)) await guardsHold(shared.setIndexes(records));
  return records.some(isOf);
}
