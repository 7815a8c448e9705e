import type { Logger } from 'pino';
import type { CompiledAccess } from '../../access/compiled-access.js';
import type { PolicyRule } from '../../access/rule.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { type AccountPolicy, countsFailures, policyOfEntry, withLockout } from './account-policy.js';
import type { RowCredentials } from './credentials.js';

type AssigningDirectory = Pick<Partition, 'groupsOf' | 'groupsVersion' | 'readById' | 'schema' | 'treeGeneration'>;
type PolicyDirectory = AssigningDirectory & Pick<Partition, 'findRow' | 'versionOf'>;

/** A packed row of an entry, with its name. */
type NamedRow = { readonly dn: Dn; readonly row: Buffer };

/** Returns the access rules in force; see `AccessControl`. */
interface RulesInForce {
  rulesInForce(): Maybe<CompiledAccess>;
}

/** The policy of an account, and its source. */
export interface ChosenPolicy {
  readonly policy: AccountPolicy;
  readonly dn: string;
  readonly source: 'entry' | 'setting' | PolicyRule;
}

/** A compiled policy. It is valid for this version of its entry and this generation of the tree. */
interface CompiledPolicy {
  readonly id: Buffer;
  readonly version: bigint;
  readonly treeGeneration: number;
  readonly policy: AccountPolicy;
}

const MAX_POLICIES = 1000;

/** The compiled password policies of the directory. A policy is read again after its entry has changed. */
export class Policies {
  readonly #directory: PolicyDirectory;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #rules: RulesInForce;
  readonly #assignedPolicies: AssignedPolicies;
  /** DN of the policy for accounts without another policy. */
  readonly #defaultDn: Dn | undefined;
  /** Policies by normalized DN in Latin-1. */
  readonly #policiesByDn = new BoundedMap<string, CompiledPolicy>(MAX_POLICIES);
  readonly #warnedDns = new BoundedMap<string, true>(MAX_POLICIES);
  /** Whether some policy read so far counts failures. */
  #countsFailures = false;
  /** The access rules whose policies have all been read. */
  #rulesWithReadPolicies: CompiledAccess | undefined;

  constructor(
    directory: PolicyDirectory,
    defaultDn: string | undefined,
    rules: RulesInForce,
    log: Pick<Logger, 'warn'>,
  ) {
    this.#directory = directory;
    this.#log = log;
    this.#rules = rules;
    this.#assignedPolicies = new AssignedPolicies(directory);
    this.#defaultDn = defaultDn === undefined ? undefined : parseDefaultDn(directory, defaultDn);
  }

  /** `newEntry`: the entry, if it is not in the directory yet. */
  forAccount(id: Buffer, credentials: RowCredentials, newEntry?: NamedRow): Maybe<AccountPolicy | undefined> {
    return chain(this.choose(id, credentials, newEntry), (chosen) => chosen?.policy);
  }

  /** Whether entries that name no policy may have one. */
  mayAssign(): Maybe<boolean> {
    if (this.#defaultDn) return true;
    return chain(this.#rules.rulesInForce(), ({ passwordPolicies }) => passwordPolicies.rules.length > 0);
  }

  /**
   * Returns the policy that the entry names, else a policy that the access rules name, else the default policy. A
   * missing policy is logged, and the next source applies.
   */
  choose(id: Buffer, credentials: RowCredentials, newEntry?: NamedRow): Maybe<ChosenPolicy | undefined> {
    const policyDn = credentials.account?.policy;
    if (policyDn === undefined) return this.#policyByRules(id, credentials, newEntry);
    const policyLookup = this.#findPolicy(this.#directory.schema.parseDn(policyDn));
    return chain(policyLookup, (policy) =>
      policy ? { policy, dn: policyDn, source: 'entry' as const } : this.#policyByRules(id, credentials, newEntry),
    );
  }

  #policyByRules(id: Buffer, { version }: RowCredentials, newEntry?: NamedRow): Maybe<ChosenPolicy | undefined> {
    return chain(this.#rules.rulesInForce(), (access) => {
      if (access.passwordPolicies.rules.length === 0) return this.#defaultPolicy();
      const assigned = newEntry
        ? this.#assignedPolicies.ruleOf(access, id, newEntry)
        : this.#assignedPolicies.assignedRule(access, id, version);
      return chain(assigned, (source) => {
        if (!source) return this.#defaultPolicy();
        const { policy: dn } = source;
        return chain(this.#findPolicy(dn), (policy) =>
          policy ? { policy, dn: dn.text, source } : this.#defaultPolicy(),
        );
      });
    });
  }

  #defaultPolicy(): Maybe<ChosenPolicy | undefined> {
    const dn = this.#defaultDn;
    if (!dn) return undefined;
    return chain(this.#findPolicy(dn), (policy) => policy && { policy, dn: dn.text, source: 'setting' as const });
  }

  /** Whether some account counts failed binds. Then all failed binds write, so that the time reveals no account. */
  anyCountsFailures(): Maybe<boolean> {
    return chain(this.#readRulePolicies(), () => chain(this.#defaultPolicy(), () => this.#countsFailures));
  }

  /** Reads each policy that the access rules name once. */
  #readRulePolicies(): Maybe<void> {
    return chain(this.#rules.rulesInForce(), (access) => {
      if (this.#rulesWithReadPolicies === access) return undefined;
      const { rules } = access.passwordPolicies;
      if (rules.length === 0) return undefined;
      return chain(Promise.all(rules.map(({ policy }) => this.#findPolicy(policy))), () => {
        this.#rulesWithReadPolicies = access;
      });
    });
  }

  /** Returns the policy for binds. An account with a second factor always has a policy. */
  forBinds(id: Buffer, credentials: RowCredentials): Maybe<AccountPolicy | undefined> {
    if (!credentials.totp) return this.forAccount(id, credentials);
    this.#countsFailures = true;
    return chain(this.forAccount(id, credentials), withLockout);
  }

  #findPolicy(dn: Dn): Maybe<AccountPolicy | undefined> {
    const compiled = this.#policiesByDn.get(dn.norm.toString('latin1'));
    if (!compiled) return this.#readPolicy(dn);
    return chain(this.#directory.versionOf(compiled.id), (version) => {
      const isCurrent = version === compiled.version && this.#directory.treeGeneration === compiled.treeGeneration;
      return isCurrent ? compiled.policy : this.#readPolicy(dn);
    });
  }

  async #readPolicy(dn: Dn): Promise<AccountPolicy | undefined> {
    const key = dn.norm.toString('latin1');
    const treeGeneration = this.#directory.treeGeneration;
    const foundRow = await this.#directory.findRow(dn);
    const entry = foundRow && (await this.#directory.readById(foundRow.id));
    const policy = entry && policyOfEntry(entry);
    if (!policy) {
      this.#policiesByDn.delete(key);
      this.#warnOfMissing(key, dn.text);
      return undefined;
    }
    this.#warnedDns.delete(key);
    this.#policiesByDn.set(key, { id: entry.id, version: entry.version, treeGeneration, policy });
    if (countsFailures(policy)) this.#countsFailures = true;
    return policy;
  }

  #warnOfMissing(key: string, dn: string): void {
    if (this.#warnedDns.has(key)) return;
    this.#warnedDns.set(key, true);
    this.#log.warn(
      { dn },
      'a password policy is not there, or its entry is none (class pwdPolicy, pwdAttribute userPassword)',
    );
  }
}

function parseDefaultDn({ schema }: PolicyDirectory, dn: string): Dn {
  try {
    return schema.parseDn(dn);
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    throw new LdapError(error.result, `passwords.policy: ${error.message}`, { cause: error });
  }
}

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
class AssignedPolicies {
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
    const rule = await this.ruleOf(access, id, { dn: this.#directory.schema.parseDn(entry.dn), row: entry.row });
    const choice = { access, entryVersion: entry.version, treeGeneration, groupsVersion, rule };
    this.#choices.set(id.toString('latin1'), choice);
    return rule;
  }

  /** Returns the policy rule of an account whose entry was read. The choice is not cached. */
  async ruleOf({ passwordPolicies }: CompiledAccess, id: Buffer, { dn, row }: NamedRow) {
    const groupNames = passwordPolicies.usesGroups ? await this.#directory.groupsOf({ id, dn }) : NO_GROUPS;
    const inGroup = (group: { readonly norm: Buffer }) => groupNames.has(group.norm.toString('latin1'));
    return passwordPolicies.policyRuleFor(dn, { row }, inGroup);
  }
}

const NO_GROUPS: ReadonlySet<string> = new Set();
