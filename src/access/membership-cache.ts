import { BoundedMap } from '../cache/bounded-map.js';

const MAX_MEMBERS = 10_000;
/** Memberships of a user in more groups than this are not cached. */
const MAX_GROUPS = 32;

/**
 * Caches which of the groups named in rules a user belongs to, for one version of the group data. Where rules name
 * groups, these lookups are most of the cost of computing rights. The rights themselves are computed for each session:
 * kept for some thousand users they cost more in garbage collection than they save.
 */
export class MembershipCache {
  readonly #memberships = new BoundedMap<string, ReadonlySet<string>>(MAX_MEMBERS);
  #version: bigint | undefined;

  /** `member` identifies the user's entry in its current state, by name and version. */
  get(version: bigint, member: string): ReadonlySet<string> | undefined {
    return version === this.#version ? this.#memberships.get(member) : undefined;
  }

  set(version: bigint, member: string, groups: ReadonlySet<string>): void {
    if (version !== this.#version) this.#memberships.clear();
    this.#version = version;
    if (groups.size <= MAX_GROUPS) this.#memberships.set(member, groups);
  }
}
