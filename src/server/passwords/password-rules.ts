import { pathToFileURL } from 'node:url';
import type { Logger } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';
import { generalizedTime } from '../../partition/model/csn.js';
import {
  BreachedListFault,
  isBreached,
  JudgingFault,
  judge,
  type PasswordMatcher,
  requireBreachedList,
  type Source,
  storedForm,
  wordsOfNames,
} from '../../password/index.js';
import type { Config } from '../settings/index.js';
import type { AccountPolicy } from './account-policy.js';
import type { RowCredentials } from './credentials.js';
import { PolicyRefusal } from './password-hashing.js';
import type { RowAccount } from './row-account.js';

/** A requested change of the passwords of an entry. */
export interface PasswordChange {
  /** Whether the client is bound as the entry. */
  readonly isOwn: boolean;
  /** New clear passwords; undefined for each password that the client sent hashed. */
  readonly clearPasswords: readonly (Buffer | undefined)[];
  /** Throws when the old password in the request is wrong; undefined: the request has no old password. */
  readonly requireOldPassword: (() => Promise<void>) | undefined;
  /** Whether the entry keeps some of its passwords. */
  readonly keepsOldPassword: boolean;
  /** Names of the person in the entry, which the password may not contain. */
  readonly personNames: readonly string[];
  readonly dn: string;
}

/** Checks for new passwords. The work is charged to `source`. */
export interface PasswordChecks {
  readonly matcher: PasswordMatcher;
  readonly quality: Quality;
  readonly source: Source;
}

/**
 * Throws when the policy refuses a change (draft-behera-ldap-password-policy-10 §8.2). Checks that reveal nothing about
 * the stored passwords come first. Only the owner gets the checks that compare with stored passwords.
 */
export async function refuseByPolicy(
  policy: AccountPolicy,
  credentials: RowCredentials,
  change: PasswordChange,
  checks: PasswordChecks,
): Promise<void> {
  if (change.isOwn) refuseChangeByOwner(policy, credentials, change, Date.now());
  if (change.clearPasswords.length > 1) throw refusal('insufficientPasswordQuality', 'give one new password');
  for (const value of change.clearPasswords) {
    if (value) await refuseWeak(policy, change, value, checks);
    else if (policy.checkQuality > 1)
      throw refusal(
        'insufficientPasswordQuality',
        'give the password itself: of a hash nobody can tell what it is worth',
      );
  }
  await change.requireOldPassword?.();
  if (!change.isOwn) return;
  for (const value of change.clearPasswords) if (value) await refuseReused(policy, credentials, value, checks.matcher);
  if (change.keepsOldPassword)
    throw refusal('insufficientPasswordQuality', 'a new password has to take the place of all that the entry has');
}

/** Throws when a user gives the own password as a hash, or under a scheme that binds nobody. */
export function refuseHashedByOwner({ clearPasswords }: Pick<PasswordChange, 'clearPasswords'>): void {
  if (!clearPasswords.includes(undefined)) return;
  throw refusal(
    'insufficientPasswordQuality',
    'give your new password itself, not a value that begins with {SCHEME} (setting passwords.allowHashed)',
  );
}

function refuseChangeByOwner(
  policy: AccountPolicy,
  { account }: RowCredentials,
  { requireOldPassword }: PasswordChange,
  now: number,
): void {
  if (!policy.allowUserChange)
    throw new PolicyRefusal(
      'insufficientAccessRights',
      'passwordModNotAllowed',
      'you may not change your password; ask the administrator',
    );
  if (policy.safeModify && !requireOldPassword)
    throw new PolicyRefusal(
      'insufficientAccessRights',
      'mustSupplyOldPassword',
      'a new password needs the old one with it',
    );
  refuseTooYoung(account, policy.minAge, now);
}

/** Throws when a user changes the password again before `minAge` (ms) or shadowMin has passed. */
export function refuseTooYoung(account: RowAccount | undefined, minAge: number, now: number): void {
  if (account?.changed === undefined || account.reset) return;
  const remainingMs = Math.max(minAge > 0 ? account.changed + minAge : 0, account.shadowMinEnd) - now;
  if (remainingMs > 0)
    throw refusal(
      'passwordTooYoung',
      `the password was changed lately; it can be changed again in ${Math.ceil(remainingMs / 1000)} seconds`,
    );
}

async function refuseWeak(
  policy: AccountPolicy,
  { personNames: names, dn }: PasswordChange,
  clear: Buffer,
  { quality, source }: PasswordChecks,
): Promise<void> {
  const text = clear.toString();
  const length = [...text].length;
  const { minLength, maxLength } = policy;
  if (length < minLength) throw refusal('passwordTooShort', `a password has ${minLength} characters at least`);
  if (maxLength > 0 && length > maxLength)
    throw refusal('passwordTooLong', `a password has ${maxLength} characters at most`);
  if (policy.checkQuality > 0 && containsName(text, names))
    throw refusal('insufficientPasswordQuality', 'the password holds a name of its entry; choose one without names');
  const reason = await quality.refusalReason(policy, clear, { names, dn }, source);
  if (reason !== undefined) throw refusal('insufficientPasswordQuality', reason);
}

async function refuseReused(
  policy: AccountPolicy,
  credentials: RowCredentials,
  clear: Buffer,
  matcher: PasswordMatcher,
): Promise<void> {
  if (policy.inHistory === 0) return;
  const usedPasswords = [...credentials.passwords, ...rememberedPasswords(credentials.account?.history ?? [])];
  if (await matcher.findMatch(clear, usedPasswords))
    throw refusal(
      'passwordInHistory',
      `the password was used before; choose one that is none of the last ${policy.inHistory}`,
    );
}

function containsName(password: string, names: readonly string[]): boolean {
  const text = password.toLowerCase();
  return wordsOfNames(names).some((word) => text.includes(word.toLowerCase()));
}

function refusal(policyError: PolicyRefusal['policyError'], message: string): PolicyRefusal {
  return new PolicyRefusal('constraintViolation', policyError, message);
}

interface PasswordEntry {
  readonly names: readonly string[];
  readonly dn: string;
}

const NO_SOURCE: Source = { network: '', identity: '' };

/** Checks of new passwords against the list of breached passwords, the minimum score and the operator's module. */
export class Quality {
  /** Path of the list of breached passwords. */
  readonly #breachedListPath: string | undefined;
  /** URL of the operator's module for checks. */
  readonly #checkUrl: string | undefined;
  readonly #log: Pick<Logger, 'error'>;

  constructor({ passwords }: Config, log: Pick<Logger, 'error'>) {
    this.#breachedListPath = passwords.breached;
    this.#checkUrl = passwords.check === undefined ? undefined : pathToFileURL(passwords.check).href;
    this.#log = log;
  }

  /** Throws when the list or the module that the settings name cannot be used. */
  async requireUsable(): Promise<void> {
    try {
      if (this.#breachedListPath !== undefined) await requireBreachedList(this.#breachedListPath);
      if (this.#checkUrl !== undefined)
        await judge.refusalReason({ clear: '', names: [], dn: '', minScore: 0, check: this.#checkUrl }, NO_SOURCE);
    } catch (error) {
      if (error instanceof BreachedListFault) throw new LdapError('other', `passwords.breached: ${error.message}`);
      if (error instanceof JudgingFault) throw new LdapError('other', `passwords.check: ${error.message}`);
      throw error;
    }
  }

  /** Returns why the password is refused; undefined: accepted. Throws `unavailable` when it cannot be checked. */
  async refusalReason(
    { checkQuality, minScore }: AccountPolicy,
    clear: Buffer,
    { names, dn }: PasswordEntry,
    source: Source,
  ): Promise<string | undefined> {
    const isChecked = checkQuality > 0;
    const check = isChecked ? this.#checkUrl : undefined;
    try {
      if (isChecked && this.#breachedListPath !== undefined && (await isBreached(this.#breachedListPath, clear)))
        return 'the password is known from breaches of others; choose one that you use nowhere else';
      if (minScore === 0 && check === undefined) return undefined;
      return await judge.refusalReason({ clear: clear.toString(), names, dn, minScore, check }, source);
    } catch (error) {
      if (!(error instanceof BreachedListFault || error instanceof JudgingFault)) throw error;
      this.#log.error({ reason: error.message }, 'new passwords cannot be judged, and are refused');
      throw new LdapError('unavailable', 'the password cannot be judged now; the log of the server says why', {
        cause: error,
      });
    }
  }
}

/**
 * Values of pwdHistory (draft-behera-ldap-password-policy-10 §5.3.7) consist of the time, the OID of the syntax, the
 * length and the stored password, separated by `#`.
 */
const OCTET_STRING_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.40';
const NUMBER_SIGN = 0x23;

export function historyValue(stored: Buffer, now: number): Buffer {
  return Buffer.concat([Buffer.from(`${generalizedTime(now)}#${OCTET_STRING_SYNTAX}#${stored.length}#`), stored]);
}

/** Returns the stored passwords in values of pwdHistory. Malformed values are skipped. */
function rememberedPasswords(history: readonly Buffer[]): Buffer[] {
  return history.flatMap((value) => {
    let separatorOffset = -1;
    for (let field = 0; field < 3; field++) {
      separatorOffset = value.indexOf(NUMBER_SIGN, separatorOffset + 1);
      if (separatorOffset < 0) return [];
    }
    return [value.subarray(separatorOffset + 1)];
  });
}

/** Returns a value of pwdHistory with the stored password in its `storedForm`. */
export function historyInStoredForm(value: Buffer): Buffer {
  const [stored] = rememberedPasswords([value]);
  const cut = stored && storedForm(stored);
  if (!cut || cut.length === stored.length) return value;
  const [time, syntax] = value.toString('latin1').split('#', 2);
  return Buffer.concat([Buffer.from(`${time}#${syntax}#${cut.length}#`, 'latin1'), cut]);
}
