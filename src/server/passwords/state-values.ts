import type { AccountState, StateAttribute } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import { LOCKED_PERMANENTLY } from './account-lock.js';

/**
 * Returns the values of the state attributes. The start of a lock is computed from its end and the current policy's
 * `lockoutDuration` (ms; 0: permanent; undefined: no policy, and no lock is shown). A delay after a failed bind is not
 * a lock.
 */
export function stateValues(
  { failures, graceUses, lastSuccess, lockedUntil }: AccountState,
  lockoutDuration: number | undefined,
  now: number,
): Readonly<Record<StateAttribute, readonly Buffer[]>> {
  const isLocked = lockoutDuration !== undefined && failures.length === 0 && lockedUntil > now;
  return {
    pwdFailureTime: formatTimes(failures),
    pwdGraceUseTime: formatTimes(graceUses),
    pwdLastSuccess: formatTimes(lastSuccess > 0 ? [lastSuccess] : []),
    pwdAccountLockedTime: isLocked ? [lockTime(lockedUntil, lockoutDuration)] : [],
  };
}

function lockTime(until: number, duration: number): Buffer {
  return Number.isFinite(until) ? formatTime(until - duration, '') : Buffer.from(LOCKED_PERMANENTLY);
}

/** Formats times in ascending order as distinct values: microseconds number the times of one millisecond. */
function formatTimes(times: readonly number[]): Buffer[] {
  const sortedTimes = [...times].sort((a, b) => a - b);
  let repeatCount = 0;
  return sortedTimes.map((time, i) => {
    repeatCount = time === sortedTimes[i - 1] ? repeatCount + 1 : 0;
    return formatTime(time, String(repeatCount).padStart(3, '0'));
  });
}

function formatTime(ms: number, micros: string): Buffer {
  const fraction = String(((ms % 1000) + 1000) % 1000).padStart(3, '0') + micros;
  return Buffer.from(generalizedTime(ms).replace('Z', `.${fraction}Z`));
}
