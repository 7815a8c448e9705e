import { StoreError } from '../../store-error.js';
import type { Clock, Stop } from './clock.js';
import type { Tickets } from './tickets.js';

/**
 * Bit set in the priorities of plans without gates, which therefore come after all plans that hold gates of tables
 * while they wait. A plan that waits for a gate must not pass the plan that holds it.
 */
const WITHOUT_GATES = 1n << 62n;

/**
 * A plan's deadline, retry pauses and priority. The priority is a ticket, drawn when the plan first has to wait and
 * kept until the plan ends. Among the waiting plans of all front ends, the plan with the lowest number goes first and
 * is passed by no other plan. No plan therefore waits forever.
 */
export class PlanContext {
  /** Undefined until the plan first has to wait. */
  priority: bigint | undefined;
  readonly #clock: Clock;
  readonly #deadline: number;
  readonly #holdsGates: boolean;
  /** Whether the mutation that decides the plan may have been sent. */
  #mayBeDecided = false;
  #isExpired = false;
  #backoffs = 0;

  /** `ms`: time until the deadline. `holdsGates`: the front end holds gates of tables for this plan. */
  constructor(clock: Clock, ms: number, holdsGates = false) {
    this.#clock = clock;
    this.#deadline = clock.now() + ms;
    this.#holdsGates = holdsGates;
  }

  /** Returns the plan's outcome, or rejects with `unavailable` at the deadline. The plan ends at its next check. */
  async withDeadline<T>(work: Promise<T>): Promise<T> {
    let stop: Stop | undefined;
    const late = new Promise<never>((_, reject) => {
      stop = this.#clock.after(this.#deadline - this.#clock.now(), () => {
        this.#isExpired = true;
        reject(this.#deadlineError());
      });
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      stop?.();
    }
  }

  #deadlineError(): StoreError {
    return this.#mayBeDecided
      ? unknownOutcome()
      : new StoreError(
          'unavailable',
          'other front ends hold rows of a plan for too long (one that died, until the others give it up: try again), ' +
            'or the store does not answer',
        );
  }

  /** Throws `unavailable` after the deadline. Nothing may be decided from then on. */
  checkDeadline(): void {
    if (this.#isExpired || this.#clock.now() > this.#deadline) throw this.#deadlineError();
  }

  /** Calls `checkDeadline`, and notes that the plan may be decided from now on. */
  beginDecision(): void {
    this.checkDeadline();
    this.#mayBeDecided = true;
  }

  /** Draws the priority, unless the plan has one. */
  async drawPriority(tickets: Tickets): Promise<bigint> {
    if (this.priority === undefined) {
      const ticket = await tickets.draw(1);
      this.priority ??= this.#holdsGates ? ticket : ticket | WITHOUT_GATES;
    }
    return this.priority;
  }

  backOff(first: number, longest: number): Promise<void> {
    return this.#clock.sleep(Math.min(longest, first * 2 ** Math.min(this.#backoffs++, 10)));
  }
}

export function unknownOutcome(cause?: unknown): StoreError {
  const message = 'the store did not answer while a plan was applied';
  return new StoreError('unavailable', message, { cause, applied: 'unknown' });
}

/** A row to be locked, exclusively or shared with other holders. */
export interface LockRequest {
  readonly id: string;
  readonly exclusive: boolean;
}

/** A request of another front end for a row, with the lowest priority number of its waiting plans. */
export interface RemoteRequest extends LockRequest {
  /** Identifies the requesting front end, the lock mode and the row. */
  readonly name: Buffer;
  /** Qualifier of the cell that contains the request. */
  readonly cell: Buffer;
  readonly priority: bigint;
  /** Version of the cell. The requester increments the version with each write of the cell. */
  readonly version: Buffer;
}

function requestId({ cell, name }: RemoteRequest): string {
  return `${cell.toString('latin1')}${name.toString('latin1')}`;
}

interface TrackedRequest extends RemoteRequest {
  /** Time at which the current version was first read. */
  readonly refreshedAt: number;
}

/**
 * The fair queue for rows: the waiting plans of this front end, and the requests of other front ends. A row is released
 * when another front end requests it with a lower priority number than all plans that wait here. No plan here takes the
 * row before the requester.
 */
export class RowQueue {
  readonly #clock: Clock;
  readonly #expiry: number;
  readonly #waiting = new Map<string, Set<PlanContext>>();
  #requests = new Map<string, TrackedRequest[]>();

  constructor(clock: Clock, expiry: number) {
    this.#clock = clock;
    this.#expiry = expiry;
  }

  /** Whether a plan waits here, or another front end requests a row. */
  get hasWaiters(): boolean {
    return this.#waiting.size > 0 || this.#requests.size > 0;
  }

  enqueue(plan: PlanContext, rows: readonly LockRequest[]): void {
    for (const { id } of rows) {
      const known = this.#waiting.get(id);
      if (known) known.add(plan);
      else this.#waiting.set(id, new Set([plan]));
    }
  }

  dequeue(plan: PlanContext, rows: readonly LockRequest[]): void {
    for (const { id } of rows) {
      const known = this.#waiting.get(id);
      known?.delete(plan);
      if (known?.size === 0) this.#waiting.delete(id);
    }
  }

  /**
   * Replaces the requests of other front ends by `requests`. `fresh`: the requests that were sent, or sent again, since
   * the last call. `expired`: the requests that were not sent again within the expiry time, because the sender has
   * given up or is dead.
   */
  updateRequests(requests: readonly RemoteRequest[]): { fresh: RemoteRequest[]; expired: RemoteRequest[] } {
    const now = this.#clock.now();
    const previous = new Map<string, TrackedRequest>();
    for (const list of this.#requests.values()) for (const request of list) previous.set(requestId(request), request);
    const fresh: RemoteRequest[] = [];
    const expired: RemoteRequest[] = [];
    this.#requests = new Map();
    for (const request of requests) {
      const known = previous.get(requestId(request));
      const refreshedAt = known?.version.equals(request.version) ? known.refreshedAt : now;
      if (refreshedAt === now) fresh.push(request);
      if (now - refreshedAt > this.#expiry) expired.push(request);
      const list = this.#requests.get(request.id);
      const tracked = { ...request, refreshedAt };
      if (list) list.push(tracked);
      else this.#requests.set(request.id, [tracked]);
    }
    return { fresh, expired };
  }

  /** Returns the lowest priority number among the live remote requests that conflict with the lock request. */
  #lowestPriority({ id, exclusive }: LockRequest): bigint | undefined {
    let lowest: bigint | undefined;
    const now = this.#clock.now();
    for (const request of this.#requests.get(id) ?? []) {
      if (now - request.refreshedAt > this.#expiry || !(exclusive || request.exclusive)) continue;
      if (lowest === undefined || request.priority < lowest) lowest = request.priority;
    }
    return lowest;
  }

  /** Whether a plan may take the row. `priority` is undefined for a plan that has not waited yet. */
  mayTake(request: LockRequest, priority: bigint | undefined): boolean {
    if (this.#requests.size === 0) return true;
    const lowest = this.#lowestPriority(request);
    return lowest === undefined || (priority !== undefined && priority < lowest);
  }

  /** Returns the ids of the rows of which this front end has to release its shared hold. */
  rowsToRelease(): string[] {
    return [...this.#requests.keys()].filter((id) => this.#mustRelease(id));
  }

  #mustRelease(id: string): boolean {
    const lowest = this.#lowestPriority({ id, exclusive: false });
    if (lowest === undefined) return false;
    for (const { priority } of this.#waiting.get(id) ?? [])
      if (priority !== undefined && priority < lowest) return false;
    return true;
  }
}
