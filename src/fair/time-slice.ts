/**
 * The time that one slice lasts, in milliseconds. A short request waits about that long for the event loop, however
 * many long searches are running.
 */
const SLICE_MS = 1;

/** The client on whose behalf work runs. Time slices go round-robin by client, not by search. */
export interface Client {
  /** True while the results found so far cannot be sent: no search of the client gets a slice. */
  readonly full: boolean;
  /** Returns a promise that resolves when `full` is false again; undefined when `full` is false now. */
  waitForDrain(): Promise<void> | void;
}

/**
 * Work that waits for a slice, by client. Each round of the event loop runs a single piece of long work for `SLICE_MS`.
 * Between two rounds the process serves sockets, short searches and writes.
 */
const waiting = new Map<Client, (() => void)[]>();
/** The queues of clients that are full; a queue returns to `waiting` when its client has room. */
const blocked = new Map<Client, (() => void)[]>();
/** True when the slice of this round is already given. */
let sliceTaken = false;
let roundScheduled = false;

const sliceCallbacks: (() => void)[] = [];

/** Registers a callback that runs before every slice. The server flushes its replies there. */
export function beforeEachSlice(callback: () => void): void {
  sliceCallbacks.push(callback);
}

/** Returns undefined when long work may begin at once, otherwise a promise for its first slice. */
export function waitForFirstSlice(client: Client = newClient()): Promise<void> | undefined {
  if (sliceTaken || waiting.size > 0 || client.full) return waitForSlice(client);
  sliceTaken = true;
  scheduleRound();
  return undefined;
}

/** Resolves when all work that waits already has had a slice, and `client` is not full. */
function waitForSlice(client: Client): Promise<void> {
  return new Promise((resolve) => {
    const queue = blocked.get(client) ?? waiting.get(client);
    if (queue) queue.push(resolve);
    else waiting.set(client, [resolve]);
    scheduleRound();
  });
}

/** Returns a separate client, for work whose results are not sent to a connection. */
function newClient(): Client {
  return { full: false, waitForDrain: () => undefined };
}

/** The time slices of one piece of long work. The first slice begins when the object is created. */
export class TimeSlice {
  readonly #client: Client;
  #startedAt = performance.now();

  constructor(client: Client = newClient()) {
    this.#client = client;
  }

  /** Starts a new slice now, after the caller has waited for one. */
  restart(): void {
    this.#startedAt = performance.now();
  }

  get isOver(): boolean {
    return performance.now() - this.#startedAt >= SLICE_MS;
  }

  /** Returns undefined while the slice lasts, otherwise a promise for the next slice. */
  yieldIfOver(): Promise<void> | undefined {
    return this.isOver ? waitForSlice(this.#client).then(() => this.restart()) : undefined;
  }
}

function scheduleRound(): void {
  if (roundScheduled) return;
  roundScheduled = true;
  setImmediate(runRound);
}

function runRound(): void {
  roundScheduled = false;
  const resume = takeNext();
  sliceTaken = resume !== undefined;
  if (!resume) return;
  scheduleRound();
  for (const callback of sliceCallbacks) callback();
  resume();
}

/** Removes and returns the work that gets the next slice. Its client goes to the end of the round-robin. */
function takeNext(): (() => void) | undefined {
  for (const [client, queue] of waiting) {
    waiting.delete(client);
    // Every call of `waitForDrain` adds a waiter to the output, so a blocked client is asked once.
    const room = client.full ? client.waitForDrain() : undefined;
    if (room instanceof Promise) block(client, queue, room);
    else {
      const next = queue.shift();
      if (queue.length > 0) waiting.set(client, queue);
      return next;
    }
  }
  return undefined;
}

function block(client: Client, queue: (() => void)[], room: Promise<void>): void {
  blocked.set(client, queue);
  void room.then(() => {
    blocked.delete(client);
    waiting.set(client, queue);
    scheduleRound();
  });
}
