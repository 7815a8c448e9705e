import { FairTree } from '../../fair/fair-tree.js';

/**
 * Runs one long write at a time, because a long write takes much memory. Users are served round-robin, and within a
 * user the connections. So a connection with many writes delays any other connection by a single write.
 */
export class WriteQueue {
  /** Waiting writes by user and connection. `RequestQuota` bounds their number. */
  readonly #waitingWrites = new FairTree<() => void>();
  #isBusy = false;

  async run<T>(user: string, connection: number, write: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await new Promise<void>((resolve) => this.#waitingWrites.push([user, connection], resolve));
    this.#isBusy = true;
    try {
      return await write();
    } finally {
      const startNext = this.#waitingWrites.shift();
      if (startNext) startNext();
      else this.#isBusy = false;
    }
  }
}
