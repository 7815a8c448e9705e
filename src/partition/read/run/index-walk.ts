import { EQUALITY, prefixEnd, UUID_BYTES } from '../../model/tables.js';
import { ROOT } from '../../tree/nodes.js';
import type { IndexWalk } from '../order/order.js';
import { IdSet } from '../plan/id-set.js';
import { type IndexPlan, planIndexes } from '../plan/index-plan.js';
import { idBatches, type Source } from '../plan/sources.js';
import { INDEX_BATCH } from './area.js';
import { searchRange } from './page-search.js';
import type { ExaminedEntry, SearchRun } from './search-run.js';

/** Up to this number of candidates, sorting them costs less than going through an index. */
const FEW_CANDIDATES = 256;
/** The assumed number of candidates if no index counts them. */
const MANY_CANDIDATES = 100_000;
/** The part of the cost of examining all candidates that is spent on going through an index. */
const WALKED_PART = 1 / 4;

/** The most ids that are held in memory to bring them into the order of an index. */
const MAX_TOLD = 200_000;

const EQUALITY_PREFIX = Buffer.of(EQUALITY);
const EQUALITY_RANGE = { from: EQUALITY_PREFIX, to: prefixEnd(EQUALITY_PREFIX)! };

/**
 * Examines entries in the order of an index until the page is full. Gives up without an index, with few candidates, or
 * when too few of the entries match. An entry with several values is returned at the least one that the viewer sees.
 */
export async function walkIndex(search: SearchRun, walk: IndexWalk): Promise<void> {
  const index = walk.indexIn(search.context.shared.indexes);
  if (!index || search.areas.length > 1 || search.params.scope === 'base') return;
  const plan = await planIndexes(search.filter, search.planContext());
  search.setIndexPlan(plan);
  const { count = MANY_CANDIDATES } = plan ?? {};
  if (count <= FEW_CANDIDATES) return;
  const { takeIds } = search.params;
  if (takeIds) {
    if (plan && isToldByIndexes(search, plan))
      await search.withSnapshot(async () => takeIds(await orderIds(search, index.table, plan.sources)));
    return;
  }
  search.acceptsKey = (entry) => isAtLeastValue(entry, walk);
  await search.withSnapshot(() => searchRange(search, index.table, EQUALITY_RANGE, undefined, count * WALKED_PART));
}

function isAtLeastValue({ row, sight, key }: ExaminedEntry, walk: IndexWalk): boolean {
  const norm = walk.normOf(row, sight);
  return norm !== undefined && key.subarray(1, key.length - UUID_BYTES - 1).equals(norm);
}

/** Whether the entries of the index plan are exactly those of the search: the whole directory, and nothing hidden. */
function isToldByIndexes({ filter, params, context, areas, excludedClasses }: SearchRun, plan: IndexPlan): boolean {
  const isWhole =
    areas.areaAt(0).node.parent === ROOT && params.scope === 'sub' && context.shared.suffixes.length === 1;
  const isExact = filter.kind === 'term' && filter.isExact && !filter.chain && !filter.moreIds && !filter.group;
  const isShort = plan.count <= MAX_TOLD && plan.sources.every((source) => 'prefix' in source);
  return isWhole && isExact && isShort && !params.viewer.sightOf && !excludedClasses;
}

/** Returns the ids of the sources in the order of an index; behind them those that are not in the index. */
async function orderIds(search: SearchRun, table: string, sources: readonly Source[]): Promise<Buffer> {
  const forEachId = async (source: Source, use: (ids: Buffer, i: number) => void): Promise<void> => {
    for await (const ids of idBatches(source, search.reader, INDEX_BATCH)) {
      for (let i = 0; i < ids.length; i += UUID_BYTES) use(ids, i);
      await search.checkAndYield();
    }
  };
  const candidates = new IdSet();
  const passed = new IdSet();
  let length = 0;
  for (const source of sources)
    await forEachId(source, (ids, i) => {
      if (candidates.add(ids, i)) length += UUID_BYTES;
    });
  const ordered = Buffer.allocUnsafe(length);
  let offset = 0;
  for (const source of [{ table, range: EQUALITY_RANGE }, ...sources])
    if (offset < length)
      await forEachId(source, (ids, i) => {
        if (candidates.has(ids, i) && passed.add(ids, i)) offset += ids.copy(ordered, offset, i, i + UUID_BYTES);
      });
  return ordered;
}
