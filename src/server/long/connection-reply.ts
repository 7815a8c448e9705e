import { LdapError } from '../../ldap/ldap-error.js';
import type { WriterSource } from '../entry/encode-entry.js';
import type { LongReply } from '../processes/long-request.js';
import type { Operation } from '../request/operation.js';
import type { Maybe } from '../words/maybe.js';

/** The output of a connection. */
interface ConnectionOutput extends WriterSource {
  waitForDrain(): Maybe<void>;
}

/** Writes the messages of a long request to the output of its connection. */
export class ConnectionReply implements LongReply {
  readonly #operation: Operation;
  readonly #output: ConnectionOutput;
  readonly #failEntry: (error: Error) => never;

  /** `failEntry` is called when an entry was not sent whole. */
  constructor(operation: Operation, output: ConnectionOutput, failEntry: (error: Error) => never) {
    this.#operation = operation;
    this.#output = output;
    this.#failEntry = failEntry;
  }

  get aborted(): boolean {
    return this.#operation.aborted;
  }

  set onAbort(abort: () => void) {
    this.#operation.onAbort = abort;
  }

  sendMessages(bytes: Buffer): Maybe<void> {
    if (!this.aborted) this.#output.writer.raw(bytes);
    return this.#output.waitForDrain();
  }

  async sendChunked(chunks: AsyncIterable<Buffer>): Promise<void> {
    // Checked only here: a message that has begun must be sent whole.
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    await this.#output.writeChunked(chunks).catch(this.#failEntry);
  }
}
