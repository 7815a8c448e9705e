import type { Modification } from '../../ldap/ldap-types.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { AccountPolicy } from './account-policy.js';
import type { RowCredentials } from './credentials.js';
import { historyValue } from './password-rules.js';

/** Attributes that the server updates when a password changes. */
export const PASSWORD_ATTRIBUTES = [
  'pwdAccountLockedTime',
  'pwdChangedTime',
  'pwdFailureTime',
  'pwdHistory',
  'pwdReset',
  'shadowLastChange',
] as const;

/** Returns the changes of operational attributes that go with a change of passwords. They require no right. */
export function operationalChanges(
  policy: AccountPolicy | undefined,
  credentials: RowCredentials,
  change: {
    readonly isOwn: boolean;
    readonly passwordsAfter: readonly Buffer[];
    readonly setsPasswords: boolean;
    /** Whether the request itself writes pwdReset, and shadowLastChange. */
    readonly writesReset: boolean;
    readonly writesShadow?: boolean;
  },
  now: number,
): Modification[] {
  const changes: Modification[] = [];
  const replaceValues = (type: (typeof PASSWORD_ATTRIBUTES)[number], values: readonly Buffer[]): void => {
    changes.push({ operation: 'replace', attribute: { type, values } });
  };
  const { account, lock } = credentials;
  const isReset = account?.reset ?? false;
  if (change.setsPasswords && !change.writesReset) {
    if (change.isOwn && isReset) replaceValues('pwdReset', []);
    else if (!change.isOwn && policy?.mustChange) replaceValues('pwdReset', [Buffer.from('TRUE')]);
  }
  if (change.setsPasswords && account?.hasShadow && !change.writesShadow)
    replaceValues('shadowLastChange', [Buffer.from(daysOf(now))]);
  // An import brings a lock by failed binds as the lock of an administrator, with the failures beside it.
  if (change.setsPasswords && lock?.sinceMs !== undefined && account && account.failures.length > 0) {
    replaceValues('pwdAccountLockedTime', []);
    replaceValues('pwdFailureTime', []);
  }
  // Without a policy, too, the time of the old password must not stay.
  if (change.setsPasswords && (policy || account?.changed !== undefined))
    replaceValues('pwdChangedTime', [Buffer.from(generalizedTime(now))]);
  if (!policy) return changes;
  const history = historyAfter(policy, credentials, change.passwordsAfter, now);
  if (history) replaceValues('pwdHistory', history);
  return changes;
}

/** Returns the value of shadowLastChange for a time (ms since 1970). */
export function daysOf(ms: number): string {
  return String(Math.floor(ms / 86_400_000));
}

/** Returns the new values of pwdHistory; undefined: unchanged. */
function historyAfter(
  { inHistory }: AccountPolicy,
  { passwords, account }: RowCredentials,
  after: readonly Buffer[],
  now: number,
): readonly Buffer[] | undefined {
  const history = account?.history ?? [];
  const removedPasswords =
    inHistory === 0 ? [] : passwords.filter((value) => !after.some((other) => other.equals(value)));
  const addedValues = removedPasswords.map((value) => historyValue(value, now));
  // Replacing a password twice within a second yields the same value twice.
  const keptValues = history.filter((value) => !addedValues.some((other) => other.equals(value)));
  const allValues = [...keptValues.sort(byTime), ...addedValues];
  if (removedPasswords.length === 0 && allValues.length <= inHistory) return undefined;
  return inHistory === 0 ? [] : allValues.slice(-inHistory).map((value) => Buffer.from(value));
}

/** Compares by time only, so that sorting keeps the order of values of the same second. */
function byTime(a: Buffer, b: Buffer): number {
  return Buffer.compare(a.subarray(0, a.indexOf('#')), b.subarray(0, b.indexOf('#')));
}
