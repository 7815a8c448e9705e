import { LdapError } from '../../ldap/ldap-error.js';
import type { ErrandReply } from '../processes/long-worker.js';
import type { Maybe } from '../words/maybe.js';
import type { Operation } from './operation.js';
import type { Output } from './output.js';

/** Sends what is found elsewhere for an operation of a connection. */
export class LongReply implements ErrandReply {
  readonly #operation: Operation;
  readonly #output: Output;
  readonly #cut: (error: Error) => never;

  /** `cut` is called when an entry did not go, or not wholly. */
  constructor(operation: Operation, output: Output, cut: (error: Error) => never) {
    this.#operation = operation;
    this.#output = output;
    this.#cut = cut;
  }

  get aborted(): boolean {
    return this.#operation.aborted;
  }

  set onAbort(abort: () => void) {
    this.#operation.onAbort = abort;
  }

  messages(bytes: Buffer): Maybe<void> {
    if (!this.aborted) this.#output.writer.raw(bytes);
    return this.#output.waitForDrain();
  }

  async message(pieces: AsyncIterable<Buffer>): Promise<void> {
    // One that has begun has to go wholly.
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    await this.#output.writeLong(pieces).catch(this.#cut);
  }
}
