import type { AccountState } from '../../partition/model/account-state.js';
import type { Entry, EntryAttribute } from '../../partition/model/directory-types.js';
import type { Dn } from '../../schema/schema-types.js';
import { isHolding, lockingValues } from '../../server/passwords/account-lock.js';
import { type AccountPolicy, withMaxAge } from '../../server/passwords/account-policy.js';
import { Credentials, type RowCredentials } from '../../server/passwords/credentials.js';
import { type ChosenPolicy, Policies } from '../../server/passwords/policies.js';
import { changedAt, isLockedOut, isOutsideDates, stateOf } from '../../server/passwords/standing.js';
import { AccessControl } from '../../server/services/access-control.js';
import type { Config } from '../../server/settings/index.js';
import { counted } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';

/** An account as commands see it. */
export interface Account {
  readonly entry: Entry;
  readonly own: RowCredentials;
  /** The attributes that lock it. */
  readonly locks: readonly EntryAttribute[];
  /** Undefined: none, or it is not there. */
  readonly chosen: ChosenPolicy | undefined;
  /** The policy with what the entry itself says. */
  readonly policy: AccountPolicy | undefined;
  /** DNs of policies that it would have, were they there. */
  readonly missing: readonly string[];
  readonly state: AccountState;
}

export async function readAccount(
  { partition, schema }: OpenDirectory,
  dn: Dn,
  { policy: defaultPolicy, shadow }: Config['passwords'],
): Promise<Account> {
  const entry = await partition.read(dn);
  const own = new Credentials(partition.descriptions, shadow).ofRow(entry.row);
  const locks = entry.attributes.filter(({ description, values }) => {
    const locking = lockingValues(schema.requireDescription(description));
    return locking && values.some(locking);
  });
  const missing: string[] = [];
  const log = { warn: ({ dn: gone }: { dn: string }) => void missing.push(gone), error: () => undefined };
  const policies = new Policies(partition, defaultPolicy, new AccessControl(partition, log), log);
  const chosen = await policies.chosen(entry.id, own);
  const policy = withMaxAge(chosen?.policy, own.account?.maxAge);
  const state = stateOf(own.account, await partition.accountState(entry.id));
  return { entry, own, locks, chosen, policy, missing, state };
}

export function accountReport(account: Account, now: number): string {
  const locked = lockLines(account, now);
  const { passwords, applications, totp } = account.own;
  if (passwords.length + applications.length === 0) locked.push('no password: nobody can bind as this entry');
  if (account.policy?.secondFactor && !totp)
    locked.push('no second factor, which the policy demands: nobody can bind with the password');
  return [
    account.entry.dn,
    ...(locked.length > 0 ? locked : ['not locked']),
    ...policyLines(account, now),
    ...(passwords.length > 0 ? [counted(passwords.length, 'password')] : []),
    ...(totp ? ['second factor: a code of six digits behind the password'] : []),
    ...(applications.length > 0 ? [counted(applications.length, 'application password')] : []),
  ].join('\n  ');
}

function lockLines({ locks, own: { lock, account }, policy, state }: Account, now: number): string[] {
  const lines = isHolding(lock, policy, now)
    ? locks.map(({ description, values }) => `locked by ${description}: ${values.join(', ')}`)
    : [];
  if (lines.length > 0 && lock?.since !== undefined && policy && policy.lockoutDuration > 0)
    lines.push(`until ${time(lock.since + policy.lockoutDuration)}, by the policy`);
  if (account && isOutsideDates(account, now)) {
    if (account.start !== undefined && now < account.start) lines.push(`no bind before ${time(account.start)}`);
    if (account.end !== undefined && now >= account.end) lines.push(`no bind since ${time(account.end)}`);
  }
  if (state.lockedUntil > now) {
    const until = Number.isFinite(state.lockedUntil) ? time(state.lockedUntil) : 'it is unlocked';
    lines.push(`locked by failed binds until ${until}`);
  } else if (policy && isLockedOut(policy, account, state, now)) lines.push('locked, as nobody has bound for too long');
  return lines;
}

function policyLines({ own: { account }, chosen, policy, missing, state }: Account, now: number): string[] {
  const lines = missing.map((dn) => `policy ${dn}, which is not there or no password policy`);
  lines.push(chosen ? `policy ${chosen.dn}, by ${reasonOf(chosen)}` : 'no password policy');
  if (account?.reset) lines.push('the password has to be changed');
  const changed = changedAt(account, state);
  if (account?.changed !== undefined) lines.push(`password changed ${time(account.changed)}`);
  if (policy && policy.maxAge > 0 && changed !== undefined) {
    const expiry = changed + policy.maxAge;
    lines.push(`password ${expiry > now ? 'expires' : 'expired'} ${time(expiry)}`);
  }
  const { failures, graceUses, lastSuccess } = state;
  if (failures.length > 0) lines.push(`${counted(failures.length, 'failed bind')}, the last ${time(failures.at(-1)!)}`);
  if (graceUses.length > 0) lines.push(`${counted(graceUses.length, 'grace login')} used`);
  if (lastSuccess > 0) lines.push(`last bind ${time(lastSuccess)}, or within an hour of it`);
  return lines;
}

function reasonOf({ by }: ChosenPolicy): string {
  if (by === 'entry') return 'its pwdPolicySubentry';
  return by === 'setting' ? 'the setting passwords.policy' : `'${by.name}' among passwordPolicies of the access rules`;
}

/** To the second, in UTC. */
function time(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
