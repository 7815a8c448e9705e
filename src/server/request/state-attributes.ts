import { TimeSlice } from '../../fair/time-slice.js';
import {
  type AccountState,
  formatMs,
  lockTimeOf,
  STATE_ATTRIBUTES,
  type StateAttribute,
} from '../../partition/model/account-state.js';
import { type LockTimes, requireTime, type SearchParams } from '../../partition/read/search-params.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { EntryExtras } from '../entry/reply-entry.js';
import { isLockInForce } from '../passwords/account-lock.js';
import { withoutEndedLock } from '../passwords/account-status.js';
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
 * the entry apply. `showsUnknown`: whether a lock without a known policy is shown.
 */
export function readStateValues(
  services: StateServices,
  id: Buffer,
  showsUnknown = false,
): Maybe<StateValues | undefined> {
  const now = Date.now();
  return chain(services.partition.accountState(id), (stored) => {
    const state = stored && withoutEndedLock(stored, now);
    return state && lockTimeOf(state, now)
      ? valuesWithLock(services, id, state, now, showsUnknown)
      : state && stateValues(state, undefined);
  });
}

async function valuesWithLock(
  { partition, credentialReader, policies }: StateServices,
  id: Buffer,
  state: AccountState,
  now: number,
  showsUnknown: boolean,
): Promise<StateValues> {
  const entry = await partition.readById(id);
  const credentials = entry && credentialReader.read(entry.row);
  const policy = credentials && (await policies.forBinds(id, credentials));
  // A lock by an administrator takes precedence while it is in force.
  const hasAdminLock =
    credentials?.lock?.attributeName.toLowerCase() === 'pwdaccountlockedtime' &&
    isLockInForce(credentials.lock, policy, now);
  const lockTime = lockTimeOf(state, now, policy?.lockoutDuration);
  return stateValues(state, hasAdminLock || !(policy || showsUnknown) ? undefined : lockTime);
}

/** Returns the values of the state attributes. `lockTime`: that of the lock to show. */
function stateValues({ failures, graceUses, lastSuccess }: AccountState, lockTime: Buffer | undefined): StateValues {
  return {
    pwdFailureTime: formatTimes(failures),
    pwdGraceUseTime: formatTimes(graceUses),
    pwdLastSuccess: formatTimes(lastSuccess > 0 ? [lastSuccess] : []),
    pwdAccountLockedTime: lockTime ? [lockTime] : [],
  };
}

/** Formats times in ascending order as distinct values: microseconds number the times of one millisecond. */
function formatTimes(times: readonly number[]): Buffer[] {
  const sortedTimes = [...times].sort((a, b) => a - b);
  let repeatCount = 0;
  return sortedTimes.map((time, i) => {
    repeatCount = time === sortedTimes[i - 1] ? repeatCount + 1 : 0;
    return formatMs(time, String(repeatCount).padStart(3, '0'));
  });
}

/**
 * Returns the values of pwdAccountLockedTime that accounts locked by failed binds show, by entryUUID in Latin-1.
 * `candidates`: the only accounts that matter; undefined: all. Throws
 * `adminLimitExceeded` if the search may not look at so many entries.
 */
export async function readLockTimes(
  { services, client }: Context,
  params: SearchParams,
  candidates: readonly Buffer[] | undefined,
): Promise<LockTimes> {
  const slice = new TimeSlice(client);
  const pause = (): Promise<void> | undefined => {
    requireTime(params);
    return slice.yieldIfOver();
  };
  const ids = candidates ?? (await services.partition.lockedAccounts(Date.now(), pause));
  const times = new Map<string, Buffer>();
  for (const id of ids) {
    const [time] = (await readStateValues(services, id))?.pwdAccountLockedTime ?? [];
    if (time) times.set(id.toString('latin1'), time);
    await pause();
  }
  return times;
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
