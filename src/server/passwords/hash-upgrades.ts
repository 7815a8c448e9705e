import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Partition, Target } from '../../partition/index.js';
import { needsUpgrade, type Source } from '../../password/index.js';
import type { Config } from '../settings/index.js';
import type { PasswordHashing } from './password-hashing.js';

const MAX_QUEUED_UPGRADES = 1000;
const MAX_REMEMBERED_HASHES = 10_000;

/** Source of upgrades in the fair queue for slow work. A network of their own keeps upgrades from delaying clients. */
const UPGRADE_SOURCE: Source = { network: 'upgrades', identity: '' };

/** Results of an upgrade whose password or entry was changed by a client meanwhile. */
const OVERTAKEN_RESULTS: ReadonlySet<string> = new Set(['noSuchAttribute', 'noSuchObject']);

interface Upgrade {
  readonly dn: string;
  readonly id: Buffer;
  readonly storedHash: Buffer;
  readonly clearPassword: Buffer;
  /** The entry's other passwords. */
  readonly siblings: readonly Buffer[];
}

/** Replaces password hashes that are weaker than the policy, in the background after their owner binds. */
export class HashUpgrades {
  readonly #partition: Partition;
  readonly #hashing: PasswordHashing;
  readonly #settings: Config['passwords'];
  readonly #log: Logger;
  readonly #queue = new Map<string, Upgrade>();
  /** The new hashes by entry and old hash. Sessions that bound with the old hash remain valid. */
  readonly #newHashes = new BoundedMap<string, Buffer>(MAX_REMEMBERED_HASHES, 'oldest');
  #upgradeRun: Promise<void> | undefined;

  constructor(partition: Partition, hashing: PasswordHashing, settings: Config['passwords'], log: Logger) {
    this.#partition = partition;
    this.#hashing = hashing;
    this.#settings = settings;
    this.#log = log;
  }

  /** Queues an upgrade of `stored`, verified with `clear`, when it is too weak. `all`: all passwords of the entry. */
  enqueueIfWeak(dn: string, id: Buffer, storedHash: Buffer, clearPassword: Buffer, all: readonly Buffer[]): void {
    if (!this.#settings.upgradeAtBind) return;
    const siblings = all.length === 1 ? [] : all.filter((newHash) => !newHash.equals(storedHash));
    if (!needsUpgrade(storedHash, this.#hashing.policy, siblings)) return;
    const key = upgradeKey(id, storedHash);
    if (this.#queue.has(key) || this.#queue.size >= MAX_QUEUED_UPGRADES) return;
    this.#queue.set(key, {
      dn,
      id: Buffer.from(id),
      storedHash: Buffer.from(storedHash),
      clearPassword: Buffer.from(clearPassword),
      siblings: siblings.map((newHash) => Buffer.from(newHash)),
    });
    this.#upgradeRun ??= this.#upgradeAll();
  }

  /** Returns the hash that this process has stored in place of `stored`, or `stored` itself. */
  currentHash(id: Buffer, storedHash: Buffer): Buffer {
    return (this.#newHashes.size > 0 && this.#newHashes.get(upgradeKey(id, storedHash))) || storedHash;
  }

  /** Resolves when no upgrade is running or queued. */
  async waitForUpgrades(): Promise<void> {
    while (this.#upgradeRun) await this.#upgradeRun;
  }

  async #upgradeAll(): Promise<void> {
    for (const [key, upgrade] of this.#queue) {
      try {
        await this.#upgrade(key, upgrade);
      } catch (error) {
        this.#newHashes.delete(key);
        const reason = error instanceof LdapError ? error.result : 'error';
        if (!OVERTAKEN_RESULTS.has(reason))
          this.#log.info({ reason }, 'a password was not upgraded; its next bind tries again');
      }
      upgrade.clearPassword.fill(0);
      this.#queue.delete(key);
    }
    this.#upgradeRun = undefined;
  }

  /** Replaces exactly the verified hash. The write fails when a client has changed the password meanwhile. */
  async #upgrade(key: string, { dn, id, storedHash, clearPassword, siblings }: Upgrade): Promise<void> {
    const newHash = await this.#hashing.hash(clearPassword, siblings, UPGRADE_SOURCE);
    const entry = await this.#partition.readById(id);
    if (!entry?.attributes.some(({ values }) => values.some((value) => value.equals(storedHash)))) return;
    this.#newHashes.set(key, newHash);
    const type = 'userPassword';
    const changes = [
      { operation: 'delete', attribute: { type, values: [storedHash] } },
      { operation: 'add', attribute: { type, values: [newHash] } },
    ] as const;
    const checkedChanges = (target: Target): readonly Modification[] => {
      if (target.id.equals(id)) return changes;
      throw new LdapError('noSuchObject', 'the entry has been renamed meanwhile');
    };
    await this.#partition.modify(
      this.#partition.schema.parseDn(entry.dn),
      checkedChanges,
      { dn: '' },
      { touchedDescriptions: [type] },
    );
    this.#log.debug({ dn }, 'password upgraded');
  }
}

function upgradeKey(id: Buffer, storedHash: Buffer): string {
  return id.toString('latin1') + storedHash.toString('latin1');
}
