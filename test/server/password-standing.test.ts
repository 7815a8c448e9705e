import { expect } from 'chai';
import { type AccountState, NO_STATE } from '../../src/partition/model/account-state.js';
import type { AccountPolicy } from '../../src/server/passwords/account-policy.js';
import {
  admit,
  effectiveState,
  isLockedOut,
  isOutsideDates,
  stateAfterFailure,
} from '../../src/server/passwords/account-status.js';
import { emptyAccount } from '../../src/server/passwords/row-account.js';

const NONE: AccountPolicy = {
  minAge: 0,
  maxAge: 0,
  inHistory: 0,
  checkQuality: 0,
  minScore: 0,
  minLength: 0,
  maxLength: 0,
  expireWarning: 0,
  graceLimit: 3,
  graceExpiry: 0,
  lockout: false,
  lockoutDuration: 0,
  maxFailure: 0,
  failureCountInterval: 0,
  maxRecordedFailure: 0,
  mustChange: false,
  allowUserChange: true,
  safeModify: false,
  minDelay: 0,
  maxDelay: 0,
  maxIdle: 0,
  secondFactor: false,
  tellLockout: false,
};
const ROW = emptyAccount();
const T = 1_800_000_000_000;

/** The state after failures at these times. */
function failing(policy: AccountPolicy, times: readonly number[], state: AccountState = NO_STATE): AccountState {
  return times.reduce((known, time) => stateAfterFailure(policy, known, time) ?? known, state);
}

describe('how an account stands', () => {
  const lockout = { ...NONE, lockout: true, maxFailure: 3 };

  it('failures lock for good where the policy gives no duration, else for so long', () => {
    expect(failing(lockout, [T, T + 1]).lockedUntil).to.equal(0);
    const good = failing(lockout, [T, T + 1, T + 2]);
    expect(isLockedOut(lockout, undefined, good, Number.MAX_SAFE_INTEGER)).to.equal(true);
    const minute = { ...lockout, lockoutDuration: 60_000 };
    const locked = failing(minute, [T, T + 1, T + 2]);
    expect(isLockedOut(minute, undefined, locked, T + 60_001)).to.equal(true);
    expect(isLockedOut(minute, undefined, locked, T + 60_002)).to.equal(false);
    expect(stateAfterFailure(minute, locked, T + 3), 'of one who is locked nothing is counted').to.equal(undefined);
    expect(failing(minute, [T + 60_002, T + 60_003], locked).lockedUntil, 'counted anew').to.be.below(T + 60_003);
  });

  it('failures are forgotten after the interval', () => {
    const policy = { ...lockout, failureCountInterval: 1000 };
    expect(failing(policy, [T, T + 500, T + 1000]).failures).to.deep.equal([T + 500, T + 1000]);
    expect(failing(policy, [T, T + 500, T + 999]).lockedUntil).to.equal(Number.POSITIVE_INFINITY);
  });

  it('without a lockout nothing is counted', () => {
    expect(stateAfterFailure({ ...lockout, lockout: false }, NO_STATE, T)).to.equal(undefined);
    expect(stateAfterFailure({ ...lockout, maxFailure: 0 }, NO_STATE, T)).to.equal(undefined);
  });

  it('delays double up to the longest, and a try within one is not counted', () => {
    const policy = { ...NONE, minDelay: 1000, maxDelay: 3000 };
    let state = NO_STATE;
    let now = T;
    const delays: number[] = [];
    for (let i = 0; i < 4; i++) {
      state = stateAfterFailure(policy, state, now)!;
      delays.push(state.lockedUntil - now);
      expect(stateAfterFailure(policy, state, now + 1)).to.equal(undefined);
      now = state.lockedUntil;
    }
    expect(delays).to.deep.equal([1000, 2000, 3000, 3000]);
  });

  it('the account state keeps a bounded number of failures', () => {
    const policy = { ...lockout, maxFailure: 1_000_000 };
    const state = failing(
      policy,
      Array.from({ length: 1500 }, (_, n) => T + n),
    );
    expect(state.failures).to.have.length(1000);
  });

  it('a password expires, with warning and grace logins', () => {
    const policy = { ...NONE, maxAge: 10_000, expireWarning: 2000, graceLimit: 2 };
    const row = { ...ROW, changed: T };
    expect(admit(policy, row, NO_STATE, T + 7999)).to.deep.equal({ isExpired: false, state: undefined });
    expect(admit(policy, row, NO_STATE, T + 8500)).to.deep.equal({
      isExpired: false,
      expiresIn: 2,
      state: undefined,
    });
    const first = admit(policy, row, NO_STATE, T + 10_000);
    expect(first).to.deep.include({ isExpired: false, grace: 1 });
    const second = admit(policy, row, first.state!, T + 10_001);
    expect(second).to.deep.include({ isExpired: false, grace: 0 });
    expect(second.state!.graceUses).to.deep.equal([T + 10_000, T + 10_001]);
    expect(admit(policy, row, second.state!, T + 10_002)).to.deep.equal({ isExpired: true, state: undefined });
    expect(admit({ ...policy, graceExpiry: 500 }, row, NO_STATE, T + 10_499).isExpired).to.equal(false);
    expect(admit({ ...policy, graceExpiry: 500 }, row, NO_STATE, T + 10_500).isExpired).to.equal(true);
    expect(admit({ ...policy, graceLimit: 0 }, { ...row, changed: 0 }, NO_STATE, T).isExpired, 'in 1970').to.equal(
      true,
    );
    expect(admit(policy, { ...row, reset: true }, NO_STATE, T + 99_000).isExpired, 'to be changed').to.equal(false);
  });

  it('a password that does not say how old it is is as old as the first bind', () => {
    const policy = { ...NONE, maxAge: 10_000, graceLimit: 0 };
    const { state } = admit(policy, undefined, NO_STATE, T);
    expect(state).to.deep.equal({ ...NO_STATE, since: T });
    expect(admit(policy, undefined, state!, T + 9999)).to.include({ isExpired: false, state: undefined });
    expect(admit(policy, undefined, state!, T + 10_000).isExpired).to.equal(true);
  });

  it('a clean success is not written down, but for once an hour where idleness counts', () => {
    const idle = { ...NONE, maxIdle: 100 * 3_600_000 };
    expect(admit(lockout, undefined, NO_STATE, T).state).to.equal(undefined);
    const { state } = admit(idle, undefined, NO_STATE, T);
    expect(state).to.deep.equal({ ...NO_STATE, lastSuccess: T });
    expect(admit(idle, undefined, state!, T + 3_599_999).state).to.equal(undefined);
    expect(admit(idle, undefined, state!, T + 3_600_000).state!.lastSuccess).to.equal(T + 3_600_000);
    expect(admit(lockout, undefined, { ...NO_STATE, failures: [T] }, T).state).to.deep.equal(NO_STATE);
  });

  it('who has not bound for too long is locked, but not who never did', () => {
    const policy = { ...NONE, maxIdle: 1000 };
    expect(isLockedOut(policy, undefined, NO_STATE, T)).to.equal(false);
    const state = { ...NO_STATE, lastSuccess: T };
    expect(isLockedOut(policy, undefined, state, T + 999)).to.equal(false);
    expect(isLockedOut(policy, undefined, state, T + 1000)).to.equal(true);
    expect(isLockedOut(policy, { ...ROW, changed: T + 500 }, state, T + 1000), 'changed since').to.equal(false);
  });

  it('dates hold whatever the policy', () => {
    expect(isOutsideDates({ ...ROW, start: T, end: T + 10 }, T - 1)).to.equal(true);
    expect(isOutsideDates({ ...ROW, start: T, end: T + 10 }, T)).to.equal(false);
    expect(isOutsideDates({ ...ROW, start: T, end: T + 10 }, T + 10)).to.equal(true);
    expect(isOutsideDates(undefined, T)).to.equal(false);
  });

  it('the account state starts with imported values, unless the password has changed since', () => {
    const row = { ...ROW, changed: T, failures: [T - 1, T + 1], graceUses: [T - 1, T + 2], lastSuccess: T + 3 };
    const brought = { ...NO_STATE, failures: [T + 1], graceUses: [T + 2], lastSuccess: T + 3 };
    const account = { account: row, lock: undefined };
    expect(effectiveState(account, undefined)).to.deep.equal(brought);
    expect(effectiveState(account, NO_STATE)).to.equal(NO_STATE);
    const lock = { attributeName: 'pwdAccountLockedTime', sinceMs: T };
    expect(effectiveState({ ...account, lock }, undefined), 'after the lock').to.deep.equal({
      ...brought,
      failures: [],
    });
  });
});
