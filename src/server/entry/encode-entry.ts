import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { chain, isPromise, LONG_ROW, type Maybe } from '../../partition/index.js';
import { type DescriptionTable, INDEX_BYTES } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { largeQualifiers } from '../../partition/model/tables.js';
import { entryBytes, writeEntryHead } from '../../protocol/encode-entry.js';
import { RESPONSE_CHUNK, Writer } from '../../protocol/writer.js';
import { type EntryExtras, encodeComputed, type ReplyEntry } from './computed.js';
import { EncodedDescriptions, type OpenLargeValues, OutgoingAttributes } from './outgoing.js';
import type { Selection } from './selection.js';

export interface WriterSource {
  readonly writer: Writer;
  /**
   * Sends one message in chunks, and resolves with its length when the last chunk was queued. After a rejection either
   * no chunk was sent or the connection is unusable. `keptBytes`: bytes that the caller keeps in memory meanwhile.
   */
  writeChunked(chunks: AsyncIterable<Buffer>, keptBytes?: number): Promise<number>;
}

/** Opens the values of an entry that are too long for its row. */
export interface LargeValues {
  openLarge(id: Buffer): Promise<OpenLargeValues>;
}

/** Largest length that four length octets can encode. */
const MAX_MESSAGE_LENGTH = 2 ** 32 - 1;
/** Largest number of bytes before the attributes, without the DN. */
const MAX_HEAD_BYTES = 32;
/** Number of values that are parsed between two checks of the time slice. */
const VALUES_PER_CHECK = 256;
const EMPTY = Buffer.alloc(0);

const NO_EXTRAS: EntryExtras = { attributes: EMPTY, controls: EMPTY };

/** Returns the computed attributes and the extras of an entry, which follow the attributes of the row. */
function entryTail({ extras }: ReplyEntry, computedBytes: Buffer): EntryExtras {
  if (!extras) return computedBytes.length === 0 ? NO_EXTRAS : { attributes: computedBytes, controls: EMPTY };
  return { attributes: Buffer.concat([computedBytes, extras.attributes]), controls: extras.controls };
}

function writeTail(writer: Writer, { attributes, controls }: EntryExtras): void {
  if (attributes.length > 0) writer.raw(attributes);
  if (controls.length > 0) writer.raw(controls);
}

/** Encodes packed rows as SearchResultEntry messages (RFC 4511 §4.5.2). */
export class EntryEncoder {
  readonly table: DescriptionTable;
  readonly #largeValues: LargeValues;
  readonly #encodedDescriptions = new EncodedDescriptions();
  readonly #reader: EntryReader;
  readonly #attributes: OutgoingAttributes;

  constructor(table: DescriptionTable, large: LargeValues) {
    this.table = table;
    this.#largeValues = large;
    this.#reader = new EntryReader(table);
    this.#attributes = new OutgoingAttributes(this.#reader, this.#encodedDescriptions);
  }

  /**
   * Appends the SearchResultEntry to `output` and returns its length. Returns a promise when something has to be read
   * first. The buffers of the entry must remain valid until then.
   */
  encode(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
  ): Maybe<number> {
    const replacedStates = entry.extras?.replacedStates;
    const effectiveSelection = (replacedStates ? selection.without(replacedStates) : selection).forSight(entry.sight);
    const computedBytes =
      selection.computedAttributes.length > 0 && entry.numSubordinates
        ? encodeComputed(entry, selection, typesOnly)
        : EMPTY;
    if (isPromise(computedBytes))
      return computedBytes.then((bytes) =>
        this.#encodeWithTail(output, messageId, entry, effectiveSelection, typesOnly, entryTail(entry, bytes)),
      );
    const tail = entryTail(entry, computedBytes);
    return this.#encodeWithTail(output, messageId, entry, effectiveSelection, typesOnly, tail);
  }

  #encodeWithTail(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
    tail: EntryExtras,
  ): Maybe<number> {
    const { row, dn } = entry;
    const large = typesOnly ? undefined : this.#selectedQualifiers(row, selection);
    // Encoding such a row at once would block the event loop.
    if (large || (row.length > LONG_ROW && !typesOnly))
      return output.writeChunked(this.#chunks(messageId, entry, selection, tail, large), row.length);
    this.#reader.read(row);
    if (entry.withMembers && selection.member && hasMemberUrl(this.#reader))
      return chain(withMembers(entry, selection), (entryWithMembers) =>
        this.#encodeWithTail(output, messageId, entryWithMembers, selection, typesOnly, tail),
      );
    const attributes = this.#attributes;
    const attributesLength =
      attributes.select(selection, typesOnly, undefined, entry.hasMoreMembers) + tail.attributes.length;
    const { writer } = output;
    const earlierBytes = writer.length;
    writer.reserve(MAX_HEAD_BYTES + dn.length + attributesLength + tail.controls.length);
    writeEntryHead(writer, messageId, dn, attributesLength, tail.controls.length);
    attributes.writeAll(writer);
    writeTail(writer, tail);
    return writer.length - earlierBytes;
  }

  /** Returns the Latin-1 qualifiers of the selected values that are not in the row; undefined: none. */
  #selectedQualifiers(row: Buffer, selection: Selection): ReadonlySet<string> | undefined {
    const large = largeQualifiers(row);
    if (!large) return undefined;
    const selectedQualifiers = [...large].filter((qualifier) => {
      const bytes = Buffer.from(qualifier, 'latin1');
      return selection.takes(this.table.intern(bytes, 0, bytes.length - INDEX_BYTES));
    });
    return selectedQualifiers.length > 0 ? new Set(selectedQualifiers) : undefined;
  }

  /** Encodes the message in chunks, within time slices. Opens the values outside the row first. */
  async *#chunks(
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    tail: EntryExtras,
    large: ReadonlySet<string> | undefined,
  ): AsyncGenerator<Buffer, void, undefined> {
    const { id, dn } = entry;
    const selectedLargeValues = large && { qualifiers: large, values: await this.#largeValues.openLarge(id) };
    try {
      const slice = new TimeSlice();
      const reader = new EntryReader(this.table);
      await readRow(reader, entry.row, slice);
      let { hasMoreMembers: moreMembers } = entry;
      if (entry.withMembers && selection.member && hasMemberUrl(reader)) {
        const entryWithMembers = await withMembers(entry, selection);
        moreMembers = entryWithMembers.hasMoreMembers;
        await readRow(reader, entryWithMembers.row, slice);
      }
      const attributes = new OutgoingAttributes(reader, this.#encodedDescriptions);
      const attributesLength =
        attributes.select(selection, false, selectedLargeValues, moreMembers) + tail.attributes.length;
      const controlsLength = tail.controls.length;
      if (entryBytes(messageId, dn, attributesLength, controlsLength) > MAX_MESSAGE_LENGTH)
        throw new LdapError(
          'adminLimitExceeded',
          'the entry is longer than a message may be; ask for fewer attributes',
        );
      const writer = new Writer();
      writeEntryHead(writer, messageId, dn, attributesLength, controlsLength);
      while (attributes.write(writer, RESPONSE_CHUNK)) {
        yield writer.take();
        if (attributes.nextLargeQualifier) yield* selectedLargeValues!.values.chunks(attributes.nextLargeQualifier);
        else await slice.yieldIfOver();
      }
      writeTail(writer, tail);
      yield writer.take();
    } finally {
      selectedLargeValues?.values.close();
    }
  }
}

/** Reads a row within time slices. */
export async function readRow(reader: EntryReader, row: Buffer, slice: TimeSlice): Promise<void> {
  reader.startRow(row);
  while (reader.readValues(VALUES_PER_CHECK)) await slice.yieldIfOver();
}

/** Whether the entry is a dynamic group: it has URLs that search for its members. */
function hasMemberUrl({ descriptions: stored, attributeCount: count }: EntryReader): boolean {
  for (let i = 0; i < count; i++) if (stored[i]!.isMemberUrl) return true;
  return false;
}

function withMembers(entry: ReplyEntry, selection: Selection): Maybe<ReplyEntry> {
  const { id, dn, sight } = entry;
  return chain(entry.withMembers!(selection.maxMembers), ({ row, hasMore }) => ({
    id,
    dn,
    sight,
    row,
    hasMoreMembers: hasMore,
  }));
}
