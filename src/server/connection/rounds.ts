/** How long requests of those who have sent many are begun, ms, before the event loop turns to its sockets again. */
const ROUND_MS = 4;

/** Who has sent more requests than may begin at once. */
export interface Sender {
  /** Begins as many as it may, one at least. */
  begin(): void;
}

/**
 * Shares the event loop among connections. In one of its rounds those that have sent many requests have `ROUND_MS`
 * together, in turn; one whose bytes arrive begins one request in any case. So a client with one request does not wait
 * for what others have sent, however many they are.
 */
export class Rounds {
  #left = ROUND_MS;
  readonly #waiting: Sender[] = [];

  /** How long, ms, whoever begins requests now may go on after the first one. */
  get left(): number {
    return this.#left;
  }

  /** The sender has begun requests for `ms` and has more. */
  wait(sender: Sender, ms: number): void {
    this.#left -= ms;
    if (this.#waiting.push(sender) === 1) setImmediate(this.#round);
  }

  readonly #round = (): void => {
    this.#left = ROUND_MS;
    const senders = this.#waiting.splice(0);
    let served = 0;
    while (served < senders.length && this.#left > 0) senders[served++]!.begin();
    // Those who had no turn come before those who have more.
    const scheduled = this.#waiting.length > 0;
    this.#waiting.unshift(...senders.slice(served));
    if (this.#waiting.length === 0) this.#left = ROUND_MS;
    else if (!scheduled) setImmediate(this.#round);
  };
}
