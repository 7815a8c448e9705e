import { isMembership } from '../../partition/model/computed.js';
import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { chain, type Maybe } from '../words/maybe.js';
import type { ReplyEntry } from './reply-entry.js';
import { type ValueRange, valuesIn } from './value-range.js';

/** Where every entry's subschema is found (RFC 4512 §4.2). */
export const SUBSCHEMA_DN = 'cn=Subschema';

/** What no row holds: entryDN (RFC 5020), subschemaSubentry, hasSubordinates, numSubordinates. */
export const COMPUTED = ['entryDN', 'subschemaSubentry', 'hasSubordinates', 'numSubordinates'];
/** The same, but that `+` does not ask for it: it costs more. */
export const COMPUTED_WHEN_NAMED = ['memberOf', 'isMemberOf'];

/** What is selected of it, and of which of that a part of the values. */
export interface ComputedSelection {
  readonly computed: readonly AttributeDescription[];
  readonly ranges: ReadonlyMap<AttributeDescription, ValueRange> | undefined;
}

/** The PartialAttributes of what is computed of an entry, as far as it is selected and the viewer may read it. */
export function writeComputed(
  entry: ReplyEntry,
  { computed, ranges }: ComputedSelection,
  typesOnly: boolean,
): Maybe<Buffer> {
  const { sight } = entry;
  const shown =
    sight && !sight.all('read') ? computed.filter((description) => sight.allows('read', description)) : computed;
  const counts = !typesOnly && shown.some(({ type }) => type.name.endsWith('Subordinates'));
  const groups = shown.some(({ type }) => isMembership(type)) ? entry.memberOf?.() : undefined;
  return chain(counts ? entry.numSubordinates?.() : 0, (below) =>
    chain(groups, (memberOf = []) => {
      const writer = new Writer();
      for (const description of shown) {
        const { type, text } = description;
        const found = isMembership(type) ? memberOf : [computedValue(type.name, entry, below ?? 0)];
        if (found.length === 0) continue;
        const range = ranges?.get(description);
        const { from, to, option } = range ? valuesIn(range, found.length) : { from: 0, to: found.length, option: '' };
        encodeAttribute(writer, { type: text + option, values: typesOnly ? [] : found.slice(from, to) });
      }
      return writer.take();
    }),
  );
}

function computedValue(name: string, { dn }: ReplyEntry, below: number): Buffer {
  switch (name) {
    case 'entryDN':
      return dn;
    case 'subschemaSubentry':
      return Buffer.from(SUBSCHEMA_DN);
    case 'hasSubordinates':
      return Buffer.from(below > 0 ? 'TRUE' : 'FALSE');
    default:
      return Buffer.from(String(below));
  }
}
