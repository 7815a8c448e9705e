import type { Entry } from '../../partition/model/directory-types.js';

/** Returns the policy in an entry; undefined: the entry is no password policy for userPassword. */
export function policyOfEntry({ attributes }: Entry): AccountPolicy | undefined {
  const values = new Map(attributes.map((a) => [a.type.name.toLowerCase(), a.values.map(String)]));
  const isPolicy = values
    .get('objectclass')
    ?.some((name) => /^(pwdPolicy|1\.3\.6\.1\.4\.1\.42\.2\.27\.8\.2\.1)$/i.test(name));
  const isForUserPassword = values.get('pwdattribute')?.some((name) => /^(userPassword|2\.5\.4\.35)$/i.test(name));
  return isPolicy && isForUserPassword ? policyOfValues(values) : undefined;
}

/** A compiled password policy (draft-behera-ldap-password-policy-10 §5.2). Durations are milliseconds; 0: none. */
export type AccountPolicy = Readonly<ReturnType<typeof policyOfValues>>;

/** `values`: attribute values by attribute name in lower case. */
function policyOfValues(values: ReadonlyMap<string, readonly string[]>) {
  const number = (name: string) => {
    const value = Number(values.get(name.toLowerCase())?.[0] ?? 0);
    return Number.isSafeInteger(value) && value > 0 ? Math.min(value, MAX_INT) : 0;
  };
  const flag = (name: string, defaultValue = false) => {
    const value = values.get(name.toLowerCase())?.[0];
    return value === undefined ? defaultValue : value.toUpperCase() === 'TRUE';
  };
  const seconds = (name: string) => number(name) * 1000;
  return {
    minAge: seconds('pwdMinAge'),
    maxAge: seconds('pwdMaxAge'),
    /** Number of old passwords that may not be reused. */
    inHistory: Math.min(number('pwdInHistory'), MAX_HISTORY),
    /** 0: quality is not checked; 1: only clear passwords are checked; 2: hashed passwords are refused. */
    checkQuality: number('pwdCheckQuality'),
    /** Minimum strength of a new password, 0 to 4; 0: strength is not estimated. */
    minScore: Math.min(number('rowanPwdMinScore'), MAX_SCORE),
    minLength: number('pwdMinLength'),
    maxLength: number('pwdMaxLength'),
    /** Time before the expiry from which binds get a warning. */
    expireWarning: seconds('pwdExpireWarning'),
    /** Number of binds that are allowed with an expired password; without the attribute none (§5.2.9). */
    graceLimit: number('pwdGraceAuthNLimit'),
    /** Time after the expiry in which these binds are allowed; 0: without limit. */
    graceExpiry: seconds('pwdGraceExpiry'),
    lockout: flag('pwdLockout'),
    /** Duration of a lock; 0: until it is unlocked. */
    lockoutDuration: seconds('pwdLockoutDuration'),
    maxFailure: number('pwdMaxFailure'),
    /** Time after which a failure no longer counts; 0: failures count until a successful bind. */
    failureCountInterval: seconds('pwdFailureCountInterval'),
    maxRecordedFailure: number('pwdMaxRecordedFailure'),
    mustChange: flag('pwdMustChange'),
    allowUserChange: flag('pwdAllowUserChange', true),
    safeModify: flag('pwdSafeModify'),
    /** Time without binds after the first failure. Each further failure doubles it, up to `maxDelay`. */
    minDelay: seconds('pwdMinDelay'),
    maxDelay: seconds('pwdMaxDelay'),
    /** Time without a bind after which the account is locked. */
    maxIdle: seconds('pwdMaxIdle'),
    /** Whether a TOTP code must follow the password. */
    secondFactor: flag('rowanPwdSecondFactor'),
    /** Whether the password policy control reports a locked account, even with a wrong password. */
    tellLockout: flag('rowanPwdTellLockout'),
  };
}

/** The greatest number of a policy. Earlier versions stored greater ones. */
const MAX_INT = 2_147_483_647;
const MAX_SCORE = 4;
/** Limit of pwdInHistory. A change of password may verify each remembered password. */
const MAX_HISTORY = 24;

const MINUTE = 60_000;
const NO_POLICY = policyOfValues(new Map());

/** Returns the policy of an account with a second factor, with a lockout so that the code cannot be guessed. */
export function withLockout(policy: AccountPolicy = NO_POLICY): AccountPolicy {
  if (countsFailures(policy)) return policy;
  const lock = { lockout: true, maxFailure: 10, failureCountInterval: 15 * MINUTE, lockoutDuration: 15 * MINUTE };
  return { ...policy, ...lock };
}

/** Whether failed binds lock or delay the account. */
export function countsFailures({ lockout, maxFailure, minDelay }: AccountPolicy): boolean {
  return (lockout && maxFailure > 0) || minDelay > 0;
}
