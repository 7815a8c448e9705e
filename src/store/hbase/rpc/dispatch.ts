import { Failure } from './failure.js';
import { Lane, type LaneLimits } from './gather.js';
import { type Dispatcher, GetOperation, type RowOperation } from './operations.js';
import type { Region, Regions } from './regions.js';
import type { RpcStatistics } from './rpc-types.js';
import type { Server, Servers } from './server.js';

/** The lanes of one server: what is gathered apart from what, and how far. */
interface Lanes {
  readonly gets: Lane;
  readonly puts: Lane;
  readonly changes: Lane;
}

/** Bytes of cells in one Multi. */
const BYTES = 1024 * 1024;
const GETS: LaneLimits = { inFlight: 2, actions: 256, together: 16, bytes: BYTES };
const PUTS: LaneLimits = { inFlight: 4, actions: 512, together: 64, bytes: BYTES };
/**
 * A server does the atomic changes of one Multi one after another, each with its own sync of the log; those of several
 * requests share syncs. So they gather only when there are more than requests allowed.
 */
const CHANGES: LaneLimits = { inFlight: 24, actions: 32, together: 1, bytes: BYTES };

/** Gives operations on rows to the lanes of the servers that have their regions. */
export class RowDispatcher implements Dispatcher {
  readonly #servers: Servers;
  readonly #regions: Regions;
  readonly #statistics: RpcStatistics;
  /** They go with their server when it is forgotten. */
  readonly #lanes = new WeakMap<Server, Lanes>();

  constructor(servers: Servers, regions: Regions, statistics: RpcStatistics) {
    this.#servers = servers;
    this.#regions = regions;
    this.#statistics = statistics;
  }

  received(cells: number): void {
    this.#statistics.cellsReceived += cells;
  }

  dispatch(operation: RowOperation): void {
    const region = this.#regions.cached(operation.table.name, operation.key);
    if (region) this.#enqueue(operation, region);
    else void this.#locate(operation);
  }

  learn(failure: Failure, region: Region): void {
    const { serverGone, moved, overloaded } = failure.traits;
    this.#statistics.retries++;
    if (serverGone) this.#regions.dropServer(region.server);
    // What was not sent says nothing of where the region is.
    else if (moved || (failure.exception === undefined && !failure.traits.undone)) this.#regions.drop(region);
    if (overloaded) this.#servers.get(region.server).overloaded();
  }

  async #locate(operation: RowOperation): Promise<void> {
    try {
      this.#enqueue(operation, await this.#regions.locate(operation.table.name, operation.key, operation.attempts));
    } catch (e) {
      if (e instanceof Failure) operation.failed(e);
      else operation.reject(e);
    }
  }

  #enqueue(operation: RowOperation, region: Region): void {
    operation.sendTo(region);
    const lanes = this.#lanesOf(region.server);
    if (operation instanceof GetOperation) lanes.gets.add(operation);
    else if (operation.atomic) lanes.changes.add(operation);
    else lanes.puts.add(operation);
  }

  #lanesOf(name: string): Lanes {
    const server = this.#servers.get(name);
    let lanes = this.#lanes.get(server);
    if (!lanes) {
      lanes = {
        gets: new Lane(server, GETS, this.#statistics),
        puts: new Lane(server, PUTS, this.#statistics),
        changes: new Lane(server, CHANGES, this.#statistics),
      };
      this.#lanes.set(server, lanes);
    }
    return lanes;
  }
}
