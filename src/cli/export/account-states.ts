import { damageOf } from '../../partition/index.js';
import { STATE_ATTRIBUTES } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { Salvaged } from '../../partition/upkeep/salvage.js';
import { Credentials } from '../../server/passwords/credentials.js';
import { Policies } from '../../server/passwords/policies.js';
import { type StateServices, statesOf } from '../../server/request/state-attributes.js';
import { AccessControl } from '../../server/services/access-control.js';
import type { OpenDirectory } from '../open-directory.js';
import type { ExportAttribute } from './entry-attributes.js';

/** A lock that no policy is known to end holds from then on. */
const NO_DURATION = 0;

/** Tells what binds have left behind about accounts by attributes that an import takes over. */
export class AccountStates {
  readonly #services: StateServices;

  constructor({ partition }: OpenDirectory, defaultPolicy: string | undefined) {
    const log = { warn: () => undefined, error: () => undefined };
    const policies = new Policies(partition, defaultPolicy, new AccessControl(partition, log), log);
    this.#services = { partition, policies, credentials: new Credentials(partition.descriptions) };
  }

  /**
   * The attributes of the entry with those, in place of what is stored of them. Where they are damaged `onLost` gets
   * one.
   */
  async among(
    entry: Salvaged,
    attributes: ExportAttribute[],
    onLost: (attribute: string) => void,
  ): Promise<ExportAttribute[]> {
    try {
      return await this.#among(entry, attributes);
    } catch (error) {
      if (!damageOf(error)) throw error;
      onLost(STATE_ATTRIBUTES[0]);
      return attributes;
    }
  }

  async #among({ id, row }: Salvaged, attributes: ExportAttribute[]): Promise<ExportAttribute[]> {
    const { partition, credentials } = this.#services;
    const { passwords, applications, account } = credentials.ofRow(row);
    // Nothing is left behind of what nobody binds as.
    if (passwords.length + applications.length === 0) return attributes;
    const values = await statesOf(this.#services, id, NO_DURATION);
    if (!values) return attributes;
    const isKept = ({ type }: ExportAttribute): boolean =>
      type === 'pwdAccountLockedTime'
        ? values[type].length === 0
        : !(STATE_ATTRIBUTES as readonly string[]).includes(type);
    const told = STATE_ATTRIBUTES.map((type) => ({ type, values: values[type] }));
    const since = account?.changed === undefined ? (await partition.accountState(id))?.since : undefined;
    const changed = since ? [{ type: 'pwdChangedTime', values: [Buffer.from(generalizedTime(since))] }] : [];
    return [...attributes.filter(isKept), ...told.filter((one) => one.values.length > 0), ...changed];
  }
}
