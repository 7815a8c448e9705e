import { FairTree } from '../../fair/fair-tree.js';

/** Time per iteration of the event loop for the requests of senders that wait, in milliseconds. */
const ROUND_MS = 4;

/** A connection that has received more requests than may begin at once. */
export interface Sender {
  /** Key of the user that the requests belong to. */
  readonly identity: string;
  /** Begins at least one request. */
  beginRequests(): void;
}

/**
 * Shares the event loop among users, and among the connections of each user. In one iteration, connections with queued
 * requests share `ROUND_MS` in turns, and a connection whose bytes arrive begins at least one request. Clients with
 * many requests or many connections do not delay a client with a single request.
 */
export class Rounds {
  /** `performance.now()` when the time of this iteration is used up. Infinite while no sender waits. */
  #endsAt = Number.POSITIVE_INFINITY;
  readonly #queue = new FairTree<Sender>();

  /** Whether a sender that has begun requests since `startedAt` has to let others begin theirs. */
  isOver(startedAt: number): boolean {
    return performance.now() >= Math.min(this.#endsAt, startedAt + ROUND_MS);
  }

  /** Queues a sender that has more requests. */
  enqueue(sender: Sender): void {
    this.#queue.push([sender.identity], sender);
    if (this.#endsAt !== Number.POSITIVE_INFINITY) return;
    this.#endsAt = performance.now();
    setImmediate(this.#round);
  }

  readonly #round = (): void => {
    this.#endsAt = performance.now() + ROUND_MS;
    this.#serveNext();
  };

  #serveNext(): void {
    this.#queue.shift()!.beginRequests();
    // `nextTick` from a microtask waits for all microtasks, so what the requests do without pausing counts as well.
    queueMicrotask(() => process.nextTick(this.#continue));
  }

  readonly #continue = (): void => {
    if (this.#queue.size === 0) this.#endsAt = Number.POSITIVE_INFINITY;
    else if (performance.now() < this.#endsAt) this.#serveNext();
    else setImmediate(this.#round);
  };
}
