import { rightSet } from '../../access/right.js';
import { TimeSlice } from '../../fair/time-slice.js';
import { chain, type Maybe } from '../../partition/index.js';
import {
  type AccountState,
  formatMs,
  lockTimeOf,
  STATE_ATTRIBUTES,
  type StateAttribute,
} from '../../partition/model/account-state.js';
import { contextCsn } from '../../partition/model/csn.js';
import { type LockTimes, requireTime, type SearchParams } from '../../partition/read/search-params.js';
import type { Hit } from '../../partition/read/sink.js';
import { type AccountUsability, encodeAccountUsability } from '../../protocol/controls/account-usability.js';
import { encodeAttribute, encodeControls } from '../../protocol/encode.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { EntryExtras } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import { isLockInForce } from '../passwords/account-lock.js';
import type { AccountPolicy } from '../passwords/account-policy.js';
import {
  effectiveState,
  expiryOf,
  isLockedOut,
  isOutsideDates,
  withoutEndedLock,
} from '../passwords/account-status.js';
import type { RowCredentials } from '../passwords/credentials.js';
import { mustChange } from '../passwords/row-account.js';
import type { Services } from '../services/services.js';
import { isOwn, requestRights } from './access.js';
import type { Context } from './context.js';
import { effectiveRights } from './effective-rights.js';

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
function stateAttributes(
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

/** Returns the parts of a found entry that are not in its row; undefined: none. */
export type ExtrasReader = (hit: Hit) => Maybe<EntryExtras | undefined>;

const EMPTY = Buffer.alloc(0);
/** By how many spaces the DN of a suffix entry may be longer than the suffix. Spares other DNs the look at each. */
const SPACES = 32;
const MANAGE = rightSet('manage');

/** Returns the reader of extras for the controls and selected attributes of a search; undefined: no extras. */
export function extrasReader(
  context: Context,
  request: SearchRequest,
  { stateAttributes: selected, contextCsn: type }: Selection,
): Maybe<ExtrasReader | undefined> {
  return chain(extrasOf(context, request, selected), (readExtras) =>
    type ? withContextCsn(context, type, request.typesOnly, readExtras) : readExtras,
  );
}

/** Adds `contextCSN`, the greatest CSN of all changes, to suffix entries. */
function withContextCsn(
  { services: { partition, schema } }: Context,
  type: AttributeDescription,
  typesOnly: boolean,
  readExtras: ExtrasReader = () => undefined,
): ExtrasReader {
  const maxLength = Math.max(...partition.suffixes.map(({ text }) => text.length)) + SPACES;
  return (hit) => {
    const { dn, sight } = hit;
    const extras = readExtras(hit);
    if (dn.length > maxLength || (sight && !sight.all('read') && !sight.allows('read', type))) return extras;
    const { norm } = schema.parseDnBytes(dn);
    if (!partition.suffixes.some((suffix) => suffix.norm.equals(norm))) return extras;
    return Promise.all([extras, partition.feed.latest()]).then(([others, { csn }]) => {
      const writer = new Writer();
      if (others) writer.raw(others.attributes);
      const values = csn && !typesOnly ? [Buffer.from(contextCsn(csn))] : [];
      if (csn) encodeAttribute(writer, { type: type.text, values });
      return { controls: EMPTY, ...others, attributes: writer.take() };
    });
  };
}

function extrasOf(
  context: Context,
  request: SearchRequest,
  selected: Selection['stateAttributes'],
): Maybe<ExtrasReader | undefined> {
  const { effectiveRights: rights, accountUsability: usability } = context.controls;
  const states = selected.length > 0 ? stateAttributes(context, selected, request.typesOnly) : undefined;
  if (rights || usability) return extrasWithControls(context, request, states);
  return states && ((hit) => chain(states(hit), (extras) => extras && { ...extras, controls: EMPTY }));
}

async function extrasWithControls(
  context: Context,
  request: SearchRequest,
  states: ReturnType<typeof stateAttributes> | undefined,
): Promise<ExtrasReader | undefined> {
  const rights = await effectiveRights(context, request);
  const usability = context.controls.accountUsability ? accountUsability(context) : undefined;
  return async (hit) => {
    const state = await states?.(hit);
    const attributeParts = [state?.attributes ?? EMPTY, (await rights?.(hit)) ?? EMPTY];
    const controls = (await usability?.(hit)) ?? EMPTY;
    return { attributes: Buffer.concat(attributeParts), controls, replacedStates: state?.replacedStates };
  };
}

/**
 * Returns a function that encodes the account usability control of an entry with a password. Users get the control for
 * their own entry and for entries on which they have the right `manage`. The function returns undefined otherwise.
 */
function accountUsability(context: Context): (hit: Hit) => Promise<Buffer | undefined> {
  const { partition, credentialReader, policies, schema } = context.services;
  const rights = requestRights(context)?.rights;
  return async ({ id, dn }) => {
    const foundRow = await partition.findRow(schema.parseDn(dn.toString()));
    if (!foundRow?.id.equals(id)) return undefined;
    if (rights && !isOwn(context.session.identity, id) && !(rights.sightOf(foundRow).entryRights & MANAGE))
      return undefined;
    const credentials = credentialReader.read(foundRow.row);
    if (credentials.passwords.length === 0) return undefined;
    const policy = await policies.forBinds(id, credentials);
    const value = encodeAccountUsability(
      usabilityOf(credentials, policy, await partition.accountState(id), Date.now()),
    );
    const writer = new Writer();
    encodeControls(writer, [{ oid: ControlOid.accountUsability, critical: false, value }]);
    return Buffer.from(writer.take());
  };
}

/** Returns whether a bind with the password of an account can succeed. `now`: milliseconds since 1970. */
function usabilityOf(
  credentials: RowCredentials,
  policy: AccountPolicy | undefined,
  stored: AccountState | undefined,
  now: number,
): AccountUsability {
  const { lock, account, totp } = credentials;
  const state = effectiveState(credentials, stored);
  const lacksCode = policy?.secondFactor === true && !totp;
  const isClosed = lacksCode || isLockInForce(lock, policy, now) || isOutsideDates(account, now);
  const isLocked = policy !== undefined && isLockedOut(policy, account, state, now);
  const isReset = mustChange(account, now);
  const expiryMs = isReset ? undefined : expiryOf(policy, account, state);
  const isExpired = expiryMs !== undefined && expiryMs <= now;
  if (!isClosed && !isLocked && !isReset && !isExpired)
    return { usable: true, expiresIn: expiryMs === undefined ? -1 : Math.ceil((expiryMs - now) / 1000) };
  const willUnlock = !isClosed && state.lockedUntil > now && Number.isFinite(state.lockedUntil);
  return {
    usable: false,
    inactive: isClosed || isLocked,
    reset: isReset,
    expired: isExpired,
    grace: isExpired ? Math.max(policy!.graceLimit - state.graceUses.length, 0) : undefined,
    untilUnlock: willUnlock ? Math.ceil((state.lockedUntil - now) / 1000) : undefined,
  };
}
