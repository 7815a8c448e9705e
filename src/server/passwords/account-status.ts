import { chain, type Maybe } from '../../partition/index.js';
import { type AccountState, NO_STATE, type PasswordUse } from '../../partition/model/account-state.js';
import { type PasswordPolicy, unverifiableReason } from '../../password/index.js';
import type { StateDirectory } from '../processes/replica-states.js';
import { type AccountPolicy, countsFailures } from './account-policy.js';
import { usesAfter } from './application-password.js';
import type { RowCredentials } from './credentials.js';
import type { RowAccount } from './row-account.js';

/** Status of an account under a policy. `now` is in milliseconds since 1970. Nothing here reads or writes the store. */

/**
 * Returns the stored state of an account, or else the state that an import has put into the entry. Imported failures up
 * to a lock that the entry has do not count again after the lock.
 */
export function effectiveState(
  { account: row, lock }: Pick<RowCredentials, 'account' | 'lock'>,
  stored: AccountState | undefined,
): AccountState {
  if (stored) return stored;
  if (!row) return NO_STATE;
  const since = row.changed ?? 0;
  // slapd writes the time of a lock without the fraction of a second that the failure has.
  const countedSince = Math.max(since, (lock?.sinceMs ?? 0) + 999);
  return {
    ...NO_STATE,
    failures: row.failures.filter((time) => time > countedSince),
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
  const lastActiveMs = Math.max(state.lastSuccess, state.since, row?.changed ?? 0);
  return lastActiveMs > 0 && now - lastActiveMs >= policy.maxIdle;
}

/** Returns the state without a lock that has ended. The failures that made the lock no longer count then. */
export function withoutEndedLock(state: AccountState, now: number): AccountState {
  return state.lockedAt > 0 && state.lockedUntil <= now
    ? { ...state, failures: [], lockedUntil: 0, lockedAt: 0 }
    : state;
}

/** Returns the state after a bind with a wrong password; undefined: unchanged. */
export function stateAfterFailure(policy: AccountPolicy, before: AccountState, now: number): AccountState | undefined {
  if (!countsFailures(policy) || before.lockedUntil > now) return undefined;
  const state = withoutEndedLock(before, now);
  const { failureCountInterval, maxFailure, maxRecordedFailure, minDelay, maxDelay } = policy;
  const countedFailures = state.failures.filter(
    (time) => failureCountInterval === 0 || now - time < failureCountInterval,
  );
  const keptCount = Math.min(Math.max(maxFailure, maxRecordedFailure, MIN_KEPT_FAILURES), MAX_KEPT_FAILURES);
  const failures = [...countedFailures, now];
  const keptFailures = failures.slice(-keptCount);
  if (policy.lockout && maxFailure > 0 && failures.length >= maxFailure) {
    const lockedUntil = policy.lockoutDuration > 0 ? now + policy.lockoutDuration : Number.POSITIVE_INFINITY;
    return { ...state, failures: keptFailures, lockedUntil, lockedAt: now };
  }
  const delay = minDelay > 0 ? Math.min(minDelay * 2 ** (failures.length - 1), Math.max(minDelay, maxDelay)) : 0;
  return { ...state, failures: keptFailures, lockedUntil: delay > 0 ? now + delay : 0 };
}

/** Number of failure times to keep when the policy sets a smaller number or none. */
const MIN_KEPT_FAILURES = 16;
const MAX_KEPT_FAILURES = 1000;

/** Result of a bind with the right password to an account that is not locked. */
interface Admission {
  /** Whether the password has expired and no grace login is left. */
  readonly isExpired: boolean;
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
  const ageCheck = checkAge(policy, row, before, now);
  if (ageCheck.isExpired) return { isExpired: true, state: undefined };
  let { state } = ageCheck;
  if (state.failures.length > 0 || state.lockedUntil > 0)
    state = { ...state, failures: [], lockedUntil: 0, lockedAt: 0 };
  state = withSuccess(policy, state, now);
  return { ...ageCheck, state: state === before ? undefined : state };
}

/**
 * Returns the result of a bind with an application password. An application password does not expire with the password
 * and does not reset the failures. Otherwise an application that binds often would allow others unlimited guesses.
 */
function admitApplication(
  policy: AccountPolicy,
  before: AccountState,
  uses: readonly PasswordUse[] | undefined,
  now: number,
): Admission {
  const stateWithUses = uses ? { ...before, uses } : before;
  const state = withSuccess(policy, stateWithUses, now);
  return { isExpired: false, state: state === before ? undefined : state };
}

function withSuccess({ maxIdle }: AccountPolicy, state: AccountState, now: number): AccountState {
  const isDue = maxIdle > 0 && now - state.lastSuccess >= Math.min(HOUR_MS, maxIdle / 8);
  return isDue ? { ...state, lastSuccess: now } : state;
}

/** Resolution of `pwdLastSuccess`. */
const HOUR_MS = 3_600_000;

type AgeCheck = Omit<Admission, 'state'> & { readonly state: AccountState };

function checkAge(policy: AccountPolicy, row: RowAccount | undefined, state: AccountState, now: number): AgeCheck {
  // A password that must be changed may be changed at any age.
  if (policy.maxAge === 0 || row?.reset) return { isExpired: false, state };
  const changedMs = changedAt(row, state);
  if (changedMs === undefined) return { isExpired: false, state: { ...state, since: now } };
  const expiryMs = changedMs + policy.maxAge;
  const remainingMs = expiryMs - now;
  if (remainingMs <= 0) return checkGrace(policy, state, expiryMs, now);
  if (remainingMs > policy.expireWarning) return { isExpired: false, state };
  return { isExpired: false, expiresIn: Math.ceil(remainingMs / 1000), state };
}

/** Returns when the password was changed or first used; undefined: unknown. */
export function changedAt(row: RowAccount | undefined, { since }: AccountState): number | undefined {
  return row?.changed ?? (since > 0 ? since : undefined);
}

/** Returns when the password expires by the policy or by shadowMax; undefined: never, or not known. */
export function expiryOf(policy: AccountPolicy | undefined, row: RowAccount | undefined, state: AccountState) {
  const changedMs = changedAt(row, state);
  const policyExpiry = policy?.maxAge && changedMs !== undefined ? changedMs + policy.maxAge : Number.POSITIVE_INFINITY;
  const expiryMs = Math.min(policyExpiry, row?.shadowExpiry ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(expiryMs) ? expiryMs : undefined;
}

/** Returns when sessions end: when the password and the time for grace logins have expired; undefined: never. */
export function sessionExpiry(
  { maxAge, graceLimit, graceExpiry }: AccountPolicy,
  row: RowAccount | undefined,
  state: AccountState,
  now: number,
): number | undefined {
  if (maxAge === 0 || row?.reset) return undefined;
  const expiryMs = (changedAt(row, state) ?? now) + maxAge;
  if (graceLimit === 0) return expiryMs;
  return graceExpiry > 0 ? expiryMs + graceExpiry : undefined;
}

function checkGrace(
  { graceLimit, graceExpiry }: AccountPolicy,
  state: AccountState,
  expiryMs: number,
  now: number,
): AgeCheck {
  const remainingLogins = graceLimit - state.graceUses.length;
  if (remainingLogins <= 0 || (graceExpiry > 0 && now >= expiryMs + graceExpiry)) return { isExpired: true, state };
  return { isExpired: false, grace: remainingLogins - 1, state: { ...state, graceUses: [...state.graceUses, now] } };
}

/** A bind attempt on an account that is under a policy. */
export class Login {
  readonly #policy: AccountPolicy;
  readonly #credentials: RowCredentials;
  readonly #directory: Pick<StateDirectory, 'accountState' | 'changeAccountState'>;
  readonly #id: Buffer;
  /** The account state that was read last. */
  #storedState: AccountState | undefined;

  constructor(directory: StateDirectory, id: Buffer, policy: AccountPolicy, credentials: RowCredentials) {
    this.#directory = directory;
    this.#id = id;
    this.#policy = policy;
    this.#credentials = credentials;
  }

  isLocked(): Maybe<boolean> {
    return chain(this.#directory.accountState(this.#id), (stored) => {
      this.#storedState = stored;
      const { account } = this.#credentials;
      return isLockedOut(this.#policy, account, effectiveState(this.#credentials, stored), Date.now());
    });
  }

  /** Returns when a session that begins now ends; see `sessionExpiry`. */
  sessionEnd(): number | undefined {
    const { account } = this.#credentials;
    return sessionExpiry(this.#policy, account, effectiveState(this.#credentials, this.#storedState), Date.now());
  }

  /**
   * Records a wrong password. Resolves with false when failures do not count. Failures of an entry whose hashes cannot
   * be verified never count: its right password fails, too.
   */
  async recordFailure(hashPolicy: PasswordPolicy): Promise<boolean> {
    if (unverifiableReason(this.#credentials.passwords, hashPolicy) !== undefined) return false;
    let newState: AccountState | undefined;
    await this.#directory.changeAccountState(this.#id, (stored) => {
      newState = stateAfterFailure(this.#policy, effectiveState(this.#credentials, stored), Date.now());
      return newState;
    });
    return newState !== undefined;
  }

  /**
   * Admits a bind with a right password; undefined: the account has been locked meanwhile, or the TOTP code was used
   * before. Stores the new state before it resolves. `reread`: whether time has passed since `isLocked`, so that the
   * state has to be read again.
   */
  admit(reread: boolean, verifiedPassword: VerifiedPassword): Maybe<Admission | undefined> {
    const stored = reread ? this.#directory.accountState(this.#id) : this.#storedState;
    return chain(stored, (state) => {
      const admission = this.#evaluate(state, verifiedPassword);
      return admission?.state ? this.#storeAdmission(verifiedPassword) : admission;
    });
  }

  #evaluate(stored: AccountState | undefined, { application, totpSteps }: VerifiedPassword): Admission | undefined {
    const { account, applications } = this.#credentials;
    const state = effectiveState(this.#credentials, stored);
    const now = Date.now();
    if (isLockedOut(this.#policy, account, state, now)) return undefined;
    if (application !== undefined)
      return admitApplication(this.#policy, state, usesAfter(state.uses, application, applications, now), now);
    const admission = admit(this.#policy, account, state, now);
    if (!totpSteps || admission.isExpired) return admission;
    const totpStep = totpSteps.find((step) => step > state.totpStep);
    return totpStep === undefined ? undefined : { ...admission, state: { ...(admission.state ?? state), totpStep } };
  }

  async #storeAdmission(verifiedPassword: VerifiedPassword): Promise<Admission | undefined> {
    let admission: Admission | undefined;
    await this.#directory.changeAccountState(this.#id, (stored) => {
      admission = this.#evaluate(stored, verifiedPassword);
      return admission?.state;
    });
    return admission;
  }
}

/** The password that a bind has verified. */
interface VerifiedPassword {
  /** Id of the application password; undefined: a password of the entry. */
  readonly application?: string | undefined;
  /** TOTP time steps, in ascending order, that the code after the password matches. */
  readonly totpSteps?: readonly number[] | undefined;
}

/** Records the use of an application password of an entry without a policy. */
export function recordUse(
  directory: StateDirectory,
  id: Buffer,
  credentials: RowCredentials,
  application: string,
): Maybe<void> {
  const newState = (stored: AccountState | undefined): AccountState | undefined => {
    const state = effectiveState(credentials, stored);
    const uses = usesAfter(state.uses, application, credentials.applications, Date.now());
    return uses && { ...state, uses };
  };
  return chain(directory.accountState(id), (stored) =>
    newState(stored) ? directory.changeAccountState(id, newState) : undefined,
  );
}
