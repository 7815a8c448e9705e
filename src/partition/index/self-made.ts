import type { AttributeType } from '../../schema/schema-types.js';
import type { Piecework } from '../model/piecework.js';
import { namingTypes } from '../model/reference-rows.js';
import type { WriteContext } from '../write/context.js';
import { addIndex, dropIndex } from './index-admin.js';
import { buildIndexes } from './index-build.js';
import { readProposals, recordTended } from './proposals.js';

const DAY_MS = 86_400_000;
/** Time without a search after which a made index is dropped. */
const UNUSED_MS = 30 * DAY_MS;
/** Longest time between two runs in which uses were counted without a gap. */
const MAX_GAP_MS = 3 * DAY_MS;
/** Number of searches that have to lack an index before the index is made. */
const MIN_SEARCHES = 100;

export interface TendedIndexes {
  readonly made?: string;
  readonly dropped: readonly string[];
}

/**
 * Makes the proposed index with the greatest gain while fewer than `maxIndexes` were made, and drops made indexes that
 * no search has used for a month. Indexes that a person added are never touched. `now`: milliseconds since 1970.
 *
 * A new index ends all proposals, as the index may serve the searches behind the others, too.
 */
export async function tendIndexes(
  context: WriteContext,
  maxIndexes: number,
  now: number,
  piecework?: Piecework,
): Promise<TendedIndexes> {
  const { proposals, lastUsed, tended } = await readProposals(context);
  const isWatched = now - tended <= MAX_GAP_MS;
  const kept = new Map<string, number>();
  const dropped: string[] = [];
  for (const { type, isMade } of context.shared.indexes.list) {
    if (!isMade) continue;
    const used = (isWatched && lastUsed.get(type.oid)) || now;
    if (now - used <= UNUSED_MS || context.shared.references.has(type)) kept.set(type.oid, used);
    else {
      await dropIndex(context, type.name, true);
      dropped.push(type.name);
    }
  }
  const best = proposals.find((one) => one.searches >= MIN_SEARCHES && mayMakeFor(context, one.type));
  const mayMake = best && (kept.size < maxIndexes || kept.has(best.type.oid));
  if (mayMake) {
    await addIndex(context, best.type.name, { substring: best.substring, isMade: true });
    await buildIndexes(context, stopOnceLost(piecework));
    kept.set(best.type.oid, now);
  }
  await recordTended(context, kept, now, !mayMake, piecework?.fence);
  return { dropped, ...(mayMake && { made: best.type.name }) };
}

/**
 * False where an index is lost or a person's, and for attributes whose values would follow names from their index on
 * (`referenceTypes`): a person decides that.
 */
function mayMakeFor({ schema, shared }: WriteContext, type: AttributeType): boolean {
  if (shared.indexes.isLost(type)) return false;
  return shared.indexes.ofType(type)?.isMade ?? !namingTypes(schema, shared.values.records.references).includes(type);
}

/** Returns a listener that ends the build, which another build resumes, once the job has to end. */
function stopOnceLost(piecework: Piecework | undefined): () => void {
  let stopError: unknown;
  return () => {
    piecework?.proceed().catch((error: unknown) => {
      stopError = error;
    });
    if (stopError !== undefined) throw stopError;
  };
}
