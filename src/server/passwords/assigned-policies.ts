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
  readonly entryVersion: bigint;
  readonly treeGeneration: number;
  readonly groupsVersion: bigint | undefined;
  readonly rule: PolicyRule | undefined;
}

const MAX_CACHED_CHOICES = 10_000;

/** Chooses the policy of an account by the access rules. Choices are cached until the state they depend on changes. */
export class AssignedPolicies {
  readonly #directory: AssigningDirectory;
  /** Choices by entry id in Latin-1. */
  readonly #choices = new BoundedMap<string, CachedChoice>(MAX_CACHED_CHOICES);

  constructor(directory: AssigningDirectory) {
    this.#directory = directory;
  }

  /** Returns the policy rule of an account. `version`: version of the entry. */
  assignedRule(access: CompiledAccess, id: Buffer, version: bigint): Maybe<PolicyRule | undefined> {
    const groupsVersion = access.passwordPolicies.usesGroups ? this.#directory.groupsVersion() : undefined;
    return chain(groupsVersion, (groupsVersion) => {
      const cachedChoice = this.#choices.get(id.toString('latin1'));
      const isCurrent =
        cachedChoice?.access === access &&
        cachedChoice.entryVersion === version &&
        cachedChoice.treeGeneration === this.#directory.treeGeneration &&
        cachedChoice.groupsVersion === groupsVersion;
      return isCurrent ? cachedChoice.rule : this.#chooseRule(access, id, groupsVersion);
    });
  }

  async #chooseRule(access: CompiledAccess, id: Buffer, groupsVersion?: bigint): Promise<PolicyRule | undefined> {
    const treeGeneration = this.#directory.treeGeneration;
    const entry = await this.#directory.readById(id);
    if (!entry) return undefined;
    const dn = this.#directory.schema.parseDn(entry.dn);
    const groupNames = groupsVersion === undefined ? NO_GROUPS : await this.#directory.groupsOf({ id, dn });
    const inGroup = (group: { readonly norm: Buffer }) => groupNames.has(group.norm.toString('latin1'));
    const rule = access.passwordPolicies.policyRuleFor(dn, entry, inGroup);
    const choice = { access, entryVersion: entry.version, treeGeneration, groupsVersion, rule };
    this.#choices.set(id.toString('latin1'), choice);
    return rule;
  }
}

const NO_GROUPS: ReadonlySet<string> = new Set();
