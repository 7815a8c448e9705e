import { LdapError } from '../../ldap/ldap-error.js';
import type { Config } from '../settings/index.js';

/** Limits the number of long requests that run or wait. A single user has at most half of the limit. */
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
    if (this.#requestCount >= limit || userCount * 2 >= limit)
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
