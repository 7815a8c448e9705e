import type { Maybe } from '../store/contract.js';

/** How long a search may hold the event loop before it lets others through, in milliseconds: so long a short one waits. */
const TURN_MS = 1;

/**
 * Long searches take turns: in one round of the event loop one of them works for `TURN_MS`, and between two
 * rounds everything else of the process (sockets, short searches, writes) is served. However many long searches there
 * are, a short one waits for one turn at most.
 */
const waiting: (() => void)[] = [];
/** A long search has had its turn in this round. */
let taken = false;
let scheduled = false;

const ready: (() => void)[] = [];

/** Done before every turn of a long search: what is ready to be sent need not wait for the end of the turn. */
export function beforeTurns(work: () => void): void {
  ready.push(work);
}

/** For a search that begins to be long: goes on at once when no other has had the turn of this round. */
export function firstTurn(): Maybe<void> {
  if (taken || waiting.length > 0) return nextTurn();
  taken = true;
  schedule();
}

/** For a search whose turn is over: waits until all that wait have had theirs. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    schedule();
  });
}

/** The turns of one piece of long work; the first begins with it. */
export class Turns {
  #began = performance.now();

  /** The turn begins now: it has been waited for. */
  begin(): void {
    this.#began = performance.now();
  }

  /** Lets others through when the turn is over. */
  pass(): Maybe<void> {
    if (performance.now() - this.#began < TURN_MS) return;
    return nextTurn().then(() => this.begin());
  }
}

function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  setImmediate(round);
}

function round(): void {
  scheduled = false;
  const next = waiting.shift();
  taken = next !== undefined;
  if (!next) return;
  schedule();
  for (const work of ready) work();
  next();
}
