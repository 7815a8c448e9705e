import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import type { Asker } from '../search-params.js';

/**
 * How long a search may hold the event loop before it lets others through, in milliseconds: so long a short one waits.
 */
const TURN_MS = 1;

/**
 * Long searches take turns: in one round of the event loop one of them works for `TURN_MS`, and between two
 * rounds everything else of the process (sockets, short searches, writes) is served. However many long searches there
 * are, a short one waits for one turn at most. Turns go round among those who ask, not among searches.
 */
const lines = new Map<Asker, (() => void)[]>();
/** Of those who ask, the ones for whom nothing more can be sent. */
const parked = new Map<Asker, (() => void)[]>();
/** A long search has had its turn in this round. */
let taken = false;
let scheduled = false;

const ready: (() => void)[] = [];

/** Done before every turn of a long search: what is ready to be sent need not wait for the end of the turn. */
export function beforeTurns(work: () => void): void {
  ready.push(work);
}

/** For a search that begins to be long: goes on at once when no other has had the turn of this round. */
export function firstTurn(asker: Asker = alone()): Maybe<void> {
  if (taken || lines.size > 0 || asker.full) return nextTurn(asker);
  taken = true;
  schedule();
}

/** For a search whose turn is over: waits until all who wait have had theirs. */
function nextTurn(asker: Asker): Promise<void> {
  return new Promise((resolve) => {
    const line = parked.get(asker) ?? lines.get(asker);
    if (line) line.push(resolve);
    else lines.set(asker, [resolve]);
    schedule();
  });
}

/** Somebody who asks for one thing and can take whatever is found. */
function alone(): Asker {
  return { full: false, waitForDrain: () => undefined };
}

/** The turns of one piece of long work; the first begins with it. */
export class Turns {
  readonly #asker: Asker;
  #began = performance.now();

  constructor(asker: Asker = alone()) {
    this.#asker = asker;
  }

  /** The turn begins now: it has been waited for. */
  begin(): void {
    this.#began = performance.now();
  }

  get isOver(): boolean {
    return performance.now() - this.#began >= TURN_MS;
  }

  /** Lets others through when the turn is over. */
  pass(): Maybe<void> {
    if (this.isOver) return nextTurn(this.#asker).then(() => this.begin());
  }
}

function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  setImmediate(round);
}

function round(): void {
  scheduled = false;
  const next = nextInLine();
  taken = next !== undefined;
  if (!next) return;
  schedule();
  for (const work of ready) work();
  next();
}

function nextInLine(): (() => void) | undefined {
  for (const [asker, line] of lines) {
    lines.delete(asker);
    // Each call of `waitForDrain` is one more who waits for it.
    const room = asker.full ? asker.waitForDrain() : undefined;
    if (isPromise(room)) park(asker, line, room);
    else {
      const next = line.shift();
      if (line.length > 0) lines.set(asker, line);
      return next;
    }
  }
  return undefined;
}

function park(asker: Asker, line: (() => void)[], room: Promise<void>): void {
  parked.set(asker, line);
  void room.then(() => {
    parked.delete(asker);
    lines.set(asker, line);
    schedule();
  });
}
