import { Failure } from './failure.js';
import { type Action, type ActionGroup, completeMulti, encodeMulti, groupActions } from './multi.js';
import type { RpcStatistics } from './rpc-types.js';
import type { Server } from './server.js';

export interface QueuedAction extends Action {
  /** Deadline of the caller, monotonic ms. */
  readonly expiresAt: number;
  /** Whether the caller waits no longer. The action is then not sent. */
  readonly isAbandoned: boolean;
  readonly isAnswered: boolean;
  /** Whether the action was sent and has no answer yet. */
  isInFlight: boolean;
  /** Size of bodies and cells. */
  readonly byteCount: number;
}

export interface MultiLimits {
  /** Maximum number of concurrent Multi requests of the queue. At the maximum, actions accumulate. */
  readonly maxInFlight: number;
  readonly maxActions: number;
  /** Up to this number of actions are sent as one Multi. More are spread over the remaining requests. */
  readonly spreadThreshold: number;
  /** Maximum size of the actions in a Multi. A single action may be larger. */
  readonly maxBytes: number;
}

/**
 * Combines the actions of many callers for a server into Multi requests. Actions of the same iteration of the event
 * loop are sent together, as are actions added while `maxInFlight` requests are under way.
 */
export class MultiQueue {
  readonly #server: Server;
  readonly #limits: MultiLimits;
  readonly #statistics: RpcStatistics;
  #queuedActions: QueuedAction[] = [];
  #inFlightCount = 0;
  #isScheduled = false;

  constructor(server: Server, limits: MultiLimits, statistics: RpcStatistics) {
    this.#server = server;
    this.#limits = limits;
    this.#statistics = statistics;
  }

  /** Fails the action at once with `isFinal` when too many bytes are pending for the server. */
  add(operation: QueuedAction): void {
    if (!this.#server.reserve(operation.byteCount)) {
      operation.fail(this.#server.queueFullFailure());
      return;
    }
    this.#queuedActions.push(operation);
    if (this.#isScheduled || this.#inFlightCount >= this.#limits.maxInFlight) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#queuedActions.length > 0 && this.#inFlightCount < this.#limits.maxInFlight) {
      const operations = this.#removeAbandoned(this.#takeBatch());
      if (operations.length > 0) void this.#send(operations);
    }
  }

  /** Removes the actions whose callers wait no longer. */
  #removeAbandoned(operations: QueuedAction[]): QueuedAction[] {
    if (!operations.some(({ isAbandoned }) => isAbandoned)) return operations;
    for (const { isAbandoned, byteCount } of operations) if (isAbandoned) this.#server.release(byteCount);
    return operations.filter(({ isAbandoned }) => !isAbandoned);
  }

  #takeBatch(): QueuedAction[] {
    const freeSlots = this.#limits.maxInFlight - this.#inFlightCount;
    const { maxActions, spreadThreshold } = this.#limits;
    // Spreading lets the server work on a request while the next one is transmitted.
    const maxCount = Math.min(maxActions, Math.max(spreadThreshold, Math.ceil(this.#queuedActions.length / freeSlots)));
    let count = 0;
    for (let bytes = 0; count < this.#queuedActions.length && count < maxCount; count++) {
      bytes += this.#queuedActions[count]!.byteCount;
      if (bytes > this.#limits.maxBytes && count > 0) break;
    }
    if (count === this.#queuedActions.length) {
      const batch = this.#queuedActions;
      this.#queuedActions = [];
      return batch;
    }
    return this.#queuedActions.splice(0, count);
  }

  async #send(operations: readonly QueuedAction[]): Promise<void> {
    const { name } = this.#server;
    this.#inFlightCount++;
    for (const operation of operations) operation.isInFlight = true;
    try {
      const groups = groupActions(operations);
      const expiresAt = latestDeadline(operations);
      const answer = await this.#server.call('Multi', encodeMulti(groups), groupCells(groups), expiresAt);
      this.#statistics.actions += operations.length;
      completeMulti(name, groups, answer);
      if (!operations.every(({ isAnswered }) => isAnswered))
        failUnanswered(operations, new Failure(`${name}: an action was left without an answer`));
    } catch (error) {
      const failure =
        error instanceof Failure ? error : new Failure(`${name}: ${(error as Error).message}`, {}, { cause: error });
      failUnanswered(operations, failure);
    } finally {
      for (const operation of operations) this.#server.release(operation.byteCount);
      this.#inFlightCount--;
      this.#flush();
    }
  }
}

function groupCells(groups: readonly ActionGroup[]): Buffer[] {
  const cells: Buffer[] = [];
  for (const actionGroup of groups) for (const action of actionGroup) cells.push(...action.cells);
  return cells;
}

function latestDeadline(operations: readonly QueuedAction[]): number {
  let deadline = 0;
  for (const operation of operations) deadline = Math.max(deadline, operation.expiresAt);
  return deadline;
}

function failUnanswered(operations: readonly QueuedAction[], failure: Failure): void {
  for (const operation of operations) if (!operation.isAnswered) operation.fail(failure);
}
