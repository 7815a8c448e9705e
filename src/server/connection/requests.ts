import { bufferOf } from '../../ldap/bytes.js';
import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import { chain, isPromise, LongWork, type Maybe } from '../../partition/index.js';
import { decodeRequest } from '../../protocol/decode.js';
import { writeNotice } from '../../protocol/encode.js';
import type { BindRequest, Request, RequestMessage } from '../../protocol/ldap-messages.js';
import { ABORTED_TRANSACTION, ExtendedOid } from '../../protocol/oids.js';
import { ProtocolError } from '../../protocol/reader.js';
import { type EncodedRequest, encodeLongRequest, makeLongRequest } from '../long/encoded-request.js';
import { runForwarded } from '../long/forwarded.js';
import { ConnectionReply } from '../long/run-long-request.js';
import { formatRequestChange } from '../observation/change-text.js';
import { isUnindexed } from '../observation/observation.js';
import { describeRequest } from '../observation/request-description.js';
import { type AnsweredRequest, perform } from '../operations/perform.js';
import { needsNoStore } from '../operations/search.js';
import { enqueue } from '../operations/transaction.js';
import type { LongResult } from '../processes/long-request.js';
import { PrimaryNeeded } from '../processes/replica-states.js';
import { refusalByKind } from '../request/access.js';
import type { Transport } from '../request/context.js';
import { failureOutcome, Operation, type OperationScope, type RequestMemory } from '../request/operation.js';
import { isBindValid } from '../request/validity.js';
import { isWrite } from '../services/acknowledgements.js';
import type { Services } from '../services/services.js';
import { decodeLimits } from '../settings/decode-limits.js';
import { readControls } from '../words/controls.js';
import { orLastKnown } from '../words/last-known.js';
import { type Outcome, outcome, SUCCESS } from '../words/outcome.js';
import { Session } from '../words/session.js';
import { BindInvalidError, messageIdInUseError, PlaintextError } from './connection-errors.js';
import type { LongAdmission } from './long-admission.js';
import { OutstandingOperations } from './operations.js';
import type { Output } from './output.js';
import { Replies } from './replies.js';

/** Most memory of a request that waits for changes, in bytes: the budget of requests leaves it out. */
const MAX_FOLLOWED_BYTES = 256 * 1024;

/** A received request: decoded, or still encoded when it is long. */
export type ReceivedRequest = RequestMessage | EncodedRequest;

export interface RequestsOwner extends Transport {
  readonly services: Services;
  readonly longAdmission: LongAdmission;
  /** The user; of an anonymous client, its network. */
  readonly identity: string;
  /** Whether no more responses may be sent. */
  readonly isClosing: boolean;
  /** `performance.now()` when the last bytes of the client arrived. */
  readonly receivedAt: number;
  /** Returns the memory of the request that begins. The caller passes it to `onRequestEnded` later. */
  takeRequestMemory(): RequestMemory | undefined;
  onResponseWritten(): void;
  /** Called when a request that could not be answered at once has ended. */
  onRequestEnded(memory: RequestMemory | undefined): void;
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
  #begunCount = 0;

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
    this.session.transactions.onAborted = (identifier, reason) => {
      if (owner.isClosing) return;
      writeNotice(output.writer, ABORTED_TRANSACTION, ResultCode.unwillingToPerform, reason, Buffer.from(identifier));
    };
  }

  beginRequest(message: ReceivedRequest): void {
    this.services.statistics.operations['bytes' in message ? message.op : message.request.op]++;
    if ('bytes' in message) this.#startLong(message);
    else this.#beginShort(message);
  }

  #beginShort(message: RequestMessage): void {
    const { request } = message;
    if (request.op !== 'unbind' && request.op !== 'abandon') {
      this.#start(message, request);
      return;
    }
    this.#reportEnd(this.#newOperation(message.id, request.op), SUCCESS, message);
    if (request.op === 'unbind') this.#owner.unbind();
    else this.operations.abandon(request.target);
  }

  #newOperation(id: number, op: Request['op']): Operation {
    const operation = new Operation(this.#scope, id, op, this.#owner.receivedAt);
    operation.number = ++this.#begunCount;
    return operation;
  }

  #start(message: RequestMessage, request: AnsweredRequest): void {
    const { id, controls } = message;
    if (request.op === 'bind') this.session.beginBind();
    const operation = this.#newOperation(id, request.op);
    try {
      if (this.operations.isOutstanding(id)) throw messageIdInUseError(id);
      operation.controls = readControls(request.op, controls);
      const result = this.#runWhereDue(operation, request, message);
      if (isPromise(result)) this.#track(operation, result, message);
      else this.#answer(operation, result, message);
    } catch (error) {
      if (error instanceof LongWork) this.#startLong(encodeLongRequest(message), operation);
      else this.#fail(operation, error, message);
    }
  }

  #startLong(request: EncodedRequest, operation = this.#newOperation(request.id, request.op)): void {
    const { id, op } = request;
    const refusal = this.operations.isOutstanding(id) ? messageIdInUseError(id) : this.kindRefusal(op);
    if (refusal) this.#fail(operation, refusal);
    else if (op !== 'search' && op !== 'compare' && this.services.primaryLink)
      this.#track(operation, this.#forward(operation, request.bytes));
    else this.#track(operation, this.#runLong(operation, request));
  }

  /** Returns the error that refuses every operation of the kind `op` in this session; undefined: none. */
  kindRefusal(op: Request['op']): LdapError | undefined {
    return refusalByKind(this.#scope, op);
  }

  /** Runs the request when it is admitted, in `services.longWorker` if there is one. */
  #runLong(operation: Operation, { bytes, elementCount }: EncodedRequest): Promise<Outcome> {
    return this.#owner.longAdmission.run(this.#owner.identity, elementCount, operation, async () => {
      const { longWorker, acknowledgements } = this.services;
      if (longWorker) return acknowledgements.run(operation, async () => this.#runInWorker(operation, bytes));
      operation.message = decodeRequest(bufferOf(bytes), 0, bytes.length, decodeLimits(this.services.config));
      const { request, controls } = operation.message;
      operation.controls = readControls(request.op, controls);
      return this.#run(operation, request as AnsweredRequest);
    });
  }

  /** Sends the messages that the worker returns unchanged. */
  async #runInWorker(operation: Operation, bytes: Uint8Array<ArrayBuffer>): Promise<Outcome> {
    const { services, session } = this;
    if (!(await isBindValid(services, session))) throw new BindInvalidError();
    const request = makeLongRequest(operation, bytes);
    const end = await services.longWorker!.run(
      request,
      new ConnectionReply(operation, this.#output, (error) => this.#replies.failEntry(error)),
    );
    if (session.identity === request.identity) session.identity = end.identity;
    return this.#takeEnd(operation, end);
  }

  /** Takes over what another thread or server tells of an operation that it has run. */
  #takeEnd(operation: Operation, end: LongResult): Outcome {
    const { services } = this;
    services.partition.renewReads();
    operation.entryCount += end.entryCount;
    services.statistics.entriesSent += end.entryCount;
    operation.referenceCount += end.referenceCount;
    operation.sentBytes += end.sentBytes;
    const { searchReport } = end;
    operation.searchReport = searchReport && { ...searchReport, advice: () => searchReport.advice };
    operation.proxiedDn = end.proxiedDn;
    operation.description = end.description;
    operation.changeText = end.changeText;
    return end.outcome;
  }

  /** Runs an operation here, or at the primary if this server is a replica. */
  #runWhereDue(operation: Operation, request: AnsweredRequest, message: RequestMessage): Maybe<Outcome> {
    if (request.op === 'extended' && request.oid === ExtendedOid.forward) return runForwarded(operation, request.value);
    if (operation.controls.transaction !== undefined) return enqueue(operation, message);
    const isForPrimary = request.op === 'compare' && operation.controls.dontUseCopy;
    if (request.op !== 'bind' && !isWrite(request) && !isForPrimary) return this.#perform(operation, request);
    if (!this.services.primaryLink) return this.#run(operation, request);
    if (request.op === 'bind') return this.#bindAtReplica(operation, request, message);
    return this.#forward(operation, encodeLongRequest(message).bytes);
  }

  async #forward(operation: Operation, bytes: Uint8Array<ArrayBuffer>): Promise<Outcome> {
    const { services, session } = this;
    const request = makeLongRequest(operation, bytes);
    const { identity } = session;
    const end = await services.primaryLink!.run(request);
    const isBound = !request.isBind || end.outcome.code === ResultCode.success;
    if (session.identity === identity && isBound) session.identity = end.identity;
    return this.#takeEnd(operation, end);
  }

  /** A bind that fails, or that has something to record, is repeated at the primary while that is reached. */
  async #bindAtReplica(operation: Operation, request: BindRequest, message: RequestMessage): Promise<Outcome> {
    const link = this.services.primaryLink!;
    const tryHere = async (): Promise<Outcome | undefined> => {
      try {
        const result = await this.#run(operation, request);
        return result.code === ResultCode.invalidCredentials && link.isReached ? undefined : result;
      } catch (error) {
        if (error instanceof PrimaryNeeded) return undefined;
        throw error;
      }
    };
    const result = await tryHere();
    if (result) return result;
    try {
      return await this.#forward(operation, encodeLongRequest(message).bytes);
    } catch (error) {
      if (link.isReached) throw error;
      return (await tryHere()) ?? outcome('unavailable', 'the primary was lost; bind again');
    }
  }

  #run(operation: Operation, request: AnsweredRequest): Maybe<Outcome> {
    return this.services.acknowledgements.run(request, () => this.#perform(operation, request));
  }

  #perform(operation: Operation, request: AnsweredRequest): Maybe<Outcome> {
    if (request.op === 'bind' || this.session.identity.kind === 'anonymous')
      return perform(operation, request, operation);
    const isValid = orLastKnown(isBindValid(this.services, this.session), true, () => needsNoStore(operation, request));
    return chain(isValid, (holds) => {
      if (!holds) return this.#performIfValidAtPrimary(operation, request);
      return perform(operation, request, operation);
    });
  }

  /** The primary of a replica may have stored the password with a stronger hash: it knows whether the bind is valid. */
  async #performIfValidAtPrimary(operation: Operation, request: AnsweredRequest): Promise<Outcome> {
    const { session, services } = this;
    const { identity } = session;
    const question = { op: 'extended', oid: ExtendedOid.whoAmI, value: undefined } as const;
    const { bytes } = encodeLongRequest({ id: operation.id, request: question, controls: [] });
    const end = await services.primaryLink?.run(makeLongRequest(operation, bytes)).catch(() => undefined);
    if (!end) throw new BindInvalidError();
    if (session.identity === identity) session.identity = end.identity;
    return perform(operation, request, operation);
  }

  /** Adds an operation that runs. `message`: its request, when the operation may turn out to be long. */
  #track(operation: Operation, result: Promise<Outcome>, message?: RequestMessage): void {
    this.operations.add(operation);
    operation.requestMemory = this.#owner.takeRequestMemory();
    operation.onFollowing = () => this.#freePlace(operation);
    this.#answerWhenDone(operation, result, message);
  }

  /** Frees what a search that waits for changes does not need. Its connection is read, whatever the limits. */
  #freePlace(operation: Operation): void {
    const { bytes = 0, overheadBytes = 0 } = operation.requestMemory ?? {};
    if (bytes + overheadBytes > MAX_FOLLOWED_BYTES)
      throw new LdapError('adminLimitExceeded', 'the request is too large to wait for changes; use a shorter filter');
    operation.onFollowing = undefined;
    this.operations.placeCount--;
    this.#owner.onRequestEnded(operation.requestMemory);
    operation.requestMemory = undefined;
  }

  #answerWhenDone(operation: Operation, outcomePromise: Promise<Outcome>, message?: RequestMessage): void {
    outcomePromise.then(
      (result) => this.#endOperation(operation, result.code, () => this.#answer(operation, result, message)),
      (error) => {
        if (error instanceof LongWork && message)
          return this.#answerWhenDone(operation, this.#runLong(operation, encodeLongRequest(message)));
        const code = error instanceof LdapError ? error.code : ResultCode.other;
        this.#endOperation(operation, code, () => this.#fail(operation, error, message));
      },
    );
  }

  #endOperation(operation: Operation, code: number, answer: () => void): void {
    this.operations.endOperation(operation, code);
    answer();
    this.#owner.onRequestEnded(operation.requestMemory);
  }

  /** Answers a request that was not begun. */
  refuse(id: number, op: Request['op'], result: Outcome): void {
    this.#answer(this.#newOperation(id, op), result);
  }

  #fail(operation: Operation, error: unknown, message?: RequestMessage): void {
    if (operation.isSilent) this.#reportEnd(operation, outcome('canceled', ''), message);
    else if (error instanceof BindInvalidError || error instanceof PlaintextError) {
      const result = error instanceof BindInvalidError ? 'strongerAuthRequired' : 'protocolError';
      this.#reportEnd(operation, outcome(result, error.message), message);
      this.#owner.disconnect(result, error.message);
    } else if (error instanceof ProtocolError)
      this.#owner.handleProtocolError(Object.assign(error, { messageId: operation.id, op: operation.op }));
    else this.#answer(operation, failureOutcome(error, this.services), message);
  }

  #answer(operation: Operation, result: Outcome, message?: RequestMessage): void {
    if (operation.isSilent || this.#owner.isClosing) {
      this.#reportEnd(operation, result, message, true);
      return;
    }
    this.#replies.sendResult(operation, result);
    this.#reportEnd(operation, result, message);
    this.#owner.onResponseWritten();
  }

  /** Counts an ended operation and reports the operation to the observers. */
  #reportEnd(operation: Operation, result: Outcome, received?: RequestMessage, isAbandoned = operation.isSilent): void {
    const { statistics, observation, schema } = this.services;
    const { op, waitMs, entryCount, sentBytes } = operation;
    const workMs = performance.now() - operation.startedAt;
    statistics.countEnd(op, result.code, workMs, waitMs);
    statistics.referencesSent += operation.referenceCount;
    statistics.bytesSent += sentBytes;
    if (operation.searchReport && isUnindexed(operation.searchReport, entryCount)) statistics.unindexedSearches++;
    if (!observation.isActive) return;
    const message = received ?? operation.message;
    const actingDn = operation.proxiedDn ?? this.session.dn;
    observation.reportOperation({
      endedAt: Date.now(),
      connectionNumber: this.session.connectionNumber,
      operationNumber: operation.number,
      op,
      address: this.#owner.address,
      isEncrypted: this.#owner.isEncrypted,
      boundAs: operation.behalfOf ?? this.session.dn,
      proxiedDn: operation.proxiedDn,
      result,
      isAbandoned,
      entryCount,
      sentBytes,
      waitMs,
      workMs,
      search: operation.searchReport,
      bindFailure: operation.bindFailure,
      description: () =>
        operation.description ?? (message && describeRequest(message.request, message.controls, schema, actingDn)),
      changeText: () =>
        // An operation of a transaction has changed nothing yet.
        message && operation.changeText === undefined && operation.controls.transaction === undefined
          ? formatRequestChange(message.request, schema, actingDn, operation.givenNumbers)
          : operation.changeText,
    });
  }
}
