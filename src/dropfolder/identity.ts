import type { Logger } from 'pino';
import type { CompiledAccess } from '../access/compiled-access.js';
import type { Rights } from '../access/rights.js';
import type { Partition } from '../partition/index.js';
import type { Access, Actor, CheckedEntry, Move, WriteRequest } from '../partition/model/directory-types.js';
import type { Viewer } from '../partition/model/viewer.js';
import type { Dn } from '../schema/schema-types.js';
import { isLockInForce } from '../server/passwords/account-lock.js';
import { isOutsideDates } from '../server/passwords/account-status.js';
import { CredentialReader } from '../server/passwords/credentials.js';
import { Policies } from '../server/passwords/policies.js';
import { AccessControl } from '../server/services/access-control.js';
import { DropError } from './layout.js';

/** The settings that decide whether an account may bind: `passwords.policy` and `passwords.shadow`. */
export interface AccountSettings {
  readonly policy?: string | undefined;
  readonly shadow: boolean;
}

/** Security strength of a local socket, in bits. */
const LOCAL_STRENGTH = 256;

/**
 * Returns the identity that applies the records. Undefined: the administrator, who may also write operational
 * attributes, as in `rowan import`. A DN has the rights of a client that is bound as this entry over a local socket.
 * Throws `DropError` when the entry does not exist or its account may not bind.
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
  const access = new EntryAccess(partition, as, accounts, log);
  await access.renew();
  return { dn: as.text, access };
}

/** The rights of one entry, by access rules and groups. `renew` computes them anew before each file. */
class EntryAccess implements Access {
  readonly #partition: Partition;
  readonly #dn: Dn;
  readonly #accessControl: AccessControl;
  readonly #credentialReader: CredentialReader;
  readonly #policies: Policies;
  #rights: Rights | undefined;
  /** The inputs of `#rights`, which is reused while they stay the same and the access rules name no groups. */
  #rightsSource: { readonly access: CompiledAccess; readonly id: Buffer } | undefined;

  constructor(partition: Partition, dn: Dn, { policy, shadow }: AccountSettings, log: Pick<Logger, 'error' | 'warn'>) {
    this.#partition = partition;
    this.#dn = dn;
    this.#accessControl = new AccessControl(partition, log);
    this.#credentialReader = new CredentialReader(partition.descriptions, shadow);
    this.#policies = new Policies(partition, policy, this.#accessControl, log);
  }

  async renew(): Promise<void> {
    const partition = this.#partition;
    await partition.freshAccessVersion();
    const access = await this.#accessControl.rulesInForce();
    const target = await partition.findRow(this.#dn);
    if (!target) throw new DropError(`'${this.#dn.text}', whose rights apply to files, does not exist; add the entry`);
    await this.#requireUsable(target.id, target.row);
    const hasGroups = access.groups.length > 0;
    if (!hasGroups && this.#rightsSource?.access === access && this.#rightsSource.id.equals(target.id)) return;
    const user = { id: target.id, dn: this.#dn };
    const groups = hasGroups ? await partition.groupsOf(user) : new Set<string>();
    const requester = {
      user,
      address: undefined,
      strength: LOCAL_STRENGTH,
      confidential: true,
      mechanism: 'simple',
    } as const;
    this.#rights = access.entitle(requester, (group) => groups.has(group.norm.toString('latin1'))).rights;
    this.#rightsSource = { access, id: target.id };
  }

  async #requireUsable(id: Buffer, row: Buffer): Promise<void> {
    const rowCredentials = this.#credentialReader.read(row);
    if (!rowCredentials.lock && !rowCredentials.account) return;
    const now = Date.now();
    if (isLockInForce(rowCredentials.lock, await this.#policies.forBinds(id, rowCredentials), now))
      throw new DropError(
        `'${this.#dn.text}', by whose rights files are applied, is locked (${rowCredentials.lock!.attributeName}); unlock it`,
      );
    if (isOutsideDates(rowCredentials.account, now))
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

  checkRequest(request: WriteRequest): ReturnType<Access['checkRequest']> {
    return this.#rights!.checkRequest(request);
  }

  checkTarget(request: WriteRequest, entry: CheckedEntry): ReturnType<Access['checkTarget']> {
    return this.#rights!.checkTarget(request, entry);
  }

  checkNewEntry(request: WriteRequest, entry: CheckedEntry): ReturnType<Access['checkNewEntry']> {
    return this.#rights!.checkNewEntry(request, entry);
  }

  checkMove(move: Move): ReturnType<Access['checkMove']> {
    return this.#rights!.checkMove(move);
  }
}
