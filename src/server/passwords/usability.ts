import type { AccountState } from '../../partition/model/account-state.js';
import type { AccountUsability } from '../../protocol/controls/account-usability.js';
import { isLockInForce } from './account-lock.js';
import type { AccountPolicy } from './account-policy.js';
import { effectiveState, expiryOf, isLockedOut, isOutsideDates } from './account-status.js';
import type { RowCredentials } from './credentials.js';
import { mustChange } from './row-account.js';

/** Returns whether a bind with the password of an account can succeed. `now`: milliseconds since 1970. */
export function usabilityOf(
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
