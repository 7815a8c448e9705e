/**
 * Length of a time slice, in milliseconds. A short request waits about that long for the event loop, however many
 * sliced searches are running.
 */
const SLICE_MS = 1;

/** The client on whose behalf work runs. Time slices go round-robin by client, not by search. */
export interface Client {
  /** Whether the client's output is full: then no search of the client gets a slice. */
  readonly isFull: boolean;
  /** Returns a promise that resolves when `isFull` is false again; undefined when `isFull` is false now. */
  waitForDrain(): Promise<void> | void;
}

/**
 * The functions that resume waiting work, by client. Each round of the event loop resumes one of them for `SLICE_MS`.
 * Between two rounds the process serves sockets, short searches and writes.
 */
const waitingQueues = new Map<Client, (() => void)[]>();
/** Work of clients whose output is full, by client. A queue returns to `waitingQueues` when its client has room. */
const blockedQueues = new Map<Client, (() => void)[]>();
/** Whether the slice of this round of the event loop is taken. */
let isSliceTaken = false;
let isRoundScheduled = false;

const sliceCallbacks: (() => void)[] = [];

/** Registers a callback that runs before every slice. The server flushes its responses there. */
export function beforeEachSlice(callback: () => void): void {
  sliceCallbacks.push(callback);
}

/** Returns undefined when sliced work may begin at once, otherwise a promise for its first slice. */
export function waitForFirstSlice(client: Client = newClient()): Promise<void> | undefined {
  if (isSliceTaken || waitingQueues.size > 0 || client.isFull) return waitForSlice(client);
  isSliceTaken = true;
  scheduleRound();
  return undefined;
}

/** Resolves when all work that waits already has had a slice, and `client` is not full. */
function waitForSlice(client: Client): Promise<void> {
  return new Promise((resolve) => {
    const queue = blockedQueues.get(client) ?? waitingQueues.get(client);
    if (queue) queue.push(resolve);
    else waitingQueues.set(client, [resolve]);
    scheduleRound();
  });
}

/** Returns a separate client, for work whose results are not sent to a connection. */
function newClient(): Client {
  return { isFull: false, waitForDrain: () => undefined };
}

/** The time slices of one search or other long-running work. The first begins when the object is created. */
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
  if (isRoundScheduled) return;
  isRoundScheduled = true;
  setImmediate(runRound);
}

function runRound(): void {
  isRoundScheduled = false;
  const resume = takeNextWork();
  isSliceTaken = resume !== undefined;
  if (!resume) return;
  scheduleRound();
  for (const callback of sliceCallbacks) callback();
  resume();
}

/** Removes and returns the function that resumes the next work. Its client goes to the end of the round-robin. */
function takeNextWork(): (() => void) | undefined {
  for (const [client, queue] of waitingQueues) {
    waitingQueues.delete(client);
    // Every call of `waitForDrain` adds a waiter to the output, so it is called once per blocked client.
    const drained = client.isFull ? client.waitForDrain() : undefined;
    if (drained instanceof Promise) blockUntilDrained(client, queue, drained);
    else {
      const resume = queue.shift();
      if (queue.length > 0) waitingQueues.set(client, queue);
      return resume;
    }
  }
  return undefined;
}

function blockUntilDrained(client: Client, queue: (() => void)[], drained: Promise<void>): void {
  blockedQueues.set(client, queue);
  void drained.then(() => {
    blockedQueues.delete(client);
    waitingQueues.set(client, queue);
    scheduleRound();
  });
}
