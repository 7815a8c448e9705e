import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { LdapError, ResultCode, type ResultName } from '../../ldap/error.js';
import { LongWork } from '../../partition/index.js';
import type { Asker } from '../../partition/read/search-params.js';
import { encodeResponse, writeDisconnection, writeResult } from '../../protocol/encode.js';
import { ProtocolError } from '../../protocol/error.js';
import type { DecodeLimits } from '../../protocol/limits.js';
import type { Control, ExtendedRequest, Request, RequestMessage } from '../../protocol/messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import { responseOp } from '../../protocol/tags.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { abandon } from '../operations/abandon.js';
import { type AnsweredRequest, perform } from '../operations/perform.js';
import { refusalByKind } from '../request/access.js';
import { stillHolds } from '../request/validity.js';
import type { Services } from '../services/services.js';
import { NO_CONTROLS, readControls } from '../words/controls.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { networkOf } from '../words/network.js';
import type { Outcome } from '../words/outcome.js';
import { ANONYMOUS, Session } from '../words/session.js';
import type { Budget } from './budget.js';
import { Deadlines } from './deadlines.js';
import { inUse, PlainBytes, SessionEnded } from './errors.js';
import { failureOutcome } from './failure.js';
import { type Arrived, Intake, type IntakeOwner } from './intake.js';
import { CutMessage } from './long-messages.js';
import { LongReply } from './long-reply.js';
import { errandOf, type LongRequest, longRequestOf } from './long-request.js';
import { Operation, type OperationOwner } from './operation.js';
import { OutstandingOperations } from './operations.js';
import { Output } from './output.js';
import { startReading } from './reading.js';
import type { Rounds, Sender } from './rounds.js';
import { acceptTls, isEncrypted } from './tls.js';
import type { Unsent } from './unsent.js';

/** What a connection needs of its server. */
export interface ConnectionOwner {
  readonly services: Services;
  /** For StartTLS; undefined when the server has no certificate. */
  readonly secureContext: SecureContext | undefined;
  readonly decodeLimits: DecodeLimits;
  /** For the requests of all connections. */
  readonly requestBudget: Budget;
  /** Replies of all connections. */
  readonly unsent: Unsent;
  /** Whose requests begin when. */
  readonly rounds: Rounds;
  /** Called before anything that has just arrived is looked at. */
  bytesArrived(): void;
  connectionClosed(connection: Connection): void;
}

/** Requests of one connection that are begun before others get their turn. */
const TURN = 64;

/**
 * What a client gets at a shutdown to take the last answers and close: bytes that it sent meanwhile would make the
 * system drop them.
 */
const LINGER_MS = 300;

const IGNORE = (): void => undefined;

type State = 'open' | 'draining' | 'closing' | 'closed';

/**
 * One client: bytes become messages, messages operations, outcomes bytes. Requests begin in the order in which they
 * came; those that have to wait for something go on side by side. A bind or StartTLS begins when everything before it
 * has ended, and what comes after it waits (RFC 4511 §4.2.1, §4.14).
 */
export class Connection implements OperationOwner, IntakeOwner, Sender {
  /** Where its server keeps it. */
  seat = -1;
  readonly services: Services;
  readonly session = new Session();
  readonly #owner: ConnectionOwner;
  readonly #operations = new OutstandingOperations();
  readonly #output: Output;
  #socket: Socket;
  readonly #intake: Intake;
  #state: State = 'open';
  /** A request that has to wait until all others have ended. */
  #waiting: Arrived | undefined;
  /** A bind or a TLS handshake is under way: nothing else begins. */
  #barrier = false;
  #paused = false;
  /** It goes on when its replies have room. */
  #awaitsRoom = false;
  /** The rest of what has arrived is taken up in another turn. */
  #turnScheduled = false;
  #messages = 0;
  readonly #since: Deadlines;

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#owner = owner;
    this.services = owner.services;
    const { limits } = this.services.config;
    this.#since = new Deadlines(limits);
    this.#intake = new Intake(this, owner.requestBudget, owner.decodeLimits);
    this.#socket = this.#listen(socket);
    this.#output = new Output(this.#socket, limits.unsentBytes, owner.unsent);
  }

  get encrypted(): boolean {
    return isEncrypted(this.#socket);
  }

  get confidential(): boolean {
    return this.encrypted || this.#socket.remoteAddress === undefined;
  }

  get asker(): Asker {
    return this.#output;
  }

  get network(): string {
    return networkOf(this.#socket.remoteAddress);
  }

  get outstanding(): number {
    return this.#operations.size;
  }

  /** The socket may come paused, as one does that might have gone to another process. */
  #listen(accepted: Socket): Socket {
    const socket = startReading(accepted, this.#onData);
    socket.setNoDelay(true);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    return socket;
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#since.active = performance.now();
    this.#owner.bytesArrived();
    this.#intake.push(chunk);
    if (!this.#turnScheduled) this.#process();
  };

  readonly #onError = (error: NodeJS.ErrnoException): void => {
    this.services.log.debug({ connection: this.session.connection, code: error.code }, 'connection failed');
    this.destroy();
  };

  readonly #onClose = (): void => {
    this.#state = 'closed';
    this.#operations.abortAll();
    this.#output.close();
    this.#intake.close();
    this.#owner.connectionClosed(this);
    // V8 may find late that a closed socket is garbage; what hangs on it shall not wait with it.
    this.#socket.removeAllListeners().on('error', IGNORE);
  };

  /** It is its turn again. */
  begin(): void {
    this.#process();
  }

  /** Begins what has arrived, as far as it may. Everything answered on the way goes out with one write. */
  #process(): void {
    this.#turnScheduled = false;
    const { rounds } = this.#owner;
    const began = performance.now();
    Output.relieve(began);
    for (let begun = 0; this.#mayBegin(); begun++) {
      const spent = begun === 0 ? 0 : performance.now() - began;
      if (begun === TURN || spent > rounds.left) {
        this.#turnScheduled = true;
        rounds.wait(this, spent);
        break;
      }
      const message = this.#waiting ?? this.#next();
      if (!message) break;
      this.#waiting = this.#mustWait(message) ? message : undefined;
      if (this.#waiting) break;
      this.#begin(message);
      if (this.#intake.taken > 0) this.#intake.release(this.#takenBytes());
    }
    this.#steerReading();
  }

  #mayBegin(): boolean {
    if (this.#state !== 'open' || this.#barrier) return false;
    if (this.#operations.size >= this.services.config.limits.requestsInFlight || this.#output.full) return false;
    return this.#waiting !== undefined || this.#intake.mayTake;
  }

  #mustWait(message: Arrived): boolean {
    return 'request' in message && message.request.op === 'bind' && this.#operations.size > 0;
  }

  /**
   * Reads from the socket only while what it brings may begin, or nothing has come: a client that closes is noticed
   * while its requests wait.
   */
  #steerReading(): void {
    const open = this.#state === 'open';
    const may = this.#mayBegin();
    if (!may) this.#intake.pass();
    const stop =
      open &&
      (this.#turnScheduled || this.#intake.waits || ((this.#waiting !== undefined || !may) && !this.#mayReadAhead()));
    if (stop !== this.#paused && this.#state !== 'closed') {
      this.#paused = stop;
      if (stop) this.#socket.pause();
      else this.#socket.resume();
    }
    if (open && !this.#awaitsRoom && this.#output.full) this.#awaitRoom();
    if (stop || !this.#intake.begun) this.#since.partial = 0;
    else if (this.#since.partial === 0) this.#since.partial = this.#since.active;
  }

  #awaitRoom(): void {
    this.#awaitsRoom = true;
    void chain(this.#output.room(), () => {
      this.#awaitsRoom = false;
      this.#goOn();
    });
  }

  #mayReadAhead(): boolean {
    return !this.#intake.begun && this.#intake.mayTake && !this.#output.full && this.#since.handshake === 0;
  }

  #goOn(): void {
    if ((this.#paused || this.#waiting !== undefined) && !this.#turnScheduled) this.#process();
  }

  /** The next message; undefined until more arrives or when the connection ends over it. */
  #next(): Arrived | undefined {
    for (;;) {
      try {
        const message = this.#intake.next();
        if (message) this.#came();
        return message;
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        this.#refuse(error);
        if (this.#state !== 'open') return undefined;
      }
    }
  }

  /** A request has come. */
  #came(): void {
    this.#messages++;
    this.#since.partial = 0;
    this.#since.silent = 0;
  }

  refuseEarly(id: number, op: AnsweredRequest['op'], error: LdapError): void {
    this.#came();
    this.services.statistics.operations[op]++;
    this.#fail(id, op, error);
  }

  get ready(): boolean {
    return this.#mayBegin();
  }

  wake(): void {
    this.#goOn();
  }

  /** A message that cannot be decoded (RFC 4511 §4.1.1). A client that speaks another protocol gets no answer. */
  #refuse(error: ProtocolError): void {
    if (error.op === 'bind') this.session.identity = ANONYMOUS;
    const op = error.op && responseOp(error.op);
    if (error.messageId !== undefined && op)
      this.#answer(error.messageId, error.op!, failureOutcome(error, this.services));
    if (!error.fatal && op) return;
    if (this.#messages === 0 && error.foreign) {
      this.services.log.info(
        { connection: this.session.connection, port: this.#socket.localPort },
        `connection refused: the client speaks ${error.foreign}`,
      );
      this.destroy();
    } else this.disconnect('protocolError', error.message);
  }

  #begin(message: Arrived): void {
    this.services.statistics.operations['bytes' in message ? message.op : message.request.op]++;
    if ('bytes' in message) this.#startLong(message);
    else this.#beginShort(message);
  }

  #beginShort({ id, request, controls }: RequestMessage): void {
    if (request.op === 'unbind') this.#unbind();
    else if (request.op === 'abandon') abandon(this.#operations, request);
    else this.#start(id, request, controls);
  }

  #start(id: number, request: AnsweredRequest, controls: readonly Control[]): void {
    // RFC 4513 §4: whatever becomes of the bind.
    if (request.op === 'bind') this.session.identity = ANONYMOUS;
    try {
      if (this.#operations.has(id)) throw inUse(id);
      const operation = new Operation(this, id, request.op, readControls(request.op, controls));
      const outcome = this.#run(operation, request);
      if (isPromise(outcome)) this.#await(operation, outcome, { id, request, controls });
      else this.#answer(id, request.op, outcome, request);
    } catch (error) {
      if (error instanceof LongWork) this.#startLong(longRequestOf({ id, request, controls }));
      else this.#fail(id, request.op, error);
    }
  }

  #startLong({ id, op, bytes }: LongRequest): void {
    const operation = new Operation(this, id, op, NO_CONTROLS);
    const refusal = this.#operations.has(id) ? inUse(id) : refusalByKind(this.session.identity, op);
    if (refusal) this.#fail(id, op, refusal);
    else this.#await(operation, this.#runLong(operation, bytes));
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
    operation.bytes = this.#takenBytes();
    if (operation.op === 'bind') this.#barrier = true;
    this.#whenDone(operation, outcome, message);
  }

  #whenDone(operation: Operation, outcome: Promise<Outcome>, message?: RequestMessage): void {
    outcome.then(
      (result) => this.#ended(operation, result.code, () => this.#answer(operation.id, operation.op, result)),
      (error) => {
        if (error instanceof LongWork && message)
          return this.#whenDone(operation, this.#runLong(operation, longRequestOf(message).bytes));
        const code = error instanceof LdapError ? error.code : ResultCode.other;
        this.#ended(operation, code, () => this.#fail(operation.id, operation.op, error));
      },
    );
  }

  #ended(operation: Operation, code: number, answer: () => void): void {
    if (operation.op === 'bind') this.#barrier = false;
    this.#operations.end(operation, code);
    this.#intake.release(operation.bytes);
    if (!operation.silent) answer();
    if (this.#state === 'draining') this.#drained();
    else this.#goOn();
  }

  /** Bytes of the request that begins, for who is to release them. */
  #takenBytes(): number {
    const bytes = this.#intake.taken;
    this.#intake.taken = 0;
    return bytes;
  }

  #fail(id: number, op: Request['op'], error: unknown): void {
    if (error instanceof SessionEnded) this.disconnect('strongerAuthRequired', error.message);
    else if (error instanceof PlainBytes) this.disconnect('protocolError', error.message);
    else if (error instanceof ProtocolError) this.#refuse(Object.assign(error, { messageId: id, op }));
    else this.#answer(id, op, failureOutcome(error, this.services));
  }

  #answer(id: number, op: Request['op'], outcome: Outcome, request?: Request): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    this.#since.active = performance.now();
    const response = responseOp(op)!;
    const { writer } = this.#output;
    if (response === 'extendedResponse') encodeResponse(writer, { id, response: { op: response, ...outcome } });
    else writeResult(writer, id, response, outcome, outcome.controls);
    if (this.#since.handshake > 0 && isStartTls(request)) this.#encrypt().catch((error: Error) => this.#onError(error));
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
      this.destroy();
    }
    throw error;
  }

  sendReference(messageId: number, urls: readonly string[]): Maybe<void> {
    encodeResponse(this.#output.writer, { id: messageId, response: { op: 'searchReference', urls } });
    return this.#output.room();
  }

  cancel(target: number, own: number): Maybe<void> {
    return this.#operations.cancel(target, own);
  }

  startTls(): void {
    if (!this.#owner.secureContext) throw new LdapError('protocolError', 'StartTLS: the server has no certificate');
    if (this.#intake.begun) throw new PlainBytes();
    this.#barrier = true;
    this.#since.handshake = performance.now();
  }

  /**
   * The response has been written. What the plain socket brings before it has left was not sent under TLS: the
   * connection ends.
   */
  async #encrypt(): Promise<void> {
    await this.#output.drained();
    if (this.#state !== 'open') return;
    const plain = this.#socket;
    if (plain.readableLength > 0 || this.#intake.begun)
      return this.disconnect('protocolError', new PlainBytes().message);
    plain.off('data', this.#onData).off('error', this.#onError).off('close', this.#onClose);
    const socket = acceptTls(plain, this.#owner.secureContext!);
    this.#output.moveTo(socket);
    this.#intake.beginAnew();
    socket.once('secure', () => {
      this.#since.handshake = 0;
      this.#barrier = false;
      this.#process();
    });
    this.#paused = false;
    this.#socket = this.#listen(socket);
  }

  /**
   * The server shuts down: lets operations end, then tells the client. An idle client is told nothing, as libraries
   * take the end of an idle connection for a reason to connect again, and a Notice of Disconnection for the answer to
   * the next request.
   */
  drain(): void {
    if (this.#state !== 'open') return;
    this.#state = 'draining';
    if (this.#operations.size === 0) this.#close();
  }

  #drained(): void {
    if (this.#operations.size === 0) this.disconnect('unavailable', 'the server is shutting down');
  }

  /** Sends a Notice of Disconnection (RFC 4511 §4.4.1) and ends the connection. */
  disconnect(result: ResultName, message: string): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    writeDisconnection(this.#output.writer, ResultCode[result], message);
    this.#close();
  }

  /**
   * The client waits for nothing more. Without TLS, which says goodbye, there is no need to wait for its side to close.
   */
  #unbind(): void {
    this.#output.flush();
    if (this.#output.unsent > 0 || this.encrypted) this.#close();
    else this.destroy();
  }

  /** Ends the connection when what was written has gone. At a shutdown the client has `LINGER_MS` to close its side. */
  #close(): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    const last = this.#state === 'draining';
    this.#state = 'closing';
    this.#since.closing = performance.now();
    this.#operations.abortAll();
    void chain(this.#output.drained(), () => {
      this.#socket.end();
      if (last) setTimeout(() => this.destroy(), LINGER_MS);
    });
  }

  destroy(): void {
    this.#state = 'closed';
    this.#operations.abortAll();
    this.#output.close();
    this.#socket.destroy();
  }

  /** Ends the connection when one of its times is up. */
  sweep(now: number): void {
    const expiry = this.#since.expired(now, this.#output.sentAt, this.#operations.size > 0);
    if (!expiry) return;
    this.services.log.info({ connection: this.session.connection, reason: expiry.why }, 'connection ended');
    if (expiry.end === 'told') this.disconnect('unavailable', expiry.why);
    else if (expiry.end === 'closed') this.#close();
    else this.destroy();
  }
}

function isStartTls(request: Request | undefined): request is ExtendedRequest {
  return request?.op === 'extended' && request.oid === ExtendedOid.startTls;
}
