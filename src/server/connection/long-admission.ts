import { getHeapStatistics } from 'node:v8';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Operation } from '../request/operation.js';
import type { Config } from '../settings/index.js';
import { Budget, type Claimant } from './budget.js';

/** Upper bound of the memory that one BER element of a request takes when it is decoded and compiled, in bytes. */
const ELEMENT_BYTES = 512;
/** The same for a value that is written, with its row and its postings. */
const WRITTEN_ELEMENT_BYTES = 1536;
/** Fraction of the heap of a thread that decoded requests may take together. The rest is for results and garbage. */
const HEAP_FRACTION = 1 / 4;
/** Most that is claimed for a request, as a fraction of the budget: a larger one shall not wait for all others. */
const CLAIM_FRACTION = 1 / 2;

/** Fraction of the budget of one user. A claim may last as long as its client takes to read what was found. */
const USER_FRACTION = 1 / 4;
/** A user with fewer requests than this fraction of the limit is not refused because of others. */
const RESERVED_FRACTION = 1 / 16;

/** Returns an upper bound of the memory that a request of so many BER elements takes when it is decoded, in bytes. */
export function decodedBytes(elementCount: number): number {
  return elementCount * ELEMENT_BYTES;
}

/**
 * Admits the long requests of all connections. Bounds their number and the memory that they take once they are decoded.
 * A request waits, still encoded, until there is room for it; users are served by what they have taken already.
 */
export class LongAdmission {
  /** Memory of decoded requests. Not part of the budget of arriving requests: those wait for requests that run. */
  readonly budget = new Budget(0, USER_FRACTION);
  readonly #limits: Config['limits'];
  readonly #quota: RequestQuota;
  readonly #heapBytes: number;

  /** `heapBytes`: limit of the heap of the thread that runs the requests. */
  constructor(limits: Config['limits'], heapBytes = getHeapStatistics().heap_size_limit) {
    this.#limits = limits;
    this.#quota = new RequestQuota(limits);
    this.#heapBytes = heapBytes;
    this.adoptLimits();
  }

  adoptLimits(): void {
    this.budget.limitBytes = Math.min(this.#limits.requestBytes, this.#heapBytes * HEAP_FRACTION);
  }

  /** Number of long requests that run or wait. */
  get requestCount(): number {
    return this.#quota.requestCount;
  }

  /**
   * Calls `work` when there is room for the elements of the operation's request. Throws `busy` when too many requests
   * wait or the heap is too small for this one, and `canceled` when the operation is aborted before.
   */
  async run<T>(user: string, elementCount: number, operation: Operation, work: () => Promise<T>): Promise<T> {
    const isQuestion = operation.op === 'search' || operation.op === 'compare';
    const neededBytes = elementCount * (isQuestion ? ELEMENT_BYTES : WRITTEN_ELEMENT_BYTES);
    if (neededBytes > this.#heapBytes)
      throw new LdapError('busy', `the request has ${elementCount} elements, too many for the heap of the server`);
    const bytes = Math.min(neededBytes, this.budget.limitBytes * CLAIM_FRACTION);
    this.#quota.acquire(user);
    try {
      await this.#claim(user, bytes, operation);
      try {
        if (operation.aborted) throw new LdapError('canceled', 'canceled');
        return await work();
      } finally {
        this.budget.releaseClaim(user, bytes);
      }
    } finally {
      this.#quota.release(user);
    }
  }

  #claim(user: string, bytes: number, operation: Operation): Promise<void> | undefined {
    const { budget } = this;
    if (bytes === 0) return undefined;
    const claimant: Claimant & { wake: () => void } = { isReady: true, wake: () => undefined };
    if (budget.claim(claimant, user, bytes)) return undefined;
    return new Promise((resolve, reject) => {
      const endWait = operation.onAbortWhileWaiting(() => {
        endWait();
        budget.cancelClaim(claimant);
        reject(new LdapError('canceled', 'canceled'));
      });
      claimant.wake = () => {
        if (!budget.claim(claimant, user, bytes)) return;
        endWait();
        resolve();
      };
    });
  }
}

/**
 * Limits the number of long requests that run or wait. A single user has at most half of the limit. A user who has few
 * is admitted beyond it.
 */
export class RequestQuota {
  readonly #limits: Pick<Config['limits'], 'longRequests'>;
  #requestCount = 0;
  readonly #countByUser = new Map<string, number>();

  constructor(limits: Pick<Config['limits'], 'longRequests'>) {
    this.#limits = limits;
  }

  get requestCount(): number {
    return this.#requestCount;
  }

  /** Counts a new request. Throws `busy` when the limit is reached. */
  acquire(user: string): void {
    const { longRequests: limit } = this.#limits;
    const userCount = this.#countByUser.get(user) ?? 0;
    const isFull = this.#requestCount >= limit && userCount >= limit * RESERVED_FRACTION;
    if (isFull || userCount * 2 >= limit)
      throw new LdapError(
        'busy',
        `too many long requests are waiting, ${this.#requestCount} in all and ${userCount} of the same user (limits.longRequests); try again later`,
      );
    this.#requestCount++;
    this.#countByUser.set(user, userCount + 1);
  }

  release(user: string): void {
    this.#requestCount--;
    const userCount = this.#countByUser.get(user)! - 1;
    if (userCount > 0) this.#countByUser.set(user, userCount);
    else this.#countByUser.delete(user);
  }
}
