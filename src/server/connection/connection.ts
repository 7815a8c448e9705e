import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import { writeDisconnection } from '../../protocol/encode.js';
import type { DecodeLimits } from '../../protocol/limits.js';
import { ProtocolError } from '../../protocol/protocol-error.js';
import { responseOp } from '../../protocol/tags.js';
import type { AnsweredRequest } from '../operations/perform.js';
import type { Services } from '../services/services.js';
import { chain } from '../words/maybe.js';
import { networkOf } from '../words/network.js';
import type { Session } from '../words/session.js';
import type { Budget } from './budget.js';
import { PlainBytes } from './connection-errors.js';
import { Deadlines } from './deadlines.js';
import { failureOutcome } from './failure.js';
import { type Arrived, Intake, type IntakeOwner } from './intake.js';
import { Output } from './output.js';
import { startReading } from './reading.js';
import { Requests, type RequestsOwner } from './requests.js';
import type { Rounds, Sender } from './rounds.js';
import { acceptTls, isEncrypted, strengthOf } from './tls.js';
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
 * One client, from its bytes to its end. Bytes become messages, and these begin as `Requests` in the order in which
 * they came, as far as answers have room. A bind or StartTLS begins when everything before it has ended, and what comes
 * after it waits (RFC 4511 §4.2.1, §4.14).
 */
export class Connection implements RequestsOwner, IntakeOwner, Sender {
  /** Where its server keeps it. */
  seat = -1;
  readonly services: Services;
  readonly #owner: ConnectionOwner;
  readonly #requests: Requests;
  readonly #output: Output;
  #socket: Socket;
  readonly #intake: Intake;
  #state: State = 'open';
  /** A request that has to wait until all others have ended. */
  #waiting: Arrived | undefined;
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
    this.#requests = new Requests(this, this.#output);
  }

  get encrypted(): boolean {
    return isEncrypted(this.#socket);
  }

  get confidential(): boolean {
    return this.encrypted || this.#socket.remoteAddress === undefined;
  }

  get address(): string | undefined {
    return this.#socket.remoteAddress;
  }

  get strength(): number {
    return strengthOf(this.#socket);
  }

  get network(): string {
    return networkOf(this.#socket.remoteAddress);
  }

  /** Requests in flight, at most. */
  get #mostInFlight(): number {
    return this.session.rights?.limits.inFlight || this.services.config.limits.requestsInFlight;
  }

  get session(): Session {
    return this.#requests.session;
  }

  refusalOf(op: AnsweredRequest['op']): LdapError | undefined {
    return this.#requests.refusalOf(op);
  }

  get isClosing(): boolean {
    return this.#state === 'closing' || this.#state === 'closed';
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
    this.#requests.abortAll();
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
      this.#requests.begin(message);
      if (this.#intake.taken > 0) this.#intake.release(this.takenBytes());
    }
    this.#steerReading();
  }

  #mayBegin(): boolean {
    if (this.#state !== 'open' || this.#requests.binding || this.#since.handshake > 0) return false;
    if (this.#requests.outstanding >= this.#mostInFlight || this.#output.full) return false;
    return this.#waiting !== undefined || this.#intake.mayTake;
  }

  #mustWait(message: Arrived): boolean {
    return 'request' in message && message.request.op === 'bind' && this.#requests.outstanding > 0;
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
    void chain(this.#output.waitForDrain(), () => {
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
        this.refuse(error);
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
    this.#requests.fail(id, op, error);
  }

  get ready(): boolean {
    return this.#mayBegin();
  }

  wake(): void {
    this.#goOn();
  }

  /** A message that cannot be decoded (RFC 4511 §4.1.1). A client that speaks another protocol gets no answer. */
  refuse(error: ProtocolError): void {
    if (error.op === 'bind') this.session.beginBind();
    const op = error.op && responseOp(error.op);
    if (error.messageId !== undefined && op)
      this.#requests.answer(error.messageId, error.op!, failureOutcome(error, this.services));
    if (!error.fatal && op) return;
    if (this.#messages === 0 && error.foreign) {
      this.services.log.info(
        { connection: this.session.connection, port: this.#socket.localPort },
        `connection refused: the client speaks ${error.foreign}`,
      );
      this.destroy();
    } else this.disconnect('protocolError', error.message);
  }

  takenBytes(): number {
    const bytes = this.#intake.taken;
    this.#intake.taken = 0;
    return bytes;
  }

  answered(): void {
    this.#since.active = performance.now();
    // Nothing else is answered before the handshake.
    if (this.#since.handshake > 0) this.#encrypt().catch((error: Error) => this.#onError(error));
  }

  ended(bytes: number): void {
    this.#intake.release(bytes);
    if (this.#state === 'draining') this.#drained();
    else this.#goOn();
  }

  startTls(): void {
    if (!this.#owner.secureContext) throw new LdapError('protocolError', 'StartTLS: the server has no certificate');
    if (this.#intake.begun) throw new PlainBytes();
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
    if (this.#requests.outstanding === 0) this.#close();
  }

  #drained(): void {
    if (this.#requests.outstanding === 0) this.disconnect('unavailable', 'the server is shutting down');
  }

  /** Sends a Notice of Disconnection (RFC 4511 §4.4.1) and ends the connection. */
  disconnect(result: ResultName, message: string): void {
    if (this.isClosing) return;
    writeDisconnection(this.#output.writer, ResultCode[result], message);
    this.#close();
  }

  /**
   * The client waits for nothing more. Without TLS, which says goodbye, there is no need to wait for its side to close.
   */
  unbind(): void {
    this.#output.flush();
    if (this.#output.unsent > 0 || this.encrypted) this.#close();
    else this.destroy();
  }

  /** Ends the connection when what was written has gone. At a shutdown the client has `LINGER_MS` to close its side. */
  #close(): void {
    if (this.isClosing) return;
    const last = this.#state === 'draining';
    this.#state = 'closing';
    this.#since.closing = performance.now();
    this.#requests.abortAll();
    void chain(this.#output.drained(), () => {
      this.#socket.end();
      if (last) setTimeout(() => this.destroy(), LINGER_MS);
    });
  }

  destroy(): void {
    this.#state = 'closed';
    this.#requests.abortAll();
    this.#output.close();
    this.#socket.destroy();
  }

  /** Ends the connection when one of its times is up. */
  sweep(now: number): void {
    const expiry = this.#since.expired(now, this.#output.sentAt, this.#requests.outstanding > 0);
    if (!expiry) return;
    this.services.log.info({ connection: this.session.connection, reason: expiry.why }, 'connection ended');
    if (expiry.end === 'told') this.disconnect('unavailable', expiry.why);
    else if (expiry.end === 'closed') this.#close();
    else this.destroy();
  }
}
