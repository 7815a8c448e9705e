/**
 * An account under draft-behera-ldap-password-policy-10, from the words of its sections 7 and 8 and of
 * docs/passwords.md alone. Times are seconds. Where the two differ the page holds:
 *
 * - What lasts so many seconds has ended when they have passed: the draft lets a password live one second longer.
 * - A delay is a short lock, and no lock by failures counts what is tried meanwhile.
 * - When a lock by failures ends is fixed when it is made, and failures count from none then. Its time is that of the
 *   last failure, whether or not it ends.
 * - `pwdReset` holds without `pwdMustChange`, and only the owner's change takes it away.
 * - A password without `pwdChangedTime` is as old as its first bind under a policy with `pwdMaxAge`.
 * - Lengths are looked at without `pwdCheckQuality`.
 * - A password that is set once more by a modify is the present one still, and no old one: of its owner it is refused.
 * - An expired password that is refused forgets no failures.
 * - A wrong old password counts as a failed bind.
 */
export interface ModelPolicy {
  readonly lockout: boolean;
  readonly maxFailure: number;
  readonly lockoutDuration: number;
  readonly failureCountInterval: number;
  readonly minDelay: number;
  readonly maxDelay: number;
  readonly maxAge: number;
  readonly expireWarning: number;
  /** Undefined: none. */
  readonly graceLimit: number | undefined;
  readonly graceExpiry: number;
  readonly maxIdle: number;
  readonly minLength: number;
  readonly maxLength: number;
  readonly inHistory: number;
  readonly minAge: number;
  readonly safeModify: boolean;
  readonly allowUserChange: boolean;
  readonly mustChange: boolean;
}

/** A result code, and what the control for password policies tells. */
export interface Verdict {
  readonly code: number;
  readonly expiresIn?: number;
  readonly grace?: number;
  readonly error?: number;
}

export interface ModelChange {
  /** The old password that comes with the new one. */
  readonly old: string | undefined;
  readonly next: string;
  /** By a modify that deletes the old password and adds the next; else by password modify. */
  readonly isModify: boolean;
}

export const FOR_GOOD = '000001010000Z';
const FOREVER = Number.POSITIVE_INFINITY;
const HOUR = 3600;
const DONE: Verdict = { code: 0 };
const REFUSED: Verdict = { code: 49 };
const NO_SUCH_VALUE: Verdict = { code: 16 };
const ERROR = {
  passwordExpired: 0,
  changeAfterReset: 2,
  passwordModNotAllowed: 3,
  mustSupplyOldPassword: 4,
  insufficientPasswordQuality: 5,
  passwordTooShort: 6,
  passwordTooYoung: 7,
  passwordInHistory: 8,
  passwordTooLong: 9,
} as const;

export class AccountModel {
  #password: string;
  #changed: number | undefined;
  #reset = false;
  #history: { readonly text: string; readonly at: number }[] = [];
  /** The administrator's: since when, or for good. */
  #lock: number | typeof FOR_GOOD | undefined;
  #start: number | undefined;
  #end: number | undefined;
  #failures: number[] = [];
  /** Failures have locked it, or delay the next try. */
  #barred: { readonly by: 'lock' | 'delay'; readonly until: number; readonly since: number } | undefined;
  #graceUses: number[] = [];
  #lastSuccess: number | undefined;
  /** First seen, or unlocked. */
  #since: number | undefined;

  /** `added`: when the entry was added, in seconds, if that was under a policy (§8.2). */
  constructor(password: string, added: number | undefined) {
    this.#password = password;
    this.#changed = added;
  }

  get password(): string {
    return this.#password;
  }

  /** §8.1. */
  bind(policy: ModelPolicy | undefined, password: string, now: number): Verdict {
    if (this.#isLocked(policy, now)) return REFUSED;
    if (password !== this.#password) {
      if (policy) this.#fail(policy, now);
      return REFUSED;
    }
    if (!policy) return this.#reset ? { code: 0, error: ERROR.changeAfterReset } : DONE;
    const aged = this.#reset ? DONE : this.#ageing(policy, now);
    if (aged.code !== 0) return aged;
    this.#failures = [];
    this.#barred = undefined;
    const isDue =
      policy.maxIdle > 0 &&
      (this.#lastSuccess === undefined || now - this.#lastSuccess >= Math.min(HOUR, policy.maxIdle / 8));
    if (isDue) this.#lastSuccess = now;
    return this.#reset ? { code: 0, error: ERROR.changeAfterReset } : aged;
  }

  /** What is neither a bind nor a change of the password, on a connection bound so (§8.3). */
  other(): Verdict {
    return this.#reset ? { code: 50, error: ERROR.changeAfterReset } : DONE;
  }

  /** §7.1. */
  #isLocked(policy: ModelPolicy | undefined, now: number): boolean {
    if (this.#isAdministratorsLock(policy, now)) return true;
    if (this.#start !== undefined && now < this.#start) return true;
    if (this.#end !== undefined && now >= this.#end) return true;
    if (!policy) return false;
    if (this.#barred && now < this.#barred.until) return true;
    const used = [this.#lastSuccess, this.#since, this.#changed].filter((time) => time !== undefined);
    return policy.maxIdle > 0 && used.length > 0 && now >= Math.max(...used) + policy.maxIdle;
  }

  #isAdministratorsLock(policy: ModelPolicy | undefined, now: number): boolean {
    if (this.#lock === undefined) return false;
    if (this.#lock === FOR_GOOD || !policy || policy.lockoutDuration === 0) return true;
    return now < this.#lock + policy.lockoutDuration;
  }

  #endLock(now: number): void {
    if (this.#barred?.by !== 'lock' || now < this.#barred.until) return;
    this.#failures = [];
    this.#barred = undefined;
  }

  /** §8.1.3, §7.6, §7.7. */
  #fail(policy: ModelPolicy, now: number): void {
    const locks = policy.lockout && policy.maxFailure > 0;
    if (!locks && policy.minDelay === 0) return;
    this.#endLock(now);
    const { failureCountInterval: interval } = policy;
    this.#failures = this.#failures.filter((time) => interval === 0 || now - time < interval);
    this.#failures.push(now);
    const count = this.#failures.length;
    this.#barred = undefined;
    if (locks && count >= policy.maxFailure) {
      const until = policy.lockoutDuration === 0 ? FOREVER : now + policy.lockoutDuration;
      this.#barred = { by: 'lock', until, since: now };
    } else if (policy.minDelay > 0) {
      let delay = policy.minDelay;
      for (let n = 1; n < count; n++) delay *= 2;
      this.#barred = { by: 'delay', until: now + Math.min(delay, policy.maxDelay), since: now };
    }
  }

  /** §7.3 to §7.5, §8.1.2.3, §8.1.2.4. */
  #ageing(policy: ModelPolicy, now: number): Verdict {
    if (policy.maxAge === 0) return DONE;
    const changed = this.#changed ?? this.#since;
    if (changed === undefined) {
      this.#since = now;
      return DONE;
    }
    const age = now - changed;
    if (age < policy.maxAge) {
      const isWarned = policy.expireWarning > 0 && age >= policy.maxAge - policy.expireWarning;
      return isWarned ? { code: 0, expiresIn: policy.maxAge - age } : DONE;
    }
    const left = (policy.graceLimit ?? 0) - this.#graceUses.length;
    const isOver = policy.graceExpiry > 0 && age >= policy.maxAge + policy.graceExpiry;
    if (left <= 0 || isOver) return { code: 49, error: ERROR.passwordExpired };
    this.#graceUses.push(now);
    return { code: 0, grace: left - 1 };
  }

  /** By whoever is bound as the entry (§8.2). What needs no stored password is told before what does. */
  change(policy: ModelPolicy | undefined, { old, next, isModify }: ModelChange, now: number): Verdict {
    const isWrong = old !== undefined && old !== this.#password;
    const refusal = policy && this.#refusalOf(policy, old, next, now);
    if (refusal) return refusal;
    if (isWrong) {
      if (policy) this.#fail(policy, now);
      return isModify ? NO_SUCH_VALUE : REFUSED;
    }
    const isKnown = next === this.#password || this.#history.some(({ text }) => text === next);
    if (policy && policy.inHistory > 0 && isKnown) return { code: 19, error: ERROR.passwordInHistory };
    // The server gives a value beside another its salt: it is the same one.
    const isSame = isModify && next === this.#password;
    if (policy && isSame) return { code: 19, error: ERROR.insufficientPasswordQuality };
    this.#reset &&= isSame;
    this.#set(policy, next, now, isSame);
    return DONE;
  }

  #refusalOf(policy: ModelPolicy, old: string | undefined, next: string, now: number): Verdict | undefined {
    if (!policy.allowUserChange) return { code: 50, error: ERROR.passwordModNotAllowed };
    if (policy.safeModify && old === undefined) return { code: 50, error: ERROR.mustSupplyOldPassword };
    const isYoung = this.#changed !== undefined && now - this.#changed < policy.minAge;
    if (isYoung && !this.#reset) return { code: 19, error: ERROR.passwordTooYoung };
    if (next.length < policy.minLength) return { code: 19, error: ERROR.passwordTooShort };
    if (policy.maxLength > 0 && next.length > policy.maxLength) return { code: 19, error: ERROR.passwordTooLong };
    return undefined;
  }

  /** By the administrator. */
  resetBy(policy: ModelPolicy | undefined, next: string, now: number): void {
    if (policy?.mustChange) this.#reset = true;
    this.#set(policy, next, now);
  }

  /** §8.2.7. */
  #set(policy: ModelPolicy | undefined, next: string, now: number, isSame = false): void {
    if (!policy && this.#changed !== undefined && !isSame) this.#changed = now;
    if (policy) {
      this.#changed = now;
      if (policy.inHistory === 0) this.#history = [];
      else if (next !== this.#password) {
        // A password that was replaced twice in one second has one value.
        const replaced = { text: this.#password, at: Math.floor(now) };
        this.#history = this.#history.filter(({ text, at }) => text !== replaced.text || at !== replaced.at);
        this.#history.push(replaced);
      }
      if (policy.inHistory > 0) this.#history = this.#history.slice(-policy.inHistory);
    }
    this.#password = next;
    this.#forget();
    this.#since = undefined;
  }

  #forget(): void {
    this.#failures = [];
    this.#barred = undefined;
    this.#graceUses = [];
  }

  demandChange(): void {
    this.#reset = true;
  }

  setDates(start: number | undefined, end: number | undefined): void {
    this.#start = start;
    this.#end = end;
  }

  /** The administrator replaces `pwdAccountLockedTime`; undefined: by nothing. The account counts as used. */
  setLock(lock: number | typeof FOR_GOOD | undefined, now: number): void {
    this.#lock = lock;
    this.#forget();
    this.#since = now;
  }

  /** The operational attributes, times in seconds. */
  attributes(policy: ModelPolicy | undefined, now: number): Readonly<Record<string, readonly (number | string)[]>> {
    this.#endLock(now);
    const some = <T>(value: T | undefined): T[] => (value === undefined ? [] : [value]);
    return {
      pwdFailureTime: this.#failures,
      pwdGraceUseTime: this.#graceUses,
      pwdLastSuccess: some(this.#lastSuccess),
      pwdChangedTime: some(this.#changed),
      pwdReset: this.#reset ? ['TRUE'] : [],
      pwdAccountLockedTime: some(this.#toldLock(policy, now)),
    };
  }

  #toldLock(policy: ModelPolicy | undefined, now: number): number | string | undefined {
    const isByFailures = policy && this.#barred?.by === 'lock' && now < this.#barred.until;
    if (!isByFailures || this.#isAdministratorsLock(policy, now)) return this.#lock;
    return this.#barred!.since;
  }
}
