import type { Logger } from 'pino';
import type { CompiledAccess } from '../access/compiled-access.js';
import type { Rights } from '../access/rights.js';
import type { Partition } from '../partition/index.js';
import type { Access, Actor, Asked, MetEntry, Moved } from '../partition/model/directory-types.js';
import type { Viewer } from '../partition/model/viewer.js';
import type { Dn } from '../schema/schema-types.js';
import { isHolding } from '../server/passwords/account-lock.js';
import { Credentials } from '../server/passwords/credentials.js';
import { Policies } from '../server/passwords/policies.js';
import { isOutsideDates } from '../server/passwords/standing.js';
import { AccessControl } from '../server/services/access-control.js';
import { DropError } from './layout.js';

/** How accounts are judged, as binds do: settings `passwords.policy` and `passwords.shadow`. */
export interface AccountSettings {
  readonly policy?: string | undefined;
  readonly shadow: boolean;
}

/** Of a socket of this machine. */
const FULL_STRENGTH = 256;

/**
 * Who applies the records. Undefined: the administrator as `rowan import` is, who may write what the server keeps, too;
 * a DN: as a client that is bound so, by a socket of this machine. Throws `DropError` where there is no such entry, or
 * where nobody could bind as it.
 */
export async function actorFor(
  partition: Partition,
  as: Dn | undefined,
  accounts: AccountSettings,
  log: Pick<Logger, 'error' | 'warn'>,
): Promise<Actor> {
  const { adminDn } = partition.settings;
  if (!as) return { dn: adminDn, system: true };
  if (as.norm.equals(partition.schema.parseDn(adminDn).norm)) return { dn: adminDn };
  const access = new NamedAccess(partition, as, accounts, log);
  await access.renew();
  return { dn: as.text, access };
}

/** What the entry of a DN may write, by the rules in force and the groups that it is in. */
class NamedAccess implements Access {
  readonly #partition: Partition;
  readonly #dn: Dn;
  readonly #control: AccessControl;
  readonly #credentials: Credentials;
  readonly #policies: Policies;
  #rights: Rights | undefined;
  /** What the rights were made from, where rules name no groups. */
  #of: { readonly access: CompiledAccess; readonly id: Buffer } | undefined;

  constructor(partition: Partition, dn: Dn, { policy, shadow }: AccountSettings, log: Pick<Logger, 'error' | 'warn'>) {
    this.#partition = partition;
    this.#dn = dn;
    this.#control = new AccessControl(partition, log);
    this.#credentials = new Credentials(partition.descriptions, shadow);
    this.#policies = new Policies(partition, policy, this.#control, log);
  }

  async renew(): Promise<void> {
    const partition = this.#partition;
    await partition.freshAccess();
    const access = await this.#control.current();
    const found = await partition.findRow(this.#dn);
    if (!found)
      throw new DropError(`'${this.#dn.text}', by whose rights files are applied, is not there; add the entry`);
    await this.#requireOpen(found.id, found.row);
    const asks = access.groups.length > 0;
    if (!asks && this.#of?.access === access && this.#of.id.equals(found.id)) return;
    const user = { id: found.id, dn: this.#dn };
    const names = asks ? await partition.groupsOf(user) : new Set<string>();
    const asker = {
      user,
      address: undefined,
      strength: FULL_STRENGTH,
      confidential: true,
      mechanism: 'simple',
    } as const;
    this.#rights = access.entitle(asker, (group) => names.has(group.norm.toString('latin1'))).rights;
    this.#of = { access, id: found.id };
  }

  async #requireOpen(id: Buffer, row: Buffer): Promise<void> {
    const own = this.#credentials.ofRow(row);
    if (!own.lock && !own.account) return;
    const now = Date.now();
    if (isHolding(own.lock, await this.#policies.ofBinds(id, own), now))
      throw new DropError(
        `'${this.#dn.text}', by whose rights files are applied, is locked (${own.lock!.name}); unlock it`,
      );
    if (isOutsideDates(own.account, now))
      throw new DropError(
        `'${this.#dn.text}', by whose rights files are applied, is not valid at this time; see its dates`,
      );
  }

  get version(): number | undefined {
    return this.#rights!.version;
  }

  get viewer(): Viewer {
    return this.#rights!.viewer;
  }

  asked(asked: Asked): ReturnType<Access['asked']> {
    return this.#rights!.asked(asked);
  }

  found(asked: Asked, entry: MetEntry): ReturnType<Access['found']> {
    return this.#rights!.found(asked, entry);
  }

  added(asked: Asked, entry: MetEntry): ReturnType<Access['added']> {
    return this.#rights!.added(asked, entry);
  }

  moved(moved: Moved): ReturnType<Access['moved']> {
    return this.#rights!.moved(moved);
  }
}
