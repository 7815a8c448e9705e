import type { CompiledAccess } from '../../access/compiled-access.js';
import type { PolicyRule } from '../../access/rule.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';

export type AssigningDirectory = Pick<
  Partition,
  'groupsOf' | 'groupsVersion' | 'readById' | 'schema' | 'treeGeneration'
>;

/** The policy rule chosen for an account, and the state that the choice depends on. */
interface CachedChoice {
  readonly access: CompiledAccess;
  readonly version: bigint;
  readonly generation: number;
  readonly groups: bigint | undefined;
  readonly rule: PolicyRule | undefined;
}

const MAX_CACHED = 10_000;

/** Chooses the policy of an account by the access rules. Choices are cached until the state they depend on changes. */
export class AssignedPolicies {
  readonly #directory: AssigningDirectory;
  /** Choices by entry id in Latin-1. */
  readonly #choices = new BoundedMap<string, CachedChoice>(MAX_CACHED);

  constructor(directory: AssigningDirectory) {
    this.#directory = directory;
  }

  /** Returns the policy rule of an account. `version`: version of the entry. */
  of(access: CompiledAccess, id: Buffer, version: bigint): Maybe<PolicyRule | undefined> {
    const groups = access.passwordPolicies.usesGroups ? this.#directory.groupsVersion() : undefined;
    return chain(groups, (groupsVersion) => {
      const known = this.#choices.get(id.toString('latin1'));
      const isCurrent =
        known?.access === access &&
        known.version === version &&
        known.generation === this.#directory.treeGeneration &&
        known.groups === groupsVersion;
      return isCurrent ? known.rule : this.#choose(access, id, groupsVersion);
    });
  }

  async #choose(access: CompiledAccess, id: Buffer, groups: bigint | undefined): Promise<PolicyRule | undefined> {
    const generation = this.#directory.treeGeneration;
    const entry = await this.#directory.readById(id);
    if (!entry) return undefined;
    const dn = this.#directory.schema.parseDn(entry.dn);
    const names = groups === undefined ? NO_GROUPS : await this.#directory.groupsOf({ id, dn });
    const inGroup = (group: { readonly norm: Buffer }) => names.has(group.norm.toString('latin1'));
    const rule = access.passwordPolicies.policyRuleFor(dn, entry, inGroup);
    this.#choices.set(id.toString('latin1'), { access, version: entry.version, generation, groups, rule });
    return rule;
  }
}

const NO_GROUPS: ReadonlySet<string> = new Set();
