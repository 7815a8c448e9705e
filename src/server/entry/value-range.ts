import { LdapError } from '../../ldap/ldap-error.js';
import { shown } from '../../schema/suggest.js';

/** Active Directory's range option: the values of an attribute from number `low` to number `high`, counted from 0. */
export interface ValueRange {
  readonly low: number;
  /** Infinity: to the last. */
  readonly high: number;
}

/** An attribute description without its range option, and the range. */
export interface Ranged {
  readonly name: string;
  readonly range: ValueRange;
}

const OPTION = /;range=([^;]*)/i;
const RANGE = /^(\d{1,10})-(?:(\d{1,10})|\*)$/;

/** Undefined where the description has no such option; throws where it has one that says nothing. */
export function parseRange(description: string): Ranged | undefined {
  const option = OPTION.exec(description);
  if (!option) return undefined;
  const numbers = RANGE.exec(option[1]!);
  const low = Number(numbers?.[1]);
  const high = numbers?.[2] === undefined ? Number.POSITIVE_INFINITY : Number(numbers[2]);
  if (!numbers || high < low) {
    const wanted = `'range=0-999' or 'range=1000-*', the first not above the last`;
    throw new LdapError('unwillingToPerform', `attribute '${shown(description)}': a range of values is ${wanted}`);
  }
  return { name: description.replace(option[0], ''), range: { low, high } };
}

/** All values. */
export const WHOLE: ValueRange = { low: 0, high: Number.POSITIVE_INFINITY };

/**
 * Of so many values, behind which there are perhaps `more`, those in the range, `[from, to)`, and the option that says
 * which these are.
 */
export function valuesIn(
  { low, high }: ValueRange,
  count: number,
  more = false,
): { from: number; to: number; option: string } {
  const to = Math.min(high + 1, count);
  const isLast = to === count && !more;
  return { from: Math.min(low, count), to, option: `;range=${low}-${isLast ? '*' : to - 1}` };
}
