import { Connection } from './connection.js';
import { Failure, REQUEST_REFUSED, SERVER_UNREACHABLE } from './failure.js';
import { withDeadline } from './retry.js';
import type { RpcSettings, RpcStatistics } from './rpc-types.js';
import type { Answer } from './wire.js';

interface QueuedCall {
  readonly start: () => void;
  readonly reject: (failure: Failure) => void;
}

/** A request counts for at most a quarter of `maxQueuedBytes`: a value of 100 MB does not block other requests. */
const MAX_REQUEST_DIVISOR = 4;

/** Number of calls by which each answer raises the limit of calls, after an overload has halved it. */
const LIMIT_RECOVERY = 0.1;

/** A service of an HBase server: its connection, reopened after a loss, and its limit of concurrent calls. */
export class Server {
  readonly name: string;
  readonly #service: string;
  readonly #settings: RpcSettings;
  readonly #statistics: RpcStatistics;
  #connection: Connection | undefined;
  #connecting: Promise<Connection> | undefined;
  /** The failure of the last attempt to connect. Calls fail with it at once until `validUntil`, monotonic ms. */
  #recentFailure: { readonly failure: Failure; readonly validUntil: number } | undefined;
  #callCount = 0;
  #maxCalls: number;
  /** Whether the limit was halved in this iteration of the event loop. */
  #isHalved = false;
  #queuedCalls: QueuedCall[] = [];
  #reservedBytes = 0;
  readonly #closeController = new AbortController();
  #isRetired = false;
  /** Time at which the last call ended, monotonic ms. */
  #lastUsedAt = performance.now();

  constructor(name: string, service: string, settings: RpcSettings, statistics: RpcStatistics) {
    this.name = name;
    this.#service = service;
    this.#settings = settings;
    this.#statistics = statistics;
    this.#maxCalls = settings.maxInFlightPerServer;
  }

  /** Reserves space for a request until `release`. False when full. A single request is always accepted. */
  reserve(bytes: number): boolean {
    const countedBytes = this.#countedBytes(bytes);
    if (this.#reservedBytes > 0 && this.#reservedBytes + countedBytes > this.#settings.maxQueuedBytes) return false;
    this.#reservedBytes += countedBytes;
    return true;
  }

  release(bytes: number): void {
    this.#reservedBytes -= this.#countedBytes(bytes);
  }

  #countedBytes(bytes: number): number {
    return Math.min(bytes, Math.floor(this.#settings.maxQueuedBytes / MAX_REQUEST_DIVISOR));
  }

  queueFullFailure(): Failure {
    return new Failure(`${this.name}: ${this.#reservedBytes} bytes of requests wait already`, REQUEST_REFUSED);
  }

  /** Sends a request when fewer calls than the limit are under way. `expiresAt`: deadline, monotonic ms. */
  async call(method: string, message: Buffer, cells: readonly Buffer[], expiresAt: number): Promise<Answer> {
    if (this.#callCount >= Math.floor(this.#maxCalls)) await this.#waitForSlot(expiresAt);
    this.#callCount++;
    try {
      return await this.#send(method, message, cells, expiresAt);
    } finally {
      this.#callCount--;
      this.#lastUsedAt = performance.now();
      this.#startNext();
    }
  }

  /** Retires a server unused for `operationTimeoutMs`, without a connection. Later calls to it fail. */
  retireIfUnused(): boolean {
    if (this.#connection || this.#connecting || this.#callCount > 0 || this.#reservedBytes > 0) return false;
    this.#isRetired = performance.now() - this.#lastUsedAt >= this.#settings.operationTimeoutMs;
    return this.#isRetired;
  }

  close(): void {
    this.#closeController.abort();
    this.#connection?.close();
    const calls = this.#queuedCalls;
    this.#queuedCalls = [];
    for (const call of calls) call.reject(closedFailure(this.name));
  }

  async #send(method: string, message: Buffer, cells: readonly Buffer[], expiresAt: number): Promise<Answer> {
    let connection = this.#connection;
    if (!connection || connection.isClosed) connection = await this.#connect(expiresAt);
    const timeout = Math.min(this.#settings.rpcTimeoutMs, expiresAt - performance.now());
    if (timeout <= 0) throw new Failure(`${this.name}: no time left for ${method}`, { isNotApplied: true });
    try {
      const answer = await connection.call(method, message, cells, timeout);
      if (this.#maxCalls < this.#settings.maxInFlightPerServer) this.#maxCalls += LIMIT_RECOVERY;
      return answer;
    } catch (error) {
      if (error instanceof Failure && error.traits.isOverload) this.reduceLimit();
      throw error;
    }
  }

  /** Halves the limit of concurrent calls, once for all failures of an iteration of the event loop. */
  reduceLimit(): void {
    if (this.#isHalved) return;
    this.#isHalved = true;
    setImmediate(() => {
      this.#isHalved = false;
    });
    this.#maxCalls = Math.max(1, this.#maxCalls / 2);
  }

  async #connect(expiresAt: number): Promise<Connection> {
    if (this.#closeController.signal.aborted) throw closedFailure(this.name);
    if (this.#isRetired)
      throw new Failure(`${this.name}: it was forgotten`, { isNotApplied: true, isRegionMoved: true });
    const now = performance.now();
    if (this.#recentFailure && this.#recentFailure.validUntil > now) throw this.#recentFailure.failure;
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined;
    });
    return withDeadline(this.#connecting, expiresAt, () => {
      const message = `${this.name}: no connection within ${Math.round(expiresAt - now)} ms`;
      return new Failure(message, SERVER_UNREACHABLE);
    });
  }

  async #open(): Promise<Connection> {
    try {
      let openConnection: Connection | undefined;
      // The connection may be closed before `open` returns it.
      const onClose = (): void => {
        if (openConnection && this.#connection === openConnection) this.#connection = undefined;
      };
      const { signal } = this.#closeController;
      const connection = await Connection.open(
        this.name,
        this.#service,
        this.#settings,
        this.#statistics,
        onClose,
        signal,
      );
      openConnection = connection;
      if (signal.aborted) connection.close();
      if (connection.isClosed) throw new Failure(`${this.name}: the connection was lost`, SERVER_UNREACHABLE);
      this.#connection = connection;
      this.#recentFailure = undefined;
      return connection;
    } catch (error) {
      if (this.#closeController.signal.aborted) throw closedFailure(this.name);
      if (error instanceof Failure)
        this.#recentFailure = { failure: error, validUntil: performance.now() + this.#settings.retryPauseMs };
      throw error;
    }
  }

  #waitForSlot(expiresAt: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const expire = (): void => {
        this.#queuedCalls = this.#queuedCalls.filter((queuedCall) => queuedCall !== call);
        reject(new Failure(`${this.name}: no room in time`, { isNotApplied: true }));
      };
      const timer = setTimeout(expire, Math.max(expiresAt - performance.now(), 0));
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
      this.#queuedCalls.push(call);
    });
  }

  #startNext(): void {
    let freeSlots = Math.floor(this.#maxCalls) - this.#callCount;
    for (; freeSlots > 0 && this.#queuedCalls.length > 0; freeSlots--) this.#queuedCalls.shift()!.start();
  }
}

function closedFailure(server: string): Failure {
  return new Failure(`${server}: the HBase client was closed`, REQUEST_REFUSED, { exception: 'ClientClosed' });
}

/** The servers of a client, by `host:port` and service. Adding a server retires unused ones. */
export class Servers {
  readonly #serversById = new Map<string, Server>();
  #isClosed = false;
  readonly #settings: RpcSettings;
  readonly #statistics: RpcStatistics;

  constructor(settings: RpcSettings, statistics: RpcStatistics) {
    this.#settings = settings;
    this.#statistics = statistics;
  }

  get(name: string, service = 'ClientService'): Server {
    const id = `${service}@${name}`;
    let server = this.#serversById.get(id);
    if (!server) {
      for (const [otherId, otherServer] of this.#serversById)
        if (otherServer.retireIfUnused()) this.#serversById.delete(otherId);
      server = new Server(name, service, this.#settings, this.#statistics);
      if (this.#isClosed) server.close();
      this.#serversById.set(id, server);
    }
    return server;
  }

  /** Servers requested after this call are closed as well. */
  close(): void {
    this.#isClosed = true;
    for (const server of this.#serversById.values()) server.close();
  }
}
