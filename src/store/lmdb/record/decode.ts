import { laidOut } from '../../laid-out.js';
import { CELL_HEADER, MAX_QUALIFIER } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { lend, type Room, reserve, taken, written } from './room.js';
import { IN_QUALIFIER, NOWHERE, ONE_BYTE, type Words } from './words.js';

/**
 * Cells of a record back to those of a packed row (docs/formats/lmdb.md). What is read here has passed its check;
 * lengths are looked at all the same before anything is written by them.
 */

/** A record in memory: its key and its value without the check. */
export interface RecordAt {
  keys: Buffer;
  from: number;
  to: number;
  bytes: Buffer;
  end: number;
}

/** A number stands in the record that no word has. The words are to be read anew. */
export class UnknownWord extends Error {}

/** So many holes of a row, and the two that are not its own, may be repeated. */
export const REPEATED = 32;
/** Holes that every row begins with: what its key ends with, and the text of a key that is a UUID. */
export const KEY_END = 0;
export const KEY_AS_UUID = 1;
export const FIRST_HOLE = 2;
export const UUID_BYTES = 16;
export const UUID_TEXT = 36;

const QUALIFIER_LENGTH = 1;
const VALUE_LENGTH = 3;
const EQUALS = 0x3d;
const DASH = 0x2d;
/** Shorter runs are copied byte by byte: a call of the runtime costs as much. */
const LOOP = 48;

/** Where the holes of the row in hand lie, by their numbers. */
const starts = new Int32Array(REPEATED);
const lengths = new Int32Array(REPEATED);
let holes = FIRST_HOLE;
/** The qualifier of the last cell that was spelled out. */
const spelled = Buffer.allocUnsafeSlow(MAX_QUALIFIER);

/** Offset behind what was read last. */
let behind = 0;

export function offsetBehind(): number {
  return behind;
}

/** Seven bits a byte, the lowest first; the last byte is below 128. */
export function varint(bytes: Buffer, at: number): number {
  const byte = bytes[at]!;
  behind = at + 1;
  return byte < 0x80 ? byte : longVarint(bytes, at + 1, byte & 0x7f);
}

function longVarint(bytes: Buffer, at: number, low: number): number {
  let value = low;
  for (let i = at, shift = 7; ; i++, shift += 7) {
    const byte = bytes[i]!;
    if (shift > 28 || (shift === 28 && byte > 3)) throw broken();
    value |= (byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    behind = i + 1;
    return value;
  }
}

export function broken(): StoreError {
  return new StoreError('corrupt', 'the cells of a record do not have the lengths of which it speaks');
}

/** The number at `at`, 0 where a cell is spelled out. */
export function wordNumber(bytes: Buffer, at: number): number {
  const byte = bytes[at]!;
  behind = at + 1;
  if (byte < ONE_BYTE) return byte;
  behind++;
  return ONE_BYTE + ((byte - ONE_BYTE) << 8) + bytes[at + 1]!;
}

/**
 * The packed row of a record; with `first` its first family alone, undefined where that has no cell. A row that is lent
 * is good until another is (`room.ts`).
 */
export function decodedRow(words: Words, at: RecordAt, first: boolean, lends = false): Buffer | undefined {
  const length = varint(at.bytes, 0);
  const start = behind;
  const room = lends ? lend(length) : reserve(length);
  // It is no longer told of the row before, whatever comes of this one.
  laidOut.row = undefined;
  const size = decodeCells(words, at, start, room, length, first);
  if (size === 0) return undefined;
  const row = lends ? written(room, size) : taken(room, size);
  laidOut.row = row;
  laidOut.numbering = words.numbering;
  return row;
}

/**
 * Writes the packed row of the cells from `at` on into the room, which has place for `length` bytes; gives how many it
 * wrote. With `first` only the cells of the first family.
 */
function decodeCells(words: Words, record: RecordAt, at: number, room: Room, length: number, first: boolean): number {
  const { bytes, end } = record;
  const { count, families, holes: kinds, pool, heads, headLengths, tails, tailLengths, fixedLengths } = words;
  const { names, begins } = laidOut;
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
    if (first && (number === 0 ? bytes[at] : families[number]) !== 0) break;
    begins[cells] = to - origin;
    names[cells++] = number;
    if (number === 0) {
      to = putSpelled(record, at, room, to, limit);
      at = behind;
      continue;
    }
    const cell = to;
    let from = heads[number]!;
    to += headLengths[number]!;
    if (to > limit) throw broken();
    for (let i = cell; i < to; i += 4) view.setInt32(i, pool[from++]!);
    const kind = kinds[number]!;
    if (kind === NOWHERE) continue;
    let n = bytes[at]!;
    if (n < 0x80) at++;
    else {
      n = varint(bytes, at);
      at = behind;
    }
    let size: number;
    if ((n & 1) === 0) {
      size = n >> 1;
      if (at + size > end || to + size > limit) throw broken();
      if (hole < REPEATED) {
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
    if (to > limit) throw broken();
    for (let i = start; i < to; i += 4) view.setInt32(i, pool[from++]!);
  }
  laidOut.count = cells;
  if (!first && to !== limit) throw broken();
  return to - room.start;
}

function putHead(words: Words, number: number, room: Room, to: number, limit: number): number {
  return putWords(words.pool, words.heads[number]!, words.headLengths[number]!, room, to, limit);
}

/** Four bytes at a time; up to three behind the last one are written too. */
function putWords(pool: Int32Array, from: number, length: number, { view }: Room, to: number, limit: number): number {
  const end = to + length;
  if (end > limit) throw broken();
  for (let i = from, at = to; at < end; at += 4) view.setInt32(at, pool[i++]!);
  return end;
}

/** Writes a cell with a hole, whose bytes are at `at`; gives the offset behind it. */
export function putHoled(
  words: Words,
  number: number,
  record: RecordAt,
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

function putHole(record: RecordAt, at: number, room: Room, to: number, limit: number): number {
  const { bytes, end } = record;
  const n = varint(bytes, at);
  if ((n & 1) === 1) return putRepeated(record, n >>> 1, room, to, limit);
  const from = behind;
  const length = n >> 1;
  if (from + length > end || to + length > limit) throw broken();
  noteHole(from, length);
  behind = from + length;
  return copyRun(bytes, from, length, room.bytes, to);
}

function noteHole(from: number, length: number): void {
  if (holes === REPEATED) return;
  starts[holes] = from;
  lengths[holes++] = length;
}

/** Notes the holes of the cells from `at` to `end`, for a cell behind them that may repeat one. */
export function noteHoles(words: Words, record: RecordAt, at: number, end: number): void {
  const { bytes } = record;
  holes = FIRST_HOLE;
  for (let i = at; i < end; ) {
    const number = wordNumber(bytes, i);
    if (number === 0) skipSpelled(bytes, behind);
    else if (words.holes[number] !== NOWHERE) skipHole(record, behind);
    i = behind;
  }
}

function skipSpelled(bytes: Buffer, at: number): void {
  varint(bytes, at + 1);
  const rest = varint(bytes, behind);
  const value = varint(bytes, behind);
  behind += rest + value;
}

/** Goes past the hole at `at`. */
function skipHole({ bytes }: RecordAt, at: number): void {
  const n = varint(bytes, at);
  if ((n & 1) === 1) return;
  noteHole(behind, n >> 1);
  behind += n >> 1;
}

function putRepeated(record: RecordAt, hole: number, room: Room, to: number, limit: number): number {
  const { keys, bytes } = record;
  if (hole === KEY_AS_UUID) return putUuid(record, room.bytes, to, limit);
  const from = hole === KEY_END ? keyEnd(keys, record.from, record.to) : starts[hole]!;
  const length = hole === KEY_END ? record.to - from : lengths[hole]!;
  if (hole >= holes || to + length > limit) throw broken();
  return copyRun(hole === KEY_END ? keys : bytes, from, length, room.bytes, to);
}

/** Where the end of a key begins: behind its last `=`, or with the key. */
export function keyEnd(keys: Buffer, from: number, to: number): number {
  let at = to;
  while (at > from && keys[at - 1] !== EQUALS) at--;
  return at;
}

const HEX = Buffer.from('0123456789abcdef');

/** Writes the key, 16 bytes, as a UUID is written. */
export function putUuid({ keys, from, to: end }: RecordAt, out: Buffer, to: number, limit: number): number {
  if (end - from !== UUID_BYTES || to + UUID_TEXT > limit) throw broken();
  let at = to;
  for (let i = 0; i < UUID_BYTES; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) out[at++] = DASH;
    const byte = keys[from + i]!;
    out[at++] = HEX[byte >>> 4]!;
    out[at++] = HEX[byte & 15]!;
  }
  return at;
}

/** Writes a cell that is spelled out from `at` on; gives the offset behind it. */
export function putSpelled({ bytes, end }: RecordAt, at: number, room: Room, to: number, limit: number): number {
  const shared = varint(bytes, at + 1);
  const rest = varint(bytes, behind);
  const value = varint(bytes, behind);
  const from = behind;
  const qualifier = shared + rest;
  const last = to + CELL_HEADER + qualifier + value;
  if (qualifier > MAX_QUALIFIER || from + rest + value > end || last > limit) throw broken();
  copyRun(bytes, from, rest, spelled, shared);
  const { bytes: out, view } = room;
  out[to] = bytes[at]!;
  view.setUint16(to + QUALIFIER_LENGTH, qualifier);
  view.setUint32(to + VALUE_LENGTH, value);
  copyRun(spelled, 0, qualifier, out, to + CELL_HEADER);
  copyRun(bytes, from + rest, value, out, last - value);
  behind = from + rest + value;
  return last;
}

function copyRun(from: Buffer, start: number, length: number, out: Buffer, to: number): number {
  if (length > LOOP) from.copy(out, to, start, start + length);
  else for (let i = 0; i < length; i++) out[to + i] = from[start + i]!;
  return to + length;
}
