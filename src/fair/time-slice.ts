import { FairTree } from './fair-tree.js';

/**
 * Length of a time slice, in milliseconds. A short request waits about that long for the event loop, however many
 * sliced searches are running.
 */
const SLICE_MS = 1;

/** The client on whose behalf work runs. Time slices go round-robin by identity, then by client, not by search. */
export interface Client {
  /** Returns the key of the user at the client. Without it the client is a user of its own. */
  readonly identity?: (() => string) | undefined;
  /** Whether the client's output is full: then no search of the client gets a slice. */
  readonly isFull: boolean;
  /** Returns a promise that resolves when `isFull` is false again; undefined when `isFull` is false now. */
  waitForDrain(): Promise<void> | void;
}

/** Work that waits for a slice. */
interface WaitingWork {
  readonly client: Client;
  resume(): void;
}

/**
 * The waiting work, by identity and client. Each round of the event loop resumes one work for `SLICE_MS`. Between two
 * rounds the process serves sockets, short searches and writes.
 */
const waitingWork = new FairTree<WaitingWork>();
/** Work of clients whose output is full, by client. It returns to `waitingWork` when its client has room. */
const blockedWork = new Map<Client, WaitingWork[]>();
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
  if (isSliceTaken || waitingWork.size > 0 || client.isFull) return waitForSlice(client);
  isSliceTaken = true;
  scheduleRound();
  return undefined;
}

/** Resolves when all work that waits already has had a slice, and `client` is not full. */
function waitForSlice(client: Client): Promise<void> {
  return new Promise((resume) => {
    enqueue({ client, resume });
    scheduleRound();
  });
}

function enqueue(work: WaitingWork): void {
  const { client } = work;
  const blocked = blockedWork.get(client);
  if (blocked) blocked.push(work);
  else waitingWork.push([client.identity?.() ?? client, client], work);
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
  const work = takeNextWork();
  isSliceTaken = work !== undefined;
  if (!work) return;
  scheduleRound();
  for (const callback of sliceCallbacks) callback();
  work.resume();
}

/** Removes and returns the next work. Its identity and its client go to the end of the round-robin. */
function takeNextWork(): WaitingWork | undefined {
  for (let work = waitingWork.shift(); work; work = waitingWork.shift()) {
    const { client } = work;
    // Every call of `waitForDrain` adds a waiter to the output, so it is called once per blocked client.
    const drained = client.isFull && !blockedWork.has(client) ? client.waitForDrain() : undefined;
    if (drained instanceof Promise) blockUntilDrained(client, drained);
    if (!blockedWork.has(client)) return work;
    enqueue(work);
  }
  return undefined;
}

function blockUntilDrained(client: Client, drained: Promise<void>): void {
  blockedWork.set(client, []);
  void drained.then(() => {
    const works = blockedWork.get(client)!;
    blockedWork.delete(client);
    for (const work of works) enqueue(work);
    scheduleRound();
  });
}
