import { connect, isIP, type Socket } from 'node:net';
import { Failure, UNREACHED } from './failure.js';
import { FrameSplitter } from './frames.js';
import { Reader } from './protobuf.js';
import type { RpcSettings, RpcStatistics } from './rpc-types.js';
import { type Answer, preamble, readHeader, requestFrame, splitAnswer } from './wire.js';

interface Call {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (failure: Failure) => void;
  readonly method: string;
  readonly sent: number;
  readonly expires: number;
}

/** A server that does not take a connection within this time, ms, is not waited for: its regions go elsewhere. */
const CONNECT_MS = 2_000;
/** How often the deadlines of the calls under way are looked at, ms. */
const SWEEP_MS = 50;
/** Frames up to so many bytes are copied together into one write. */
const COPY_BELOW = 65_536;

/**
 * One TCP connection to one service of one server, for any number of calls at once.
 *
 *   preamble    'HBas' │ version 0 │ auth 80 (SIMPLE) │ length u32 │ ConnectionHeader
 *   request     length u32 │ varint, RequestHeader │ varint, message │ cell block
 *   response    length u32 │ varint, ResponseHeader │ varint, message │ cell block
 *
 * It is opened by `open` and never again once it is closed. Every failure rejects with `Failure`: `undone` only when
 * the request was not handed to the network.
 */
export class Connection {
  readonly server: string;
  readonly #socket: Socket;
  readonly #statistics: RpcStatistics;
  readonly #calls = new Map<number, Call>();
  readonly #frames: FrameSplitter;
  readonly #onClose: () => void;
  #lastId = 0;
  #out: Buffer[] = [];
  #outBytes = 0;
  #flushing = false;
  /** Monotonic ms of the last bytes that came; 0: none did. */
  #heard = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed: Failure | undefined;

  /**
   * Resolves with an open connection; `Failure` `undone` when the name is not resolved within `rpcTimeoutMs`, or no
   * connection comes about within `CONNECT_MS` after, or `signal` aborts before.
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
      return Promise.reject(new Failure(message, UNREACHED));
    }
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true, keepAlive: true });
      let timer: NodeJS.Timeout | undefined;
      const endAfter = (ms: number): void => {
        clearTimeout(timer);
        timer = setTimeout(() => fail(new Error(`no connection within ${ms} ms`)), ms);
      };
      const leave = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
      };
      const abort = (): void => fail(new Error('closed'));
      const fail = (cause: Error) => {
        leave();
        socket.destroy();
        reject(new Failure(`${server}: ${cause.message}`, UNREACHED, { cause }));
      };
      const connectMs = Math.min(CONNECT_MS, rpcTimeoutMs);
      endAfter(isIP(host) ? connectMs : rpcTimeoutMs);
      socket.once('lookup', () => !socket.destroyed && endAfter(connectMs));
      signal.addEventListener('abort', abort);
      socket.once('error', fail);
      socket.once('connect', () => {
        leave();
        // Where nobody listens on a port that the system may choose for outgoing connections, one may meet itself.
        if (socket.localPort === socket.remotePort && socket.localAddress === socket.remoteAddress) {
          socket.resetAndDestroy();
          fail(new Error('nobody listens'));
          return;
        }
        socket.removeListener('error', fail);
        statistics.connects++;
        socket.write(preamble(service, user));
        resolve(new Connection(server, socket, statistics, onClose));
      });
    });
  }

  private constructor(server: string, socket: Socket, statistics: RpcStatistics, onClose: () => void) {
    this.server = server;
    this.#socket = socket;
    this.#statistics = statistics;
    this.#onClose = onClose;
    this.#frames = new FrameSplitter((frame) => this.#receive(frame));
    socket.on('data', (bytes: Buffer) => this.#data(bytes));
    socket.on('error', (cause) => this.#fail(this.#ended(cause.message, cause)));
    socket.on('close', () => this.#fail(this.#ended('connection closed')));
  }

  get closed(): boolean {
    return this.#closed !== undefined;
  }

  /**
   * Sends one request. `message` and `cells` must not change afterwards. Rejects with a `Failure` that lacks `undone`
   * when no answer came in `timeoutMs`, or the connection was lost after sending: it may have been done.
   */
  call(method: string, message: Buffer, cells: readonly Buffer[], timeoutMs: number): Promise<Answer> {
    if (this.#closed) {
      const { message, traits } = this.#closed;
      return Promise.reject(new Failure(message, { ...UNREACHED, mute: traits.mute === true }));
    }
    return new Promise((resolve, reject) => {
      this.#lastId = (this.#lastId + 1) & 0x7fff_ffff;
      const now = performance.now();
      this.#calls.set(this.#lastId, { resolve, reject, method, sent: now, expires: now + timeoutMs });
      this.#statistics.calls[method] = (this.#statistics.calls[method] ?? 0) + 1;
      this.#send(requestFrame(this.#lastId, method, message, cells, timeoutMs), cells);
      this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS);
    });
  }

  close(): void {
    this.#fail(new Failure(`${this.server}: connection closed`, LOST));
  }

  #send(head: Buffer, cells: readonly Buffer[]): void {
    this.#out.push(head, ...cells);
    this.#outBytes += head.length;
    for (const part of cells) this.#outBytes += part.length;
    if (this.#flushing) return;
    this.#flushing = true;
    // After what the event loop is at now, with all that it sends.
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    const parts = this.#out;
    const bytes = this.#outBytes;
    this.#out = [];
    this.#outBytes = 0;
    this.#flushing = false;
    if (this.#closed) return;
    this.#statistics.bytesSent += bytes;
    if (parts.length === 1) this.#socket.write(parts[0]!);
    else if (bytes < COPY_BELOW) this.#socket.write(Buffer.concat(parts, bytes));
    else {
      this.#socket.cork();
      for (const part of parts) this.#socket.write(part);
      this.#socket.uncork();
    }
  }

  #data(bytes: Buffer): void {
    this.#heard = performance.now();
    this.#statistics.bytesReceived += bytes.length;
    try {
      this.#frames.push(bytes);
    } catch (cause) {
      this.#fail(new Failure(`${this.server}: ${(cause as Error).message}`, LOST, { cause }));
    }
  }

  #receive(frame: Buffer): void {
    const reader = new Reader(frame);
    const header = readHeader(reader.delimited(), this.server);
    const call = this.#calls.get(header.id);
    if (!call) {
      // An id that was never given stands for the connection itself.
      if (header.failure && header.id > 0x7fff_ffff) this.#fail(header.failure);
      return;
    }
    this.#calls.delete(header.id);
    if (header.failure) call.reject(header.failure);
    else {
      try {
        call.resolve(splitAnswer(reader, header.cells));
      } catch (cause) {
        call.reject(new Failure(`${this.server}: ${(cause as Error).message}`, {}, { cause }));
        throw cause;
      }
    }
  }

  /** Ends calls whose time is over; a connection that was silent all that time is given up. */
  #sweep(): void {
    const now = performance.now();
    let silent = false;
    for (const [id, call] of this.#calls) {
      if (call.expires > now) continue;
      this.#calls.delete(id);
      silent ||= this.#heard < call.sent;
      call.reject(new Failure(`${this.server}: no answer to ${call.method} in ${Math.round(now - call.sent)} ms`));
    }
    if (silent) this.#fail(new Failure(`${this.server}: connection is silent`, LOST));
    else if (this.#calls.size === 0) this.#stopTimer();
  }

  /** The network or the server has ended it. */
  #ended(why: string, cause?: Error): Failure {
    return new Failure(`${this.server}: ${why}`, { ...LOST, mute: this.#heard === 0 }, { cause });
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #fail(failure: Failure): void {
    if (this.#closed) return;
    this.#closed = failure;
    this.#stopTimer();
    this.#socket.destroy();
    this.#out = [];
    this.#onClose();
    for (const call of this.#calls.values()) call.reject(failure);
    this.#calls.clear();
  }
}

const LOST = { serverGone: true, moved: true } as const;
