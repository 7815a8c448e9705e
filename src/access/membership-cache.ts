import { BoundedMap } from '../cache/bounded-map.js';

const MAX_MEMBERS = 10_000;
/** Memberships of a user in more groups than this are not cached. */
const MAX_GROUPS = 32;

/**
 * Caches the groups, of those that rules name, that a user is a member of, for one version of the group data. Where
 * rules name groups, these lookups are most of the cost of computing rights. The rights themselves are computed anew
 * for each session: caching the rights of some thousand users costs more in garbage collection than it saves.
 */
export class MembershipCache {
  readonly #memberships = new BoundedMap<string, ReadonlySet<string>>(MAX_MEMBERS);
  #version: bigint | undefined;

  /** Returns the groups of a user. `member` identifies the user's entry in its current state, by name and version. */
  get(version: bigint, member: string): ReadonlySet<string> | undefined {
    return version === this.#version ? this.#memberships.get(member) : undefined;
  }

  set(version: bigint, member: string, groups: ReadonlySet<string>): void {
    if (version !== this.#version) this.#memberships.clear();
    this.#version = version;
    if (groups.size <= MAX_GROUPS) this.#memberships.set(member, groups);
  }
}
