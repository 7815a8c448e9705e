import type { Logger } from 'pino';
import type { CompiledAccess } from '../../access/compiled-access.js';
import type { PolicyRule } from '../../access/rule.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { type AccountPolicy, countsFailures, guarding, policyOfEntry, withMaxAge } from './account-policy.js';
import { AssignedPolicies, type AssigningDirectory } from './assigned-policies.js';
import type { RowCredentials } from './credentials.js';

type PolicyDirectory = AssigningDirectory & Pick<Partition, 'findRow' | 'versionOf'>;

/** The access rules in force, as `AccessControl` has them. */
interface RulesInForce {
  current(): Maybe<CompiledAccess>;
}

/** The policy of an account, and what says so. */
export interface ChosenPolicy {
  readonly policy: AccountPolicy;
  readonly dn: string;
  readonly by: 'entry' | 'setting' | PolicyRule;
}

/** A policy as it was when its entry had this version, and no entry another name. */
interface Compiled {
  readonly id: Buffer;
  readonly version: bigint;
  readonly generation: number;
  readonly policy: AccountPolicy;
}

/** Policies that are kept compiled. */
const MOST_POLICIES = 1000;

/** The password policies of the directory, compiled; each is read again when its entry has changed. */
export class Policies {
  readonly #directory: PolicyDirectory;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #rules: RulesInForce;
  readonly #assigned: AssignedPolicies;
  /** Of whom no other is named for. */
  readonly #default: Dn | undefined;
  /** By DN, normalized, as latin-1. */
  readonly #compiled = new BoundedMap<string, Compiled>(MOST_POLICIES);
  readonly #warned = new BoundedMap<string, true>(MOST_POLICIES);
  /** A policy that counts failures has been read. */
  #counting = false;
  /** The rules whose policies have been looked at. */
  #looked: CompiledAccess | undefined;

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

  /** The policy of an account. */
  of(id: Buffer, own: RowCredentials): Maybe<AccountPolicy | undefined> {
    return chain(this.chosen(id, own), (chosen) => withMaxAge(chosen?.policy, own.account?.maxAge));
  }

  /**
   * The one that the entry names, else one that the access rules name, else the default. One that is not there
   * is told in the log, and what comes next holds.
   */
  chosen(id: Buffer, own: RowCredentials): Maybe<ChosenPolicy | undefined> {
    const named = own.account?.policy;
    if (named === undefined) return this.#ofRules(id, own);
    const found = this.#find(this.#directory.schema.parseDn(named));
    return chain(found, (policy) => (policy ? { policy, dn: named, by: 'entry' as const } : this.#ofRules(id, own)));
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

  /**
   * Whether a failed bind may have consequences, for somebody: then each writes, so that its time does not tell for
   * whom it has.
   */
  anyCounts(): Maybe<boolean> {
    return chain(this.#readAll(), () => chain(this.#ofDefault(), () => this.#counting));
  }

  /** Each policy that access rules name is read once, whoever binds. */
  #readAll(): Maybe<void> {
    return chain(this.#rules.current(), (access) => {
      if (this.#looked === access) return undefined;
      const { rules } = access.passwordPolicies;
      if (rules.length === 0) return undefined;
      return chain(Promise.all(rules.map(({ policy }) => this.#find(policy))), () => {
        this.#looked = access;
      });
    });
  }

  /** As `of`, for binds: those of an account with a second factor are always under one. */
  ofBinds(id: Buffer, own: RowCredentials): Maybe<AccountPolicy | undefined> {
    if (!own.totp) return this.of(id, own);
    this.#counting = true;
    return chain(this.of(id, own), guarding);
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
    if (countsFailures(policy)) this.#counting = true;
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
