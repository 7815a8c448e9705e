import type { DescriptionTable } from '../../partition/descriptions.js';
import { Turns } from '../../partition/index.js';
import { OCTET_STRING, SEQUENCE, SET } from '../../protocol/tags.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../context.js';
import { nextCell, putValues, sameName } from './cells.js';
import { writeEntryHeader } from './entry-header.js';
import { elementBytes } from './lengths.js';
import { CELL_HEADER, INDEX_BYTES, UP_ATTRIBUTES, valueLength } from './row.js';
import type { Selection } from './selection.js';

/** The clock is looked at after so many values. */
const SOME = 256;

/** An attribute on its way out. */
interface Part {
  readonly name: Buffer;
  /** Offsets of its first cell and behind its last one. */
  readonly from: number;
  readonly to: number;
  /** Bytes of the SET's content. */
  readonly set: number;
}

/** The message of an entry with a long row, piece by piece; between them others are served. */
export async function* longEntryPieces(
  messageId: number,
  { row, dn }: ReplyEntry,
  selection: Selection,
  tail: Buffer,
  table: DescriptionTable,
): AsyncGenerator<Buffer, void, undefined> {
  const turns = new Turns();
  const parts = await partsOf(row, selection, table, turns);
  const list = parts.reduce((sum, part) => sum + elementBytes(partBytes(part)), tail.length);
  const writer = new Writer();
  writeEntryHeader(writer, messageId, dn, list);
  for (const part of parts) {
    writer.header(SEQUENCE, partBytes(part));
    writer.octetString(OCTET_STRING, part.name);
    writer.header(SET, part.set);
    for (let at = part.from; at < part.to; ) {
      at = writeSome(writer, row, at, part.to);
      if (writer.length < PIECE) continue;
      yield writer.take();
      await turns.pass();
    }
  }
  writer.raw(tail);
  yield writer.take();
}

/** The selected attributes of a row, in the order of its cells. */
async function partsOf(row: Buffer, selection: Selection, table: DescriptionTable, turns: Turns): Promise<Part[]> {
  const parts: Part[] = [];
  let at = 0;
  let seen = 0;
  while (at < row.length && row[at]! < UP_ATTRIBUTES) at = nextCell(row, at);
  while (at < row.length && row[at] === UP_ATTRIBUTES) {
    const from = at;
    const qualifier = row.readUInt16BE(at + 1);
    const name = at + CELL_HEADER;
    const nameEnd = name + qualifier - INDEX_BYTES;
    const stored = table.intern(row, name, nameEnd);
    const taken = selection.takes(stored);
    let set = 0;
    do {
      set += elementBytes(valueLength(row, at));
      at = nextCell(row, at);
      if (++seen % SOME === 0) await turns.pass();
    } while (at < row.length && sameName(row, name, nameEnd, at, qualifier));
    if (taken) parts.push({ name: Buffer.from(stored.description.text), from, to: at, set });
  }
  return parts;
}

/** Writes values from the cell at `at` on until a piece is full; gives the offset of the next one. */
function writeSome(writer: Writer, row: Buffer, at: number, end: number): number {
  let to = at;
  let bytes = 0;
  while (to < end && writer.length + bytes < PIECE) {
    bytes += elementBytes(valueLength(row, to));
    to = nextCell(row, to);
  }
  writer.reserve(bytes);
  writer.at = putValues(writer.buffer, writer.at, row, at, to);
  return to;
}

function partBytes({ name, set }: Part): number {
  return elementBytes(name.length) + elementBytes(set);
}
