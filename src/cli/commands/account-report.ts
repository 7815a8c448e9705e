import type { AccountState } from '../../partition/model/account-state.js';
import type { Entry, EntryAttribute } from '../../partition/model/directory-types.js';
import type { Dn } from '../../schema/schema-types.js';
import { isLockInForce, lockPredicate } from '../../server/passwords/account-lock.js';
import { type AccountPolicy, withMaxAge } from '../../server/passwords/account-policy.js';
import {
  changedAt,
  effectiveState,
  isLockedOut,
  isOutsideDates,
  withoutEndedLock,
} from '../../server/passwords/account-status.js';
import { CredentialReader, type RowCredentials } from '../../server/passwords/credentials.js';
import { type ChosenPolicy, Policies } from '../../server/passwords/policies.js';
import { AccessControl } from '../../server/services/access-control.js';
import type { Config } from '../../server/settings/index.js';
import { pluralize } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';

export interface Account {
  readonly entry: Entry;
  readonly credentials: RowCredentials;
  readonly locks: readonly EntryAttribute[];
  /** Undefined when the account has no policy, or its policy entry is missing. */
  readonly chosenPolicy: ChosenPolicy | undefined;
  /** The policy with the overrides of the entry. */
  readonly policy: AccountPolicy | undefined;
  /** DNs of policies that the account refers to but that do not exist. */
  readonly missingPolicies: readonly string[];
  readonly state: AccountState;
}

export async function readAccount(
  { partition, schema }: OpenDirectory,
  dn: Dn,
  { policy: defaultPolicy, shadow }: Config['passwords'],
): Promise<Account> {
  const entry = await partition.read(dn);
  const credentials = new CredentialReader(partition.descriptions, shadow).read(entry.row);
  const locks = entry.attributes.filter(({ description, values }) => {
    const isLocking = lockPredicate(schema.requireDescription(description));
    return isLocking && values.some(isLocking);
  });
  const missingPolicies: string[] = [];
  const addMissing = ({ dn: missingDn }: { dn: string }): void => void missingPolicies.push(missingDn);
  const log = { warn: addMissing, error: () => undefined };
  const policies = new Policies(partition, defaultPolicy, new AccessControl(partition, log), log);
  const chosenPolicy = await policies.choose(entry.id, credentials);
  const policy = withMaxAge(chosenPolicy?.policy, credentials.account?.maxAge);
  const storedState = effectiveState(credentials, await partition.accountState(entry.id));
  const state = withoutEndedLock(storedState, Date.now());
  return { entry, credentials, locks, chosenPolicy, policy, missingPolicies, state };
}

export function formatAccount(account: Account, now: number): string {
  const obstacles = formatLocks(account, now);
  const { passwords, applications, totp } = account.credentials;
  if (passwords.length + applications.length === 0) obstacles.push('no password: nobody can bind as this entry');
  if (account.policy?.secondFactor && !totp)
    obstacles.push('no second factor, which the policy demands: nobody can bind with the password');
  return [
    account.entry.dn,
    ...(obstacles.length > 0 ? obstacles : ['not locked']),
    ...formatPolicy(account, now),
    ...(passwords.length > 0 ? [pluralize(passwords.length, 'password')] : []),
    ...(totp ? ['second factor: a code of six digits behind the password'] : []),
    ...(applications.length > 0 ? [pluralize(applications.length, 'application password')] : []),
  ].join('\n  ');
}

function formatLocks({ locks, credentials: { lock, account }, policy, state }: Account, now: number): string[] {
  const lines = isLockInForce(lock, policy, now)
    ? locks.map(({ description, values }) => `locked by ${description}: ${values.join(', ')}`)
    : [];
  if (lines.length > 0 && lock?.sinceMs !== undefined && policy && policy.lockoutDuration > 0)
    lines.push(`until ${formatTime(lock.sinceMs + policy.lockoutDuration)}, by the policy`);
  if (account && isOutsideDates(account, now)) {
    if (account.start !== undefined && now < account.start) lines.push(`no bind before ${formatTime(account.start)}`);
    if (account.end !== undefined && now >= account.end) lines.push(`no bind since ${formatTime(account.end)}`);
  }
  if (state.lockedUntil > now) {
    const until = Number.isFinite(state.lockedUntil) ? formatTime(state.lockedUntil) : 'it is unlocked';
    lines.push(`locked by failed binds until ${until}`);
  } else if (policy && isLockedOut(policy, account, state, now)) lines.push('locked, as nobody has bound for too long');
  return lines;
}

function formatPolicy(
  { credentials: { account }, chosenPolicy, policy, missingPolicies, state }: Account,
  now: number,
): string[] {
  const lines = missingPolicies.map((dn) => `policy ${dn}, which is not there or no password policy`);
  lines.push(chosenPolicy ? `policy ${chosenPolicy.dn}, by ${describeSource(chosenPolicy)}` : 'no password policy');
  if (account?.reset) lines.push('the password has to be changed');
  const changedMs = changedAt(account, state);
  if (account?.changed !== undefined) lines.push(`password changed ${formatTime(account.changed)}`);
  if (policy && policy.maxAge > 0 && changedMs !== undefined) {
    const expiry = changedMs + policy.maxAge;
    lines.push(`password ${expiry > now ? 'expires' : 'expired'} ${formatTime(expiry)}`);
  }
  const { failures, graceUses, lastSuccess } = state;
  if (failures.length > 0)
    lines.push(`${pluralize(failures.length, 'failed bind')}, the last ${formatTime(failures.at(-1)!)}`);
  if (graceUses.length > 0) lines.push(`${pluralize(graceUses.length, 'grace login')} used`);
  if (lastSuccess > 0) lines.push(`last bind ${formatTime(lastSuccess)}, or within an hour of it`);
  return lines;
}

function describeSource({ source: by }: ChosenPolicy): string {
  if (by === 'entry') return 'its pwdPolicySubentry';
  return by === 'setting' ? 'the setting passwords.policy' : `'${by.name}' among passwordPolicies of the access rules`;
}

/** Returns a time in UTC, to the second. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
