import { LdapError } from '../../ldap/ldap-error.js';
import { chain, type Maybe } from '../../partition/index.js';
import { isMembership } from '../../partition/model/computed.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { printable } from '../../schema/suggest.js';

export interface ReplyEntry extends Pick<Hit, 'id' | 'row' | 'dn' | 'sight'> {
  /** Absent when the row contains every attribute: root DSE, cn=Subschema, cn=Monitor. */
  readonly numSubordinates?: Hit['numSubordinates'];
  readonly memberOf?: Hit['memberOf'];
  /** Absent when the row contains the members already. */
  readonly withMembers?: Hit['withMembers'] | undefined;
  /** Whether the entry has more members than the row contains. */
  readonly hasMoreMembers?: boolean;
  readonly extras?: EntryExtras | undefined;
}

/** Encoded parts of an entry that are not in its row: results of request controls, and the state of the account. */
export interface EntryExtras {
  /** PartialAttributes (RFC 4511 §4.1.7) to append to those of the row. */
  readonly attributes: Buffer;
  /** `controls [0]` of the message; empty: none. */
  readonly controls: Buffer;
  /** Stored attributes that `attributes` replace. */
  readonly replacedStates?: ReplacedStates | undefined;
}

/** The attributes of the account's state, without or with `pwdAccountLockedTime`. */
export type ReplacedStates = 'states' | 'states and lock';

/** DN of the subschema subentry of all entries (RFC 4512 §4.2). */
export const SUBSCHEMA_DN = 'cn=Subschema';

/** Attributes that are computed, not stored. For entryDN see RFC 5020. */
export const COMPUTED_ATTRIBUTES = ['entryDN', 'subschemaSubentry', 'hasSubordinates', 'numSubordinates'];
/** Computed attributes that cost more: `+` selects none but memberOf, unless `groups.memberOf` is `named`. */
export const COMPUTED_WHEN_NAMED = ['memberOf', 'isMemberOf'];

/** The selected computed attributes, and the ranges of values for attributes of which a range is selected. */
export interface ComputedSelection {
  readonly computedAttributes: readonly AttributeDescription[];
  readonly ranges: ReadonlyMap<AttributeDescription, ValueRange> | undefined;
}

/** Encodes the selected computed attributes of an entry that the viewer may read, as PartialAttributes. */
export function encodeComputed(
  entry: ReplyEntry,
  { computedAttributes, ranges }: ComputedSelection,
  typesOnly: boolean,
): Maybe<Buffer> {
  const { sight } = entry;
  const readableAttributes =
    sight && !sight.all('read')
      ? computedAttributes.filter((description) => sight.allows('read', description))
      : computedAttributes;
  const needsCount = !typesOnly && readableAttributes.some(({ type }) => type.name.endsWith('Subordinates'));
  const memberships = readableAttributes.some(({ type }) => isMembership(type)) ? entry.memberOf?.() : undefined;
  return chain(needsCount ? entry.numSubordinates?.() : 0, (subordinates) =>
    chain(memberships, (memberOf = []) => {
      const writer = new Writer();
      for (const description of readableAttributes) {
        const { type, text } = description;
        const values = isMembership(type) ? memberOf : [computedValue(type.name, entry, subordinates ?? 0)];
        if (values.length === 0) continue;
        const range = ranges?.get(description);
        const { from, to, option } = range
          ? selectRange(range, values.length)
          : { from: 0, to: values.length, option: '' };
        encodeAttribute(writer, { type: text + option, values: typesOnly ? [] : values.slice(from, to) });
      }
      return writer.take();
    }),
  );
}

function computedValue(name: string, { dn }: ReplyEntry, subordinates: number): Buffer {
  switch (name) {
    case 'entryDN':
      return dn;
    case 'subschemaSubentry':
      return Buffer.from(SUBSCHEMA_DN);
    case 'hasSubordinates':
      return Buffer.from(subordinates > 0 ? 'TRUE' : 'FALSE');
    default:
      return Buffer.from(String(subordinates));
  }
}

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
