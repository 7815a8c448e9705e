import { LdapError } from '../../ldap/ldap-error.js';

/**
 * Counts the errands that are with the thread or wait for it. There is an end to them, and no user has more than half.
 */
export class Occupancy {
  readonly #limit: number;
  #all = 0;
  readonly #ofUser = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Throws `busy` where there is no room. */
  enter(user: string): void {
    const mine = this.#ofUser.get(user) ?? 0;
    if (this.#all >= this.#limit || mine * 2 >= this.#limit)
      throw new LdapError(
        'busy',
        `too many long requests are waiting, ${this.#all} in all and ${mine} of the same user (limits.longRequests); try again later`,
      );
    this.#all++;
    this.#ofUser.set(user, mine + 1);
  }

  leave(user: string): void {
    this.#all--;
    const mine = this.#ofUser.get(user)! - 1;
    if (mine > 0) this.#ofUser.set(user, mine);
    else this.#ofUser.delete(user);
  }
}
