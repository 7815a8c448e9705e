import { FairTree } from '../../fair/fair-tree.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { LongReply } from '../../server/processes/long-request.js';

/**
 * Runs one long write at a time, because a long write takes much memory. Users are served round-robin, and within a
 * user the connections. So a connection with many writes delays any other connection by a single write.
 */
export class WriteQueue {
  /** Waiting writes by user and connection. `LongAdmission` bounds their number. */
  readonly #waitingWrites = new FairTree<() => void>();
  #isBusy = false;

  /** `path`: user and connection. Rejects with `canceled` when the request is aborted while it waits. */
  async run<T>(
    path: readonly [string, number],
    reply: Pick<LongReply, 'onAbort'>,
    write: () => Promise<T>,
  ): Promise<T> {
    if (this.#isBusy) await this.#waitForTurn(path, reply);
    this.#isBusy = true;
    try {
      return await write();
    } finally {
      const startNext = this.#waitingWrites.shift();
      if (startNext) startNext();
      else this.#isBusy = false;
    }
  }

  #waitForTurn(path: readonly [string, number], reply: Pick<LongReply, 'onAbort'>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waitingWrites.push(path, resolve);
      reply.onAbort = () => {
        if (this.#waitingWrites.remove(path, resolve)) reject(new LdapError('canceled', 'canceled'));
      };
    });
  }
}
