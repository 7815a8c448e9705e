import type { Entry } from '../../partition/model/directory-types.js';

/** A password policy (draft-behera-ldap-password-policy-10 §5.2), compiled. Durations are milliseconds; 0: none. */
export interface AccountPolicy {
  readonly minAge: number;
  readonly maxAge: number;
  /** Number of old passwords that may not be reused. */
  readonly inHistory: number;
  /** 0: quality is not checked; 1: only clear passwords are checked; 2: hashed passwords are refused. */
  readonly checkQuality: number;
  /** Minimum strength of a new password, 0 to 4; 0: strength is not estimated. */
  readonly minScore: number;
  readonly minLength: number;
  readonly maxLength: number;
  /** Time before the expiry from which binds get a warning. */
  readonly expireWarning: number;
  /** Number of binds that are allowed with an expired password. */
  readonly graceLimit: number;
  /** Time after the expiry in which these binds are allowed; 0: without limit. */
  readonly graceExpiry: number;
  readonly lockout: boolean;
  /** Duration of a lock; 0: until it is unlocked. */
  readonly lockoutDuration: number;
  readonly maxFailure: number;
  /** Time after which a failure no longer counts; 0: failures count until a successful bind. */
  readonly failureCountInterval: number;
  readonly maxRecordedFailure: number;
  readonly mustChange: boolean;
  readonly allowUserChange: boolean;
  readonly safeModify: boolean;
  /** Time without binds after the first failure, and the most to which it grows. */
  readonly minDelay: number;
  readonly maxDelay: number;
  /** Time without a bind after which the account is locked. */
  readonly maxIdle: number;
  /** Whether a TOTP code must follow the password. */
  readonly secondFactor: boolean;
  /** Whether the password policy control reports a locked account, even with a wrong password. */
  readonly tellLockout: boolean;
}

/** Returns the policy in an entry; undefined: the entry is no password policy for userPassword. */
export function policyOfEntry({ attributes }: Entry): AccountPolicy | undefined {
  const values = new Map(attributes.map((a) => [a.type.name.toLowerCase(), a.values.map(String)]));
  const isPolicy = values
    .get('objectclass')
    ?.some((name) => /^(pwdPolicy|1\.3\.6\.1\.4\.1\.42\.2\.27\.8\.2\.1)$/i.test(name));
  const isForUserPassword = values.get('pwdattribute')?.some((name) => /^(userPassword|2\.5\.4\.35)$/i.test(name));
  return isPolicy && isForUserPassword ? policyOfValues(values) : undefined;
}

/** `values`: attribute values by attribute name in lower case. */
function policyOfValues(values: ReadonlyMap<string, readonly string[]>): AccountPolicy {
  const number = (name: string, defaultValue = 0) => {
    const value = Number(values.get(name.toLowerCase())?.[0] ?? defaultValue);
    return Number.isSafeInteger(value) && value > 0 ? value : 0;
  };
  const flag = (name: string, defaultValue = false) => {
    const value = values.get(name.toLowerCase())?.[0];
    return value === undefined ? defaultValue : value.toUpperCase() === 'TRUE';
  };
  const seconds = (name: string) => number(name) * 1000;
  return {
    minAge: seconds('pwdMinAge'),
    maxAge: seconds('pwdMaxAge'),
    inHistory: Math.min(number('pwdInHistory'), MAX_HISTORY),
    checkQuality: number('pwdCheckQuality'),
    minScore: Math.min(number('rowanPwdMinScore'), MAX_SCORE),
    minLength: number('pwdMinLength'),
    maxLength: number('pwdMaxLength'),
    expireWarning: seconds('pwdExpireWarning'),
    graceLimit: number('pwdGraceAuthNLimit', DEFAULT_GRACE_LOGINS),
    graceExpiry: seconds('pwdGraceExpiry'),
    lockout: flag('pwdLockout'),
    lockoutDuration: seconds('pwdLockoutDuration'),
    maxFailure: number('pwdMaxFailure'),
    failureCountInterval: seconds('pwdFailureCountInterval'),
    maxRecordedFailure: number('pwdMaxRecordedFailure'),
    mustChange: flag('pwdMustChange'),
    allowUserChange: flag('pwdAllowUserChange', true),
    safeModify: flag('pwdSafeModify'),
    minDelay: seconds('pwdMinDelay'),
    maxDelay: seconds('pwdMaxDelay'),
    maxIdle: seconds('pwdMaxIdle'),
    secondFactor: flag('rowanPwdSecondFactor'),
    tellLockout: flag('rowanPwdTellLockout'),
  };
}

const MAX_SCORE = 4;
/** sssd binds several times to change an expired password. */
const DEFAULT_GRACE_LOGINS = 3;
/** Limit of pwdInHistory. A change of password may verify each remembered password. */
const MAX_HISTORY = 24;

const MINUTE = 60_000;
const NO_POLICY = policyOfValues(new Map());

/** Returns the policy with the maximum age that the entry sets (ms; undefined: the entry sets none). */
export function withMaxAge(policy: AccountPolicy | undefined, maxAge: number | undefined): AccountPolicy | undefined {
  if (maxAge === undefined) return policy;
  return { ...(policy ?? NO_POLICY), maxAge: Math.min(policy?.maxAge || maxAge, maxAge) };
}

/**
 * Returns the policy of an account with a second factor. Adds a lockout when failures have no consequences, because the
 * code could be guessed otherwise.
 */
export function withLockout(policy: AccountPolicy = NO_POLICY): AccountPolicy {
  if (countsFailures(policy)) return policy;
  const lock = { lockout: true, maxFailure: 10, failureCountInterval: 15 * MINUTE, lockoutDuration: 15 * MINUTE };
  return { ...policy, ...lock };
}

/** Whether failed binds lock or delay the account. */
export function countsFailures({ lockout, maxFailure, minDelay }: AccountPolicy): boolean {
  return (lockout && maxFailure > 0) || minDelay > 0;
}
