import { EQUALITY, prefixEnd, UUID_BYTES } from '../../model/tables.js';
import type { IndexWalk } from '../order/order.js';
import { planIndexes } from '../plan/index-plan.js';
import { searchRange } from './page-search.js';
import type { ExaminedEntry, SearchRun } from './search-run.js';

/** Up to this number of candidates, sorting them costs less than going through an index. */
const FEW_CANDIDATES = 256;
/** The assumed number of candidates if no index counts them. */
const MANY_CANDIDATES = 100_000;
/** The part of the cost of examining all candidates that is spent on going through an index. */
const WALKED_PART = 1 / 4;

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
  search.acceptsKey = (entry) => isAtLeastValue(entry, walk);
  await search.withSnapshot(() => searchRange(search, index.table, EQUALITY_RANGE, undefined, count * WALKED_PART));
}

function isAtLeastValue({ row, sight, key }: ExaminedEntry, walk: IndexWalk): boolean {
  const norm = walk.normOf(row, sight);
  return norm !== undefined && key.subarray(1, key.length - UUID_BYTES - 1).equals(norm);
}
