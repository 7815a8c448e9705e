import { encodeResponse, writeResult } from '../../protocol/encode.js';
import type { Request } from '../../protocol/ldap-messages.js';
import { responseOp } from '../../protocol/tags.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import type { ResultSender } from '../request/operation.js';
import type { Services } from '../services/services.js';
import { isPromise, type Maybe } from '../words/maybe.js';
import type { Outcome } from '../words/outcome.js';
import type { Session } from '../words/session.js';
import { BrokenMessageError } from './chunked-messages.js';
import type { Output } from './output.js';

/** Encodes the responses of a connection's operations to its output. */
export class Replies implements ResultSender {
  readonly #services: Services;
  readonly #session: Session;
  readonly #output: Output;
  readonly #destroyConnection: () => void;

  constructor(services: Services, session: Session, output: Output, destroyConnection: () => void) {
    this.#services = services;
    this.#session = session;
    this.#output = output;
    this.#destroyConnection = destroyConnection;
  }

  sendEntry(messageId: number, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    this.#services.statistics.entriesSent++;
    const encoding = this.#services.encoder.encode(this.#output, messageId, entry, selection, typesOnly);
    if (!isPromise(encoding)) return this.#output.waitForDrain();
    return encoding.then(
      () => this.#output.waitForDrain(),
      (error: Error) => this.failEntry(error),
    );
  }

  sendReference(messageId: number, urls: readonly string[]): Maybe<void> {
    encodeResponse(this.#output.writer, { id: messageId, response: { op: 'searchReference', urls } });
    return this.#output.waitForDrain();
  }

  sendResult(messageId: number, op: Request['op'], outcome: Outcome): void {
    const response = responseOp(op)!;
    const { writer } = this.#output;
    if (response === 'extendedResponse')
      encodeResponse(writer, { id: messageId, response: { op: response, ...outcome }, controls: outcome.controls });
    else writeResult(writer, messageId, response, outcome, outcome.controls);
  }

  /** Rethrows the error of an entry that was not sent. Destroys the connection when a part of the entry was sent. */
  failEntry(error: Error): never {
    if (error instanceof BrokenMessageError) {
      const { connectionNumber: connection } = this.#session;
      this.#services.log.error({ connection, err: error.cause }, 'connection ended in the middle of an entry');
      this.#destroyConnection();
    }
    throw error;
  }
}
