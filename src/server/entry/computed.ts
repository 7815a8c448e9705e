import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { chain, type Maybe } from '../words/maybe.js';
import type { ReplyEntry } from './reply-entry.js';

/** Where every entry's subschema is found (RFC 4512 §4.2). */
export const SUBSCHEMA_DN = 'cn=Subschema';

/** What no row holds: entryDN (RFC 5020), subschemaSubentry, hasSubordinates, numSubordinates. */
export const COMPUTED = ['entryDN', 'subschemaSubentry', 'hasSubordinates', 'numSubordinates'];

/** The PartialAttributes of those of the types that the viewer may read. */
export function writeComputed(entry: ReplyEntry, types: readonly AttributeType[], typesOnly: boolean): Maybe<Buffer> {
  const { sight } = entry;
  const shown = sight ? types.filter((type) => sight.allows('read', type)) : types;
  const counts = !typesOnly && shown.some(({ name }) => name.endsWith('Subordinates'));
  return chain(counts ? entry.numSubordinates?.() : 0, (below) => {
    const writer = new Writer();
    for (const { name } of shown)
      encodeAttribute(writer, { type: name, values: typesOnly ? [] : [computedValue(name, entry, below ?? 0)] });
    return writer.take();
  });
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
