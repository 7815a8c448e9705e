import { LongWork } from '../../model/long-work.js';
import type { SearchRun } from './search-run.js';

/** From this number on, index candidates take some milliseconds. */
const MANY_CANDIDATES = 256;

/** Number of searches with many candidates that are running in this thread. */
let searchCount = 0;

/**
 * Runs `work`, which examines `candidates` entries. Throws `LongWork` instead if these are many, another thread has
 * time, and no entry has been returned.
 */
export async function workOrOffload(search: SearchRun, candidates: number, work: () => Promise<void>): Promise<void> {
  const { context, params, output } = search;
  // If rows are spread over servers, the search mostly waits for rows, and does not block this thread.
  if (candidates < MANY_CANDIDATES || context.store.supports.spread) return work();
  if (!output.hasBegun && params.otherThreads?.hasTime(searchCount)) throw new LongWork();
  searchCount++;
  try {
    await work();
  } finally {
    searchCount--;
  }
}
