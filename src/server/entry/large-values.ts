import { LdapError } from '../../ldap/error.js';
import type { DescriptionTable, StoredDescription } from '../../partition/descriptions.js';
import { OCTET_STRING, SEQUENCE, SET } from '../../protocol/tags.js';
import { Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../context.js';
import { messageBytes, writeEntryHeader } from './entry-header.js';
import { elementBytes } from './lengths.js';
import { INDEX_BYTES } from './row.js';
import { attributeCells } from './row-cells.js';
import type { Selection } from './selection.js';

/** The values of one entry that are too long for its row. To be closed. */
export interface OpenLargeValues {
  lengthOf(qualifier: Buffer): number;
  /** `lengthOf` bytes. */
  pieces(qualifier: Buffer): AsyncIterable<Buffer>;
  close(): void;
}

/** Where they are. */
export interface LargeValues {
  openLarge(id: Buffer): Promise<OpenLargeValues>;
}

export interface LargeEntry {
  readonly entry: ReplyEntry;
  readonly selection: Selection;
  /** PartialAttributes to append, encoded. */
  readonly tail: Buffer;
  /** Latin-1 qualifiers whose value is not in the row. */
  readonly large: ReadonlySet<string>;
  readonly table: DescriptionTable;
  readonly values: LargeValues;
}

/** A value in the row, or the qualifier of one that is not. */
type Value = { readonly here: Buffer } | { readonly apart: Buffer };

interface Attribute {
  readonly stored: StoredDescription;
  readonly values: Value[];
}

/** What four length octets can tell. */
const LONGEST = 2 ** 32 - 1;

/**
 * The message of an entry of which a selected value is outside its row, piece by piece from the store; undefined where none
 * is.
 */
export function largePieces(messageId: number, wanted: LargeEntry): AsyncIterable<Buffer> | undefined {
  const attributes = selectedAttributes(wanted);
  const isApart = attributes.some(({ values }) => values.some((value) => 'apart' in value));
  return isApart ? openPieces(messageId, wanted, attributes) : undefined;
}

function selectedAttributes({ entry, selection, large, table }: LargeEntry): Attribute[] {
  const attributes: Attribute[] = [];
  let last: Attribute | undefined;
  for (const { qualifier, value } of attributeCells(entry.row)) {
    const stored = table.intern(qualifier, 0, qualifier.length - INDEX_BYTES);
    if (!selection.takes(stored)) continue;
    if (last?.stored !== stored) {
      last = { stored, values: [] };
      attributes.push(last);
    }
    last.values.push(large.has(qualifier.toString('latin1')) ? { apart: qualifier } : { here: value });
  }
  return attributes;
}

/** The message; the values are opened when it is begun. */
async function* openPieces(
  messageId: number,
  wanted: LargeEntry,
  attributes: readonly Attribute[],
): AsyncGenerator<Buffer, void, undefined> {
  const large = await wanted.values.openLarge(wanted.entry.id);
  try {
    yield* messagePieces(messageId, wanted, attributes, large);
  } finally {
    large.close();
  }
}

/** The SearchResultEntry (RFC 4511 §4.5.2), lengths first: they are known before the values are read. */
async function* messagePieces(
  messageId: number,
  { entry, tail }: LargeEntry,
  attributes: readonly Attribute[],
  large: OpenLargeValues,
): AsyncGenerator<Buffer, void, undefined> {
  const valueBytes = (value: Value) => ('here' in value ? value.here.length : large.lengthOf(value.apart));
  const measured = attributes.map(({ stored, values }) => {
    const name = Buffer.from(stored.description.text);
    const set = values.reduce((sum, value) => sum + elementBytes(valueBytes(value)), 0);
    return { name, set, values, length: elementBytes(name.length) + elementBytes(set) };
  });
  const list = measured.reduce((sum, { length }) => sum + elementBytes(length), tail.length);
  if (messageBytes(messageId, entry.dn, list) > LONGEST)
    throw new LdapError('adminLimitExceeded', 'the entry is longer than a message may be; ask for fewer attributes');
  const writer = new Writer();
  writeEntryHeader(writer, messageId, entry.dn, list);
  for (const { name, set, values, length } of measured) {
    writer.header(SEQUENCE, length);
    writer.octetString(OCTET_STRING, name);
    writer.header(SET, set);
    for (const value of values) {
      if ('here' in value) {
        writer.octetString(OCTET_STRING, value.here);
        continue;
      }
      writer.header(OCTET_STRING, valueBytes(value));
      yield writer.take();
      yield* large.pieces(value.apart);
    }
  }
  writer.raw(tail);
  yield writer.take();
}
