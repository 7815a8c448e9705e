import { type AccountState, STATE_ATTRIBUTES, type StateAttribute } from '../../partition/model/account-state.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { EntryExtras } from '../entry/reply-entry.js';
import { isLockInForce } from '../passwords/account-lock.js';
import { stateValues } from '../passwords/state-values.js';
import type { Services } from '../services/services.js';
import { chain, type Maybe } from '../words/maybe.js';
import type { Context } from './context.js';

type StateValues = Readonly<Record<StateAttribute, readonly Buffer[]>>;

/** Whether the attribute shows account state that binds store. */
export function isStateAttribute({ type, options }: AttributeDescription): boolean {
  return options.length === 0 && (STATE_ATTRIBUTES as readonly string[]).includes(type.name);
}

export type StateServices = Pick<Services, 'credentialReader' | 'policies'> & {
  readonly partition: Pick<Services['partition'], 'accountState' | 'readById'>;
};

/**
 * Returns the account state that binds have stored, as attribute values; undefined: no stored state, and the values in
 * the entry apply. `lockoutDuration`: the duration to show for a lock without a known policy; undefined: such a lock is
 * not shown.
 */
export function readStateValues(
  services: StateServices,
  id: Buffer,
  lockoutDuration?: number,
): Maybe<StateValues | undefined> {
  const now = Date.now();
  return chain(services.partition.accountState(id), (state) => {
    if (!state) return undefined;
    if (state.lockedUntil <= now) return stateValues(state, undefined, now);
    return valuesWithLock(services, id, state, now, lockoutDuration);
  });
}

async function valuesWithLock(
  { partition, credentialReader, policies }: StateServices,
  id: Buffer,
  state: AccountState,
  now: number,
  defaultDuration: number | undefined,
): Promise<StateValues> {
  const entry = await partition.readById(id);
  const credentials = entry && credentialReader.read(entry.row);
  const policy = credentials && (await policies.forBinds(id, credentials));
  // A lock by an administrator takes precedence while it is in force.
  const hasAdminLock =
    credentials?.lock?.attributeName.toLowerCase() === 'pwdaccountlockedtime' &&
    isLockInForce(credentials.lock, policy, now);
  return stateValues(state, hasAdminLock ? undefined : (policy?.lockoutDuration ?? defaultDuration), now);
}

/**
 * Returns a function that encodes the state attributes of an entry which are `selected` and which the viewer may read.
 * The encoded attributes replace stored ones. The function returns undefined when no state is stored.
 */
export function stateAttributes(
  { services }: Context,
  selected: readonly AttributeDescription[],
  typesOnly: boolean,
): (hit: Hit) => Maybe<Pick<EntryExtras, 'attributes' | 'replacedStates'> | undefined> {
  return ({ id, sight }) =>
    chain(readStateValues(services, id), (values) => {
      if (!values) return undefined;
      const writer = new Writer();
      for (const description of selected) {
        const stateValuesShown = values[description.type.name as StateAttribute];
        if (stateValuesShown.length === 0 || (sight && !sight.all('read') && !sight.allows('read', description)))
          continue;
        encodeAttribute(writer, { type: description.text, values: typesOnly ? [] : [...stateValuesShown] });
      }
      const replacedStates = values.pwdAccountLockedTime.length > 0 ? 'states and lock' : 'states';
      return { attributes: writer.take(), replacedStates };
    });
}
