import { type AccountState, NO_STATE, type PasswordUse } from '../../partition/model/account-state.js';
import { type AccountPolicy, countsFailures } from './account-policy.js';
import type { RowAccount } from './row-account.js';

/** Status of an account under a policy. `now` is in milliseconds since 1970. Nothing here reads or writes the store. */

/** Returns the stored state of an account, or else the state that an import has put into the entry. */
export function effectiveState(row: RowAccount | undefined, stored: AccountState | undefined): AccountState {
  if (stored) return stored;
  if (!row) return NO_STATE;
  const since = row.changed ?? 0;
  return {
    ...NO_STATE,
    failures: row.failures.filter((time) => time > since),
    graceUses: row.graceUses.filter((time) => time > since),
    lastSuccess: row.lastSuccess ?? 0,
  };
}

/** Whether `now` is before pwdStartTime or after pwdEndTime. The account is then closed under every policy. */
export function isOutsideDates(row: RowAccount | undefined, now: number): boolean {
  if (!row) return false;
  return (row.start !== undefined && now < row.start) || (row.end !== undefined && now >= row.end);
}

/** Whether the account is locked after failed binds or after too long without a bind. */
export function isLockedOut(
  policy: AccountPolicy,
  row: RowAccount | undefined,
  state: AccountState,
  now: number,
): boolean {
  if (state.lockedUntil > now) return true;
  if (policy.maxIdle === 0) return false;
  const last = Math.max(state.lastSuccess, state.since, row?.changed ?? 0);
  return last > 0 && now - last >= policy.maxIdle;
}

/** Returns the state after a bind with a wrong password; undefined: unchanged. */
export function stateAfterFailure(policy: AccountPolicy, state: AccountState, now: number): AccountState | undefined {
  if (!countsFailures(policy) || state.lockedUntil > now) return undefined;
  const { failureCountInterval, maxFailure, maxRecordedFailure, minDelay, maxDelay } = policy;
  const counting = state.failures.filter((time) => failureCountInterval === 0 || now - time < failureCountInterval);
  const failures = [...counting, now];
  if (policy.lockout && maxFailure > 0 && failures.length >= maxFailure) {
    const lockedUntil = policy.lockoutDuration > 0 ? now + policy.lockoutDuration : Number.POSITIVE_INFINITY;
    return { ...state, failures: [], lockedUntil };
  }
  const delay = minDelay > 0 ? Math.min(minDelay * 2 ** (failures.length - 1), Math.max(minDelay, maxDelay)) : 0;
  const kept = Math.min(Math.max(maxFailure, maxRecordedFailure, MIN_KEPT), MAX_KEPT);
  return { ...state, failures: failures.slice(-kept), lockedUntil: delay > 0 ? now + delay : 0 };
}

/** Number of failure times to keep when the policy sets a smaller number or none. */
const MIN_KEPT = 16;
const MAX_KEPT = 1000;

/** Result of a bind with the right password to an account that is not locked. */
export interface Admission {
  /** Whether the password has expired and no grace login is left. */
  readonly expired: boolean;
  /** Remaining grace logins, when this bind used one. */
  readonly grace?: number;
  /** Seconds until the password expires, when a warning is due. */
  readonly expiresIn?: number;
  /** The state to store; undefined: unchanged. */
  readonly state: AccountState | undefined;
}

export function admit(
  policy: AccountPolicy,
  row: RowAccount | undefined,
  before: AccountState,
  now: number,
): Admission {
  const age = checkAge(policy, row, before, now);
  if (age.expired) return { expired: true, state: undefined };
  let { state } = age;
  if (state.failures.length > 0 || state.lockedUntil > 0) state = { ...state, failures: [], lockedUntil: 0 };
  state = withSuccess(policy, state, now);
  return { ...age, state: state === before ? undefined : state };
}

/**
 * Returns the result of a bind with an application password. An application password does not expire with the password
 * and does not reset the failures. Otherwise an application that binds often would allow others unlimited guesses.
 */
export function admitApplication(
  policy: AccountPolicy,
  before: AccountState,
  uses: readonly PasswordUse[] | undefined,
  now: number,
): Admission {
  const used = uses ? { ...before, uses } : before;
  const state = withSuccess(policy, used, now);
  return { expired: false, state: state === before ? undefined : state };
}

function withSuccess({ maxIdle }: AccountPolicy, state: AccountState, now: number): AccountState {
  const isDue = maxIdle > 0 && now - state.lastSuccess >= Math.min(HOUR, maxIdle / 8);
  return isDue ? { ...state, lastSuccess: now } : state;
}

/** Resolution of `pwdLastSuccess`. */
const HOUR = 3_600_000;

type AgeCheck = Omit<Admission, 'state'> & { readonly state: AccountState };

function checkAge(policy: AccountPolicy, row: RowAccount | undefined, state: AccountState, now: number): AgeCheck {
  // A password that must be changed may be changed at any age.
  if (policy.maxAge === 0 || row?.reset) return { expired: false, state };
  const changed = changedAt(row, state);
  if (changed === undefined) return { expired: false, state: { ...state, since: now } };
  const expiry = changed + policy.maxAge;
  const left = expiry - now;
  if (left <= 0) return checkGrace(policy, state, expiry, now);
  if (left > policy.expireWarning) return { expired: false, state };
  return { expired: false, expiresIn: Math.ceil(left / 1000), state };
}

/** Returns when the password was changed or first used; undefined: unknown. */
export function changedAt(row: RowAccount | undefined, { since }: AccountState): number | undefined {
  return row?.changed ?? (since > 0 ? since : undefined);
}

/** Returns when sessions end: when the password and the time for grace logins have expired; undefined: never. */
export function sessionExpiry(
  { maxAge, graceLimit, graceExpiry }: AccountPolicy,
  row: RowAccount | undefined,
  state: AccountState,
  now: number,
): number | undefined {
  if (maxAge === 0 || row?.reset) return undefined;
  const expiry = (changedAt(row, state) ?? now) + maxAge;
  if (graceLimit === 0) return expiry;
  return graceExpiry > 0 ? expiry + graceExpiry : undefined;
}

function checkGrace(
  { graceLimit, graceExpiry }: AccountPolicy,
  state: AccountState,
  expiry: number,
  now: number,
): AgeCheck {
  const left = graceLimit - state.graceUses.length;
  if (left <= 0 || (graceExpiry > 0 && now >= expiry + graceExpiry)) return { expired: true, state };
  return { expired: false, grace: left - 1, state: { ...state, graceUses: [...state.graceUses, now] } };
}
