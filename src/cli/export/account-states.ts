import { damageOf } from '../../partition/index.js';
import { STATE_ATTRIBUTES } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { SalvagedEntry } from '../../partition/upkeep/salvage.js';
import { CredentialReader } from '../../server/passwords/credentials.js';
import { Policies } from '../../server/passwords/policies.js';
import { readStateValues, type StateServices } from '../../server/request/state-attributes.js';
import { AccessControl } from '../../server/services/access-control.js';
import type { OpenDirectory } from '../open-directory.js';
import type { ExportAttribute } from './entry-attributes.js';

/** Exports the state that binds have recorded for accounts, as attributes that an import takes over. */
export class AccountStates {
  readonly #services: StateServices;

  constructor({ partition }: OpenDirectory, defaultPolicy: string | undefined) {
    const log = { warn: () => undefined, error: () => undefined };
    const policies = new Policies(partition, defaultPolicy, new AccessControl(partition, log), log);
    this.#services = { partition, policies, credentialReader: new CredentialReader(partition.descriptions) };
  }

  /**
   * Replaces stored state attributes by the current account state. The result is in the order of a row that has these
   * attributes. On damage, `onLost` gets a state attribute.
   */
  async withStates(
    entry: SalvagedEntry,
    attributes: ExportAttribute[],
    onLost: (attribute: string) => void,
  ): Promise<ExportAttribute[]> {
    try {
      return await this.#replaceStates(entry, attributes);
    } catch (error) {
      if (!damageOf(error)) throw error;
      onLost(STATE_ATTRIBUTES[0]);
      return attributes;
    }
  }

  async #replaceStates({ id, row }: SalvagedEntry, attributes: ExportAttribute[]): Promise<ExportAttribute[]> {
    const { partition, credentialReader } = this.#services;
    const { passwords, applications, account } = credentialReader.read(row);
    // Without passwords no bind is possible, so no state exists.
    if (passwords.length + applications.length === 0) return attributes;
    const values = await readStateValues(this.#services, id, true);
    if (!values) return attributes;
    const isKept = ({ type }: ExportAttribute): boolean =>
      type === 'pwdAccountLockedTime'
        ? values[type].length === 0
        : !(STATE_ATTRIBUTES as readonly string[]).includes(type);
    const states = STATE_ATTRIBUTES.map((type) => ({ type, values: values[type] }));
    const sinceMs = account?.changed === undefined ? (await partition.accountState(id))?.since : undefined;
    const changeTimes = sinceMs ? [{ type: 'pwdChangedTime', values: [Buffer.from(generalizedTime(sinceMs))] }] : [];
    const replaced = [
      ...attributes.filter(isKept),
      ...states.filter(({ values }) => values.length > 0),
      ...changeTimes,
    ];
    return replaced.sort((a, b) => (a.type < b.type ? -1 : 1));
  }
}
