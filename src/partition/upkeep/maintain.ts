import { isPromise } from '../../store/maybe.js';
import { trimChanges } from '../feed/history.js';
import { buildIndexes } from '../index/index-build.js';
import { isComplete } from '../model/index-set.js';
import type { WriteContext } from '../write/context.js';
import { purge } from '../write/purge.js';

const DAY_MS = 86_400_000;

/** What `maintain` has done. */
export interface Maintained {
  readonly purged: number;
  readonly trimmed: number;
}

/**
 * Forgets deleted entries and change records that are older than they are kept, and finishes indexes left unfinished.
 */
export async function maintain(
  context: WriteContext,
  keep: { readonly changesDays: number; readonly deletedDays: number },
): Promise<Maintained> {
  const now = Date.now();
  const purged = await purge(context, now - keep.deletedDays * DAY_MS);
  const trimmed = await trimChanges(context.store, now - keep.changesDays * DAY_MS);
  const fresh = context.shared.refresh();
  if (isPromise(fresh)) await fresh;
  if (!context.shared.indexes.list.every(isComplete)) await buildIndexes(context);
  return { purged, trimmed };
}
