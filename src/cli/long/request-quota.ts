import { LdapError } from '../../ldap/ldap-error.js';

/** Limits the number of long requests that run or wait. A single user has at most half of the limit. */
export class RequestQuota {
  readonly #limit: number;
  #requestCount = 0;
  readonly #countByUser = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Counts a new request. Throws `busy` when the limit is reached. */
  acquire(user: string): void {
    const userCount = this.#countByUser.get(user) ?? 0;
    if (this.#requestCount >= this.#limit || userCount * 2 >= this.#limit)
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
