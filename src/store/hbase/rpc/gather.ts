import { Failure } from './failure.js';
import { type Action, encodeMulti, type Group, groupActions, settleMulti } from './multi.js';
import type { RpcStatistics } from './rpc-types.js';
import type { Server } from './server.js';

/** An action that waits to be sent. */
export interface Operation extends Action {
  /** Monotonic ms after which nobody waits for it. */
  readonly expires: number;
  /** Nobody waits for it any more: it is not sent. */
  readonly isOver: boolean;
  readonly settled: boolean;
  /** It is being sent, or its answer is awaited. */
  inFlight: boolean;
  /** Of its bodies and cells. */
  readonly bytes: number;
}

export interface LaneLimits {
  /** Multi requests of the lane under way at once; while so many are, actions gather. */
  readonly inFlight: number;
  /** Actions in one Multi, at most. */
  readonly actions: number;
  /** Up to so many actions go together; more are spread over the requests that are still allowed. */
  readonly together: number;
  /** Bytes of actions in one Multi, unless a single one has more. */
  readonly bytes: number;
}

/**
 * Gathers the actions of many callers for one server: what is given in one turn of the event loop, and what comes while
 * as many requests as allowed are under way, goes out as one Multi.
 */
export class Lane {
  readonly #server: Server;
  readonly #limits: LaneLimits;
  readonly #statistics: RpcStatistics;
  #queue: Operation[] = [];
  #inFlight = 0;
  #scheduled = false;

  constructor(server: Server, limits: LaneLimits, statistics: RpcStatistics) {
    this.#server = server;
    this.#limits = limits;
    this.#statistics = statistics;
  }

  /** It fails at once, `final`, when too many bytes wait for the server. */
  add(operation: Operation): void {
    if (!this.#server.hold(operation.bytes)) {
      operation.failed(this.#server.full());
      return;
    }
    this.#queue.push(operation);
    if (this.#scheduled || this.#inFlight >= this.#limits.inFlight) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#inFlight < this.#limits.inFlight) {
      const operations = this.#wanted(this.#take());
      if (operations.length > 0) void this.#send(operations);
    }
  }

  /** Without those whose callers wait no longer. */
  #wanted(operations: Operation[]): Operation[] {
    if (!operations.some(({ isOver }) => isOver)) return operations;
    for (const { isOver, bytes } of operations) if (isOver) this.#server.release(bytes);
    return operations.filter(({ isOver }) => !isOver);
  }

  #take(): Operation[] {
    const free = this.#limits.inFlight - this.#inFlight;
    const { actions, together } = this.#limits;
    // Spread, so that the server works on one while the next is on its way.
    const most = Math.min(actions, Math.max(together, Math.ceil(this.#queue.length / free)));
    let n = 0;
    for (let bytes = 0; n < this.#queue.length && n < most; n++) {
      bytes += this.#queue[n]!.bytes;
      if (bytes > this.#limits.bytes && n > 0) break;
    }
    if (n === this.#queue.length) {
      const all = this.#queue;
      this.#queue = [];
      return all;
    }
    return this.#queue.splice(0, n);
  }

  async #send(operations: readonly Operation[]): Promise<void> {
    this.#inFlight++;
    for (const operation of operations) operation.inFlight = true;
    try {
      const groups = groupActions(operations);
      const answer = await this.#server.call('Multi', encodeMulti(groups), cellsOf(groups), latest(operations));
      this.#statistics.actions += operations.length;
      settleMulti(this.#server.name, groups, answer);
      if (!operations.every(({ settled }) => settled))
        failRest(operations, new Failure(`${this.#server.name}: an action was left without an answer`));
    } catch (e) {
      const { name } = this.#server;
      failRest(
        operations,
        e instanceof Failure ? e : new Failure(`${name}: ${(e as Error).message}`, {}, { cause: e }),
      );
    } finally {
      for (const operation of operations) this.#server.release(operation.bytes);
      this.#inFlight--;
      this.#flush();
    }
  }
}

function cellsOf(groups: readonly Group[]): Buffer[] {
  const cells: Buffer[] = [];
  for (const group of groups) for (const action of group) cells.push(...action.cells);
  return cells;
}

function latest(operations: readonly Operation[]): number {
  let expires = 0;
  for (const operation of operations) expires = Math.max(expires, operation.expires);
  return expires;
}

function failRest(operations: readonly Operation[], failure: Failure): void {
  for (const operation of operations) if (!operation.settled) operation.failed(failure);
}
