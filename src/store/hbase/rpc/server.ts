import { Connection } from './connection.js';
import { withDeadline } from './deadlines.js';
import { Failure, REFUSED, UNREACHABLE } from './failure.js';
import type { RpcSettings, RpcStatistics } from './rpc-types.js';
import type { Answer } from './wire.js';

interface QueuedCall {
  readonly start: () => void;
  readonly reject: (failure: Failure) => void;
}

/** A request counts for at most this part of `maxQueuedBytes`, so that a value of 100 MB blocks no others. */
const MAX_REQUEST_DIVISOR = 4;

/** Amount by which each answer raises the limit again after an overload has halved it. */
const LIMIT_RECOVERY = 0.1;

/** A service of a server: its connection, reopened after a loss, and limits that an overload halves. */
export class Server {
  readonly name: string;
  readonly #service: string;
  readonly #settings: RpcSettings;
  readonly #statistics: RpcStatistics;
  #connection: Connection | undefined;
  #opening: Promise<Connection> | undefined;
  /** The failure of the last attempt to connect. Calls fail with it at once until `until`, monotonic ms. */
  #recentFailure: { readonly failure: Failure; readonly until: number } | undefined;
  #inFlight = 0;
  #limit: number;
  /** Whether the limit was halved in this turn of the event loop. */
  #isHalved = false;
  #queue: QueuedCall[] = [];
  #reservedBytes = 0;
  readonly #closed = new AbortController();
  #isRetired = false;
  /** Time at which the last call ended, monotonic ms. */
  #lastUsed = performance.now();

  constructor(name: string, service: string, settings: RpcSettings, statistics: RpcStatistics) {
    this.name = name;
    this.#service = service;
    this.#settings = settings;
    this.#statistics = statistics;
    this.#limit = settings.maxInFlightPerServer;
  }

  /** Reserves space for a request until `release`. False when full. A single request is always accepted. */
  reserve(bytes: number): boolean {
    const counted = this.#countedBytes(bytes);
    if (this.#reservedBytes > 0 && this.#reservedBytes + counted > this.#settings.maxQueuedBytes) return false;
    this.#reservedBytes += counted;
    return true;
  }

  release(bytes: number): void {
    this.#reservedBytes -= this.#countedBytes(bytes);
  }

  #countedBytes(bytes: number): number {
    return Math.min(bytes, Math.floor(this.#settings.maxQueuedBytes / MAX_REQUEST_DIVISOR));
  }

  fullFailure(): Failure {
    return new Failure(`${this.name}: ${this.#reservedBytes} bytes of requests wait already`, REFUSED);
  }

  /** Sends a request when fewer calls than the limit are under way. `expires`: deadline, monotonic ms. */
  async call(method: string, message: Buffer, cells: readonly Buffer[], expires: number): Promise<Answer> {
    if (this.#inFlight >= Math.floor(this.#limit)) await this.#waitForSlot(expires);
    this.#inFlight++;
    try {
      return await this.#send(method, message, cells, expires);
    } finally {
      this.#inFlight--;
      this.#lastUsed = performance.now();
      this.#startNext();
    }
  }

  /** Retires a server unused for `operationTimeoutMs`, without a connection. Later calls to it fail. */
  retireIfUnused(): boolean {
    if (this.#connection || this.#opening || this.#inFlight > 0 || this.#reservedBytes > 0) return false;
    this.#isRetired = performance.now() - this.#lastUsed >= this.#settings.operationTimeoutMs;
    return this.#isRetired;
  }

  close(): void {
    this.#closed.abort();
    this.#connection?.close();
    const calls = this.#queue;
    this.#queue = [];
    for (const call of calls) call.reject(closedFailure(this.name));
  }

  async #send(method: string, message: Buffer, cells: readonly Buffer[], expires: number): Promise<Answer> {
    let connection = this.#connection;
    if (!connection || connection.isClosed) connection = await this.#connect(expires);
    const timeout = Math.min(this.#settings.rpcTimeoutMs, expires - performance.now());
    if (timeout <= 0) throw new Failure(`${this.name}: no time left for ${method}`, { notApplied: true });
    try {
      const answer = await connection.call(method, message, cells, timeout);
      if (this.#limit < this.#settings.maxInFlightPerServer) this.#limit += LIMIT_RECOVERY;
      return answer;
    } catch (e) {
      if (e instanceof Failure && e.traits.overloaded) this.reduceLimit();
      throw e;
    }
  }

  /** Halves the limit of concurrent calls, once for all failures of a turn of the event loop. */
  reduceLimit(): void {
    if (this.#isHalved) return;
    this.#isHalved = true;
    setImmediate(() => {
      this.#isHalved = false;
    });
    this.#limit = Math.max(1, this.#limit / 2);
  }

  async #connect(expires: number): Promise<Connection> {
    if (this.#closed.signal.aborted) throw closedFailure(this.name);
    if (this.#isRetired) throw new Failure(`${this.name}: it was forgotten`, { notApplied: true, moved: true });
    const now = performance.now();
    if (this.#recentFailure && this.#recentFailure.until > now) throw this.#recentFailure.failure;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return withDeadline(this.#opening, expires, () => {
      const message = `${this.name}: no connection within ${Math.round(expires - now)} ms`;
      return new Failure(message, UNREACHABLE);
    });
  }

  async #open(): Promise<Connection> {
    try {
      let opened: Connection | undefined;
      // The connection may be closed before `open` returns it.
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
      if (connection.isClosed) throw new Failure(`${this.name}: the connection was lost`, UNREACHABLE);
      this.#connection = connection;
      this.#recentFailure = undefined;
      return connection;
    } catch (e) {
      if (this.#closed.signal.aborted) throw closedFailure(this.name);
      if (e instanceof Failure)
        this.#recentFailure = { failure: e, until: performance.now() + this.#settings.retryPauseMs };
      throw e;
    }
  }

  #waitForSlot(expires: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const expire = (): void => {
        this.#queue = this.#queue.filter((other) => other !== call);
        reject(new Failure(`${this.name}: no room in time`, { notApplied: true }));
      };
      const timer = setTimeout(expire, Math.max(expires - performance.now(), 0));
      const call: QueuedCall = {
        start: () => {
          clearTimeout(timer);
          resolve();
        },
        reject: (failure) => {
          clearTimeout(timer);
          reject(failure);
        },
      };
      this.#queue.push(call);
    });
  }

  #startNext(): void {
    let slots = Math.floor(this.#limit) - this.#inFlight;
    for (; slots > 0 && this.#queue.length > 0; slots--) this.#queue.shift()!.start();
  }
}

function closedFailure(server: string): Failure {
  return new Failure(`${server}: the HBase client was closed`, REFUSED, { exception: 'ClientClosed' });
}

/** The servers of a client, by `host:port` and service. Adding a server retires unused ones. */
export class Servers {
  readonly #all = new Map<string, Server>();
  #isClosed = false;
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
      for (const [other, known] of this.#all) if (known.retireIfUnused()) this.#all.delete(other);
      server = new Server(name, service, this.#settings, this.#statistics);
      if (this.#isClosed) server.close();
      this.#all.set(id, server);
    }
    return server;
  }

  /** Servers requested after this call are closed as well. */
  close(): void {
    this.#isClosed = true;
    for (const server of this.#all.values()) server.close();
  }
}
