import { isPromise, type Maybe } from '../../partition/index.js';
import { encodeResponse, writeResult } from '../../protocol/encode.js';
import { responseOp } from '../../protocol/tags.js';
import type { ReplyEntry } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import type { Operation, ResultSender } from '../request/operation.js';
import type { Services } from '../services/services.js';
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

  sendEntry(operation: Operation, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    const encoding = this.#services.encoder.encode(this.#output, operation.id, entry, selection, typesOnly);
    if (!isPromise(encoding)) return this.#countEntry(operation, encoding);
    return encoding.then(
      (bytes) => this.#countEntry(operation, bytes),
      (error: Error) => this.failEntry(error),
    );
  }

  #countEntry(operation: Operation, bytes: number): Maybe<void> {
    operation.entryCount++;
    this.#services.statistics.entriesSent++;
    operation.sentBytes += bytes;
    return this.#output.waitForDrain();
  }

  sendReference(operation: Operation, urls: readonly string[]): Maybe<void> {
    operation.referenceCount++;
    return this.#send(operation, { op: 'searchReference', urls });
  }

  sendIntermediate(operation: Operation, oid: string, value: Buffer): Maybe<void> {
    return this.#send(operation, { op: 'intermediate', oid, value });
  }

  #send(operation: Operation, response: Parameters<typeof encodeResponse>[1]['response']): Maybe<void> {
    const { writer } = this.#output;
    const earlierBytes = writer.length;
    encodeResponse(writer, { id: operation.id, response });
    operation.sentBytes += writer.length - earlierBytes;
    return this.#output.waitForDrain();
  }

  sendResult(operation: Operation, outcome: Outcome): void {
    const { id: messageId, op } = operation;
    const response = responseOp(op)!;
    const { writer } = this.#output;
    const earlierBytes = writer.length;
    if (response === 'extendedResponse')
      encodeResponse(writer, { id: messageId, response: { op: response, ...outcome }, controls: outcome.controls });
    else writeResult(writer, messageId, response, outcome, outcome.controls);
    operation.sentBytes += writer.length - earlierBytes;
    this.#services.statistics.resultsSent++;
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
