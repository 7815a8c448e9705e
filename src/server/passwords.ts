import type { Logger } from 'pino';
import { LdapError } from '../ldap/error.js';
import type { PartialAttribute } from '../ldap/types.js';
import type { Partition } from '../partition/index.js';
import {
  CredentialCache,
  clearText,
  givenAs,
  hashPassword,
  isHashed,
  needsUpgrade,
  type PasswordPolicy,
  PasswordVerifier,
  verifyPassword,
} from '../password/index.js';
import { isPassword } from './credentials.js';
import type { Config } from './settings/index.js';

const MAX_WAITING_UPGRADES = 1000;
const MAX_REMEMBERED_UPGRADES = 10_000;

/** Stored passwords: those given in the clear are hashed, weak ones are replaced when their owner binds. */
export class Passwords {
  readonly policy: PasswordPolicy;
  readonly verifier: PasswordVerifier;
  readonly #partition: Partition;
  readonly #upgradeAtBind: boolean;
  readonly #log: Logger;
  readonly #waiting = new Map<string, Upgrade>();
  /** What this process has replaced by what, so that it does not end the binds of the same user. */
  readonly #upgraded = new Map<string, Buffer>();
  #upgrading: Promise<void> | undefined;
  #warned = false;

  constructor(partition: Partition, config: Config, log: Logger) {
    this.#partition = partition;
    this.#log = log;
    this.policy = { scheme: config.passwords.scheme, argon2: config.passwords.argon2 };
    this.#upgradeAtBind = config.passwords.upgradeAtBind;
    const { enabled, seconds, entries } = config.credentialCache;
    this.verifier = new PasswordVerifier(this.policy, enabled ? new CredentialCache({ seconds, entries }) : undefined);
  }

  /** The value to store for one that a client gave. `constraintViolation` when it is empty or too long. */
  async toStore(value: Buffer): Promise<Buffer> {
    const given = givenAs(value);
    if (given === 'clear') return this.hash(clearText(value));
    if (given === 'foreign') this.#warnOfForeign();
    return value;
  }

  /** Once: whoever writes such values writes many. The name is not told: it may be part of what was meant as clear text. */
  #warnOfForeign(): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#log.warn(
      'a password was stored as it came, under a {SCHEME} that is not verified here: no bind will succeed',
    );
  }

  /** The value to store for a clear password, whatever it looks like. */
  async hash(clear: Buffer): Promise<Buffer> {
    try {
      return await hashPassword(clear, this.policy);
    } catch (error) {
      if (error instanceof RangeError) throw new LdapError('constraintViolation', error.message);
      throw error;
    }
  }

  /** The attribute with its clear passwords hashed; the attribute itself when it holds none. */
  async protect(attribute: PartialAttribute): Promise<PartialAttribute> {
    if (!this.holdsPasswords(attribute.type)) return attribute;
    const values: Buffer[] = [];
    for (const value of attribute.values) {
      if (attribute.values.indexOf(value) !== attribute.values.findIndex((other) => other.equals(value))) {
        throw new LdapError('attributeOrValueExists', `attribute '${attribute.type}' is given the same value twice`);
      }
      values.push(await this.toStore(value));
    }
    return { type: attribute.type, values };
  }

  holdsPasswords(description: string): boolean {
    const known = this.#partition.schema.describe(description);
    return known !== undefined && isPassword(known.type);
  }

  /** The stored value that the clear password verifies against. */
  async matching(clear: Buffer, stored: readonly Buffer[]): Promise<Buffer | undefined> {
    for (const value of stored) if (await verifyPassword(value, clear)) return value;
    return undefined;
  }

  /** The stored value that a client means by `given`: the same bytes, or the hash that the clear text verifies against. */
  async storedFor(given: Buffer, stored: readonly Buffer[]): Promise<Buffer> {
    if (stored.some((value) => value.equals(given)) || isHashed(given)) return given;
    return (await this.matching(clearText(given), stored)) ?? given;
  }

  /** After a bind with `clear`: when `stored` is weaker than the policy, it is replaced, later and in the background. */
  considerUpgrade(dn: string, id: Buffer, stored: Buffer, clear: Buffer): void {
    if (!this.#upgradeAtBind || !needsUpgrade(stored, this.policy)) return;
    const key = keyOf(id, stored);
    if (this.#waiting.has(key) || this.#waiting.size >= MAX_WAITING_UPGRADES) return;
    this.#waiting.set(key, { dn, id: Buffer.from(id), stored: Buffer.from(stored), clear: Buffer.from(clear) });
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
        this.#log.info({ reason }, 'a password was not upgraded; its next bind tries again');
      }
      upgrade.clear.fill(0);
      this.#waiting.delete(key);
    }
    this.#upgrading = undefined;
  }

  /** Race-safe: deleting the very value that was verified fails when somebody else has changed it. */
  async #upgrade(key: string, { dn, id, stored, clear }: Upgrade): Promise<void> {
    const value = await this.hash(clear);
    const entry = await this.#partition.readById(id);
    if (!entry) return;
    this.#remember(key, value);
    const type = 'userPassword';
    await this.#partition.modify(
      this.#partition.schema.parseDn(entry.dn),
      [
        { operation: 'delete', attribute: { type, values: [stored] } },
        { operation: 'add', attribute: { type, values: [value] } },
      ],
      { dn: '' },
    );
    this.#log.debug({ dn }, 'password upgraded');
  }

  #remember(key: string, value: Buffer): void {
    if (this.#upgraded.size >= MAX_REMEMBERED_UPGRADES) this.#upgraded.delete(this.#upgraded.keys().next().value!);
    this.#upgraded.set(key, value);
  }
}

interface Upgrade {
  readonly dn: string;
  readonly id: Buffer;
  readonly stored: Buffer;
  readonly clear: Buffer;
}

function keyOf(id: Buffer, stored: Buffer): string {
  return id.toString('latin1') + stored.toString('latin1');
}
