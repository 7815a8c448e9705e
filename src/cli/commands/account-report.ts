import type { AccountState } from '../../partition/model/account-state.js';
import type { EntryAttribute } from '../../partition/model/directory-types.js';
import { DEFAULT_POLICY, unverifiableReason } from '../../password/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { isLockInForce, lockPredicate } from '../../server/passwords/account-lock.js';
import type { AccountPolicy } from '../../server/passwords/account-policy.js';
import {
  admit,
  effectiveState,
  expiryOf,
  isLockedOut,
  isOutsideDates,
  withoutEndedLock,
} from '../../server/passwords/account-status.js';
import { CredentialReader, type RowCredentials } from '../../server/passwords/credentials.js';
import { type ChosenPolicy, Policies } from '../../server/passwords/policies.js';
import { mustChange } from '../../server/passwords/row-account.js';
import { AccessControl } from '../../server/services/access-control.js';
import type { Config } from '../../server/settings/index.js';
import { pluralize } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';

export interface Account {
  readonly id: Buffer;
  readonly dn: string;
  readonly credentials: RowCredentials;
  /** Undefined when the account has no policy, or its policy entry is missing. */
  readonly chosenPolicy: ChosenPolicy | undefined;
  readonly policy: AccountPolicy | undefined;
  /** DNs of policies that the account refers to but that do not exist. */
  readonly missingPolicies: readonly string[];
  readonly state: AccountState;
}

export async function readAccount(
  directory: OpenDirectory,
  dn: Dn,
  passwords: Config['passwords'],
): Promise<Account & { readonly locks: readonly EntryAttribute[] }> {
  const entry = await directory.partition.read(dn);
  const locks = entry.attributes.filter(({ description, values }) => {
    const isLocking = lockPredicate(directory.schema.requireDescription(description));
    return isLocking && values.some(isLocking);
  });
  const reader = new AccountReader(directory, passwords);
  return { ...(await reader.read(entry.id, entry.dn, reader.credentials.read(entry.row))), locks };
}

/** Reads accounts from rows of entries. */
export class AccountReader {
  readonly credentials: CredentialReader;
  readonly #partition: OpenDirectory['partition'];
  readonly #policies: Policies;
  #missingPolicies: string[] = [];

  constructor({ partition }: OpenDirectory, { policy: defaultPolicy, shadow }: Config['passwords']) {
    this.#partition = partition;
    this.credentials = new CredentialReader(partition.descriptions, shadow);
    const log = { warn: ({ dn }: { dn: string }) => void this.#missingPolicies.push(dn), error: () => undefined };
    this.#policies = new Policies(partition, defaultPolicy, new AccessControl(partition, log), log);
  }

  async read(id: Buffer, dn: string, credentials: RowCredentials): Promise<Account> {
    const chosenPolicy = await this.#policies.choose(id, credentials);
    const stored = effectiveState(credentials, await this.#partition.accountState(id));
    const state = withoutEndedLock(stored, Date.now());
    const { policy } = chosenPolicy ?? {};
    return { id, dn, credentials, chosenPolicy, policy, missingPolicies: this.#missingPolicies, state };
  }
}

export function formatAccount(account: Account, now: number): string {
  const obstacles = formatLocks(account, now);
  const { passwords, applications, totp } = account.credentials;
  const unverifiable = unverifiableReason(passwords, DEFAULT_POLICY);
  if (passwords.length + applications.length === 0) obstacles.push('no password: nobody can bind as this entry');
  if (unverifiable !== undefined) obstacles.push(`${unverifiable}: nobody can bind with the password`);
  if (account.policy && admit(account.policy, account.credentials.account, account.state, now).isExpired)
    obstacles.push('the password has expired, and no grace login is left');
  if (account.policy?.secondFactor && !totp)
    obstacles.push('no second factor, which the policy demands: nobody can bind with the password');
  return [
    account.dn,
    ...(obstacles.length > 0 ? obstacles : ['not locked']),
    ...formatPolicy(account, now),
    ...(passwords.length > 0 ? [pluralize(passwords.length, 'password')] : []),
    ...(totp ? ['second factor: a code of six digits behind the password'] : []),
    ...(applications.length > 0 ? [pluralize(applications.length, 'application password')] : []),
  ].join('\n  ');
}

export function formatLocks({ credentials: { lock, account }, policy, state }: Account, now: number): string[] {
  const lines: string[] = [];
  if (lock && isLockInForce(lock, policy, now)) {
    const end =
      lock.sinceMs !== undefined && policy?.lockoutDuration ? lock.sinceMs + policy.lockoutDuration : undefined;
    lines.push(`locked by ${lock.attributeName}${formatSpan(lock.sinceMs, end)}`);
  }
  if (account && isOutsideDates(account, now)) {
    if (account.start !== undefined && now < account.start) lines.push(`no bind before ${formatTime(account.start)}`);
    if (account.end !== undefined && now >= account.end) lines.push(`no bind since ${formatTime(account.end)}`);
  }
  if (state.lockedUntil > now) {
    lines.push(`locked by failed binds${formatSpan(state.lockedAt || undefined, state.lockedUntil)}`);
  } else if (policy && isLockedOut(policy, account, state, now)) lines.push('locked, as nobody has bound for too long');
  return lines;
}

function formatSpan(since: number | undefined, until = Number.POSITIVE_INFINITY): string {
  const end = Number.isFinite(until) ? formatTime(until) : 'it is unlocked';
  return `${since === undefined ? '' : ` since ${formatTime(since)}`} until ${end}`;
}

function formatPolicy(
  { credentials: { account }, chosenPolicy, policy, missingPolicies, state }: Account,
  now: number,
): string[] {
  const lines = missingPolicies.map((dn) => `policy ${dn}, which is not there or no password policy`);
  lines.push(chosenPolicy ? `policy ${chosenPolicy.dn}, by ${describeSource(chosenPolicy)}` : 'no password policy');
  if (mustChange(account, now)) lines.push('the password has to be changed');
  if (account?.changed !== undefined) lines.push(`password changed ${formatTime(account.changed)}`);
  const expiry = expiryOf(policy, account, state);
  if (expiry !== undefined) lines.push(`password ${expiry > now ? 'expires' : 'expired'} ${formatTime(expiry)}`);
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
