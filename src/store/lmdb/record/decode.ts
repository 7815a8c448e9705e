import { CELL_HEADER, MAX_QUALIFIER } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { type Room, reserve, reserveScratch, takeBytes, viewBytes } from './room.js';
import { LAYOUT_CELLS } from './row-layout.js';
import { IN_QUALIFIER, NO_HOLE, ONE_BYTE, type Words } from './words.js';

/**
 * Decoder of records into packed rows (docs/formats/lmdb.md). Records have passed their check already; all lengths are
 * validated nevertheless before bytes are written.
 */

/** A record in memory: the key is `keys[from, to)`, the value without the check is `bytes[0, end)`. */
export interface RecordView {
  keys: Buffer;
  from: number;
  to: number;
  bytes: Buffer;
  end: number;
}

/** Thrown when a record has a word number that is not known yet: the caller must read the new words and retry. */
export class UnknownWord extends Error {}

/** Number of holes of a row, including the two of the key, that later cells may refer to. */
export const MAX_HOLES = 32;
/** The two holes that exist in every row: the end of the row key, and the text of a row key that is a UUID. */
export const KEY_END = 0;
export const KEY_AS_UUID = 1;
export const FIRST_HOLE = 2;
export const UUID_BYTES = 16;
export const UUID_TEXT = 36;

const QUALIFIER_LENGTH = 1;
const VALUE_LENGTH = 3;
const EQUALS = 0x3d;
const DASH = 0x2d;
/** Shorter runs are copied byte by byte, because `copy` costs as much as a loop over this many bytes. */
const LOOP = 48;

/** Offsets and lengths of the current row's holes in the record, by hole number. */
const starts = new Int32Array(MAX_HOLES);
const lengths = new Int32Array(MAX_HOLES);
let holes = FIRST_HOLE;
/** The qualifier of the last spelled-out cell. */
const spelled = Buffer.allocUnsafeSlow(MAX_QUALIFIER);

/** Offset behind the item that was read last: a second result of the functions below, without an allocation. */
let next = 0;

export function nextOffset(): number {
  return next;
}

/** Reads a readVarint: seven bits per byte, the lowest first; the last byte is below 128. */
export function readVarint(bytes: Buffer, at: number): number {
  const byte = bytes[at]!;
  next = at + 1;
  return byte < 0x80 ? byte : readLongVarint(bytes, at + 1, byte & 0x7f);
}

function readLongVarint(bytes: Buffer, at: number, low: number): number {
  let value = low;
  for (let i = at, shift = 7; ; i++, shift += 7) {
    const byte = bytes[i]!;
    if (shift > 28 || (shift === 28 && byte > 3)) throw malformed();
    value |= (byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    next = i + 1;
    return value;
  }
}

export function malformed(): StoreError {
  return new StoreError('corrupt', 'the cells of a record do not have the lengths of which it speaks');
}

/** Reads the word number at `at`; 0 for a cell that is spelled out. */
export function readWordNumber(bytes: Buffer, at: number): number {
  const byte = bytes[at]!;
  next = at + 1;
  if (byte < ONE_BYTE) return byte;
  next++;
  return ONE_BYTE + ((byte - ONE_BYTE) << 8) + bytes[at + 1]!;
}

/**
 * Returns the packed row of a record. With `headOnly`, returns the cells of the first family only; undefined if there
 * are none. With `inScratch`, the next row in scratch memory overwrites the returned row (`room.ts`).
 */
export function decodeRow(words: Words, at: RecordView, headOnly: boolean, inScratch = false): Buffer | undefined {
  const length = readVarint(at.bytes, 0);
  const start = next;
  const room = inScratch ? reserveScratch(length) : reserve(length);
  const { layout } = words;
  // Decoding overwrites the layout of the previous row, also on failure.
  layout.row = undefined;
  const size = decodeCells(words, at, start, room, length, headOnly);
  if (size === 0) return undefined;
  const row = inScratch ? viewBytes(room, size) : takeBytes(room, size);
  if (layout.count <= LAYOUT_CELLS) layout.row = row;
  layout.numbering = words.numbering;
  return row;
}

/**
 * Writes the cells from `at` on into the room of `length` bytes, as a packed row, and returns their length in bytes.
 * With `headOnly`, writes the cells of the first family only.
 */
function decodeCells(
  words: Words,
  record: RecordView,
  at: number,
  room: Room,
  length: number,
  headOnly: boolean,
): number {
  const { bytes, end } = record;
  const { count, families, holes: kinds, pool, heads, headLengths, tails, tailLengths, fixedLengths } = words;
  const { layout } = words;
  const { names, begins } = layout;
  const origin = room.start;
  let cells = 0;
  const { view, bytes: out } = room;
  const limit = room.start + length;
  let to = room.start;
  let hole = FIRST_HOLE;
  while (at < end) {
    let number = bytes[at++]!;
    if (number >= ONE_BYTE) number = ONE_BYTE + ((number - ONE_BYTE) << 8) + bytes[at++]!;
    if (number > count) throw new UnknownWord();
    if (headOnly && (number === 0 ? bytes[at] : families[number]) !== 0) break;
    begins[cells] = to - origin;
    names[cells++] = number;
    if (number === 0) {
      to = putSpelledCell(record, at, room, to, limit);
      at = next;
      continue;
    }
    const cell = to;
    let from = heads[number]!;
    to += headLengths[number]!;
    if (to > limit) throw malformed();
    for (let i = cell; i < to; i += 4) view.setInt32(i, pool[from++]!);
    const kind = kinds[number]!;
    if (kind === NO_HOLE) continue;
    let n = bytes[at]!;
    if (n < 0x80) at++;
    else {
      n = readVarint(bytes, at);
      at = next;
    }
    let size: number;
    if ((n & 1) === 0) {
      size = n >> 1;
      if (at + size > end || to + size > limit) throw malformed();
      if (hole < MAX_HOLES) {
        starts[hole] = at;
        lengths[hole++] = size;
      }
      if (size > LOOP) bytes.copy(out, to, at, at + size);
      else for (let i = 0; i < size; i++) out[to + i] = bytes[at + i]!;
      at += size;
    } else {
      holes = hole;
      size = putRepeated(record, n >> 1, room, to, limit) - to;
    }
    to += size;
    size += fixedLengths[number]!;
    if (kind === IN_QUALIFIER) {
      view.setUint16(cell + QUALIFIER_LENGTH, size);
      names[cells - 1] = 0;
    } else view.setInt32(cell + VALUE_LENGTH, size);
    const tail = tailLengths[number]!;
    if (tail === 0) continue;
    from = tails[number]!;
    const start = to;
    to += tail;
    if (to > limit) throw malformed();
    for (let i = start; i < to; i += 4) view.setInt32(i, pool[from++]!);
  }
  layout.count = cells;
  if (!headOnly && to !== limit) throw malformed();
  return to - room.start;
}

function putHead(words: Words, number: number, room: Room, to: number, limit: number): number {
  return putWords(words.pool, words.heads[number]!, words.headLengths[number]!, room, to, limit);
}

/** Writes four bytes at a time, up to three bytes beyond `length`. */
function putWords(pool: Int32Array, from: number, length: number, { view }: Room, to: number, limit: number): number {
  const end = to + length;
  if (end > limit) throw malformed();
  for (let i = from, at = to; at < end; at += 4) view.setInt32(at, pool[i++]!);
  return end;
}

/** Writes a cell whose hole is filled by the record's bytes at `at`. Returns the offset behind the cell. */
export function putHoleCell(
  words: Words,
  number: number,
  record: RecordView,
  at: number,
  room: Room,
  to: number,
  limit: number,
): number {
  const start = putHead(words, number, room, to, limit);
  const end = putHole(record, at, room, start, limit);
  const length = words.fixedLengths[number]! + end - start;
  if (words.holes[number] === IN_QUALIFIER) room.view.setUint16(to + QUALIFIER_LENGTH, length);
  else room.view.setUint32(to + VALUE_LENGTH, length);
  return putWords(words.pool, words.tails[number]!, words.tailLengths[number]!, room, end, limit);
}

function putHole(record: RecordView, at: number, room: Room, to: number, limit: number): number {
  const { bytes, end } = record;
  const n = readVarint(bytes, at);
  if ((n & 1) === 1) return putRepeated(record, n >>> 1, room, to, limit);
  const from = next;
  const length = n >> 1;
  if (from + length > end || to + length > limit) throw malformed();
  noteHole(from, length);
  next = from + length;
  return copyRun(bytes, from, length, room.bytes, to);
}

function noteHole(from: number, length: number): void {
  if (holes === MAX_HOLES) return;
  starts[holes] = from;
  lengths[holes++] = length;
}

/** Records the holes of the cells from `at` to `end`, because a later cell may repeat a hole. */
export function noteHoles(words: Words, record: RecordView, at: number, end: number): void {
  const { bytes } = record;
  holes = FIRST_HOLE;
  for (let i = at; i < end; ) {
    const number = readWordNumber(bytes, i);
    if (number === 0) skipSpelled(bytes, next);
    else if (words.holes[number] !== NO_HOLE) skipHole(record, next);
    i = next;
  }
}

function skipSpelled(bytes: Buffer, at: number): void {
  readVarint(bytes, at + 1);
  const rest = readVarint(bytes, next);
  const value = readVarint(bytes, next);
  next += rest + value;
}

/** Skips the hole at `at`. */
function skipHole({ bytes }: RecordView, at: number): void {
  const n = readVarint(bytes, at);
  if ((n & 1) === 1) return;
  noteHole(next, n >> 1);
  next += n >> 1;
}

function putRepeated(record: RecordView, hole: number, room: Room, to: number, limit: number): number {
  const { keys, bytes } = record;
  if (hole === KEY_AS_UUID) return putUuid(record, room.bytes, to, limit);
  const from = hole === KEY_END ? keyEnd(keys, record.from, record.to) : starts[hole]!;
  const length = hole === KEY_END ? record.to - from : lengths[hole]!;
  if (hole >= holes || to + length > limit) throw malformed();
  return copyRun(hole === KEY_END ? keys : bytes, from, length, room.bytes, to);
}

/** Offset of the end part of a key: behind the last `=`, or the start of the key. */
export function keyEnd(keys: Buffer, from: number, to: number): number {
  let at = to;
  while (at > from && keys[at - 1] !== EQUALS) at--;
  return at;
}

const HEX = Buffer.from('0123456789abcdef');

/** Writes the 16-byte key in the text form of a UUID. */
export function putUuid({ keys, from, to: end }: RecordView, out: Buffer, to: number, limit: number): number {
  if (end - from !== UUID_BYTES || to + UUID_TEXT > limit) throw malformed();
  let at = to;
  for (let i = 0; i < UUID_BYTES; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) out[at++] = DASH;
    const byte = keys[from + i]!;
    out[at++] = HEX[byte >>> 4]!;
    out[at++] = HEX[byte & 15]!;
  }
  return at;
}

/** Writes the cell that is spelled out at `at`. Returns the offset behind the cell. */
export function putSpelledCell({ bytes, end }: RecordView, at: number, room: Room, to: number, limit: number): number {
  const shared = readVarint(bytes, at + 1);
  const rest = readVarint(bytes, next);
  const value = readVarint(bytes, next);
  const from = next;
  const qualifier = shared + rest;
  const last = to + CELL_HEADER + qualifier + value;
  if (qualifier > MAX_QUALIFIER || from + rest + value > end || last > limit) throw malformed();
  copyRun(bytes, from, rest, spelled, shared);
  const { bytes: out, view } = room;
  out[to] = bytes[at]!;
  view.setUint16(to + QUALIFIER_LENGTH, qualifier);
  view.setUint32(to + VALUE_LENGTH, value);
  copyRun(spelled, 0, qualifier, out, to + CELL_HEADER);
  copyRun(bytes, from + rest, value, out, last - value);
  next = from + rest + value;
  return last;
}

function copyRun(from: Buffer, start: number, length: number, out: Buffer, to: number): number {
  if (length > LOOP) from.copy(out, to, start, start + length);
  else for (let i = 0; i < length; i++) out[to + i] = from[start + i]!;
  return to + length;
}
