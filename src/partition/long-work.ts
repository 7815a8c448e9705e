import type { SearchRun } from './search-run.js';
import { MASTER } from './tables.js';
import { isWhole, wideAttributes } from './wide.js';

/** Work with an entry of more values in wide attributes than this, … */
const LONG_VALUES = 1000;
/** … or of more bytes outside `largeValues`, holds the event loop for longer than others should wait. */
export const LONG_ROW = 256 * 1024;
/** A shorter row has no wide attribute. */
const SHORT_ROW = 2 * 1024;

/** Thrown before anything was done: the caller, who asked for it by `leaveLong`, has it done elsewhere. */
export class LongWork extends Error {
  constructor() {
    super('this is left to whoever may take his time');
  }
}

/** Throws `LongWork` where `leave` asks for it and the row, of which perhaps the head alone has come, is of a long entry. */
export function leaveLong(leave: boolean | undefined, row: Buffer): void {
  if (leave && (row.length > SHORT_ROW || !isWhole(row)) && isLongEntry(row)) throw new LongWork();
}

/** Candidates of an index that take some milliseconds. */
const MANY = 256;

/** Searches with many candidates that are under way in this thread. */
let here = 0;

/** Does the work of a search, or throws `LongWork` where it has many candidates and somebody has time for it. */
export async function doOrLeave(run: SearchRun, candidates: number, work: () => Promise<void>): Promise<void> {
  // Where rows are spread over servers, they are what a search waits for.
  if (candidates < MANY || run.context.store.supports.spread) return work();
  if (!run.gave && run.params.leaveMany?.hasTime(here)) throw new LongWork();
  here++;
  try {
    await work();
  } finally {
    here--;
  }
}

function isLongEntry(row: Buffer): boolean {
  if (row.length > LONG_ROW) return true;
  let count = 0;
  if (row[0] === MASTER.treeInfo) for (const wide of wideAttributes(row)) count += wide.count;
  return count > LONG_VALUES;
}
