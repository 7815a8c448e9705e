import type { Entry } from '../../partition/model/directory-types.js';

/** A password policy (draft-behera-ldap-password-policy-10 §5.2), compiled. Durations are milliseconds; 0: none. */
export interface AccountPolicy {
  readonly minAge: number;
  readonly maxAge: number;
  /** Old passwords that may not come back. */
  readonly inHistory: number;
  /** 0: quality is not checked; 1: where the password is given in the clear; 2: others are refused. */
  readonly checkQuality: number;
  /** Least strength of a new password, 0 to 4; 0: it is not estimated. */
  readonly minScore: number;
  readonly minLength: number;
  readonly maxLength: number;
  /** How long before it expires a warning is given. */
  readonly expireWarning: number;
  /** Binds with an expired password. */
  readonly graceLimit: number;
  /** For how long after it has expired; 0: for ever. */
  readonly graceExpiry: number;
  readonly lockout: boolean;
  /** 0: until it is unlocked. */
  readonly lockoutDuration: number;
  readonly maxFailure: number;
  /** After how long failures are forgotten; 0: only by a success. */
  readonly failureCountInterval: number;
  readonly maxRecordedFailure: number;
  readonly mustChange: boolean;
  readonly allowUserChange: boolean;
  readonly safeModify: boolean;
  /** For how long nobody binds after the first failure, and at most. */
  readonly minDelay: number;
  readonly maxDelay: number;
  /** How long without a bind lock the account. */
  readonly maxIdle: number;
  /** A code has to follow the password. */
  readonly secondFactor: boolean;
  /** Who sends the control is told that the account is locked, whatever the password. */
  readonly tellLockout: boolean;
}

/** The policy that the entry is; undefined: it is none for userPassword. */
export function policyOfEntry({ attributes }: Entry): AccountPolicy | undefined {
  const values = new Map(attributes.map((a) => [a.type.name.toLowerCase(), a.values.map(String)]));
  const isPolicy = values
    .get('objectclass')
    ?.some((name) => /^(pwdPolicy|1\.3\.6\.1\.4\.1\.42\.2\.27\.8\.2\.1)$/i.test(name));
  const isOfPasswords = values.get('pwdattribute')?.some((name) => /^(userPassword|2\.5\.4\.35)$/i.test(name));
  return isPolicy && isOfPasswords ? policyOfValues(values) : undefined;
}

/** Values by the names of attributes in lower case. */
function policyOfValues(values: ReadonlyMap<string, readonly string[]>): AccountPolicy {
  const number = (name: string, otherwise = 0) => {
    const given = Number(values.get(name.toLowerCase())?.[0] ?? otherwise);
    return Number.isSafeInteger(given) && given > 0 ? given : 0;
  };
  const flag = (name: string, otherwise = false) => {
    const given = values.get(name.toLowerCase())?.[0];
    return given === undefined ? otherwise : given.toUpperCase() === 'TRUE';
  };
  const seconds = (name: string) => number(name) * 1000;
  return {
    minAge: seconds('pwdMinAge'),
    maxAge: seconds('pwdMaxAge'),
    inHistory: Math.min(number('pwdInHistory'), MOST_HISTORY),
    checkQuality: number('pwdCheckQuality'),
    minScore: Math.min(number('rowanPwdMinScore'), MOST_SCORE),
    minLength: number('pwdMinLength'),
    maxLength: number('pwdMaxLength'),
    expireWarning: seconds('pwdExpireWarning'),
    graceLimit: number('pwdGraceAuthNLimit', DEFAULT_GRACE),
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

const MOST_SCORE = 4;
/** A change of password by sssd takes several binds. */
const DEFAULT_GRACE = 3;
/** Each may cost a verification at a change. */
const MOST_HISTORY = 24;

const MINUTE = 60_000;
const NO_POLICY = policyOfValues(new Map());

/** The policy of somebody whose entry says for how long a password is good (ms; undefined: it does not). */
export function withMaxAge(policy: AccountPolicy | undefined, maxAge: number | undefined): AccountPolicy | undefined {
  if (maxAge === undefined) return policy;
  return { ...(policy ?? NO_POLICY), maxAge: Math.min(policy?.maxAge || maxAge, maxAge) };
}

/** The policy of somebody with a second factor: its code is guessed where failures have no consequences. */
export function guarding(policy: AccountPolicy = NO_POLICY): AccountPolicy {
  if (countsFailures(policy)) return policy;
  const lock = { lockout: true, maxFailure: 10, failureCountInterval: 15 * MINUTE, lockoutDuration: 15 * MINUTE };
  return { ...policy, ...lock };
}

/** Whether failed binds under the policy have consequences. */
export function countsFailures({ lockout, maxFailure, minDelay }: AccountPolicy): boolean {
  return (lockout && maxFailure > 0) || minDelay > 0;
}
