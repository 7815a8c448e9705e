import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../context.js';
import { isPromise, type Maybe } from '../maybe.js';
import type { Computed } from './selection.js';

/** Where every entry's subschema is found (RFC 4512 §4.2). */
export const SUBSCHEMA_DN = 'cn=Subschema';

/** The PartialAttributes of what no row holds: entryDN (RFC 5020), subschemaSubentry, hasSubordinates, numSubordinates. */
export function writeComputed(entry: ReplyEntry, asked: Computed, typesOnly: boolean): Maybe<Buffer> {
  const has = asked.hasSubordinates && !typesOnly ? entry.hasSubordinates?.() : undefined;
  const number = asked.numSubordinates && !typesOnly ? entry.numSubordinates?.() : undefined;
  if (isPromise(has) || isPromise(number)) {
    return Promise.all([has, number]).then(([h, n]) => write(entry, asked, typesOnly, h, n));
  }
  return write(entry, asked, typesOnly, has, number);
}

function write(
  entry: ReplyEntry,
  asked: Computed,
  typesOnly: boolean,
  has: boolean | undefined,
  number: number | undefined,
): Buffer {
  const writer = new Writer();
  const put = (type: string, value: Buffer | string): void => {
    encodeAttribute(writer, { type, values: typesOnly ? [] : [Buffer.from(value)] });
  };
  if (asked.entryDN) put('entryDN', entry.dn);
  if (asked.subschemaSubentry) put('subschemaSubentry', SUBSCHEMA_DN);
  if (asked.hasSubordinates) put('hasSubordinates', has ? 'TRUE' : 'FALSE');
  if (asked.numSubordinates) put('numSubordinates', String(number ?? 0));
  return writer.take();
}
