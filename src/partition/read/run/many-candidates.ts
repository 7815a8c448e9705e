import { LongWork } from '../../model/long-work.js';
import type { SearchRun } from './search-run.js';

/** Number of candidates of an index that take some milliseconds. */
const MANY_CANDIDATES = 256;

/** Number of searches with many candidates that are in progress in this thread. */
let searchCount = 0;

/**
 * Runs `work`, which examines so many candidates. Throws `LongWork` instead where the candidates are many, another
 * thread has time for the search, and nothing has been passed to the sink.
 */
export async function workOrOffload(search: SearchRun, candidates: number, work: () => Promise<void>): Promise<void> {
  const { context, params, output } = search;
  // Where rows are spread over servers, the search waits for rows rather than for this thread.
  if (candidates < MANY_CANDIDATES || context.store.supports.spread) return work();
  if (!output.hasBegun && params.otherThreads?.hasTime(searchCount)) throw new LongWork();
  searchCount++;
  try {
    await work();
  } finally {
    searchCount--;
  }
}
