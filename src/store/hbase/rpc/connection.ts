import { connect, isIP, type Socket } from 'node:net';
import { StoreError } from '../../store-error.js';
import { Failure, type FailureTraits, SERVER_UNREACHABLE } from './failure.js';
import { MessageReader } from './protobuf.js';
import type { RpcSettings, RpcStatistics } from './rpc-types.js';
import { type Answer, encodePreamble, encodeRequest, readAnswer, readResponseHeader } from './wire.js';

interface Call {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (failure: Failure) => void;
  readonly method: string;
  readonly sentAt: number;
  readonly expiresAt: number;
}

/** Time limit of connecting, ms. After it the server counts as gone, and its regions are looked up again. */
const CONNECT_TIMEOUT_MS = 2_000;
/** Interval at which the deadlines of calls are checked, ms. */
const DEADLINE_CHECK_MS = 50;
/** Below this size, all queued frames are copied into a single write, bytes. */
const COPY_BELOW = 65_536;

/**
 * A TCP connection to a service of a server, for any number of concurrent calls.
 *
 *     preamble    'HBas' │ version 0 │ auth 80 (SIMPLE) │ length u32 │ ConnectionHeader
 *     request     length u32 │ varint, RequestHeader │ varint, message │ cell block
 *     response    length u32 │ varint, ResponseHeader │ varint, message │ cell block
 *
 * A closed connection is never reopened. All failures reject with `Failure`, which has `isNotApplied` only when the
 * request was not handed to the network.
 */
export class Connection {
  readonly server: string;
  readonly #socket: Socket;
  readonly #statistics: RpcStatistics;
  readonly #calls = new Map<number, Call>();
  readonly #frames: FrameSplitter;
  readonly #onClose: () => void;
  #lastId = 0;
  #queuedBuffers: Buffer[] = [];
  #queuedBytes = 0;
  #isFlushScheduled = false;
  /** Time at which bytes were last received, monotonic ms; 0 before the first. */
  #lastReceivedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #closeReason: Failure | undefined;

  /**
   * Resolves with an open connection. Rejects with `Failure` `isNotApplied` when the name is not resolved within
   * `rpcTimeoutMs`, when connecting then takes longer than `CONNECT_TIMEOUT_MS`, or when `signal` aborts.
   */
  static open(
    server: string,
    service: string,
    settings: RpcSettings,
    statistics: RpcStatistics,
    onClose: () => void,
    signal: AbortSignal,
  ): Promise<Connection> {
    const { user, rpcTimeoutMs } = settings;
    const address = settings.route?.(server) ?? server;
    const colon = address.lastIndexOf(':');
    const host = address.slice(0, colon).replace(/^\[|\]$/g, '');
    const port = Number(address.slice(colon + 1));
    if (!host || !(port > 0 && port < 65_536)) {
      const message = `${server}: '${address.slice(0, 300)}' is no host:port`;
      return Promise.reject(new Failure(message, SERVER_UNREACHABLE));
    }
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true, keepAlive: true });
      let timer: NodeJS.Timeout | undefined;
      const startTimer = (ms: number): void => {
        clearTimeout(timer);
        timer = setTimeout(() => fail(new Error(`no connection within ${ms} ms`)), ms);
      };
      const removeListeners = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
      };
      const abort = (): void => fail(new Error('closed'));
      const fail = (cause: Error) => {
        removeListeners();
        socket.destroy();
        reject(new Failure(`${server}: ${cause.message}`, SERVER_UNREACHABLE, { cause }));
      };
      const connectMs = Math.min(CONNECT_TIMEOUT_MS, rpcTimeoutMs);
      startTimer(isIP(host) ? connectMs : rpcTimeoutMs);
      socket.once('lookup', () => !socket.destroyed && startTimer(connectMs));
      signal.addEventListener('abort', abort);
      socket.once('error', fail);
      socket.once('connect', () => {
        removeListeners();
        // If no process listens on a port of the range for outgoing connections, a socket may connect to itself.
        if (socket.localPort === socket.remotePort && socket.localAddress === socket.remoteAddress) {
          socket.resetAndDestroy();
          fail(new Error('nobody listens'));
          return;
        }
        socket.removeListener('error', fail);
        statistics.connects++;
        socket.write(encodePreamble(service, user));
        resolve(new Connection(server, socket, statistics, onClose));
      });
    });
  }

  private constructor(server: string, socket: Socket, statistics: RpcStatistics, onClose: () => void) {
    this.server = server;
    this.#socket = socket;
    this.#statistics = statistics;
    this.#onClose = onClose;
    this.#frames = new FrameSplitter((frame) => this.#receiveFrame(frame));
    socket.on('data', (bytes: Buffer) => this.#receiveBytes(bytes));
    socket.on('error', (cause) => this.#closeWith(this.#lostFailure(cause.message, cause)));
    socket.on('close', () => this.#closeWith(this.#lostFailure('connection closed')));
  }

  get isClosed(): boolean {
    return this.#closeReason !== undefined;
  }

  /**
   * Sends a request. `message` and `cells` must not change afterwards. Rejects with a `Failure` without `isNotApplied`
   * when no answer came within `timeoutMs`, or the connection was lost after sending: the request may have been
   * applied.
   */
  call(method: string, message: Buffer, cells: readonly Buffer[], timeoutMs: number): Promise<Answer> {
    if (this.#closeReason) {
      const { message, traits } = this.#closeReason;
      const isNeverAnswered = traits.isNeverAnswered === true;
      return Promise.reject(new Failure(message, { ...SERVER_UNREACHABLE, isNeverAnswered }));
    }
    return new Promise((resolve, reject) => {
      this.#lastId = (this.#lastId + 1) & 0x7fff_ffff;
      const now = performance.now();
      this.#calls.set(this.#lastId, { resolve, reject, method, sentAt: now, expiresAt: now + timeoutMs });
      this.#statistics.calls[method] = (this.#statistics.calls[method] ?? 0) + 1;
      this.#send(encodeRequest(this.#lastId, method, message, cells, timeoutMs), cells);
      this.#timer ??= setInterval(() => this.#expireCalls(), DEADLINE_CHECK_MS);
    });
  }

  close(): void {
    this.#closeWith(new Failure(`${this.server}: connection closed`, CONNECTION_LOST));
  }

  #send(header: Buffer, cells: readonly Buffer[]): void {
    this.#queuedBuffers.push(header, ...cells);
    this.#queuedBytes += header.length;
    for (const buffer of cells) this.#queuedBytes += buffer.length;
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    // Runs after the current callback, with all requests that the callback sends.
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    const buffers = this.#queuedBuffers;
    const bytes = this.#queuedBytes;
    this.#queuedBuffers = [];
    this.#queuedBytes = 0;
    this.#isFlushScheduled = false;
    if (this.#closeReason) return;
    this.#statistics.bytesSent += bytes;
    if (buffers.length === 1) this.#socket.write(buffers[0]!);
    else if (bytes < COPY_BELOW) this.#socket.write(Buffer.concat(buffers, bytes));
    else {
      this.#socket.cork();
      for (const buffer of buffers) this.#socket.write(buffer);
      this.#socket.uncork();
    }
  }

  #receiveBytes(bytes: Buffer): void {
    this.#lastReceivedAt = performance.now();
    this.#statistics.bytesReceived += bytes.length;
    try {
      this.#frames.push(bytes);
    } catch (cause) {
      const traits = { ...CONNECTION_LOST, isFinal: (cause as Partial<StoreError>).code === 'format' };
      this.#closeWith(new Failure(`${this.server}: ${(cause as Error).message}`, traits, { cause }));
    }
  }

  #receiveFrame(frame: Buffer): void {
    const reader = new MessageReader(frame);
    const header = readResponseHeader(reader.delimitedMessage(), this.server);
    const call = this.#calls.get(header.id);
    if (!call) {
      // An answer with an id that was never sent reports a failure of the whole connection.
      if (header.failure && header.id > 0x7fff_ffff) this.#closeWith(header.failure);
      return;
    }
    this.#calls.delete(header.id);
    if (header.failure) call.reject(header.failure);
    else {
      try {
        call.resolve(readAnswer(reader, header.cellBytes));
      } catch (cause) {
        call.reject(new Failure(`${this.server}: ${(cause as Error).message}`, {}, { cause }));
        throw cause;
      }
    }
  }

  /** Rejects calls past their deadline, and closes a connection that received nothing since such a call was sent. */
  #expireCalls(): void {
    const now = performance.now();
    let isSilent = false;
    for (const [id, call] of this.#calls) {
      if (call.expiresAt > now) continue;
      this.#calls.delete(id);
      isSilent ||= this.#lastReceivedAt < call.sentAt;
      call.reject(new Failure(`${this.server}: no answer to ${call.method} in ${Math.round(now - call.sentAt)} ms`));
    }
    if (isSilent) this.#closeWith(new Failure(`${this.server}: connection is silent`, CONNECTION_LOST));
    else if (this.#calls.size === 0) this.#stopTimer();
  }

  /** Returns the failure of a connection that the network or the server has ended. */
  #lostFailure(reason: string, cause?: Error): Failure {
    const isNeverAnswered = this.#lastReceivedAt === 0;
    return new Failure(`${this.server}: ${reason}`, { ...CONNECTION_LOST, isNeverAnswered }, { cause });
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #closeWith(failure: Failure): void {
    if (this.#closeReason) return;
    this.#closeReason = failure;
    this.#stopTimer();
    this.#socket.destroy();
    this.#queuedBuffers = [];
    this.#onClose();
    for (const call of this.#calls.values()) call.reject(failure);
    this.#calls.clear();
  }
}

const CONNECTION_LOST: FailureTraits = { isServerGone: true, isRegionMoved: true };

/** Maximum length of a frame, bytes. Servers answer with at most 100 MB (`hbase.server.scanner.max.result.size`). */
export const MAX_FRAME = 256 * 1024 * 1024;

/** The first four bytes of an HTTP response, read as the length of a frame. */
const HTTP_LENGTH = Buffer.from('HTTP').readUInt32BE();

/** Splits a byte stream into frames: length u32, then as many bytes. Memory is used only for bytes received. */
export class FrameSplitter {
  readonly #onFrame: (frame: Buffer) => void;
  #bufferedChunks: Buffer[] = [];
  #bufferedBytes = 0;
  /** Number of bytes that must be buffered before splitting continues: 4 for a length, or a length with its frame. */
  #neededBytes = 4;

  constructor(onFrame: (frame: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Throws `corrupt` for a frame over `MAX_FRAME`, `format` for HTTP; then nothing may be pushed. Frames are views. */
  push(bytes: Buffer): void {
    this.#bufferedChunks.push(bytes);
    this.#bufferedBytes += bytes.length;
    if (this.#bufferedBytes < this.#neededBytes) return;
    const received =
      this.#bufferedChunks.length === 1 ? bytes : Buffer.concat(this.#bufferedChunks, this.#bufferedBytes);
    let offset = 0;
    this.#neededBytes = 4;
    while (received.length - offset >= 4) {
      const length = received.readUInt32BE(offset);
      if (length === HTTP_LENGTH)
        throw new StoreError('format', "it speaks HTTP: this is another port than HBase's RPC");
      if (length > MAX_FRAME) throw new StoreError('corrupt', `frame of ${length} bytes; ${MAX_FRAME} is the most`);
      if (received.length - offset - 4 < length) {
        this.#neededBytes = 4 + length;
        break;
      }
      this.#onFrame(received.subarray(offset + 4, offset + 4 + length));
      offset += 4 + length;
    }
    this.#bufferedBytes = received.length - offset;
    this.#bufferedChunks = this.#bufferedBytes > 0 ? [received.subarray(offset)] : [];
  }
}
