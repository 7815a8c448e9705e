import { BoundedMap } from '../cache/bounded-map.js';

const MOST = 10_000;
/** Who is in more groups is asked for each time. */
const MOST_GROUPS = 32;

/**
 * In which groups somebody is, of those that rules name, in the groups as they are since one version: where rules name
 * groups, that is most of what rights cost. The rights themselves are made anew for each session: kept for some
 * thousand users they cost the garbage collector more than they spare.
 */
export class KnownGroups {
  readonly #of = new BoundedMap<string, ReadonlySet<string>>(MOST);
  #version: bigint | undefined;

  /** `member`: what tells the entry from others and from what it was before, name and version. */
  get(version: bigint, member: string): ReadonlySet<string> | undefined {
    return version === this.#version ? this.#of.get(member) : undefined;
  }

  set(version: bigint, member: string, groups: ReadonlySet<string>): void {
    if (version !== this.#version) this.#of.clear();
    this.#version = version;
    if (groups.size <= MOST_GROUPS) this.#of.set(member, groups);
  }
}
