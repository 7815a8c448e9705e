import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import { isPassword, type Partition, type Target } from '../../partition/index.js';
import {
  CredentialCache,
  clearText,
  costTogether,
  givenAs,
  hashPassword,
  isHashed,
  Matches,
  needsUpgrade,
  ONE_COST,
  type PasswordPolicy,
  PasswordVerifier,
  type Source,
  slowWork,
} from '../../password/index.js';
import type { Config } from '../settings/index.js';
import { credentialsAfter } from './credentials.js';
import { refuseDear, refuseMany, refuseTwice, refuseUnfit } from './refusals.js';

const MAX_WAITING_UPGRADES = 1000;
const MAX_REMEMBERED_UPGRADES = 10_000;
const MAX_REMEMBERED_LEFT_OUT = 1000;

/** What the settings say of passwords. */
export function policyOf({ passwords }: Config): PasswordPolicy {
  return { scheme: passwords.scheme, argon2: passwords.argon2, maxCost: passwords.maxCost * ONE_COST };
}

/** Stored passwords: those given in the clear are hashed, weak ones are replaced when their owner binds. */
export class Passwords {
  readonly policy: PasswordPolicy;
  readonly verifier: PasswordVerifier;
  readonly #partition: Partition;
  readonly #upgradeAtBind: boolean;
  readonly #log: Logger;
  readonly #waiting = new Map<string, Upgrade>();
  /** What this process has replaced by what, so that it does not end the binds of the same user. */
  readonly #upgraded = new BoundedMap<string, Buffer>(MAX_REMEMBERED_UPGRADES, 'oldest');
  #upgrading: Promise<void> | undefined;
  #warned = false;
  /** States of entries of which it was said that some of their passwords are not tried. */
  readonly #leftOut = new BoundedMap<string, true>(MAX_REMEMBERED_LEFT_OUT, 'oldest');

  constructor(partition: Partition, config: Config, log: Logger) {
    this.#partition = partition;
    this.#log = log;
    this.policy = policyOf(config);
    this.#upgradeAtBind = config.passwords.upgradeAtBind;
    const { enabled, seconds, entries } = config.credentialCache;
    const cache = enabled ? new CredentialCache({ seconds, entries }) : undefined;
    this.verifier = new PasswordVerifier(this.policy, cache, (entry) => this.#tellLeftOut(entry));
  }

  /**
   * The value to store for one that a client gave, beside the others that its entry has. `constraintViolation` where it
   * may not be.
   */
  async #toStore(value: Buffer, beside: readonly Buffer[], source: Source): Promise<Buffer> {
    const given = givenAs(value);
    if (given === 'clear') return this.hash(clearText(value), beside, source);
    refuseUnfit(value, this.policy);
    if (given === 'foreign') this.#warnOfForeign();
    return value;
  }

  /**
   * Once: whoever writes such values writes many. The name is not told: it may be part of what was meant as clear text.
   */
  #warnOfForeign(): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#log.warn(
      'a password was stored as it came, in a scheme or form that is not verified here: no bind will succeed',
    );
  }

  /** Once for each entry, until it changes. Its passwords are not told, nor its name. */
  #tellLeftOut(state: Buffer): void {
    const key = state.toString('latin1');
    if (this.#leftOut.get(key)) return;
    this.#leftOut.set(key, true);
    this.#log.warn(
      { entry: state.toString('hex', 0, 16) },
      'a bind left out passwords of its entry that cost too much (passwords.maxCost); rowan check names them',
    );
  }

  /** The value to store for a clear password, whatever it looks like. */
  async hash(clear: Buffer, beside: readonly Buffer[], source: Source): Promise<Buffer> {
    try {
      if (this.policy.scheme === 'ssha512') return await hashPassword(clear, this.policy);
      return await slowWork.run(() => hashPassword(clear, this.policy, beside), source);
    } catch (error) {
      if (error instanceof RangeError) throw new LdapError('constraintViolation', error.message);
      throw error;
    }
  }

  /** For verifying values one by one, as work of `source`. */
  matches(source: Source): Matches {
    return new Matches(this.policy, source);
  }

  /**
   * The attributes with their clear passwords hashed, those that hold none as they are. `beside`: the passwords that
   * the entry has. Too many are refused before any is hashed.
   */
  async protect(
    attributes: readonly PartialAttribute[],
    beside: readonly Buffer[],
    source: Source,
  ): Promise<readonly PartialAttribute[]> {
    const given = attributes.reduce(
      (sum, { type, values }) => sum + (this.holdsPasswords(type) ? values.length : 0),
      0,
    );
    refuseMany(given);
    refuseDear(
      attributes.flatMap(({ type, values }) => (this.holdsPasswords(type) ? values : [])),
      this.policy,
    );
    const made: PartialAttribute[] = [];
    const known = [...beside];
    for (const attribute of attributes) {
      const { type, values } = attribute;
      if (!this.holdsPasswords(type)) made.push(attribute);
      else {
        refuseTwice(attribute);
        const stored: Buffer[] = [];
        for (const value of values) {
          stored.push(await this.#toStore(value, known, source));
          known.push(stored.at(-1)!);
        }
        made.push({ type, values: stored });
      }
    }
    return made;
  }

  holdsPasswords(description: string): boolean {
    const known = this.#partition.schema.describe(description);
    return known !== undefined && isPassword(known.type);
  }

  /** The changes with the clear passwords that they bring hashed: as `protect`. */
  async protectChanges(
    changes: readonly Modification[],
    beside: readonly Buffer[],
    source: Source,
  ): Promise<readonly Modification[]> {
    const brings = changes.filter(({ operation }) => operation !== 'delete');
    const attributes = await this.protect(
      brings.map(({ attribute }) => attribute),
      beside,
      source,
    );
    const gone = changes.filter(
      ({ operation, attribute: { type } }) => operation === 'delete' && this.holdsPasswords(type),
    );
    refuseMany(gone.reduce((sum, { attribute }) => sum + attribute.values.length, 0));
    let brought = 0;
    return changes.map((change) => {
      const { operation } = change;
      return operation === 'delete' ? change : { operation, attribute: attributes[brought++]! };
    });
  }

  /**
   * The changes as they are to be made to an entry that has the credentials `stored`: a clear password that is to be
   * deleted becomes the stored value that it verifies against.
   */
  async resolveDeleted(
    changes: readonly Modification[],
    stored: readonly Buffer[],
    matches: Matches,
  ): Promise<Modification[]> {
    const made: Modification[] = [];
    for (const change of changes) {
      const { operation, attribute } = change;
      if (operation !== 'delete' || !this.holdsPasswords(attribute.type)) made.push(change);
      else {
        const values: Buffer[] = [];
        for (const value of attribute.values) values.push(await storedFor(value, stored, matches));
        made.push({ operation, attribute: { type: attribute.type, values } });
      }
    }
    return made;
  }

  /** Refuses `changes`, as they are to be stored, that make the values of an entry which has `stored` cost too much. */
  refuseDearer(stored: readonly Buffer[], changes: readonly Modification[]): void {
    const after = this.credentialsAfter(stored, changes);
    if (costTogether(after, this.policy) > costTogether(stored, this.policy)) refuseDear(after, this.policy);
  }

  /** See `credentialsAfter`. */
  credentialsAfter(stored: readonly Buffer[], changes: readonly Modification[]): readonly Buffer[] {
    return credentialsAfter(this.#partition.schema, stored, changes);
  }

  /**
   * After a bind with `clear`: when `stored` is weaker than the policy, it is replaced, later and in the background.
   */
  considerUpgrade(dn: string, id: Buffer, stored: Buffer, clear: Buffer, all: readonly Buffer[]): void {
    if (!this.#upgradeAtBind) return;
    const beside = all.length === 1 ? [] : all.filter((value) => !value.equals(stored));
    if (!needsUpgrade(stored, this.policy, beside)) return;
    const key = keyOf(id, stored);
    if (this.#waiting.has(key) || this.#waiting.size >= MAX_WAITING_UPGRADES) return;
    this.#waiting.set(key, {
      dn,
      id: Buffer.from(id),
      stored: Buffer.from(stored),
      clear: Buffer.from(clear),
      beside: beside.map((value) => Buffer.from(value)),
    });
    this.#upgrading ??= this.#upgradeAll();
  }

  /** The value that this process has put in place of `stored`, or `stored`. */
  upgraded(id: Buffer, stored: Buffer): Buffer {
    return (this.#upgraded.size > 0 && this.#upgraded.get(keyOf(id, stored))) || stored;
  }

  /** Resolves when no upgrade is running or waiting. */
  async settled(): Promise<void> {
    while (this.#upgrading) await this.#upgrading;
  }

  async #upgradeAll(): Promise<void> {
    for (const [key, upgrade] of this.#waiting) {
      try {
        await this.#upgrade(key, upgrade);
      } catch (error) {
        this.#upgraded.delete(key);
        const reason = error instanceof LdapError ? error.result : 'error';
        if (!OVERTAKEN.has(reason))
          this.#log.info({ reason }, 'a password was not upgraded; its next bind tries again');
      }
      upgrade.clear.fill(0);
      this.#waiting.delete(key);
    }
    this.#upgrading = undefined;
  }

  /** Takes the place of the very value that was verified; where its owner has changed it meanwhile, nothing is done. */
  async #upgrade(key: string, { dn, id, stored, clear, beside }: Upgrade): Promise<void> {
    const value = await this.hash(clear, beside, UPGRADES);
    const entry = await this.#partition.readById(id);
    if (!entry) return;
    this.#remember(key, value);
    const type = 'userPassword';
    const changes = [
      { operation: 'delete', attribute: { type, values: [stored] } },
      { operation: 'add', attribute: { type, values: [value] } },
    ] as const;
    const onlyHis = (target: Target): readonly Modification[] => {
      if (target.id.equals(id)) return changes;
      throw new LdapError('noSuchObject', 'the entry has been renamed meanwhile');
    };
    await this.#partition.modify(this.#partition.schema.parseDn(entry.dn), onlyHis, { dn: '' }, { touches: [type] });
    this.#log.debug({ dn }, 'password upgraded');
  }

  #remember(key: string, value: Buffer): void {
    this.#upgraded.set(key, value);
  }
}

/**
 * The stored value that a client means by `given`: the same bytes, or the hash that the clear text verifies against.
 */
async function storedFor(given: Buffer, stored: readonly Buffer[], matches: Matches): Promise<Buffer> {
  if (stored.some((value) => value.equals(given)) || isHashed(given)) return given;
  return (await matches.find(clearText(given), stored)) ?? given;
}

/** Upgrades wait behind nobody and before nobody. */
const UPGRADES: Source = { network: 'upgrades', identity: '' };

/** How an upgrade ends when the password or the entry has changed meanwhile. */
const OVERTAKEN: ReadonlySet<string> = new Set(['noSuchAttribute', 'noSuchObject']);

interface Upgrade {
  readonly dn: string;
  readonly id: Buffer;
  readonly stored: Buffer;
  readonly clear: Buffer;
  /** The entry's other passwords. */
  readonly beside: readonly Buffer[];
}

function keyOf(id: Buffer, stored: Buffer): string {
  return id.toString('latin1') + stored.toString('latin1');
}
