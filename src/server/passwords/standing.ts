import { type AccountState, NO_STATE, type PasswordUse } from '../../partition/model/account-state.js';
import { type AccountPolicy, countsFailures } from './account-policy.js';
import type { RowAccount } from './row-account.js';

/** How an account stands under a policy at a moment (`now`, milliseconds since 1970): no reads, no writes. */

/** The state that is known, or else what an import has brought with the entry. */
export function stateOf(row: RowAccount | undefined, stored: AccountState | undefined): AccountState {
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

/** Before pwdStartTime and from pwdEndTime on nobody binds, under whatever policy. */
export function isOutsideDates(row: RowAccount | undefined, now: number): boolean {
  if (!row) return false;
  return (row.start !== undefined && now < row.start) || (row.end !== undefined && now >= row.end);
}

/** Whether nobody binds, whatever the password: after failures, or as nobody has for too long. */
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

/** The state after a bind with a wrong password; undefined: as it was. */
export function afterFailure(policy: AccountPolicy, state: AccountState, now: number): AccountState | undefined {
  if (!countsFailures(policy) || state.lockedUntil > now) return undefined;
  const { failureCountInterval, maxFailure, maxRecordedFailure, minDelay, maxDelay } = policy;
  const counting = state.failures.filter((time) => failureCountInterval === 0 || now - time < failureCountInterval);
  const failures = [...counting, now];
  if (policy.lockout && maxFailure > 0 && failures.length >= maxFailure) {
    const lockedUntil = policy.lockoutDuration > 0 ? now + policy.lockoutDuration : Number.POSITIVE_INFINITY;
    return { ...state, failures: [], lockedUntil };
  }
  const delay = minDelay > 0 ? Math.min(minDelay * 2 ** (failures.length - 1), Math.max(minDelay, maxDelay)) : 0;
  const kept = Math.min(Math.max(maxFailure, maxRecordedFailure, LEAST_KEPT), MOST_KEPT);
  return { ...state, failures: failures.slice(-kept), lockedUntil: delay > 0 ? now + delay : 0 };
}

/** Failures whose times are kept where the policy does not say how many. */
const LEAST_KEPT = 16;
const MOST_KEPT = 1000;

/** What comes of a bind with the right password to an account that is not locked. */
export interface Admission {
  /** The password has expired, and no grace login is left. */
  readonly expired: boolean;
  /** Grace logins that are left, where this was one. */
  readonly grace?: number;
  /** Seconds until the password expires, where a warning is due. */
  readonly expiresIn?: number;
  /** The state as it shall be; undefined: as it was. */
  readonly state: AccountState | undefined;
}

export function admission(
  policy: AccountPolicy,
  row: RowAccount | undefined,
  before: AccountState,
  now: number,
): Admission {
  const age = ageing(policy, row, before, now);
  if (age.expired) return { expired: true, state: undefined };
  let { state } = age;
  if (state.failures.length > 0 || state.lockedUntil > 0) state = { ...state, failures: [], lockedUntil: 0 };
  state = withSuccess(policy, state, now);
  return { ...age, state: state === before ? undefined : state };
}

/**
 * The same of a bind with an application password. It neither expires with the password nor makes wrong ones be
 * forgotten: an application that binds all the time would let others guess without end.
 */
export function admissionOfApplication(
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

/** `pwdLastSuccess` is kept no more exactly than this. */
const HOUR = 3_600_000;

type Ageing = Omit<Admission, 'state'> & { readonly state: AccountState };

function ageing(policy: AccountPolicy, row: RowAccount | undefined, state: AccountState, now: number): Ageing {
  // Who has to change the password does so whatever its age.
  if (policy.maxAge === 0 || row?.reset) return { expired: false, state };
  const changed = changedAt(row, state);
  if (changed === undefined) return { expired: false, state: { ...state, since: now } };
  const expiry = changed + policy.maxAge;
  const left = expiry - now;
  if (left <= 0) return expiredAt(policy, state, expiry, now);
  if (left > policy.expireWarning) return { expired: false, state };
  return { expired: false, expiresIn: Math.ceil(left / 1000), state };
}

/** When the password was changed, or first seen; undefined: not known. */
export function changedAt(row: RowAccount | undefined, { since }: AccountState): number | undefined {
  return row?.changed ?? (since > 0 ? since : undefined);
}

/**
 * When sessions end that have bound with the password: once it has expired, and binds with it are at an end because of
 * that, however many grace logins there were. Undefined: they do not.
 */
export function endOfSessions(
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

function expiredAt(
  { graceLimit, graceExpiry }: AccountPolicy,
  state: AccountState,
  expiry: number,
  now: number,
): Ageing {
  const left = graceLimit - state.graceUses.length;
  if (left <= 0 || (graceExpiry > 0 && now >= expiry + graceExpiry)) return { expired: true, state };
  return { expired: false, grace: left - 1, state: { ...state, graceUses: [...state.graceUses, now] } };
}
