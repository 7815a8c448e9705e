import { Connection } from './connection.js';
import { withinTime } from './deadlines.js';
import { Failure, UNREACHED } from './failure.js';
import type { RpcSettings, RpcStatistics } from './rpc-types.js';
import type { Answer } from './wire.js';

interface Waiting {
  readonly start: () => void;
  readonly reject: (failure: Failure) => void;
}

/**
 * No request counts as more than this part of what may wait: a value of 100 MB would not get by others, nor others by
 * it.
 */
const LONGEST_SHARE = 4;

/** How much of a call's place an answer gives back after an overload halved the limit. */
const RECOVERY = 0.1;

/**
 * One service of one server: its connection, made anew when it was lost, and the bounds on what may wait for it. A
 * server that says it is overloaded gets half as many calls at once; the number grows again with its answers.
 */
export class Server {
  readonly name: string;
  readonly #service: string;
  readonly #settings: RpcSettings;
  readonly #statistics: RpcStatistics;
  #connection: Connection | undefined;
  #opening: Promise<Connection> | undefined;
  /** After a failed attempt to connect: until when (monotonic ms) calls fail with it at once. */
  #refused: { readonly failure: Failure; readonly until: number } | undefined;
  #inFlight = 0;
  #limit: number;
  /** In this turn of the event loop. */
  #isHalved = false;
  #waiting: Waiting[] = [];
  #bytes = 0;
  readonly #closed = new AbortController();
  #retired = false;
  /** Monotonic ms at which the last call ended. */
  #used = performance.now();

  constructor(name: string, service: string, settings: RpcSettings, statistics: RpcStatistics) {
    this.name = name;
    this.#service = service;
    this.#settings = settings;
    this.#statistics = statistics;
    this.#limit = settings.maxInFlightPerServer;
  }

  /**
   * Makes room for a request of so many bytes among those that wait for the server, to be given back by `release`;
   * false when too much waits. One request is always taken.
   */
  hold(bytes: number): boolean {
    const counted = this.#counted(bytes);
    if (this.#bytes > 0 && this.#bytes + counted > this.#settings.maxQueuedBytes) return false;
    this.#bytes += counted;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= this.#counted(bytes);
  }

  #counted(bytes: number): number {
    return Math.min(bytes, Math.floor(this.#settings.maxQueuedBytes / LONGEST_SHARE));
  }

  full(): Failure {
    return new Failure(`${this.name}: ${this.#bytes} bytes of requests wait already`, { undone: true, final: true });
  }

  /**
   * Sends a request once fewer than allowed are under way. `expires`: monotonic ms at which the caller stops waiting.
   */
  async call(method: string, message: Buffer, cells: readonly Buffer[], expires: number): Promise<Answer> {
    if (this.#inFlight >= Math.floor(this.#limit)) await this.#room(expires);
    this.#inFlight++;
    try {
      return await this.#send(method, message, cells, expires);
    } finally {
      this.#inFlight--;
      this.#used = performance.now();
      this.#startWaiting();
    }
  }

  /** Whether it has no connection and nobody has wanted one for an operation's time; then it takes no more calls. */
  retire(): boolean {
    if (this.#connection || this.#opening || this.#inFlight > 0 || this.#bytes > 0) return false;
    this.#retired = performance.now() - this.#used >= this.#settings.operationTimeoutMs;
    return this.#retired;
  }

  close(): void {
    this.#closed.abort();
    this.#connection?.close();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const call of waiting) call.reject(closedFailure(this.name));
  }

  async #send(method: string, message: Buffer, cells: readonly Buffer[], expires: number): Promise<Answer> {
    let connection = this.#connection;
    if (!connection || connection.closed) connection = await this.#connect(expires);
    const timeout = Math.min(this.#settings.rpcTimeoutMs, expires - performance.now());
    if (timeout <= 0) throw new Failure(`${this.name}: no time left for ${method}`, { undone: true });
    try {
      const answer = await connection.call(method, message, cells, timeout);
      if (this.#limit < this.#settings.maxInFlightPerServer) this.#limit += RECOVERY;
      return answer;
    } catch (e) {
      if (e instanceof Failure && e.traits.overloaded) this.overloaded();
      throw e;
    }
  }

  /** The server wants fewer calls at once. It says so once for all operations that came with one answer. */
  overloaded(): void {
    if (this.#isHalved) return;
    this.#isHalved = true;
    setImmediate(() => {
      this.#isHalved = false;
    });
    this.#limit = Math.max(1, this.#limit / 2);
  }

  async #connect(expires: number): Promise<Connection> {
    if (this.#closed.signal.aborted) throw closedFailure(this.name);
    if (this.#retired) throw new Failure(`${this.name}: it was forgotten`, { undone: true, moved: true });
    const now = performance.now();
    if (this.#refused && this.#refused.until > now) throw this.#refused.failure;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return withinTime(this.#opening, expires, () => this.#noConnection(expires - now));
  }

  #noConnection(ms: number): Failure {
    const message = `${this.name}: no connection within ${Math.round(ms)} ms`;
    return new Failure(message, UNREACHED);
  }

  #lost(): Failure {
    return new Failure(`${this.name}: the connection was lost`, UNREACHED);
  }

  async #open(): Promise<Connection> {
    try {
      let opened: Connection | undefined;
      // It may be lost before it is known here.
      const onClose = (): void => {
        if (opened && this.#connection === opened) this.#connection = undefined;
      };
      const { signal } = this.#closed;
      const connection = await Connection.open(
        this.name,
        this.#service,
        this.#settings,
        this.#statistics,
        onClose,
        signal,
      );
      opened = connection;
      if (signal.aborted) connection.close();
      if (connection.closed) throw this.#lost();
      this.#connection = connection;
      this.#refused = undefined;
      return connection;
    } catch (e) {
      if (this.#closed.signal.aborted) throw closedFailure(this.name);
      if (e instanceof Failure) this.#refused = { failure: e, until: performance.now() + this.#settings.retryPauseMs };
      throw e;
    }
  }

  #room(expires: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        reject(new Failure(`${this.name}: no room in time`, { undone: true }));
      };
      const timer = setTimeout(end, Math.max(expires - performance.now(), 0));
      const waiting: Waiting = {
        start: () => {
          clearTimeout(timer);
          resolve();
        },
        reject: (failure) => {
          clearTimeout(timer);
          reject(failure);
        },
      };
      this.#waiting.push(waiting);
    });
  }

  #startWaiting(): void {
    let room = Math.floor(this.#limit) - this.#inFlight;
    for (; room > 0 && this.#waiting.length > 0; room--) this.#waiting.shift()!.start();
  }
}

function closedFailure(server: string): Failure {
  return new Failure(
    `${server}: the HBase client was closed`,
    { undone: true, final: true },
    { exception: 'ClientClosed' },
  );
}

/**
 * The servers that a client talks to, by `host:port` and service. When one comes that was not known, those that
 * nobody reaches or wants any more are forgotten.
 */
export class Servers {
  readonly #all = new Map<string, Server>();
  #closed = false;
  readonly #settings: RpcSettings;
  readonly #statistics: RpcStatistics;

  constructor(settings: RpcSettings, statistics: RpcStatistics) {
    this.#settings = settings;
    this.#statistics = statistics;
  }

  get(name: string, service = 'ClientService'): Server {
    const id = `${service}@${name}`;
    let server = this.#all.get(id);
    if (!server) {
      for (const [other, known] of this.#all) if (known.retire()) this.#all.delete(other);
      server = new Server(name, service, this.#settings, this.#statistics);
      if (this.#closed) server.close();
      this.#all.set(id, server);
    }
    return server;
  }

  /** Those who are asked for later are closed, too. */
  close(): void {
    this.#closed = true;
    for (const server of this.#all.values()) server.close();
  }
}
