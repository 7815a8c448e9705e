import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import { LongWork } from '../../partition/index.js';
import type { Asker } from '../../partition/read/search-params.js';
import { encodeResponse, writeResult } from '../../protocol/encode.js';
import type { Control, Request, RequestMessage } from '../../protocol/ldap-messages.js';
import { ProtocolError } from '../../protocol/protocol-error.js';
import { responseOp } from '../../protocol/tags.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { abandon } from '../operations/abandon.js';
import { type AnsweredRequest, perform } from '../operations/perform.js';
import { refusalByKind } from '../request/access.js';
import type { Transport } from '../request/context.js';
import { stillHolds } from '../request/validity.js';
import type { Services } from '../services/services.js';
import { NO_CONTROLS, readControls } from '../words/controls.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import type { Outcome } from '../words/outcome.js';
import { Session } from '../words/session.js';
import { inUse, PlainBytes, SessionEnded } from './connection-errors.js';
import { failureOutcome } from './failure.js';
import type { Arrived } from './intake.js';
import { CutMessage } from './long-messages.js';
import { LongReply } from './long-reply.js';
import { errandOf, type LongRequest, longRequestOf } from './long-request.js';
import { Operation, type OperationOwner } from './operation.js';
import { OutstandingOperations } from './operations.js';
import type { Output } from './output.js';

/** What the requests of a connection need of it. */
export interface RequestsOwner
  extends Pick<Transport, 'encrypted' | 'confidential' | 'network' | 'address' | 'strength' | 'startTls'> {
  readonly services: Services;
  /** Nothing more is to be answered. */
  readonly isClosing: boolean;
  /** Bytes of the request that begins, for who is to release them. */
  takenBytes(): number;
  /** An answer has been written. */
  answered(): void;
  /** A request that had to wait for something has ended, of which so many bytes are to be released. */
  ended(bytes: number): void;
  /** The client says goodbye. */
  unbind(): void;
  /** The message cannot be decoded. */
  refuse(error: ProtocolError): void;
  disconnect(result: ResultName, message: string): void;
  destroy(): void;
}

/**
 * The requests of one connection from where they begin until they are answered. Those that have to wait for something
 * go on side by side.
 */
export class Requests implements OperationOwner {
  readonly services: Services;
  readonly session = new Session();
  readonly #owner: RequestsOwner;
  readonly #output: Output;
  readonly #operations = new OutstandingOperations();

  constructor(owner: RequestsOwner, output: Output) {
    this.services = owner.services;
    this.#owner = owner;
    this.#output = output;
  }

  get encrypted(): boolean {
    return this.#owner.encrypted;
  }

  get confidential(): boolean {
    return this.#owner.confidential;
  }

  get network(): string {
    return this.#owner.network;
  }

  get address(): string | undefined {
    return this.#owner.address;
  }

  get strength(): number {
    return this.#owner.strength;
  }

  get asker(): Asker {
    return this.#output;
  }

  /** Those that have begun and not ended. */
  get outstanding(): number {
    return this.#operations.size;
  }

  /** A bind is under way: nothing else begins. */
  get binding(): boolean {
    return this.#operations.binding;
  }

  startTls(): void {
    this.#owner.startTls();
  }

  cancel(target: number, own: number): Maybe<void> {
    return this.#operations.cancel(target, own);
  }

  /** The connection is gone. */
  abortAll(): void {
    this.#operations.abortAll();
  }

  begin(message: Arrived): void {
    this.services.statistics.operations['bytes' in message ? message.op : message.request.op]++;
    if ('bytes' in message) this.#startLong(message);
    else this.#beginShort(message);
  }

  #beginShort({ id, request, controls }: RequestMessage): void {
    if (request.op === 'unbind') this.#owner.unbind();
    else if (request.op === 'abandon') abandon(this.#operations, request);
    else this.#start(id, request, controls);
  }

  #start(id: number, request: AnsweredRequest, controls: readonly Control[]): void {
    if (request.op === 'bind') this.session.beginBind();
    try {
      if (this.#operations.has(id)) throw inUse(id);
      const operation = new Operation(this, id, request.op, readControls(request.op, controls));
      const outcome = this.#run(operation, request);
      if (isPromise(outcome)) this.#await(operation, outcome, { id, request, controls });
      else this.answer(id, request.op, outcome);
    } catch (error) {
      if (error instanceof LongWork) this.#startLong(longRequestOf({ id, request, controls }));
      else this.fail(id, request.op, error);
    }
  }

  #startLong({ id, op, bytes }: LongRequest): void {
    const operation = new Operation(this, id, op, NO_CONTROLS);
    const refusal = this.#operations.has(id) ? inUse(id) : this.refusalOf(op);
    if (refusal) this.fail(id, op, refusal);
    else this.#await(operation, this.#runLong(operation, bytes));
  }

  /** What refuses an operation before its request has come. */
  refusalOf(op: Request['op']): LdapError | undefined {
    return refusalByKind({ services: this.services, session: this.session, transport: this }, op);
  }

  /** Has the request done by `services.long`; what comes back goes out as it is. */
  async #runLong(operation: Operation, bytes: Uint8Array<ArrayBuffer>): Promise<Outcome> {
    const { services, session } = this;
    if (!(await stillHolds(services, session))) throw new SessionEnded();
    const errand = errandOf(operation, bytes);
    const end = await services.long!.run(errand, new LongReply(operation, this.#output, (error) => this.#cut(error)));
    services.partition.renewReads();
    services.statistics.entriesSent += end.entries;
    if (session.identity === errand.identity) session.identity = end.identity;
    return end.outcome;
  }

  #run(operation: Operation, request: AnsweredRequest): Maybe<Outcome> {
    if (request.op === 'bind' || this.session.identity.kind === 'anonymous')
      return perform(operation, request, operation);
    return chain(stillHolds(this.services, this.session), (holds) => {
      if (!holds) throw new SessionEnded();
      return perform(operation, request, operation);
    });
  }

  /** `message`, where it may turn out to be long work. */
  #await(operation: Operation, outcome: Promise<Outcome>, message?: RequestMessage): void {
    this.#operations.add(operation);
    operation.bytes = this.#owner.takenBytes();
    this.#whenDone(operation, outcome, message);
  }

  #whenDone(operation: Operation, outcome: Promise<Outcome>, message?: RequestMessage): void {
    outcome.then(
      (result) => this.#ended(operation, result.code, () => this.answer(operation.id, operation.op, result)),
      (error) => {
        if (error instanceof LongWork && message)
          return this.#whenDone(operation, this.#runLong(operation, longRequestOf(message).bytes));
        const code = error instanceof LdapError ? error.code : ResultCode.other;
        this.#ended(operation, code, () => this.fail(operation.id, operation.op, error));
      },
    );
  }

  #ended(operation: Operation, code: number, answer: () => void): void {
    this.#operations.end(operation, code);
    if (!operation.silent) answer();
    this.#owner.ended(operation.bytes);
  }

  fail(id: number, op: Request['op'], error: unknown): void {
    if (error instanceof SessionEnded) this.#owner.disconnect('strongerAuthRequired', error.message);
    else if (error instanceof PlainBytes) this.#owner.disconnect('protocolError', error.message);
    else if (error instanceof ProtocolError) this.#owner.refuse(Object.assign(error, { messageId: id, op }));
    else this.answer(id, op, failureOutcome(error, this.services));
  }

  answer(id: number, op: Request['op'], outcome: Outcome): void {
    if (this.#owner.isClosing) return;
    const response = responseOp(op)!;
    const { writer } = this.#output;
    if (response === 'extendedResponse')
      encodeResponse(writer, { id, response: { op: response, ...outcome }, controls: outcome.controls });
    else writeResult(writer, id, response, outcome, outcome.controls);
    this.#owner.answered();
  }

  sendEntry(messageId: number, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    this.services.statistics.entriesSent++;
    const done = this.services.encoder.encode(this.#output, messageId, entry, selection, typesOnly);
    if (!isPromise(done)) return this.#output.room();
    return done.then(
      () => this.#output.room(),
      (error: Error) => this.#cut(error),
    );
  }

  /** An entry did not go, or not wholly. */
  #cut(error: Error): never {
    if (error instanceof CutMessage) {
      const { connection } = this.session;
      this.services.log.error({ connection, err: error.cause }, 'connection ended in the middle of an entry');
      this.#owner.destroy();
    }
    throw error;
  }

  sendReference(messageId: number, urls: readonly string[]): Maybe<void> {
    encodeResponse(this.#output.writer, { id: messageId, response: { op: 'searchReference', urls } });
    return this.#output.room();
  }
}
