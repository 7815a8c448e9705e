/** Time per iteration of the event loop for the requests of senders that wait, in milliseconds. */
const ROUND_MS = 4;

/** A connection that has received more requests than may begin at once. */
export interface Sender {
  /** Begins at least one request. */
  beginRequests(): void;
}

/**
 * Shares the event loop among connections. In one iteration, connections with queued requests share `ROUND_MS` in
 * turns, and a connection whose bytes arrive begins at least one request. Clients with many requests do not delay a
 * client with a single request.
 */
export class Rounds {
  #remainingMs = ROUND_MS;
  readonly #queue: Sender[] = [];

  /** Milliseconds for which a connection may go on to begin requests after its first request. */
  get remainingMs(): number {
    return this.#remainingMs;
  }

  /** Queues a sender that has begun requests for `ms` milliseconds and has more. */
  enqueue(sender: Sender, ms: number): void {
    this.#remainingMs -= ms;
    if (this.#queue.push(sender) === 1) setImmediate(this.#round);
  }

  readonly #round = (): void => {
    this.#remainingMs = ROUND_MS;
    const senders = this.#queue.splice(0);
    let servedCount = 0;
    while (servedCount < senders.length && this.#remainingMs > 0) senders[servedCount++]!.beginRequests();
    // Senders that were not served go before senders that were queued again.
    const isScheduled = this.#queue.length > 0;
    this.#queue.unshift(...senders.slice(servedCount));
    if (this.#queue.length === 0) this.#remainingMs = ROUND_MS;
    else if (!isScheduled) setImmediate(this.#round);
  };
}
