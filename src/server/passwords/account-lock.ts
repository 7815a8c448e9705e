import type { AttributeDescription } from '../../schema/schema-types.js';
import { generalizedTimeMs } from '../../schema/time.js';

/** Attributes that lock accounts (names in lower case), and predicates for the values that do. */
const LOCK_PREDICATES: ReadonlyMap<string, (value: Buffer) => boolean> = new Map([
  ['pwdaccountlockedtime', () => true],
  ['nsaccountlock', isTrue],
  ['logindisabled', isTrue],
]);

function isTrue(value: Buffer): boolean {
  return value.toString('latin1').trim().toLowerCase() === 'true';
}

/** Returns the predicate for values that lock the account; undefined: the attribute never locks. */
export function lockPredicate({ type, options }: AttributeDescription): ((value: Buffer) => boolean) | undefined {
  return options.length > 0 ? undefined : LOCK_PREDICATES.get(type.name.toLowerCase());
}

/** A lock that an attribute of the entry, such as `nsAccountLock`, sets on its account. */
export interface EntryLock {
  readonly attributeName: string;
  /** Start (ms since 1970) from which a policy may end the lock (draft-behera-10 §5.3.3); undefined: permanent. */
  readonly sinceMs: number | undefined;
}

/** Returns the lock that `value` sets, or `other` when that is longer. A lock without a start never ends. */
export function mergeLock({ type }: AttributeDescription, value: Buffer, other?: EntryLock): EntryLock {
  const isLockTime = type.name.toLowerCase() === 'pwdaccountlockedtime';
  const lockedAtMs = (isLockTime && generalizedTimeMs(value)) || 0;
  const sinceMs = lockedAtMs > 0 ? lockedAtMs : undefined;
  const isOtherLonger = other && (other.sinceMs === undefined || (sinceMs !== undefined && other.sinceMs >= sinceMs));
  return isOtherLonger ? other : { attributeName: type.name, sinceMs };
}

/** Whether a lock is in force. A lock with a start ends after the policy's lockout duration (ms; 0: never). */
export function isLockInForce(
  lock: EntryLock | undefined,
  policy: { readonly lockoutDuration: number } | undefined,
  now: number,
): boolean {
  if (!lock) return false;
  const duration = policy?.lockoutDuration ?? 0;
  return lock.sinceMs === undefined || duration === 0 || now < lock.sinceMs + duration;
}
