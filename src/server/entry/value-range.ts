import { LdapError } from '../../ldap/ldap-error.js';
import { printable } from '../../schema/suggest.js';

/** Active Directory's range option: the values `low` to `high` of an attribute, counted from 0. */
export interface ValueRange {
  readonly low: number;
  /** Infinity: up to the last value. */
  readonly high: number;
}

const RANGE_OPTION = /;range=([^;]*)/i;
const RANGE_BOUNDS = /^(\d{1,10})-(?:(\d{1,10})|\*)$/;

/** Splits a description into name and range; undefined: no range option. Throws when the option is malformed. */
export function parseRange(description: string): { name: string; range: ValueRange } | undefined {
  const option = RANGE_OPTION.exec(description);
  if (!option) return undefined;
  const bounds = RANGE_BOUNDS.exec(option[1]!);
  const low = Number(bounds?.[1]);
  const high = bounds?.[2] === undefined ? Number.POSITIVE_INFINITY : Number(bounds[2]);
  if (!bounds || high < low) {
    const expectedForm = `'range=0-999' or 'range=1000-*', the first not above the last`;
    throw new LdapError(
      'unwillingToPerform',
      `attribute '${printable(description)}': a range of values is ${expectedForm}`,
    );
  }
  return { name: description.replace(option[0], ''), range: { low, high } };
}

export const ALL_VALUES: ValueRange = { low: 0, high: Number.POSITIVE_INFINITY };

/**
 * Returns the part `[from, to)` of `count` values that a range selects, and the option that describes the part.
 * `hasMore`: whether the attribute has more than `count` values.
 */
export function selectRange(
  { low, high }: ValueRange,
  count: number,
  hasMore = false,
): { from: number; to: number; option: string } {
  const to = Math.min(high + 1, count);
  const isLast = to === count && !hasMore;
  return { from: Math.min(low, count), to, option: `;range=${low}-${isLast ? '*' : to - 1}` };
}
