import { batchesOf } from '../../store/batches.js';
import type { Draft } from '../model/draft.js';
import { draftFromRow } from '../model/entry-cells.js';
import { countEntries } from '../model/entry-count.js';
import { ImpliedRows, implyType } from '../model/implied.js';
import type { Index, MissingIndex } from '../model/index-set.js';
import { drawRuns } from '../model/sample-runs.js';
import { indexTable, MASTER_TABLE, UUID_BYTES } from '../model/tables.js';
import type { WriteContext } from '../write/context.js';

/** Number of entries from which the cost is estimated. */
const SAMPLE_ENTRIES = 500;

/** Rows and key bytes that an index would have. */
export interface IndexCost {
  readonly rows: number;
  readonly bytes: number;
}

/** Estimates the costs of indexes from a random sample of entries, in the order of `indexes`. */
export async function estimateCosts(context: WriteContext, indexes: readonly MissingIndex[]): Promise<IndexCost[]> {
  const sums = indexes.map(() => ({ rows: 0, bytes: 0 }));
  let sampleCount = 0;
  const { keys, runLength } = await drawRuns(context.store, indexes.length > 0 ? SAMPLE_ENTRIES : 0);
  for (const from of keys) {
    for await (const { rows } of batchesOf(context.store.scan(MASTER_TABLE.name, { from }, { limit: runLength }))) {
      for (const row of rows) {
        const draft = draftFromRow(context.descriptions, row!, undefined);
        for (const [i, index] of indexes.entries()) addRows(index, draft, sums[i]!);
        sampleCount++;
      }
    }
  }
  const factor = sampleCount === 0 ? 0 : (await countEntries(context.store)) / sampleCount;
  return sums.map(({ rows, bytes }) => ({ rows: Math.round(rows * factor), bytes: Math.round(bytes * factor) }));
}

function addRows(
  { type, substring: hasSubstrings }: MissingIndex,
  draft: Draft,
  sum: { rows: number; bytes: number },
): void {
  const table = indexTable(type.oid).name;
  const index: Index = {
    ...{ type, table, hasSubstrings, isReady: false, hasAllSubstrings: false, hasPresence: true, isMade: false },
  };
  const implied = new ImpliedRows();
  implyType(type, draft.ofType(type), index, implied);
  sum.rows += implied.rows.length;
  for (const { keyPrefix } of implied.rows) sum.bytes += keyPrefix.length + UUID_BYTES;
}
