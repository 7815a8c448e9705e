import { LdapError } from '../../ldap/ldap-error.js';

/** Limits the number of long requests that run or wait. A single user has at most half of the limit. */
export class RequestQuota {
  readonly #limit: number;
  #total = 0;
  readonly #byUser = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Counts a new request. Throws `busy` when the limit is reached. */
  acquire(user: string): void {
    const own = this.#byUser.get(user) ?? 0;
    if (this.#total >= this.#limit || own * 2 >= this.#limit)
      throw new LdapError(
        'busy',
        `too many long requests are waiting, ${this.#total} in all and ${own} of the same user (limits.longRequests); try again later`,
      );
    this.#total++;
    this.#byUser.set(user, own + 1);
  }

  release(user: string): void {
    this.#total--;
    const own = this.#byUser.get(user)! - 1;
    if (own > 0) this.#byUser.set(user, own);
    else this.#byUser.delete(user);
  }
}
