import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import { LongWork } from '../../partition/index.js';
import type { Control, Request, RequestMessage } from '../../protocol/ldap-messages.js';
import { ProtocolError } from '../../protocol/protocol-error.js';
import { ConnectionReply } from '../long/connection-reply.js';
import { type EncodedRequest, encodeLongRequest, makeLongRequest } from '../long/encoded-request.js';
import { type AnsweredRequest, perform } from '../operations/perform.js';
import { refusalByKind } from '../request/access.js';
import type { Transport } from '../request/context.js';
import { failureOutcome } from '../request/failure.js';
import { Operation, type OperationScope } from '../request/operation.js';
import { isBindValid } from '../request/validity.js';
import type { Services } from '../services/services.js';
import { NO_CONTROLS, readControls } from '../words/controls.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import type { Outcome } from '../words/outcome.js';
import { Session } from '../words/session.js';
import { BindInvalidError, messageIdInUseError, PlaintextError } from './connection-errors.js';
import { OutstandingOperations } from './operations.js';
import type { Output } from './output.js';
import { Replies } from './replies.js';

/** A received request: decoded, or still encoded when another thread runs it. */
export type ReceivedRequest = RequestMessage | EncodedRequest;

export interface RequestsOwner extends Transport {
  readonly services: Services;
  /** Whether no more responses may be sent. */
  readonly isClosing: boolean;
  /** Returns the size of the request that begins. The caller passes it to `onRequestEnded` later. */
  takeRequestBytes(): number;
  onResponseWritten(): void;
  /** Called when a request that could not be answered at once has ended; `bytes` is its size. */
  onRequestEnded(bytes: number): void;
  unbind(): void;
  /** Called for a message that cannot be decoded. */
  handleProtocolError(error: ProtocolError): void;
  disconnect(result: ResultName, message: string): void;
  destroy(): void;
}

/** Runs and answers the requests of one connection. Requests that have to wait run concurrently. */
export class Requests {
  readonly services: Services;
  readonly session = new Session();
  readonly #owner: RequestsOwner;
  readonly #output: Output;
  readonly #replies: Replies;
  readonly operations = new OutstandingOperations();
  readonly #scope: OperationScope;

  constructor(owner: RequestsOwner, output: Output) {
    const { services } = owner;
    this.services = services;
    this.#owner = owner;
    this.#output = output;
    this.#replies = new Replies(services, this.session, output, () => owner.destroy());
    this.#scope = {
      services,
      session: this.session,
      transport: owner,
      outstanding: this.operations,
      client: output,
      results: this.#replies,
    };
  }

  beginRequest(message: ReceivedRequest): void {
    this.services.statistics.operations['bytes' in message ? message.op : message.request.op]++;
    if ('bytes' in message) this.#startLong(message);
    else this.#beginShort(message);
  }

  #beginShort({ id, request, controls }: RequestMessage): void {
    if (request.op === 'unbind') this.#owner.unbind();
    else if (request.op === 'abandon') this.operations.abandon(request.target);
    else this.#start(id, request, controls);
  }

  #start(id: number, request: AnsweredRequest, controls: readonly Control[]): void {
    if (request.op === 'bind') this.session.beginBind();
    try {
      if (this.operations.isOutstanding(id)) throw messageIdInUseError(id);
      const operation = new Operation(this.#scope, id, request.op, readControls(request.op, controls));
      const outcome = this.#run(operation, request);
      if (isPromise(outcome)) this.#track(operation, outcome, { id, request, controls });
      else this.answer(id, request.op, outcome);
    } catch (error) {
      if (error instanceof LongWork) this.#startLong(encodeLongRequest({ id, request, controls }));
      else this.fail(id, request.op, error);
    }
  }

  #startLong({ id, op, bytes }: EncodedRequest): void {
    const operation = new Operation(this.#scope, id, op, NO_CONTROLS);
    const refusal = this.operations.isOutstanding(id) ? messageIdInUseError(id) : this.kindRefusal(op);
    if (refusal) this.fail(id, op, refusal);
    else this.#track(operation, this.#runLong(operation, bytes));
  }

  /** Returns the error that refuses every operation of the kind `op` in this session; undefined: none. */
  kindRefusal(op: Request['op']): LdapError | undefined {
    return refusalByKind(this.#scope, op);
  }

  /** Runs the request in `services.longWorker` and sends the returned messages unchanged. */
  async #runLong(operation: Operation, bytes: Uint8Array<ArrayBuffer>): Promise<Outcome> {
    const { services, session } = this;
    if (!(await isBindValid(services, session))) throw new BindInvalidError();
    const request = makeLongRequest(operation, bytes);
    const end = await services.longWorker!.run(
      request,
      new ConnectionReply(operation, this.#output, (error) => this.#replies.failEntry(error)),
    );
    services.partition.renewReads();
    services.statistics.entriesSent += end.entryCount;
    if (session.identity === request.identity) session.identity = end.identity;
    return end.outcome;
  }

  #run(operation: Operation, request: AnsweredRequest): Maybe<Outcome> {
    if (request.op === 'bind' || this.session.identity.kind === 'anonymous')
      return perform(operation, request, operation);
    return chain(isBindValid(this.services, this.session), (holds) => {
      if (!holds) throw new BindInvalidError();
      return perform(operation, request, operation);
    });
  }

  /** Adds an operation that runs. `message`: its request, when the operation may turn out to be long. */
  #track(operation: Operation, outcome: Promise<Outcome>, message?: RequestMessage): void {
    this.operations.add(operation);
    operation.requestBytes = this.#owner.takeRequestBytes();
    this.#answerWhenDone(operation, outcome, message);
  }

  #answerWhenDone(operation: Operation, outcome: Promise<Outcome>, message?: RequestMessage): void {
    outcome.then(
      (result) => this.#endOperation(operation, result.code, () => this.answer(operation.id, operation.op, result)),
      (error) => {
        if (error instanceof LongWork && message)
          return this.#answerWhenDone(operation, this.#runLong(operation, encodeLongRequest(message).bytes));
        const code = error instanceof LdapError ? error.code : ResultCode.other;
        this.#endOperation(operation, code, () => this.fail(operation.id, operation.op, error));
      },
    );
  }

  #endOperation(operation: Operation, code: number, answer: () => void): void {
    this.operations.endOperation(operation, code);
    if (!operation.isSilent) answer();
    this.#owner.onRequestEnded(operation.requestBytes);
  }

  fail(id: number, op: Request['op'], error: unknown): void {
    if (error instanceof BindInvalidError) this.#owner.disconnect('strongerAuthRequired', error.message);
    else if (error instanceof PlaintextError) this.#owner.disconnect('protocolError', error.message);
    else if (error instanceof ProtocolError)
      this.#owner.handleProtocolError(Object.assign(error, { messageId: id, op }));
    else this.answer(id, op, failureOutcome(error, this.services));
  }

  answer(id: number, op: Request['op'], outcome: Outcome): void {
    if (this.#owner.isClosing) return;
    this.#replies.sendResult(id, op, outcome);
    this.#owner.onResponseWritten();
  }
}
