import { StoreError } from '../../store-error.js';
import type { CancelTimer, Clock, Tickets } from './tickets.js';

/**
 * A bit in the priorities of plans that wait without holding gates (locks of whole tables). The bit places such plans
 * behind all plans that hold gates, because a plan that waits for a gate must not overtake the plan that holds it.
 */
const WITHOUT_GATES = 1n << 62n;

/**
 * A plan's deadline, retry pauses and priority. The priority is a ticket, drawn when the plan first has to wait and
 * kept until the plan ends. Among the waiting plans of all front ends, the plan with the lowest number goes first and
 * is overtaken by no other plan. No plan therefore waits forever.
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
  #backoffCount = 0;

  /** `timeoutMs`: time until the deadline. `holdsGates`: the front end holds gates of tables for this plan. */
  constructor(clock: Clock, timeoutMs: number, holdsGates = false) {
    this.#clock = clock;
    this.#deadline = clock.now() + timeoutMs;
    this.#holdsGates = holdsGates;
  }

  /** Returns the plan's outcome, or rejects with `unavailable` at the deadline. The plan ends at its next check. */
  async withDeadline<T>(work: Promise<T>): Promise<T> {
    let cancelTimer: CancelTimer | undefined;
    const expiry = new Promise<never>((_, reject) => {
      cancelTimer = this.#clock.runAfter(this.#deadline - this.#clock.now(), () => {
        this.#isExpired = true;
        reject(this.#deadlineError());
      });
    });
    try {
      return await Promise.race([work, expiry]);
    } finally {
      cancelTimer?.();
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

  /** As `checkDeadline`. Records that the plan may be decided from now on. */
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

  backOff(firstMs: number, maxMs: number): Promise<void> {
    return this.#clock.sleep(Math.min(maxMs, firstMs * 2 ** Math.min(this.#backoffCount++, 10)));
  }
}

export function unknownOutcome(cause?: unknown): StoreError {
  const message = 'the store did not answer while a plan was applied';
  return new StoreError('unavailable', message, { cause, applied: 'unknown' });
}

/** A row to be locked, exclusively or shared with other holders. */
export interface LockRequest {
  readonly id: string;
  readonly isExclusive: boolean;
}

/** A request of another front end for a row, with the lowest priority number of the plans that wait for it there. */
export interface RemoteRequest extends LockRequest {
  /** Identifies the requesting front end, the lock mode and the row. */
  readonly requestKey: Buffer;
  /** Qualifier of the cell that contains the request. */
  readonly qualifier: Buffer;
  readonly priority: bigint;
  /** Version of the cell. The requester increments the version with each write of the cell. */
  readonly version: Buffer;
}

function requestId({ qualifier, requestKey }: RemoteRequest): string {
  return `${qualifier.toString('latin1')}${requestKey.toString('latin1')}`;
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
  readonly #expiryMs: number;
  readonly #waitingPlans = new Map<string, Set<PlanContext>>();
  #requests = new Map<string, TrackedRequest[]>();

  constructor(clock: Clock, expiryMs: number) {
    this.#clock = clock;
    this.#expiryMs = expiryMs;
  }

  /** Whether a plan waits here, or another front end requests a row. */
  get hasWaiters(): boolean {
    return this.#waitingPlans.size > 0 || this.#requests.size > 0;
  }

  enqueue(plan: PlanContext, rows: readonly LockRequest[]): void {
    for (const { id } of rows) {
      const plans = this.#waitingPlans.get(id);
      if (plans) plans.add(plan);
      else this.#waitingPlans.set(id, new Set([plan]));
    }
  }

  dequeue(plan: PlanContext, rows: readonly LockRequest[]): void {
    for (const { id } of rows) {
      const plans = this.#waitingPlans.get(id);
      plans?.delete(plan);
      if (plans?.size === 0) this.#waitingPlans.delete(id);
    }
  }

  /**
   * Replaces the requests of other front ends by `requests`. `freshRequests` were sent, or sent again, since the last
   * call. `expiredRequests` were not sent again within the expiry time, because no plan of the sender waits any more or
   * the sender is dead.
   */
  updateRequests(requests: readonly RemoteRequest[]): {
    freshRequests: RemoteRequest[];
    expiredRequests: RemoteRequest[];
  } {
    const now = this.#clock.now();
    const previousRequests = new Map<string, TrackedRequest>();
    for (const list of this.#requests.values())
      for (const request of list) previousRequests.set(requestId(request), request);
    const freshRequests: RemoteRequest[] = [];
    const expiredRequests: RemoteRequest[] = [];
    this.#requests = new Map();
    for (const request of requests) {
      const previousRequest = previousRequests.get(requestId(request));
      const refreshedAt = previousRequest?.version.equals(request.version) ? previousRequest.refreshedAt : now;
      if (refreshedAt === now) freshRequests.push(request);
      if (now - refreshedAt > this.#expiryMs) expiredRequests.push(request);
      const list = this.#requests.get(request.id);
      const trackedRequest = { ...request, refreshedAt };
      if (list) list.push(trackedRequest);
      else this.#requests.set(request.id, [trackedRequest]);
    }
    return { freshRequests, expiredRequests };
  }

  /** Returns the lowest priority number among the live remote requests that conflict with the lock request. */
  #lowestPriority({ id, isExclusive }: LockRequest): bigint | undefined {
    let lowestPriority: bigint | undefined;
    const now = this.#clock.now();
    for (const request of this.#requests.get(id) ?? []) {
      if (now - request.refreshedAt > this.#expiryMs || !(isExclusive || request.isExclusive)) continue;
      if (lowestPriority === undefined || request.priority < lowestPriority) lowestPriority = request.priority;
    }
    return lowestPriority;
  }

  /** Whether a plan may take the row. `priority` is undefined for a plan that has not waited yet. */
  mayTake(request: LockRequest, priority: bigint | undefined): boolean {
    if (this.#requests.size === 0) return true;
    const lowestPriority = this.#lowestPriority(request);
    return lowestPriority === undefined || (priority !== undefined && priority < lowestPriority);
  }

  /** Returns the ids of the rows of which this front end has to release its shared hold. */
  rowsToRelease(): string[] {
    return [...this.#requests.keys()].filter((id) => this.#mustRelease(id));
  }

  #mustRelease(id: string): boolean {
    const lowestPriority = this.#lowestPriority({ id, isExclusive: false });
    if (lowestPriority === undefined) return false;
    for (const { priority } of this.#waitingPlans.get(id) ?? [])
      if (priority !== undefined && priority < lowestPriority) return false;
    return true;
  }
}
