import { Failure } from './failure.js';
import { type MultiLimits, MultiQueue } from './multi-queue.js';
import { type Dispatcher, GetOperation, type RowOperation } from './operations.js';
import type { Region, Regions } from './regions.js';
import type { RpcStatistics } from './rpc-types.js';
import type { Server, Servers } from './server.js';

/** The queues of a server. Gets, puts and atomic changes are sent in separate requests, with different limits. */
interface ServerQueues {
  readonly gets: MultiQueue;
  readonly puts: MultiQueue;
  readonly changes: MultiQueue;
}

/** Maximum number of bytes in a Multi. */
const MAX_MULTI_BYTES = 1024 * 1024;
const GET_LIMITS: MultiLimits = { maxInFlight: 2, maxActions: 256, spreadThreshold: 16, maxBytes: MAX_MULTI_BYTES };
const PUT_LIMITS: MultiLimits = { maxInFlight: 4, maxActions: 512, spreadThreshold: 64, maxBytes: MAX_MULTI_BYTES };
/**
 * A server executes the atomic changes of a Multi in sequence, each with a sync of the log. Changes of several requests
 * share syncs. Changes are therefore batched only when there are more than `maxInFlight`.
 */
const CHANGE_LIMITS: MultiLimits = { maxInFlight: 24, maxActions: 32, spreadThreshold: 1, maxBytes: MAX_MULTI_BYTES };

/** Passes operations on rows to the queues of the servers that hold their regions. */
export class RowDispatcher implements Dispatcher {
  readonly #servers: Servers;
  readonly #regions: Regions;
  readonly #statistics: RpcStatistics;
  /** Entries are dropped together with their server. */
  readonly #queuesByServer = new WeakMap<Server, ServerQueues>();

  constructor(servers: Servers, regions: Regions, statistics: RpcStatistics) {
    this.#servers = servers;
    this.#regions = regions;
    this.#statistics = statistics;
  }

  countCells(cells: number): void {
    this.#statistics.cellsReceived += cells;
  }

  dispatch(operation: RowOperation): void {
    const region = this.#regions.cachedRegion(operation.table.name, operation.key);
    if (region) this.#enqueue(operation, region);
    else void this.#locate(operation);
  }

  noteFailure(failure: Failure, region: Region): void {
    const { isServerGone, isRegionMoved, isOverload } = failure.traits;
    this.#statistics.retries++;
    if (isServerGone) this.#regions.dropServer(region.server);
    // A failure to send says nothing about the region's location.
    else if (isRegionMoved || (failure.exceptionName === undefined && !failure.traits.isNotApplied))
      this.#regions.drop(region);
    if (isOverload) this.#servers.get(region.server).reduceLimit();
  }

  async #locate(operation: RowOperation): Promise<void> {
    try {
      this.#enqueue(operation, await this.#regions.locate(operation.table.name, operation.key, operation.attempts));
    } catch (error) {
      if (error instanceof Failure) operation.fail(error);
      else operation.reject(error);
    }
  }

  #enqueue(operation: RowOperation, region: Region): void {
    operation.prepareFor(region);
    const queues = this.#queuesOf(region.server);
    if (operation instanceof GetOperation) queues.gets.add(operation);
    else if (operation.isAtomic) queues.changes.add(operation);
    else queues.puts.add(operation);
  }

  #queuesOf(serverName: string): ServerQueues {
    const server = this.#servers.get(serverName);
    let queues = this.#queuesByServer.get(server);
    if (!queues) {
      queues = {
        gets: new MultiQueue(server, GET_LIMITS, this.#statistics),
        puts: new MultiQueue(server, PUT_LIMITS, this.#statistics),
        changes: new MultiQueue(server, CHANGE_LIMITS, this.#statistics),
      };
      this.#queuesByServer.set(server, queues);
    }
    return queues;
  }
}
