import { BoundedMap } from '../cache/bounded-map.js';

const MOST = 10_000;
/** Memberships of a user in more groups than this are not cached. */
const MOST_GROUPS = 32;

/**
 * Caches which of the groups named in rules a user belongs to, for one version of the group data. Where rules name
 * groups, these lookups are most of the cost of computing rights. The rights themselves are computed for each session:
 * kept for some thousand users they cost more in garbage collection than they save.
 */
export class KnownGroups {
  readonly #of = new BoundedMap<string, ReadonlySet<string>>(MOST);
  #version: bigint | undefined;

  /** `member` identifies the user's entry in its current state, by name and version. */
  get(version: bigint, member: string): ReadonlySet<string> | undefined {
    return version === this.#version ? this.#of.get(member) : undefined;
  }

  set(version: bigint, member: string, groups: ReadonlySet<string>): void {
    if (version !== this.#version) this.#of.clear();
    this.#version = version;
    if (groups.size <= MOST_GROUPS) this.#of.set(member, groups);
  }
}
