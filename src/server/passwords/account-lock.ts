import type { AttributeDescription } from '../../schema/schema-types.js';
import { generalizedTimeMs } from '../../schema/time.js';

/** The value of `pwdAccountLockedTime` with which an administrator locks: for good (draft-behera-10 §5.3.3). */
export const LOCKED_FOR_GOOD = '000001010000Z';

/** Attributes by which directories lock accounts, and the values that do so. Names are in lower case. */
const LOCKS: ReadonlyMap<string, (value: Buffer) => boolean> = new Map([
  ['pwdaccountlockedtime', () => true],
  ['nsaccountlock', isTrue],
  ['logindisabled', isTrue],
]);

function isTrue(value: Buffer): boolean {
  return value.toString('latin1').trim().toLowerCase() === 'true';
}

/** Which values of the attribute lock the account of its entry; undefined for one that locks none. */
export function lockingValues({ type, options }: AttributeDescription): ((value: Buffer) => boolean) | undefined {
  return options.length > 0 ? undefined : LOCKS.get(type.name.toLowerCase());
}

/** What an entry itself says against binds with its passwords. */
export interface EntryLock {
  /** Attribute that says so. */
  readonly name: string;
  /** Milliseconds since 1970: a policy may end it (draft-behera-10 §5.3.3); undefined: it holds for good. */
  readonly since: number | undefined;
}

/** The lock that a locking value makes beside those that others make: what holds for good counts. */
export function lockOf({ type: { name } }: AttributeDescription, value: Buffer, other?: EntryLock): EntryLock {
  const time = name.toLowerCase() === 'pwdaccountlockedtime' ? generalizedTimeMs(value) : undefined;
  const since = time !== undefined && time > 0 ? time : undefined;
  if (other && (since === undefined ? other.since === undefined : other.since === undefined || other.since >= since))
    return other;
  return { name, since };
}

/** Whether the lock holds at a moment. One with a time ends after the lockout duration of the policy (ms; 0: never). */
export function isHolding(
  lock: EntryLock | undefined,
  policy: { readonly lockoutDuration: number } | undefined,
  now: number,
): boolean {
  if (!lock) return false;
  const duration = policy?.lockoutDuration ?? 0;
  return lock.since === undefined || duration === 0 || now < lock.since + duration;
}
