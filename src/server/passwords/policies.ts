import type { Logger } from 'pino';
import type { CompiledAccess } from '../../access/compiled-access.js';
import type { PolicyRule } from '../../access/rule.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { type AccountPolicy, countsFailures, policyOfEntry, withLockout, withMaxAge } from './account-policy.js';
import { AssignedPolicies, type AssigningDirectory } from './assigned-policies.js';
import type { RowCredentials } from './credentials.js';

type PolicyDirectory = AssigningDirectory & Pick<Partition, 'findRow' | 'versionOf'>;

/** Returns the access rules in force; see `AccessControl`. */
interface RulesInForce {
  current(): Maybe<CompiledAccess>;
}

/** The policy of an account, and its source. */
export interface ChosenPolicy {
  readonly policy: AccountPolicy;
  readonly dn: string;
  readonly by: 'entry' | 'setting' | PolicyRule;
}

/** A compiled policy. It is valid for this version of its entry and this generation of the tree. */
interface CompiledPolicy {
  readonly id: Buffer;
  readonly version: bigint;
  readonly generation: number;
  readonly policy: AccountPolicy;
}

const MAX_POLICIES = 1000;

/** The compiled password policies of the directory. A policy is read again after its entry has changed. */
export class Policies {
  readonly #directory: PolicyDirectory;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #rules: RulesInForce;
  readonly #assigned: AssignedPolicies;
  /** DN of the policy for accounts without another policy. */
  readonly #default: Dn | undefined;
  /** Policies by normalized DN in Latin-1. */
  readonly #compiled = new BoundedMap<string, CompiledPolicy>(MAX_POLICIES);
  readonly #warned = new BoundedMap<string, true>(MAX_POLICIES);
  /** Whether some policy read so far counts failures. */
  #countsFailures = false;
  /** The access rules whose policies have all been read. */
  #readRules: CompiledAccess | undefined;

  constructor(
    directory: PolicyDirectory,
    defaultDn: string | undefined,
    rules: RulesInForce,
    log: Pick<Logger, 'warn'>,
  ) {
    this.#directory = directory;
    this.#log = log;
    this.#rules = rules;
    this.#assigned = new AssignedPolicies(directory);
    this.#default = defaultDn === undefined ? undefined : defaultOf(directory, defaultDn);
  }

  of(id: Buffer, credentials: RowCredentials): Maybe<AccountPolicy | undefined> {
    return chain(this.choose(id, credentials), (chosen) => withMaxAge(chosen?.policy, credentials.account?.maxAge));
  }

  /**
   * Returns the policy that the entry names, else a policy that the access rules name, else the default policy. A
   * missing policy is logged, and the next source applies.
   */
  choose(id: Buffer, credentials: RowCredentials): Maybe<ChosenPolicy | undefined> {
    const named = credentials.account?.policy;
    if (named === undefined) return this.#ofRules(id, credentials);
    const found = this.#find(this.#directory.schema.parseDn(named));
    return chain(found, (policy) =>
      policy ? { policy, dn: named, by: 'entry' as const } : this.#ofRules(id, credentials),
    );
  }

  #ofRules(id: Buffer, { version }: RowCredentials): Maybe<ChosenPolicy | undefined> {
    return chain(this.#rules.current(), (access) => {
      if (access.passwordPolicies.rules.length === 0) return this.#ofDefault();
      return chain(this.#assigned.of(access, id, version), (by) => {
        if (!by) return this.#ofDefault();
        const { policy: dn } = by;
        return chain(this.#find(dn), (policy) => (policy ? { policy, dn: dn.text, by } : this.#ofDefault()));
      });
    });
  }

  #ofDefault(): Maybe<ChosenPolicy | undefined> {
    const dn = this.#default;
    if (!dn) return undefined;
    return chain(this.#find(dn), (policy) => policy && { policy, dn: dn.text, by: 'setting' as const });
  }

  /** Whether some account counts failed binds. Then all failed binds write, so that the time reveals no account. */
  anyCountsFailures(): Maybe<boolean> {
    return chain(this.#readAll(), () => chain(this.#ofDefault(), () => this.#countsFailures));
  }

  /** Reads each policy that the access rules name once. */
  #readAll(): Maybe<void> {
    return chain(this.#rules.current(), (access) => {
      if (this.#readRules === access) return undefined;
      const { rules } = access.passwordPolicies;
      if (rules.length === 0) return undefined;
      return chain(Promise.all(rules.map(({ policy }) => this.#find(policy))), () => {
        this.#readRules = access;
      });
    });
  }

  /** Returns the policy for binds. An account with a second factor always has a policy. */
  forBinds(id: Buffer, credentials: RowCredentials): Maybe<AccountPolicy | undefined> {
    if (!credentials.totp) return this.of(id, credentials);
    this.#countsFailures = true;
    return chain(this.of(id, credentials), withLockout);
  }

  #find(dn: Dn): Maybe<AccountPolicy | undefined> {
    const known = this.#compiled.get(dn.norm.toString('latin1'));
    if (!known) return this.#read(dn);
    return chain(this.#directory.versionOf(known.id), (version) => {
      const isSame = version === known.version && this.#directory.treeGeneration === known.generation;
      return isSame ? known.policy : this.#read(dn);
    });
  }

  async #read(dn: Dn): Promise<AccountPolicy | undefined> {
    const key = dn.norm.toString('latin1');
    const generation = this.#directory.treeGeneration;
    const found = await this.#directory.findRow(dn);
    const entry = found && (await this.#directory.readById(found.id));
    const policy = entry && policyOfEntry(entry);
    if (!policy) {
      this.#compiled.delete(key);
      this.#warn(key, dn.text);
      return undefined;
    }
    this.#warned.delete(key);
    this.#compiled.set(key, { id: entry.id, version: entry.version, generation, policy });
    if (countsFailures(policy)) this.#countsFailures = true;
    return policy;
  }

  #warn(key: string, dn: string): void {
    if (this.#warned.has(key)) return;
    this.#warned.set(key, true);
    this.#log.warn(
      { dn },
      'a password policy is not there, or its entry is none (class pwdPolicy, pwdAttribute userPassword)',
    );
  }
}

function defaultOf({ schema }: PolicyDirectory, dn: string): Dn {
  try {
    return schema.parseDn(dn);
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    throw new LdapError(error.result, `passwords.policy: ${error.message}`, { cause: error });
  }
}
