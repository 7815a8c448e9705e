import { DescriptionTable, type StoredDescription } from '../../partition/descriptions.js';
import { LONG_ROW } from '../../partition/index.js';
import { largeQualifiers } from '../../partition/tables.js';
import { OCTET_STRING, SEQUENCE, SET } from '../../protocol/tags.js';
import { Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../context.js';
import { isPromise, type Maybe } from '../maybe.js';
import { nextCell, putHeader, putValues, sameName } from './cells.js';
import { writeComputed } from './computed.js';
import { messageBytes, writeEntryHeader } from './entry-header.js';
import { type LargeValues, largePieces } from './large-values.js';
import { elementBytes, headerBytes } from './lengths.js';
import { longEntryPieces } from './long-entry.js';
import { CELL_HEADER, INDEX_BYTES, UP_ATTRIBUTES, valueLength } from './row.js';
import type { Selection } from './selection.js';

/** Where messages go. */
export interface WriterSource {
  /** Takes the next message. */
  readonly writer: Writer;
  /**
   * Sends one message of which only a part is in memory at a time; resolves when it was given away. Where it rejects, nothing
   * of it has gone, or the connection is of no more use.
   */
  writeLong(pieces: AsyncIterable<Buffer>): Promise<void>;
}

/**
 * Parts of the plan of the entry at hand, `STRIDE` numbers an attribute: offset of its first cell, offset after its last
 * one, bytes of its SET's content, its name's index in `names`. One for the process: a plan lives within one call.
 */
let plan = new Int32Array(64 * 4);
const STRIDE = 4;

/**
 * Writes entries from packed rows straight into BER (RFC 4511 §4.5.2): one pass over the row's headers works out what goes
 * and how long it is, a second one writes it. Nothing is allocated per cell.
 */
export class EntryEncoder {
  readonly table: DescriptionTable;
  readonly #large: LargeValues;
  /** By `StoredDescription.number`: the OCTET STRING with the name that is shown. */
  readonly #names: Buffer[] = [];

  constructor(table: DescriptionTable, large: LargeValues) {
    this.table = table;
    this.#large = large;
  }

  /** Appends the SearchResultEntry. A promise where something has to be fetched first; the entry's buffers must live until then. */
  encode(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
  ): Maybe<void> {
    const tail =
      selection.computed && entry.hasSubordinates ? writeComputed(entry, selection.computed, typesOnly) : EMPTY;
    if (isPromise(tail))
      return tail.then((bytes) => this.#withTail(output, messageId, entry, selection, typesOnly, bytes));
    return this.#withTail(output, messageId, entry, selection, typesOnly, tail);
  }

  #withTail(
    output: WriterSource,
    messageId: number,
    entry: ReplyEntry,
    selection: Selection,
    typesOnly: boolean,
    tail: Buffer,
  ): Maybe<void> {
    const { row } = entry;
    const large = typesOnly ? undefined : largeQualifiers(row);
    const wanted = large && { entry, selection, tail, large, table: this.table, values: this.#large };
    const pieces = wanted && largePieces(messageId, wanted);
    if (pieces) return output.writeLong(pieces);
    // At once it would hold the event loop.
    if (row.length > LONG_ROW && !typesOnly)
      return output.writeLong(longEntryPieces(messageId, entry, selection, tail, this.table));
    const count = this.#planRow(row, selection, typesOnly);
    this.#write(output.writer, messageId, entry, count, typesOnly, tail);
  }

  /** Fills `plan`; returns how many attributes it holds. */
  #planRow(row: Buffer, selection: Selection, typesOnly: boolean): number {
    const end = row.length;
    let count = 0;
    let at = 0;
    let stored: StoredDescription | undefined;
    while (at < end && row[at]! < UP_ATTRIBUTES) at = nextCell(row, at);
    while (at < end && row[at] === UP_ATTRIBUTES) {
      const first = at;
      const qualifier = (row[at + 1]! << 8) | row[at + 2]!;
      const name = at + CELL_HEADER;
      const nameEnd = name + qualifier - INDEX_BYTES;
      let content = 0;
      do {
        const length = valueLength(row, at);
        content += headerBytes(length) + length;
        at += CELL_HEADER + qualifier + length;
      } while (at < end && sameName(row, name, nameEnd, at, qualifier));
      if (at > end) throw new RangeError(`packed row of ${end} bytes is cut`);
      stored = this.table.internNext(stored, row, name, nameEnd);
      if (!selection.takes(stored)) continue;
      if ((count + 1) * STRIDE > plan.length) plan = grown(plan);
      const slot = count++ * STRIDE;
      plan[slot] = first;
      plan[slot + 1] = at;
      plan[slot + 2] = typesOnly ? 0 : content;
      plan[slot + 3] = this.#nameOf(stored, count);
    }
    return count;
  }

  /** Index in `names`. Descriptions that the table does not keep have no number of their own: theirs is `nth` in this entry. */
  #nameOf(stored: StoredDescription, nth: number): number {
    const index = stored.number < DescriptionTable.MAX ? stored.number : DescriptionTable.MAX + nth;
    if (this.#names[index] === undefined || index >= DescriptionTable.MAX) this.#names[index] = nameElement(stored);
    return index;
  }

  #write(writer: Writer, messageId: number, entry: ReplyEntry, count: number, typesOnly: boolean, tail: Buffer): void {
    let list = tail.length;
    for (let slot = 0; slot < count * STRIDE; slot += STRIDE) {
      const set = plan[slot + 2]!;
      const body = this.#names[plan[slot + 3]!]!.length + headerBytes(set) + set;
      list += headerBytes(body) + body;
    }
    writer.reserve(elementBytes(messageBytes(messageId, entry.dn, list)));
    writeEntryHeader(writer, messageId, entry.dn, list);
    const { buffer } = writer;
    let { at } = writer;
    for (let slot = 0; slot < count * STRIDE; slot += STRIDE) {
      const name = this.#names[plan[slot + 3]!]!;
      const set = plan[slot + 2]!;
      at = putHeader(buffer, at, SEQUENCE, name.length + headerBytes(set) + set);
      for (let i = 0; i < name.length; i++) buffer[at++] = name[i]!;
      at = putHeader(buffer, at, SET, set);
      if (!typesOnly) at = putValues(buffer, at, entry.row, plan[slot]!, plan[slot + 1]!);
    }
    writer.at = at;
    if (tail.length > 0) writer.raw(tail);
  }
}

const EMPTY = Buffer.alloc(0);

/** The OCTET STRING with a description as clients are shown it: the schema's spelling of the type, then the options. */
function nameElement(stored: StoredDescription): Buffer {
  const writer = new Writer();
  writer.text(OCTET_STRING, stored.description.text);
  return Buffer.from(writer.take());
}

function grown(numbers: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(numbers.length * 2);
  larger.set(numbers);
  return larger;
}
