import type { AccountState, StateAttribute } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import { LOCKED_FOR_GOOD } from './account-lock.js';

/**
 * The attributes of a state. Of a lock it is told from when on the policy of now, with `lockoutDuration` (ms; 0: for
 * good), makes it end when it ends; undefined: there is no policy, and no lock. A delay is none.
 */
export function stateValues(
  { failures, graceUses, lastSuccess, lockedUntil }: AccountState,
  lockoutDuration: number | undefined,
  now: number,
): Readonly<Record<StateAttribute, readonly Buffer[]>> {
  const isLocked = lockoutDuration !== undefined && failures.length === 0 && lockedUntil > now;
  return {
    pwdFailureTime: timesOf(failures),
    pwdGraceUseTime: timesOf(graceUses),
    pwdLastSuccess: timesOf(lastSuccess > 0 ? [lastSuccess] : []),
    pwdAccountLockedTime: isLocked ? [lockTime(lockedUntil, lockoutDuration)] : [],
  };
}

function lockTime(until: number, duration: number): Buffer {
  return Number.isFinite(until) ? timeOf(until - duration, '') : Buffer.from(LOCKED_FOR_GOOD);
}

/** In their order, each another: microseconds part those of one millisecond. */
function timesOf(times: readonly number[]): Buffer[] {
  const sorted = [...times].sort((a, b) => a - b);
  let alike = 0;
  return sorted.map((time, i) => {
    alike = time === sorted[i - 1] ? alike + 1 : 0;
    return timeOf(time, String(alike).padStart(3, '0'));
  });
}

function timeOf(ms: number, micros: string): Buffer {
  const fraction = String(((ms % 1000) + 1000) % 1000).padStart(3, '0') + micros;
  return Buffer.from(generalizedTime(ms).replace('Z', `.${fraction}Z`));
}
