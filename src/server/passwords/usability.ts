import type { AccountState } from '../../partition/model/account-state.js';
import type { AccountUsability } from '../../protocol/controls/account-usability.js';
import { isLockInForce } from './account-lock.js';
import type { AccountPolicy } from './account-policy.js';
import { changedAt, effectiveState, isLockedOut, isOutsideDates } from './account-status.js';
import type { RowCredentials } from './credentials.js';

/** Returns whether a bind with the password of an account can succeed. `now`: milliseconds since 1970. */
export function usabilityOf(
  { lock, account, totp }: RowCredentials,
  policy: AccountPolicy | undefined,
  stored: AccountState | undefined,
  now: number,
): AccountUsability {
  const state = effectiveState(account, stored);
  const lacksCode = policy?.secondFactor === true && !totp;
  const isClosed = lacksCode || isLockInForce(lock, policy, now) || isOutsideDates(account, now);
  const isLocked = policy !== undefined && isLockedOut(policy, account, state, now);
  const reset = account?.reset ?? false;
  const changed = changedAt(account, state);
  const expiry = policy && policy.maxAge > 0 && !reset && changed !== undefined ? changed + policy.maxAge : undefined;
  const expired = expiry !== undefined && expiry <= now;
  if (!isClosed && !isLocked && !reset && !expired)
    return { usable: true, expiresIn: expiry === undefined ? -1 : Math.ceil((expiry - now) / 1000) };
  const unlocks = !isClosed && state.lockedUntil > now && Number.isFinite(state.lockedUntil);
  return {
    usable: false,
    inactive: isClosed || isLocked,
    reset,
    expired,
    grace: expired ? Math.max(policy!.graceLimit - state.graceUses.length, 0) : undefined,
    untilUnlock: unlocks ? Math.ceil((state.lockedUntil - now) / 1000) : undefined,
  };
}
