import { LdapError } from '../../ldap/ldap-error.js';
import { LONG_ROW, Turns } from '../../partition/index.js';
import { type DescriptionTable, INDEX_BYTES } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { largeQualifiers } from '../../partition/model/tables.js';
import { entryBytes, writeEntryHead } from '../../protocol/encode-entry.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { writeComputed } from './computed.js';
import { type OpenLargeValues, OutgoingAttributes, ShownNames } from './outgoing.js';
import type { Beside, ReplyEntry } from './reply-entry.js';
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

/** What comes behind the attributes of the row. */
type Tail = Beside;
const NO_TAIL: Tail = { attributes: EMPTY, controls: EMPTY };

function tailOf({ beside }: ReplyEntry, computed: Buffer): Tail {
  if (!beside) return computed.length === 0 ? NO_TAIL : { attributes: computed, controls: EMPTY };
  return { attributes: Buffer.concat([computed, beside.attributes]), controls: beside.controls };
}

function writeTail(writer: Writer, { attributes, controls }: Tail): void {
  if (attributes.length > 0) writer.raw(attributes);
  if (controls.length > 0) writer.raw(controls);
}

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
    const instead = entry.beside?.instead;
    const shown = (instead ? selection.without(instead) : selection).forSight(entry.sight);
    const computed =
      selection.computed.length > 0 && entry.numSubordinates ? writeComputed(entry, selection, typesOnly) : EMPTY;
    if (isPromise(computed))
      return computed.then((bytes) => this.#withTail(output, messageId, entry, shown, typesOnly, tailOf(entry, bytes)));
    return this.#withTail(output, messageId, entry, shown, typesOnly, tailOf(entry, computed));
  }

  #withTail(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
    tail: Tail,
  ): Maybe<void> {
    const { row, dn } = entry;
    const large = typesOnly ? undefined : this.#selectedLarge(row, selection);
    // At once a long row would hold the event loop.
    if (large || (row.length > LONG_ROW && !typesOnly))
      return output.writeLong(this.#pieces(messageId, entry, selection, tail, large), row.length);
    this.#reader.read(row);
    if (entry.withMembers && selection.member && findsMembers(this.#reader))
      return chain(withItsMembers(entry, selection), (whole) =>
        this.#withTail(output, messageId, whole, selection, typesOnly, tail),
      );
    const attributes = this.#attributes;
    const list = attributes.select(selection, typesOnly, undefined, entry.moreMembers) + tail.attributes.length;
    const { writer } = output;
    writer.reserve(HEAD + dn.length + list + tail.controls.length);
    writeEntryHead(writer, messageId, dn, list, tail.controls.length);
    attributes.writeAll(writer);
    writeTail(writer, tail);
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
    entry: ReplyEntry,
    selection: Selection,
    tail: Tail,
    large: ReadonlySet<string> | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { id, dn } = entry;
    const apart = large && { qualifiers: large, values: await this.#large.openLarge(id) };
    try {
      const turns = new Turns();
      const reader = new EntryReader(this.table);
      await readAll(reader, entry.row, turns);
      let { moreMembers } = entry;
      if (entry.withMembers && selection.member && findsMembers(reader)) {
        const whole = await withItsMembers(entry, selection);
        moreMembers = whole.moreMembers;
        await readAll(reader, whole.row, turns);
      }
      const attributes = new OutgoingAttributes(reader, this.#names);
      const list = attributes.select(selection, false, apart, moreMembers) + tail.attributes.length;
      const controls = tail.controls.length;
      if (entryBytes(messageId, dn, list, controls) > LONGEST)
        throw new LdapError(
          'adminLimitExceeded',
          'the entry is longer than a message may be; ask for fewer attributes',
        );
      const writer = new Writer();
      writeEntryHead(writer, messageId, dn, list, controls);
      while (attributes.write(writer, PIECE)) {
        yield writer.take();
        if (attributes.follows) yield* apart!.values.pieces(attributes.follows);
        else await turns.pass();
      }
      writeTail(writer, tail);
      yield writer.take();
    } finally {
      apart?.values.close();
    }
  }
}

async function readAll(reader: EntryReader, row: Buffer, turns: Turns): Promise<void> {
  reader.open(row);
  while (reader.readOn(SOME)) await turns.pass();
}

/** Whether it has URLs by which members are found. */
function findsMembers({ stored, count }: EntryReader): boolean {
  for (let i = 0; i < count; i++) if (stored[i]!.findsMembers) return true;
  return false;
}

function withItsMembers(entry: ReplyEntry, selection: Selection): Maybe<ReplyEntry> {
  const { id, dn, sight } = entry;
  return chain(entry.withMembers!(selection.mostMembers), ({ row, more }) => ({
    id,
    dn,
    sight,
    row,
    moreMembers: more,
  }));
}
