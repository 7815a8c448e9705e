import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { LONG_ROW } from '../../partition/index.js';
import { type DescriptionTable, INDEX_BYTES } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { largeQualifiers } from '../../partition/model/tables.js';
import { entryBytes, writeEntryHead } from '../../protocol/encode-entry.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { writeComputed } from './computed.js';
import { type OpenLargeValues, OutgoingAttributes, ShownNames } from './outgoing.js';
import type { EntryExtras, ReplyEntry } from './reply-entry.js';
import type { Selection } from './selection.js';

export interface WriterSource {
  readonly writer: Writer;
  /**
   * Sends one message in pieces, and resolves when the last piece was handed over. After a rejection either no piece
   * was sent or the connection is unusable. `waiting`: bytes that the caller keeps in memory until then.
   */
  writeLong(pieces: AsyncIterable<Buffer>, waiting?: number): Promise<void>;
}

/** Opens the values of an entry that are too long for its row. */
export interface LargeValues {
  openLarge(id: Buffer): Promise<OpenLargeValues>;
}

/** Largest length that four length octets can encode. */
const MAX_LENGTH = 2 ** 32 - 1;
/** Largest number of bytes before the attributes, without the DN. */
const MAX_HEAD = 32;
/** Number of values that are parsed before the turn is checked. */
const VALUES_PER_CHECK = 256;
const EMPTY = Buffer.alloc(0);

const NO_EXTRAS: EntryExtras = { attributes: EMPTY, controls: EMPTY };

/** Returns the computed attributes and the extras of an entry, which follow the attributes of the row. */
function tailOf({ extras }: ReplyEntry, computed: Buffer): EntryExtras {
  if (!extras) return computed.length === 0 ? NO_EXTRAS : { attributes: computed, controls: EMPTY };
  return { attributes: Buffer.concat([computed, extras.attributes]), controls: extras.controls };
}

function writeTail(writer: Writer, { attributes, controls }: EntryExtras): void {
  if (attributes.length > 0) writer.raw(attributes);
  if (controls.length > 0) writer.raw(controls);
}

/** Encodes packed rows as SearchResultEntry messages (RFC 4511 §4.5.2). */
export class EntryEncoder {
  readonly table: DescriptionTable;
  readonly #large: LargeValues;
  readonly #names = new ShownNames();
  readonly #reader: EntryReader;
  readonly #attributes: OutgoingAttributes;

  constructor(table: DescriptionTable, large: LargeValues) {
    this.table = table;
    this.#large = large;
    this.#reader = new EntryReader(table);
    this.#attributes = new OutgoingAttributes(this.#reader, this.#names);
  }

  /**
   * Appends the SearchResultEntry to `output`. Returns a promise when something has to be read first. The buffers of
   * the entry must remain valid until then.
   */
  encode(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
  ): Maybe<void> {
    const replaced = entry.extras?.replaces;
    const effective = (replaced ? selection.without(replaced) : selection).forSight(entry.sight);
    const computed =
      selection.computed.length > 0 && entry.numSubordinates ? writeComputed(entry, selection, typesOnly) : EMPTY;
    if (isPromise(computed))
      return computed.then((bytes) =>
        this.#withTail(output, messageId, entry, effective, typesOnly, tailOf(entry, bytes)),
      );
    return this.#withTail(output, messageId, entry, effective, typesOnly, tailOf(entry, computed));
  }

  #withTail(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
    tail: EntryExtras,
  ): Maybe<void> {
    const { row, dn } = entry;
    const large = typesOnly ? undefined : this.#selectedLarge(row, selection);
    // Encoding a long row at once would block the event loop.
    if (large || (row.length > LONG_ROW && !typesOnly))
      return output.writeLong(this.#pieces(messageId, entry, selection, tail, large), row.length);
    this.#reader.read(row);
    if (entry.withMembers && selection.member && hasMemberUrl(this.#reader))
      return chain(withMembers(entry, selection), (whole) =>
        this.#withTail(output, messageId, whole, selection, typesOnly, tail),
      );
    const attributes = this.#attributes;
    const list = attributes.select(selection, typesOnly, undefined, entry.moreMembers) + tail.attributes.length;
    const { writer } = output;
    writer.reserve(MAX_HEAD + dn.length + list + tail.controls.length);
    writeEntryHead(writer, messageId, dn, list, tail.controls.length);
    attributes.writeAll(writer);
    writeTail(writer, tail);
  }

  /** Returns the Latin-1 qualifiers of the selected values that are not in the row; undefined: none. */
  #selectedLarge(row: Buffer, selection: Selection): ReadonlySet<string> | undefined {
    const large = largeQualifiers(row);
    if (!large) return undefined;
    const selected = [...large].filter((qualifier) => {
      const name = Buffer.from(qualifier, 'latin1');
      return selection.takes(this.table.intern(name, 0, name.length - INDEX_BYTES));
    });
    return selected.length > 0 ? new Set(selected) : undefined;
  }

  /** Encodes the message in pieces, yielding between pieces. Opens the values outside the row first. */
  async *#pieces(
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    tail: EntryExtras,
    large: ReadonlySet<string> | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { id, dn } = entry;
    const selectedLarge = large && { qualifiers: large, values: await this.#large.openLarge(id) };
    try {
      const slice = new TimeSlice();
      const reader = new EntryReader(this.table);
      await readAll(reader, entry.row, slice);
      let { moreMembers } = entry;
      if (entry.withMembers && selection.member && hasMemberUrl(reader)) {
        const whole = await withMembers(entry, selection);
        moreMembers = whole.moreMembers;
        await readAll(reader, whole.row, slice);
      }
      const attributes = new OutgoingAttributes(reader, this.#names);
      const list = attributes.select(selection, false, selectedLarge, moreMembers) + tail.attributes.length;
      const controls = tail.controls.length;
      if (entryBytes(messageId, dn, list, controls) > MAX_LENGTH)
        throw new LdapError(
          'adminLimitExceeded',
          'the entry is longer than a message may be; ask for fewer attributes',
        );
      const writer = new Writer();
      writeEntryHead(writer, messageId, dn, list, controls);
      while (attributes.write(writer, PIECE)) {
        yield writer.take();
        if (attributes.nextLarge) yield* selectedLarge!.values.pieces(attributes.nextLarge);
        else await slice.yieldIfOver();
      }
      writeTail(writer, tail);
      yield writer.take();
    } finally {
      selectedLarge?.values.close();
    }
  }
}

async function readAll(reader: EntryReader, row: Buffer, slice: TimeSlice): Promise<void> {
  reader.open(row);
  while (reader.readMore(VALUES_PER_CHECK)) await slice.yieldIfOver();
}

/** Whether the entry is a dynamic group: it has URLs that search for its members. */
function hasMemberUrl({ stored, count }: EntryReader): boolean {
  for (let i = 0; i < count; i++) if (stored[i]!.isMemberUrl) return true;
  return false;
}

function withMembers(entry: ReplyEntry, selection: Selection): Maybe<ReplyEntry> {
  const { id, dn, sight } = entry;
  return chain(entry.withMembers!(selection.maxMembers), ({ row, hasMore: more }) => ({
    id,
    dn,
    sight,
    row,
    moreMembers: more,
  }));
}
