import { CELL_HEADER, MAX_QUALIFIER } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { type Room, reserve, reserveScratch, takeBytes, viewBytes } from './room.js';
import { IN_QUALIFIER, LAYOUT_CELLS, NO_HOLE, TWO_BYTE_FROM, type Words } from './words.js';

/**
 * Decoder of records into packed rows (docs/formats/lmdb.md). A record is a sequence of cells. Each cell is either the
 * number of a dictionary word, followed by the bytes of the word's hole if it has one (`words.ts`), or spelled out
 * (stored in full). The checksum of a record was verified before; all lengths are validated nevertheless before bytes
 * are written.
 */

/** A record in memory: the key is `keys[from, to)`, the value without the checksum is `bytes[0, end)`. */
export interface RecordView {
  keys: Buffer;
  from: number;
  to: number;
  bytes: Buffer;
  end: number;
}

/** Thrown when a record has a word number that is not known yet: the caller must read the new words and retry. */
export class UnknownWord extends Error {}

/** A cell may repeat the bytes of an earlier hole of the row, if that is among this many first holes. */
export const MAX_HOLES = 32;
/** The first two hole numbers stand for the end of the row key, and for the text of a row key that is a UUID. */
export const KEY_END_HOLE = 0;
export const KEY_UUID_HOLE = 1;
export const FIRST_HOLE = 2;
export const UUID_BYTES = 16;
export const UUID_TEXT_BYTES = 36;

const QUALIFIER_LENGTH_AT = 1;
const VALUE_LENGTH_AT = 3;
const EQUALS = 0x3d;
const DASH = 0x2d;
/** Shorter byte strings are copied byte by byte, because `copy` costs as much as a loop over this many bytes. */
const MAX_LOOP_BYTES = 48;

/** Offsets and lengths of the current row's holes in the record, by hole number. */
const holeStarts = new Int32Array(MAX_HOLES);
const holeLengths = new Int32Array(MAX_HOLES);
let holeCount = FIRST_HOLE;
/** The qualifier of the last spelled-out cell. */
const lastQualifier = Buffer.allocUnsafeSlow(MAX_QUALIFIER);

/** Offset behind the bytes that were read last: a second result of the functions below, without an allocation. */
let readEnd = 0;

/** Returns the offset behind the bytes that were read last. */
export function nextOffset(): number {
  return readEnd;
}

/** Reads a number of variable length: seven bits per byte, the lowest first; the last byte is below 128. */
export function readVarint(bytes: Buffer, offset: number): number {
  const byte = bytes[offset]!;
  readEnd = offset + 1;
  return byte < 0x80 ? byte : readLongVarint(bytes, offset + 1, byte & 0x7f);
}

function readLongVarint(bytes: Buffer, offset: number, low: number): number {
  let value = low;
  for (let i = offset, shift = 7; ; i++, shift += 7) {
    const byte = bytes[i]!;
    if (shift > 28 || (shift === 28 && byte > 3)) throw malformedError();
    value |= (byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    readEnd = i + 1;
    return value;
  }
}

export function malformedError(): StoreError {
  return new StoreError('corrupt', 'the cells of a record do not have the lengths of which it speaks');
}

/** Reads the word number at `offset`; 0 for a cell that is spelled out. */
export function readWordNumber(bytes: Buffer, offset: number): number {
  const byte = bytes[offset]!;
  readEnd = offset + 1;
  if (byte < TWO_BYTE_FROM) return byte;
  readEnd++;
  return TWO_BYTE_FROM + ((byte - TWO_BYTE_FROM) << 8) + bytes[offset + 1]!;
}

/**
 * Returns the packed row of a record. With `headOnly`, returns the cells of the first family only; undefined if there
 * are none. With `inScratch`, the next row in scratch memory overwrites the returned row (`room.ts`).
 */
export function decodeRow(words: Words, record: RecordView, headOnly: boolean, inScratch = false): Buffer | undefined {
  const length = readVarint(record.bytes, 0);
  const start = readEnd;
  const room = inScratch ? reserveScratch(length) : reserve(length);
  const { layout } = words;
  // Decoding overwrites the layout of the previous row, also on failure.
  layout.row = undefined;
  const size = decodeCells(words, record, start, room, length, headOnly);
  if (size === 0) return undefined;
  const row = inScratch ? viewBytes(room, size) : takeBytes(room, size);
  if (layout.cellCount <= LAYOUT_CELLS) layout.row = row;
  layout.numbering = words.numbering;
  return row;
}

/**
 * Writes the cells from `offset` on into the room of `length` bytes, as a packed row, and returns their length in
 * bytes. With `headOnly`, writes the cells of the first family only.
 */
function decodeCells(
  words: Words,
  record: RecordView,
  offset: number,
  room: Room,
  length: number,
  headOnly: boolean,
): number {
  const { bytes, end } = record;
  const { count, families, holeKinds, pool, headStarts, headLengths, tailStarts, tailLengths, fixedLengths } = words;
  const { layout } = words;
  const { nameNumbers, cellStarts } = layout;
  const origin = room.start;
  let cellCount = 0;
  const { view, bytes: out } = room;
  const limit = room.start + length;
  let outEnd = room.start;
  let nextHole = FIRST_HOLE;
  while (offset < end) {
    let number = bytes[offset++]!;
    if (number >= TWO_BYTE_FROM) number = TWO_BYTE_FROM + ((number - TWO_BYTE_FROM) << 8) + bytes[offset++]!;
    if (number > count) throw new UnknownWord();
    if (headOnly && (number === 0 ? bytes[offset] : families[number]) !== 0) break;
    cellStarts[cellCount] = outEnd - origin;
    nameNumbers[cellCount++] = number;
    if (number === 0) {
      outEnd = putSpelledCell(record, offset, room, outEnd, limit);
      offset = readEnd;
      continue;
    }
    const cellStart = outEnd;
    let poolAt = headStarts[number]!;
    outEnd += headLengths[number]!;
    if (outEnd > limit) throw malformedError();
    for (let i = cellStart; i < outEnd; i += 4) view.setInt32(i, pool[poolAt++]!);
    const holeKind = holeKinds[number]!;
    if (holeKind === NO_HOLE) continue;
    let holeCode = bytes[offset]!;
    if (holeCode < 0x80) offset++;
    else {
      holeCode = readVarint(bytes, offset);
      offset = readEnd;
    }
    let size: number;
    if ((holeCode & 1) === 0) {
      size = holeCode >> 1;
      if (offset + size > end || outEnd + size > limit) throw malformedError();
      if (nextHole < MAX_HOLES) {
        holeStarts[nextHole] = offset;
        holeLengths[nextHole++] = size;
      }
      if (size > MAX_LOOP_BYTES) bytes.copy(out, outEnd, offset, offset + size);
      else for (let i = 0; i < size; i++) out[outEnd + i] = bytes[offset + i]!;
      offset += size;
    } else {
      holeCount = nextHole;
      size = putRepeatedHole(record, holeCode >> 1, room, outEnd, limit) - outEnd;
    }
    outEnd += size;
    size += fixedLengths[number]!;
    if (holeKind === IN_QUALIFIER) {
      view.setUint16(cellStart + QUALIFIER_LENGTH_AT, size);
      nameNumbers[cellCount - 1] = 0;
    } else view.setInt32(cellStart + VALUE_LENGTH_AT, size);
    const tailLength = tailLengths[number]!;
    if (tailLength === 0) continue;
    poolAt = tailStarts[number]!;
    const tailStart = outEnd;
    outEnd += tailLength;
    if (outEnd > limit) throw malformedError();
    for (let i = tailStart; i < outEnd; i += 4) view.setInt32(i, pool[poolAt++]!);
  }
  layout.cellCount = cellCount;
  if (!headOnly && outEnd !== limit) throw malformedError();
  return outEnd - room.start;
}

/** Writes `length` bytes of the pool, four at a time, so up to three more. Returns the offset behind `length` bytes. */
function putPool(pool: Int32Array, start: number, length: number, room: Room, outEnd: number, limit: number): number {
  const { view } = room;
  const end = outEnd + length;
  if (end > limit) throw malformedError();
  for (let i = start, offset = outEnd; offset < end; offset += 4) view.setInt32(offset, pool[i++]!);
  return end;
}

/** Writes a cell whose hole is filled by the record's bytes at `offset`. Returns the offset behind the cell. */
export function putHoleCell(
  words: Words,
  number: number,
  record: RecordView,
  offset: number,
  room: Room,
  outEnd: number,
  limit: number,
): number {
  const start = putPool(words.pool, words.headStarts[number]!, words.headLengths[number]!, room, outEnd, limit);
  const end = putHole(record, offset, room, start, limit);
  const length = words.fixedLengths[number]! + end - start;
  if (words.holeKinds[number] === IN_QUALIFIER) room.view.setUint16(outEnd + QUALIFIER_LENGTH_AT, length);
  else room.view.setUint32(outEnd + VALUE_LENGTH_AT, length);
  return putPool(words.pool, words.tailStarts[number]!, words.tailLengths[number]!, room, end, limit);
}

function putHole(record: RecordView, offset: number, room: Room, outEnd: number, limit: number): number {
  const { bytes, end } = record;
  const holeCode = readVarint(bytes, offset);
  if ((holeCode & 1) === 1) return putRepeatedHole(record, holeCode >>> 1, room, outEnd, limit);
  const holeStart = readEnd;
  const length = holeCode >> 1;
  if (holeStart + length > end || outEnd + length > limit) throw malformedError();
  rememberHole(holeStart, length);
  readEnd = holeStart + length;
  return copyRun(bytes, holeStart, length, room.bytes, outEnd);
}

function rememberHole(offset: number, length: number): void {
  if (holeCount === MAX_HOLES) return;
  holeStarts[holeCount] = offset;
  holeLengths[holeCount++] = length;
}

/** Stores the offsets of the holes of the cells from `offset` to `end`, because a later cell may repeat a hole. */
export function rememberHoles(words: Words, record: RecordView, offset: number, end: number): void {
  const { bytes } = record;
  holeCount = FIRST_HOLE;
  for (let i = offset; i < end; ) {
    const number = readWordNumber(bytes, i);
    if (number === 0) skipSpelledCell(bytes, readEnd);
    else if (words.holeKinds[number] !== NO_HOLE) skipHole(record, readEnd);
    i = readEnd;
  }
}

function skipSpelledCell(bytes: Buffer, offset: number): void {
  readVarint(bytes, offset + 1);
  const restLength = readVarint(bytes, readEnd);
  const valueLength = readVarint(bytes, readEnd);
  readEnd += restLength + valueLength;
}

/** Skips the hole at `offset`. */
function skipHole({ bytes }: RecordView, offset: number): void {
  const holeCode = readVarint(bytes, offset);
  if ((holeCode & 1) === 1) return;
  rememberHole(readEnd, holeCode >> 1);
  readEnd += holeCode >> 1;
}

function putRepeatedHole(record: RecordView, hole: number, room: Room, outEnd: number, limit: number): number {
  const { keys, bytes } = record;
  if (hole === KEY_UUID_HOLE) return putUuid(record, room.bytes, outEnd, limit);
  const start = hole === KEY_END_HOLE ? keyTailStart(keys, record.from, record.to) : holeStarts[hole]!;
  const length = hole === KEY_END_HOLE ? record.to - start : holeLengths[hole]!;
  if (hole >= holeCount || outEnd + length > limit) throw malformedError();
  return copyRun(hole === KEY_END_HOLE ? keys : bytes, start, length, room.bytes, outEnd);
}

/** Offset of `KEY_END_HOLE` in a key: behind the last `=`, or the start of the key. */
export function keyTailStart(keys: Buffer, keyStart: number, keyEnd: number): number {
  let offset = keyEnd;
  while (offset > keyStart && keys[offset - 1] !== EQUALS) offset--;
  return offset;
}

const HEX = Buffer.from('0123456789abcdef');

/** Writes the 16-byte key in the text form of a UUID. */
export function putUuid({ keys, from, to: end }: RecordView, out: Buffer, outEnd: number, limit: number): number {
  if (end - from !== UUID_BYTES || outEnd + UUID_TEXT_BYTES > limit) throw malformedError();
  let offset = outEnd;
  for (let i = 0; i < UUID_BYTES; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) out[offset++] = DASH;
    const byte = keys[from + i]!;
    out[offset++] = HEX[byte >>> 4]!;
    out[offset++] = HEX[byte & 15]!;
  }
  return offset;
}

/** Writes the cell that is spelled out at `offset`. Returns the offset behind the cell. */
export function putSpelledCell(record: RecordView, offset: number, room: Room, outEnd: number, limit: number): number {
  const { bytes, end } = record;
  const sharedLength = readVarint(bytes, offset + 1);
  const restLength = readVarint(bytes, readEnd);
  const valueLength = readVarint(bytes, readEnd);
  const nameStart = readEnd;
  const nameLength = sharedLength + restLength;
  const cellEnd = outEnd + CELL_HEADER + nameLength + valueLength;
  if (nameLength > MAX_QUALIFIER || nameStart + restLength + valueLength > end || cellEnd > limit)
    throw malformedError();
  copyRun(bytes, nameStart, restLength, lastQualifier, sharedLength);
  const { bytes: out, view } = room;
  out[outEnd] = bytes[offset]!;
  view.setUint16(outEnd + QUALIFIER_LENGTH_AT, nameLength);
  view.setUint32(outEnd + VALUE_LENGTH_AT, valueLength);
  copyRun(lastQualifier, 0, nameLength, out, outEnd + CELL_HEADER);
  copyRun(bytes, nameStart + restLength, valueLength, out, cellEnd - valueLength);
  readEnd = nameStart + restLength + valueLength;
  return cellEnd;
}

function copyRun(source: Buffer, start: number, length: number, out: Buffer, outEnd: number): number {
  if (length > MAX_LOOP_BYTES) source.copy(out, outEnd, start, start + length);
  else for (let i = 0; i < length; i++) out[outEnd + i] = source[start + i]!;
  return outEnd + length;
}
