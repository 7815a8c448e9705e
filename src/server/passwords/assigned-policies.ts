import type { CompiledAccess } from '../../access/compiled-access.js';
import type { PolicyRule } from '../../access/rule.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';

export type AssigningDirectory = Pick<
  Partition,
  'groupsOf' | 'groupsVersion' | 'readById' | 'schema' | 'treeGeneration'
>;

/** What was chosen for an account, and by what. */
interface Chosen {
  readonly access: CompiledAccess;
  readonly version: bigint;
  readonly generation: number;
  readonly groups: bigint | undefined;
  readonly rule: PolicyRule | undefined;
}

const MOST_ACCOUNTS = 10_000;

/** Which of the policies that access rules name an account has: worked out once until something of it changes. */
export class AssignedPolicies {
  readonly #directory: AssigningDirectory;
  /** By the entry's id, as latin-1. */
  readonly #chosen = new BoundedMap<string, Chosen>(MOST_ACCOUNTS);

  constructor(directory: AssigningDirectory) {
    this.#directory = directory;
  }

  /** `version`: of the entry. */
  of(access: CompiledAccess, id: Buffer, version: bigint): Maybe<PolicyRule | undefined> {
    const groups = access.passwordPolicies.ofGroups ? this.#directory.groupsVersion() : undefined;
    return chain(groups, (groupsVersion) => {
      const known = this.#chosen.get(id.toString('latin1'));
      const isKnown =
        known?.access === access &&
        known.version === version &&
        known.generation === this.#directory.treeGeneration &&
        known.groups === groupsVersion;
      return isKnown ? known.rule : this.#choose(access, id, groupsVersion);
    });
  }

  async #choose(access: CompiledAccess, id: Buffer, groups: bigint | undefined): Promise<PolicyRule | undefined> {
    const generation = this.#directory.treeGeneration;
    const entry = await this.#directory.readById(id);
    if (!entry) return undefined;
    const dn = this.#directory.schema.parseDn(entry.dn);
    const names = groups === undefined ? NONE : await this.#directory.groupsOf({ id, dn });
    const inGroup = (group: { readonly norm: Buffer }) => names.has(group.norm.toString('latin1'));
    const rule = access.passwordPolicies.of(dn, entry, inGroup);
    this.#chosen.set(id.toString('latin1'), { access, version: entry.version, generation, groups, rule });
    return rule;
  }
}

const NONE: ReadonlySet<string> = new Set();
