import { LdapError } from '../../ldap/ldap-error.js';
import { LONG_ROW, Turns } from '../../partition/index.js';
import { type DescriptionTable, INDEX_BYTES } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { largeQualifiers } from '../../partition/model/tables.js';
import { entryBytes, writeEntryHead } from '../../protocol/encode-entry.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import { isPromise, type Maybe } from '../words/maybe.js';
import { writeComputed } from './computed.js';
import { type OpenLargeValues, OutgoingAttributes, ShownNames } from './outgoing.js';
import type { ReplyEntry } from './reply-entry.js';
import type { Selection } from './selection.js';

/** Where messages go. */
export interface WriterSource {
  /** Takes the next message. */
  readonly writer: Writer;
  /**
   * Sends one message of which only a part is in memory at a time; resolves when it was given away. Where it rejects,
   * nothing of it has gone, or the connection is of no more use. `waiting`: bytes that are in memory until then.
   */
  writeLong(pieces: AsyncIterable<Buffer>, waiting?: number): Promise<void>;
}

/** Where values are that are too long for their rows. */
export interface LargeValues {
  openLarge(id: Buffer): Promise<OpenLargeValues>;
}

/** What four length octets can tell. */
const LONGEST = 2 ** 32 - 1;
/** Bytes of what comes before the attributes, the DN left out, at most. */
const HEAD = 32;
/** The clock is looked at after so many values. */
const SOME = 256;
const EMPTY = Buffer.alloc(0);

/** Writes entries from packed rows into SearchResultEntry messages (RFC 4511 §4.5.2). */
export class EntryEncoder {
  readonly table: DescriptionTable;
  readonly #large: LargeValues;
  readonly #names = new ShownNames();
  /** Of the short entry at hand. */
  readonly #reader: EntryReader;
  readonly #attributes: OutgoingAttributes;

  constructor(table: DescriptionTable, large: LargeValues) {
    this.table = table;
    this.#large = large;
    this.#reader = new EntryReader(table);
    this.#attributes = new OutgoingAttributes(this.#reader, this.#names);
  }

  /**
   * Appends the SearchResultEntry. A promise where something has to be fetched first; the entry's buffers must live
   * until then.
   */
  encode(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
  ): Maybe<void> {
    const tail =
      selection.computed.length > 0 && entry.numSubordinates
        ? writeComputed(entry, selection.computed, typesOnly)
        : EMPTY;
    if (isPromise(tail))
      return tail.then((bytes) => this.#withTail(output, messageId, entry, selection, typesOnly, bytes));
    return this.#withTail(output, messageId, entry, selection, typesOnly, tail);
  }

  /** `tail`: PartialAttributes to append, encoded. */
  #withTail(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
    tail: Buffer,
  ): Maybe<void> {
    const { row, dn } = entry;
    const large = typesOnly ? undefined : this.#selectedLarge(row, selection);
    // At once a long row would hold the event loop.
    if (large || (row.length > LONG_ROW && !typesOnly))
      return output.writeLong(this.#pieces(messageId, entry, selection, tail, large), row.length);
    this.#reader.read(row);
    const attributes = this.#attributes;
    const list = attributes.select(selection, typesOnly) + tail.length;
    const { writer } = output;
    writer.reserve(HEAD + dn.length + list);
    writeEntryHead(writer, messageId, dn, list);
    attributes.writeAll(writer);
    writer.raw(tail);
  }

  /** Latin-1 qualifiers of the selected values that are not in the row; undefined where none is. */
  #selectedLarge(row: Buffer, selection: Selection): ReadonlySet<string> | undefined {
    const large = largeQualifiers(row);
    if (!large) return undefined;
    const selected = [...large].filter((qualifier) => {
      const name = Buffer.from(qualifier, 'latin1');
      return selection.takes(this.table.intern(name, 0, name.length - INDEX_BYTES));
    });
    return selected.length > 0 ? new Set(selected) : undefined;
  }

  /**
   * The message piece by piece; between them others are served. Values that are not in the row are opened when it is
   * begun.
   */
  async *#pieces(
    messageId: number,
    { id, row, dn }: ReplyEntry,
    selection: Selection,
    tail: Buffer,
    large: ReadonlySet<string> | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    const apart = large && { qualifiers: large, values: await this.#large.openLarge(id) };
    try {
      const turns = new Turns();
      const reader = new EntryReader(this.table);
      reader.open(row);
      while (reader.readOn(SOME)) await turns.pass();
      const attributes = new OutgoingAttributes(reader, this.#names);
      const list = attributes.select(selection, false, apart) + tail.length;
      if (entryBytes(messageId, dn, list) > LONGEST)
        throw new LdapError(
          'adminLimitExceeded',
          'the entry is longer than a message may be; ask for fewer attributes',
        );
      const writer = new Writer();
      writeEntryHead(writer, messageId, dn, list);
      while (attributes.write(writer, PIECE)) {
        yield writer.take();
        if (attributes.follows) yield* apart!.values.pieces(attributes.follows);
        else await turns.pass();
      }
      writer.raw(tail);
      yield writer.take();
    } finally {
      apart?.values.close();
    }
  }
}
