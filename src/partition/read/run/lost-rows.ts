import { batchesOf } from '../../../store/batches.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { chain, isPromise } from '../../../store/maybe.js';
import { cellCounter } from '../../../store/row.js';
import { damaged } from '../../../store/store-error.js';
import { OBJECT_CLASS_OID } from '../../model/index-set.js';
import {
  childrenRange,
  equalityPrefix,
  indexTable,
  MASTER_TABLE,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
} from '../../model/tables.js';
import type { SearchContext } from './search-context.js';

const OBJECT_CLASS_TABLE = indexTable(OBJECT_CLASS_OID).name;

/**
 * For a candidate whose master row is missing: it was deleted since the candidate was found, or the row is lost. Every
 * entry is of the class `top`: where a state of the store has that in its index and not the entry, throws `damaged`. An
 * engine without snapshots cannot tell.
 */
export function requireDeleted(context: SearchContext, id: Buffer): Maybe<void> {
  if (!context.store.supports.snapshot) return;
  const norm = context.schema.attribute('objectClass')?.equality?.normalize(Buffer.from('top'));
  if (!norm) return;
  const snapshot = context.store.snapshot();
  const close = (): void => snapshot.close();
  const look = chain(snapshot.getHead(MASTER_TABLE.name, id, true), (row) =>
    row ? undefined : snapshot.get(OBJECT_CLASS_TABLE, Buffer.concat([equalityPrefix(norm), id])),
  );
  return closing(look, close, (indexed) => {
    if (indexed) throw lostRow(id, 'an index names its entry');
  });
}

function closing<T>(value: Maybe<T>, close: () => void, then: (value: T) => void): Maybe<void> {
  if (isPromise(value)) return value.finally(close).then(then);
  close();
  then(value);
}

/** The master row of an entry that a tree or index row of the same state names is not there. */
export function lostRow(id: Buffer, why: string): Error {
  return damaged(MASTER_TABLE.name, Buffer.from(id), `it is missing, and ${why}`);
}

/** How many rows the tree table has by its counters: each suffix's entry, and those below it. */
async function rowsByCounters(reader: Reader): Promise<number> {
  const scan = reader.scan(TREE_TABLE.name, childrenRange(ROOT_ID));
  let rows = 0;
  for await (const batch of batchesOf(scan))
    for (const row of batch.rows) rows += 1 + Number(cellCounter(row, TREE.treeInfo, Q.subLevelCount));
  return rows;
}

/**
 * After a scan of the whole tree table that met so many rows: throws `damaged` where the counters of the same state say
 * more.
 */
export async function requireAllRows(context: SearchContext, reader: Reader, met: number): Promise<void> {
  if (!context.store.supports.snapshot) return;
  const counted = await rowsByCounters(reader);
  if (met < counted) throw damaged(TREE_TABLE.name, undefined, `it has ${met} rows, and its counters say ${counted}`);
}
