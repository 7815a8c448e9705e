import type { Modification } from '../../ldap/ldap-types.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { AccountPolicy } from './account-policy.js';
import type { RowCredentials } from './credentials.js';
import { historyValue } from './password-history.js';

/** Attributes that the server keeps when a password changes. */
export const KEPT_WITH_PASSWORDS = ['pwdChangedTime', 'pwdHistory', 'pwdReset'] as const;

/** What else changes in an entry whose passwords change, which nobody needs a right for. */
export function keptWith(
  policy: AccountPolicy | undefined,
  own: RowCredentials,
  change: {
    readonly isOwn: boolean;
    /** Passwords that the entry will have. */
    readonly after: readonly Buffer[];
    /** It brings some. */
    readonly brings: boolean;
    /** It says itself whether the password has to be changed. */
    readonly saysReset: boolean;
  },
  now: number,
): Modification[] {
  const kept: Modification[] = [];
  const set = (type: (typeof KEPT_WITH_PASSWORDS)[number], values: readonly Buffer[]): void => {
    kept.push({ operation: 'replace', attribute: { type, values } });
  };
  const { account } = own;
  const isReset = account?.reset ?? false;
  if (change.brings && !change.saysReset) {
    if (change.isOwn && isReset) set('pwdReset', []);
    else if (!change.isOwn && policy?.mustChange && !isReset) set('pwdReset', [Buffer.from('TRUE')]);
  }
  if (!policy) return kept;
  if (change.brings) set('pwdChangedTime', [Buffer.from(generalizedTime(now))]);
  const history = historyAfter(policy, own, change.after, now);
  if (history) set('pwdHistory', history);
  return kept;
}

/** Values of pwdHistory as they shall be; undefined: as they are. */
function historyAfter(
  { inHistory }: AccountPolicy,
  { passwords, account }: RowCredentials,
  after: readonly Buffer[],
  now: number,
): readonly Buffer[] | undefined {
  const known = account?.history ?? [];
  const gone = inHistory === 0 ? [] : passwords.filter((value) => !after.some((other) => other.equals(value)));
  const come = gone.map((value) => historyValue(value, now));
  // A password that was replaced twice in one second has one value.
  const others = known.filter((value) => !come.some((other) => other.equals(value)));
  const keep = [...others.sort(byTime), ...come];
  if (gone.length === 0 && keep.length <= inHistory) return undefined;
  return inHistory === 0 ? [] : keep.slice(-inHistory).map((value) => Buffer.from(value));
}

/** Those of one second stay in their order. */
function byTime(a: Buffer, b: Buffer): number {
  return Buffer.compare(a.subarray(0, a.indexOf('#')), b.subarray(0, b.indexOf('#')));
}
