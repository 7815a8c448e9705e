import type { Matches, Source } from '../../password/index.js';
import type { AccountPolicy } from './account-policy.js';
import type { RowCredentials } from './credentials.js';
import { rememberedPasswords } from './password-history.js';
import { PolicyRefusal } from './policy-refusal.js';
import type { Quality } from './quality.js';

/** A change that brings passwords, or takes them away, as it is asked for. */
export interface PasswordChange {
  /** Whoever asks is bound as the entry. */
  readonly isOwn: boolean;
  /** New passwords in the clear; undefined for each that came hashed. */
  readonly given: readonly (Buffer | undefined)[];
  /** Throws where the old password that comes with it is wrong; undefined: none does. */
  readonly requireOld: (() => Promise<void>) | undefined;
  /** Some of the passwords of before are left. */
  readonly keepsOld: boolean;
  /** What the entry is called by. */
  readonly names: readonly string[];
  readonly dn: string;
}

/** What looks at new passwords, as work of `source`. */
export interface Looking {
  readonly matches: Matches;
  readonly quality: Quality;
  readonly source: Source;
}

/**
 * Throws what the policy has against it (draft-behera-ldap-password-policy-10 §8.2): what tells nothing of the stored
 * passwords first, and what tells whether one is among them to its owner alone.
 */
export async function refuseByPolicy(
  policy: AccountPolicy,
  own: RowCredentials,
  change: PasswordChange,
  looking: Looking,
): Promise<void> {
  if (change.isOwn) refuseOwn(policy, own, change, Date.now());
  if (change.given.length > 1) throw refused('insufficientPasswordQuality', 'give one new password');
  for (const value of change.given) {
    if (value) await refuseClear(policy, change, value, looking);
    else if (policy.checkQuality > 1)
      throw refused(
        'insufficientPasswordQuality',
        'give the password itself: of a hash nobody can tell what it is worth',
      );
  }
  await change.requireOld?.();
  if (!change.isOwn) return;
  for (const value of change.given) if (value) await refuseKnown(policy, own, value, looking.matches);
  if (change.keepsOld)
    throw refused('insufficientPasswordQuality', 'a new password has to take the place of all that the entry has');
}

function refuseOwn(
  policy: AccountPolicy,
  { account }: RowCredentials,
  { requireOld }: PasswordChange,
  now: number,
): void {
  if (!policy.allowUserChange)
    throw new PolicyRefusal(
      'insufficientAccessRights',
      'passwordModNotAllowed',
      'you may not change your password; ask the administrator',
    );
  if (policy.safeModify && !requireOld)
    throw new PolicyRefusal(
      'insufficientAccessRights',
      'mustSupplyOldPassword',
      'a new password needs the old one with it',
    );
  if (account?.changed === undefined || account.reset) return;
  const left = account.changed + policy.minAge - now;
  if (left > 0)
    throw refused(
      'passwordTooYoung',
      `the password was changed lately; it can be changed again in ${Math.ceil(left / 1000)} seconds`,
    );
}

async function refuseClear(
  policy: AccountPolicy,
  { names, dn }: PasswordChange,
  clear: Buffer,
  { quality, source }: Looking,
): Promise<void> {
  const text = clear.toString();
  const length = [...text].length;
  const { minLength, maxLength } = policy;
  if (length < minLength) throw refused('passwordTooShort', `a password has ${minLength} characters at least`);
  if (maxLength > 0 && length > maxLength)
    throw refused('passwordTooLong', `a password has ${maxLength} characters at most`);
  if (policy.checkQuality > 0 && holdsName(text, names))
    throw refused('insufficientPasswordQuality', 'the password holds a name of its entry; choose one without names');
  const reason = await quality.reason(policy, clear, { names, dn }, source);
  if (reason !== undefined) throw refused('insufficientPasswordQuality', reason);
}

async function refuseKnown(policy: AccountPolicy, own: RowCredentials, clear: Buffer, matches: Matches): Promise<void> {
  if (policy.inHistory === 0) return;
  const known = [...own.passwords, ...rememberedPasswords(own.account?.history ?? [])];
  if (await matches.find(clear, known))
    throw refused(
      'passwordInHistory',
      `the password was used before; choose one that is none of the last ${policy.inHistory}`,
    );
}

/** Shorter ones are in many passwords by chance. */
const LEAST_NAME = 3;

function holdsName(password: string, names: readonly string[]): boolean {
  const text = password.toLowerCase();
  return names
    .flatMap((name) => name.toLowerCase().split(/[^\p{L}\p{N}]+/u))
    .some((word) => [...word].length >= LEAST_NAME && text.includes(word));
}

function refused(policyError: PolicyRefusal['policyError'], message: string): PolicyRefusal {
  return new PolicyRefusal('constraintViolation', policyError, message);
}
