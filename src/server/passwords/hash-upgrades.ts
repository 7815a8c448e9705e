import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Partition, Target } from '../../partition/index.js';
import { needsUpgrade, type Source } from '../../password/index.js';
import type { PasswordHashing } from './password-hashing.js';

const MAX_QUEUED = 1000;
const MAX_REMEMBERED = 10_000;

/** Source of upgrades in the fair queue for slow work. A network of their own keeps upgrades from delaying clients. */
const UPGRADES: Source = { network: 'upgrades', identity: '' };

/** Results of an upgrade whose password or entry was changed by a client meanwhile. */
const OVERTAKEN_RESULTS: ReadonlySet<string> = new Set(['noSuchAttribute', 'noSuchObject']);

interface Upgrade {
  readonly dn: string;
  readonly id: Buffer;
  readonly stored: Buffer;
  readonly clear: Buffer;
  /** The entry's other passwords. */
  readonly siblings: readonly Buffer[];
}

/** Replaces password hashes that are weaker than the policy, in the background after their owner binds. */
export class HashUpgrades {
  readonly #partition: Partition;
  readonly #hashing: PasswordHashing;
  readonly #enabled: boolean;
  readonly #log: Logger;
  readonly #queue = new Map<string, Upgrade>();
  /** The new hashes by entry and old hash. Sessions that bound with the old hash remain valid. */
  readonly #upgraded = new BoundedMap<string, Buffer>(MAX_REMEMBERED, 'oldest');
  #upgrading: Promise<void> | undefined;

  /** `enabled`: the setting `passwords.upgradeAtBind`. */
  constructor(partition: Partition, hashing: PasswordHashing, enabled: boolean, log: Logger) {
    this.#partition = partition;
    this.#hashing = hashing;
    this.#enabled = enabled;
    this.#log = log;
  }

  /** Queues an upgrade of `stored`, verified with `clear`, when it is too weak. `all`: all passwords of the entry. */
  enqueueIfWeak(dn: string, id: Buffer, stored: Buffer, clear: Buffer, all: readonly Buffer[]): void {
    if (!this.#enabled) return;
    const siblings = all.length === 1 ? [] : all.filter((value) => !value.equals(stored));
    if (!needsUpgrade(stored, this.#hashing.policy, siblings)) return;
    const key = keyOf(id, stored);
    if (this.#queue.has(key) || this.#queue.size >= MAX_QUEUED) return;
    this.#queue.set(key, {
      dn,
      id: Buffer.from(id),
      stored: Buffer.from(stored),
      clear: Buffer.from(clear),
      siblings: siblings.map((value) => Buffer.from(value)),
    });
    this.#upgrading ??= this.#upgradeAll();
  }

  /** Returns the hash that this process has stored in place of `stored`, or `stored` itself. */
  currentHash(id: Buffer, stored: Buffer): Buffer {
    return (this.#upgraded.size > 0 && this.#upgraded.get(keyOf(id, stored))) || stored;
  }

  /** Resolves when no upgrade is running or queued. */
  async settled(): Promise<void> {
    while (this.#upgrading) await this.#upgrading;
  }

  async #upgradeAll(): Promise<void> {
    for (const [key, upgrade] of this.#queue) {
      try {
        await this.#upgrade(key, upgrade);
      } catch (error) {
        this.#upgraded.delete(key);
        const reason = error instanceof LdapError ? error.result : 'error';
        if (!OVERTAKEN_RESULTS.has(reason))
          this.#log.info({ reason }, 'a password was not upgraded; its next bind tries again');
      }
      upgrade.clear.fill(0);
      this.#queue.delete(key);
    }
    this.#upgrading = undefined;
  }

  /** Replaces exactly the verified hash. The write fails when a client has changed the password meanwhile. */
  async #upgrade(key: string, { dn, id, stored, clear, siblings }: Upgrade): Promise<void> {
    const value = await this.#hashing.hash(clear, siblings, UPGRADES);
    const entry = await this.#partition.readById(id);
    if (!entry) return;
    this.#upgraded.set(key, value);
    const type = 'userPassword';
    const changes = [
      { operation: 'delete', attribute: { type, values: [stored] } },
      { operation: 'add', attribute: { type, values: [value] } },
    ] as const;
    const changesOf = (target: Target): readonly Modification[] => {
      if (target.id.equals(id)) return changes;
      throw new LdapError('noSuchObject', 'the entry has been renamed meanwhile');
    };
    await this.#partition.modify(this.#partition.schema.parseDn(entry.dn), changesOf, { dn: '' }, { touches: [type] });
    this.#log.debug({ dn }, 'password upgraded');
  }
}

function keyOf(id: Buffer, stored: Buffer): string {
  return id.toString('latin1') + stored.toString('latin1');
}
