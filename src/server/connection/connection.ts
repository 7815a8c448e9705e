import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import { chain } from '../../partition/index.js';
import { writeDisconnection } from '../../protocol/encode.js';
import type { DecodeLimits } from '../../protocol/limits.js';
import { ProtocolError } from '../../protocol/reader.js';
import { responseOp } from '../../protocol/tags.js';
import type { AnsweredRequest } from '../operations/perform.js';
import { failureOutcome, type RequestMemory } from '../request/operation.js';
import type { Services } from '../services/services.js';
import { clientNetwork } from '../words/network.js';
import type { Session } from '../words/session.js';
import type { Budget } from './budget.js';
import { PlaintextError } from './connection-errors.js';
import { Deadlines } from './deadlines.js';
import { Intake, type IntakeOwner } from './intake.js';
import type { LongAdmission } from './long-admission.js';
import { Output } from './output.js';
import { startReading } from './reading.js';
import { type ReceivedRequest, Requests, type RequestsOwner } from './requests.js';
import type { Rounds, Sender } from './rounds.js';
import type { UnsentTotal } from './send-queue.js';
import { acceptTls, cipherStrength, isEncrypted } from './tls.js';

export interface ConnectionOwner {
  readonly services: Services;
  /** The TLS certificate for StartTLS; undefined when the server has none. */
  readonly secureContext: SecureContext | undefined;
  readonly decodeLimits: DecodeLimits;
  readonly requestBudget: Budget;
  readonly longAdmission: LongAdmission;
  readonly unsentTotal: UnsentTotal;
  readonly rounds: Rounds;
  /** Called when bytes have arrived, before they are processed. */
  onBytesArrived(): void;
  onConnectionClosed(connection: Connection): void;
}

/** Most requests that a connection may begin before other connections are served. */
const MAX_REQUESTS_PER_TURN = 64;
/** Most of these that are not answered at once: their work follows the turn, so the time of the turn leaves it out. */
const MAX_UNANSWERED_PER_TURN = 4;

/**
 * Time that a client has at a shutdown to receive the last responses and close its side. The system would drop these
 * responses if the server closed the socket while bytes from the client were unread.
 */
const LINGER_MS = 300;

type State = 'open' | 'draining' | 'closing' | 'closed';

/**
 * A connection of a client. Decodes received bytes into requests and begins the requests in their order, while the
 * output is not full. A bind or StartTLS begins when all earlier requests have ended, and delays later ones (RFC 4511
 * §4.2.1, §4.14).
 */
export class Connection implements RequestsOwner, IntakeOwner, Sender {
  rosterIndex = -1;
  readonly services: Services;
  readonly #owner: ConnectionOwner;
  readonly #requests: Requests;
  readonly #output: Output;
  #socket: Socket;
  readonly #intake: Intake;
  readonly address: string | undefined;
  #state: State = 'open';
  /** A bind that waits until all earlier requests have ended. */
  #waitingBind: ReceivedRequest | undefined;
  #isPaused = false;
  /** Whether the connection continues when the output is no longer full. */
  #isAwaitingDrain = false;
  /** Whether the remaining received bytes will be processed in a later turn of `Rounds`. */
  #isRoundScheduled = false;
  #requestCount = 0;
  receivedAt = 0;
  readonly #deadlines: Deadlines;

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#owner = owner;
    this.services = owner.services;
    const { limits } = this.services.config;
    this.#deadlines = new Deadlines(limits);
    this.#socket = this.#listen(socket);
    this.address = this.#socket.remoteAddress;
    this.#output = new Output(this.#socket, limits.unsentBytes, owner.unsentTotal, () => this.identity);
    this.#requests = new Requests(this, this.#output);
    this.#intake = new Intake(this, this.#requests, owner.requestBudget, owner.decodeLimits);
    this.#report('opened');
  }

  #report(kind: 'opened' | 'closed'): void {
    const { address, isEncrypted, services } = this;
    if (!services.observation.isActive) return;
    const { connectionNumber } = this.session;
    const { localPort } = this.#socket;
    services.observation.reportConnection({ kind, connectionNumber, address, isEncrypted, localPort });
  }

  /** Whether requests have arrived that may not begin yet. */
  get isWaiting(): boolean {
    return this.#isPaused || this.#isRoundScheduled || this.#waitingBind !== undefined;
  }

  /** Whether the client has not received all responses yet. */
  get isUnread(): boolean {
    return this.#output.unsentBytes > 0;
  }

  get isEncrypted(): boolean {
    return isEncrypted(this.#socket);
  }

  get isConfidential(): boolean {
    return this.isEncrypted || this.address === undefined;
  }

  get cipherStrength(): number {
    return cipherStrength(this.#socket);
  }

  get network(): string {
    return clientNetwork(this.address);
  }

  get #maxOutstanding(): number {
    return this.session.rights?.limits.inFlight || this.services.config.limits.requestsInFlight;
  }

  /** Key of the bound user; without a bind of the client's network. */
  get identity(): string {
    const { key, identity } = this.session;
    return identity.kind === 'anonymous' ? `${key} ${this.network}` : key;
  }

  get session(): Session {
    return this.#requests.session;
  }

  get isClosing(): boolean {
    return this.#state === 'closing' || this.#state === 'closed';
  }

  /** Starts reading. A socket that could have been passed to another process arrives paused. */
  #listen(accepted: Socket): Socket {
    const socket = startReading(accepted, this.#onData);
    socket.setNoDelay(true);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    return socket;
  }

  readonly #onData = (chunk: Buffer): void => {
    this.receivedAt = performance.now();
    this.#deadlines.lastActiveAt = this.receivedAt;
    this.#owner.onBytesArrived();
    this.#intake.push(chunk);
    if (!this.#isRoundScheduled) this.#process();
  };

  readonly #onError = (error: NodeJS.ErrnoException): void => {
    this.services.log.debug({ connection: this.session.connectionNumber, code: error.code }, 'connection failed');
    this.destroy();
  };

  readonly #onClose = (): void => {
    this.#state = 'closed';
    this.#requests.operations.abortAll();
    this.session.transactions.abortAll();
    this.#output.close();
    this.#intake.close();
    this.#owner.onConnectionClosed(this);
    this.#report('closed');
    // V8 may collect a closed socket late. Without listeners the socket does not keep this connection in memory.
    this.#socket.removeAllListeners().on('error', () => undefined);
  };

  beginRequests(): void {
    this.#process();
  }

  /** Begins the received requests that may begin. Responses available at once are sent with one write. */
  #process(): void {
    this.#isRoundScheduled = false;
    const { rounds } = this.#owner;
    const { operations } = this.#requests;
    const maxOutstanding = operations.size + MAX_UNANSWERED_PER_TURN;
    const startedAt = performance.now();
    Output.flushIfDue(startedAt);
    for (let begunCount = 0; this.#mayBegin(); begunCount++) {
      const isTurnOver = begunCount === MAX_REQUESTS_PER_TURN || operations.size >= maxOutstanding;
      if (isTurnOver || (begunCount > 0 && rounds.isOver(startedAt))) {
        this.#awaitTurn();
        break;
      }
      const message = this.#waitingBind ?? this.#nextRequest();
      if (!message) break;
      this.#waitingBind = this.#mustDelayBind(message) ? message : undefined;
      if (this.#waitingBind) {
        this.#requests.operations.abortFollowing();
        break;
      }
      this.#requests.beginRequest(message);
      if (this.#intake.unassigned) this.#intake.release(this.takeRequestMemory()!);
    }
    this.#pauseOrResume();
  }

  #awaitTurn(): void {
    this.#isRoundScheduled = true;
    this.#owner.rounds.enqueue(this);
  }

  #mayBegin(): boolean {
    if (this.#state !== 'open' || this.#requests.operations.isBinding || this.#deadlines.handshakeSince > 0)
      return false;
    if (this.#requests.operations.placeCount >= this.#maxOutstanding || this.#output.isFull) return false;
    return this.#waitingBind !== undefined || this.#intake.mayAcceptRequest;
  }

  #mustDelayBind(message: ReceivedRequest): boolean {
    return 'request' in message && message.request.op === 'bind' && this.#requests.operations.size > 0;
  }

  /**
   * Pauses or resumes the socket. The socket is read while the next request may begin. It is also read while no part of
   * a request has arrived, to notice that the client closes.
   */
  #pauseOrResume(): void {
    const isOpen = this.#state === 'open';
    const mayBegin = this.#mayBegin();
    if (!mayBegin) this.#intake.yieldClaim();
    const mustPause =
      isOpen &&
      (this.#isRoundScheduled ||
        this.#intake.isBlocked ||
        ((this.#waitingBind !== undefined || !mayBegin) && !this.#mayReadAhead()));
    if (mustPause !== this.#isPaused && this.#state !== 'closed') {
      this.#isPaused = mustPause;
      if (mustPause) this.#socket.pause();
      else this.#socket.resume();
    }
    if (isOpen && !this.#isAwaitingDrain && this.#output.isFull) this.#awaitDrain();
    if (mustPause || !this.#intake.hasPartialMessage) this.#deadlines.partialMessageSince = 0;
    else if (this.#deadlines.partialMessageSince === 0)
      this.#deadlines.partialMessageSince = this.#deadlines.lastActiveAt;
  }

  #awaitDrain(): void {
    this.#isAwaitingDrain = true;
    void chain(this.#output.waitForDrain(), () => {
      this.#isAwaitingDrain = false;
      this.#processIfWaiting();
    });
  }

  #mayReadAhead(): boolean {
    return (
      !this.#intake.hasPartialMessage &&
      this.#intake.mayAcceptRequest &&
      !this.#output.isFull &&
      this.#deadlines.handshakeSince === 0
    );
  }

  /** Not at once: requests that each begin when another has ended would not let others begin theirs. */
  #processIfWaiting(): void {
    if ((this.#isPaused || this.#waitingBind !== undefined) && !this.#isRoundScheduled) this.#awaitTurn();
  }

  /** Returns the next request; undefined when none has arrived completely or its error has ended the connection. */
  #nextRequest(): ReceivedRequest | undefined {
    for (;;) {
      try {
        const message = this.#intake.nextRequest();
        if (message) this.#countRequest();
        return message;
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        this.handleProtocolError(error);
        if (this.#state !== 'open') return undefined;
      }
    }
  }

  #countRequest(): void {
    this.#requestCount++;
    this.#deadlines.partialMessageSince = 0;
    this.#deadlines.openedAt = 0;
  }

  refuseUnread(id: number, op: AnsweredRequest['op'], error: LdapError): void {
    this.#countRequest();
    this.services.statistics.operations[op]++;
    this.#requests.refuse(id, op, failureOutcome(error, this.services));
  }

  get isReady(): boolean {
    return this.#mayBegin();
  }

  wake(): void {
    this.#processIfWaiting();
  }

  /** Handles a message that cannot be decoded (RFC 4511 §4.1.1). A client of another protocol gets no response. */
  handleProtocolError(error: ProtocolError): void {
    if (error.op === 'bind') this.session.beginBind();
    const op = error.op && responseOp(error.op);
    if (error.messageId !== undefined && op)
      this.#requests.refuse(error.messageId, error.op!, failureOutcome(error, this.services));
    if (!error.fatal && op) return;
    if (this.#requestCount === 0 && error.foreign) {
      this.services.log.info(
        { connection: this.session.connectionNumber, port: this.#socket.localPort },
        `connection refused: the client speaks ${error.foreign}`,
      );
      this.destroy();
    } else this.disconnect('protocolError', error.message);
  }

  get longAdmission(): LongAdmission {
    return this.#owner.longAdmission;
  }

  takeRequestMemory(): RequestMemory | undefined {
    const memory = this.#intake.unassigned;
    this.#intake.unassigned = undefined;
    return memory;
  }

  onResponseWritten(): void {
    this.#deadlines.lastActiveAt = performance.now();
    // The response to StartTLS is the last one before the handshake.
    if (this.#deadlines.handshakeSince > 0) this.#startHandshake().catch((error: Error) => this.#onError(error));
  }

  onRequestEnded(memory: RequestMemory | undefined): void {
    if (memory) this.#intake.release(memory);
    if (this.#state === 'draining') this.#disconnectWhenIdle();
    else this.#processIfWaiting();
  }

  startTls(): void {
    if (!this.#owner.secureContext) throw new LdapError('protocolError', 'StartTLS: the server has no certificate');
    // A StartTLS that had to wait may have a bind behind it, sent without TLS.
    if (this.#intake.hasPartialMessage || this.#waitingBind) throw new PlaintextError();
    this.#deadlines.handshakeSince = performance.now();
  }

  /**
   * Starts TLS after the response to StartTLS was written. Bytes received on the plain socket before the response was
   * sent end the connection, because they were not sent under TLS.
   */
  async #startHandshake(): Promise<void> {
    await this.#output.waitUntilSent();
    if (this.#state !== 'open') return;
    const plainSocket = this.#socket;
    if (plainSocket.readableLength > 0 || this.#intake.hasPartialMessage)
      return this.disconnect('protocolError', new PlaintextError().message);
    plainSocket.off('data', this.#onData).off('error', this.#onError).off('close', this.#onClose);
    const socket = acceptTls(plainSocket, this.#owner.secureContext!);
    this.#output.moveTo(socket);
    this.#intake.restart();
    socket.once('secure', () => {
      this.#deadlines.handshakeSince = 0;
      this.#process();
    });
    this.#isPaused = false;
    this.#socket = this.#listen(socket);
  }

  /**
   * Shuts the connection down: lets operations end, then sends a Notice of Disconnection. An idle client gets no
   * notice, because libraries connect again after a plain close, but take the notice for the response to the next
   * request.
   */
  shutDown(): void {
    if (this.#state !== 'open') return;
    this.#state = 'draining';
    this.#requests.operations.abortFollowing();
    if (this.#requests.operations.size === 0) this.#closeInOrder();
  }

  #disconnectWhenIdle(): void {
    if (this.#requests.operations.size === 0) this.disconnect('unavailable', 'the server is shutting down');
  }

  /** Sends a Notice of Disconnection (RFC 4511 §4.4.1) and closes the connection. */
  disconnect(result: ResultName, message: string): void {
    if (this.isClosing) return;
    writeDisconnection(this.#output.writer, ResultCode[result], message);
    this.#closeInOrder();
  }

  /** Ends the connection after an unbind: at once, unless bytes are unsent or TLS has to send its closing message. */
  unbind(): void {
    this.#output.flush();
    if (this.#output.unsentBytes > 0 || this.isEncrypted) this.#closeInOrder();
    else this.destroy();
  }

  /** Closes the connection after everything was sent. At a shutdown the client has `LINGER_MS` to close its side. */
  #closeInOrder(): void {
    if (this.isClosing) return;
    const isShutdown = this.#state === 'draining';
    this.#state = 'closing';
    this.#deadlines.closingSince = performance.now();
    this.#requests.operations.abortAll();
    void chain(this.#output.waitUntilSent(), () => {
      this.#socket.end();
      if (isShutdown) setTimeout(() => this.destroy(), LINGER_MS);
    });
  }

  destroy(): void {
    this.#state = 'closed';
    this.#requests.operations.abortAll();
    this.#output.close();
    this.#socket.destroy();
  }

  /** Ends the connection when a timeout has expired. */
  checkDeadlines(now: number): void {
    const expiry = this.#deadlines.findExpiry(now, this.#output.writtenAt, this.#requests.operations.size > 0);
    if (!expiry) return;
    this.services.log.info({ connection: this.session.connectionNumber, reason: expiry.reason }, 'connection ended');
    if (expiry.action === 'notify') this.disconnect('unavailable', expiry.reason);
    else if (expiry.action === 'close') this.#closeInOrder();
    else this.destroy();
  }
}
