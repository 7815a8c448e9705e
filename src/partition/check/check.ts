import { isPromise } from '../../store/maybe.js';
import { readShared } from '../shared.js';
import { DELETED_TABLE, MASTER_TABLE } from '../tables.js';
import type { Breach } from '../types.js';
import type { WriteContext } from '../write.js';
import { checkEntries } from './entries.js';
import { checkHistory } from './history.js';
import { checkIndexRows } from './index-rows.js';
import { checkLostChunks } from './large.js';
import { type Report, Survey } from './survey.js';
import { checkTree } from './tree.js';
import { checkTreeRows } from './tree-rows.js';

/**
 * Verifies every invariant of the directory (docs/formats/tables.md) and tells each breach; resolves with their number.
 * Reads one state where the engine offers it, so writers may go on meanwhile; on an engine without snapshots what is
 * written meanwhile may show as a breach. Holds 36 bytes and a few counters an entry in memory.
 */
export async function check(
  context: WriteContext,
  onBreach: (breach: Breach) => void,
  onProgress?: (done: number) => void,
): Promise<number> {
  return survey(context, ({ breach }) => onBreach(breach), onProgress);
}

/** One pass; a report may mend what it is told at once: what follows in the same pass still sees the state it began with. */
export async function survey(
  context: WriteContext,
  report: Report,
  onProgress?: (done: number) => void,
): Promise<number> {
  const fresh = context.shared.refresh();
  if (isPromise(fresh)) await fresh;
  const snapshot = context.store.snapshot();
  try {
    const shared = readShared(snapshot, context.schema);
    const pass = new Survey(context, snapshot, isPromise(shared) ? await shared : shared, report, onProgress);
    await checkEntries(pass);
    for (const table of [MASTER_TABLE.name, DELETED_TABLE.name]) await checkLostChunks(pass, table);
    await checkTree(pass);
    await checkTreeRows(pass);
    await checkIndexRows(pass);
    await checkHistory(pass);
    return pass.breaches;
  } finally {
    snapshot.close();
  }
}
