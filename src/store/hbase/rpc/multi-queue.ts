import { Failure } from './failure.js';
import { type Action, type ActionGroup, completeMulti, encodeMulti, groupActions } from './multi.js';
import type { RpcStatistics } from './rpc-types.js';
import type { Server } from './server.js';

export interface QueuedAction extends Action {
  /** Deadline of the caller, monotonic ms. */
  readonly expires: number;
  /** Whether the caller waits no longer. The action is then not sent. */
  readonly isAbandoned: boolean;
  readonly isAnswered: boolean;
  /** Whether the action was sent and has no answer yet. */
  inFlight: boolean;
  /** Size of bodies and cells. */
  readonly bytes: number;
}

export interface MultiLimits {
  /** Maximum number of concurrent Multi requests of the queue. At the maximum, actions accumulate. */
  readonly maxInFlight: number;
  readonly maxActions: number;
  /** Up to this number of actions are sent as one Multi. More are spread over the remaining requests. */
  readonly spreadAbove: number;
  /** Maximum size of the actions in a Multi. A single action may be larger. */
  readonly maxBytes: number;
}

/**
 * Combines the actions of many callers for a server into Multi requests. Actions of the same turn of the event loop are
 * sent together, as are actions added while `maxInFlight` requests are under way.
 */
export class MultiQueue {
  readonly #server: Server;
  readonly #limits: MultiLimits;
  readonly #statistics: RpcStatistics;
  #queue: QueuedAction[] = [];
  #inFlight = 0;
  #isScheduled = false;

  constructor(server: Server, limits: MultiLimits, statistics: RpcStatistics) {
    this.#server = server;
    this.#limits = limits;
    this.#statistics = statistics;
  }

  /** Fails the action at once with `final` when too many bytes are pending for the server. */
  add(operation: QueuedAction): void {
    if (!this.#server.reserve(operation.bytes)) {
      operation.fail(this.#server.fullFailure());
      return;
    }
    this.#queue.push(operation);
    if (this.#isScheduled || this.#inFlight >= this.#limits.maxInFlight) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#inFlight < this.#limits.maxInFlight) {
      const operations = this.#withoutAbandoned(this.#takeBatch());
      if (operations.length > 0) void this.#send(operations);
    }
  }

  /** Removes the actions whose callers wait no longer. */
  #withoutAbandoned(operations: QueuedAction[]): QueuedAction[] {
    if (!operations.some(({ isAbandoned }) => isAbandoned)) return operations;
    for (const { isAbandoned, bytes } of operations) if (isAbandoned) this.#server.release(bytes);
    return operations.filter(({ isAbandoned }) => !isAbandoned);
  }

  #takeBatch(): QueuedAction[] {
    const free = this.#limits.maxInFlight - this.#inFlight;
    const { maxActions, spreadAbove } = this.#limits;
    // Spreading lets the server work on a request while the next one is transmitted.
    const most = Math.min(maxActions, Math.max(spreadAbove, Math.ceil(this.#queue.length / free)));
    let n = 0;
    for (let bytes = 0; n < this.#queue.length && n < most; n++) {
      bytes += this.#queue[n]!.bytes;
      if (bytes > this.#limits.maxBytes && n > 0) break;
    }
    if (n === this.#queue.length) {
      const all = this.#queue;
      this.#queue = [];
      return all;
    }
    return this.#queue.splice(0, n);
  }

  async #send(operations: readonly QueuedAction[]): Promise<void> {
    const { name } = this.#server;
    this.#inFlight++;
    for (const operation of operations) operation.inFlight = true;
    try {
      const groups = groupActions(operations);
      const answer = await this.#server.call('Multi', encodeMulti(groups), cellsOf(groups), latestDeadline(operations));
      this.#statistics.actions += operations.length;
      completeMulti(name, groups, answer);
      if (!operations.every(({ isAnswered }) => isAnswered))
        failUnanswered(operations, new Failure(`${name}: an action was left without an answer`));
    } catch (e) {
      const failure = e instanceof Failure ? e : new Failure(`${name}: ${(e as Error).message}`, {}, { cause: e });
      failUnanswered(operations, failure);
    } finally {
      for (const operation of operations) this.#server.release(operation.bytes);
      this.#inFlight--;
      this.#flush();
    }
  }
}

function cellsOf(groups: readonly ActionGroup[]): Buffer[] {
  const cells: Buffer[] = [];
  for (const group of groups) for (const action of group) cells.push(...action.cells);
  return cells;
}

function latestDeadline(operations: readonly QueuedAction[]): number {
  let expires = 0;
  for (const operation of operations) expires = Math.max(expires, operation.expires);
  return expires;
}

function failUnanswered(operations: readonly QueuedAction[], failure: Failure): void {
  for (const operation of operations) if (!operation.isAnswered) operation.fail(failure);
}
