import { OCTET_STRING } from '../../protocol/tags.js';
import { headerBytes } from './lengths.js';
import { CELL_HEADER, UP_ATTRIBUTES, valueLength } from './row.js';

/** Walking the cells of a packed row by offsets, and writing their values. */

/** Longer values are copied by the runtime, shorter ones by a loop: the call costs as much as so many bytes. */
const LOOP = 96;

export function nextCell(row: Buffer, at: number): number {
  const next = at + CELL_HEADER + ((row[at + 1]! << 8) | row[at + 2]!) + valueLength(row, at);
  if (next > row.length) throw new RangeError(`packed row of ${row.length} bytes is cut at offset ${at}`);
  return next;
}

/** Whether the cell at `at` holds another value of the description in `row[name, nameEnd)`. */
export function sameName(row: Buffer, name: number, nameEnd: number, at: number, qualifier: number): boolean {
  if (row[at] !== UP_ATTRIBUTES || ((row[at + 1]! << 8) | row[at + 2]!) !== qualifier) return false;
  const shift = at + CELL_HEADER - name;
  for (let i = name; i < nameEnd; i++) if (row[i] !== row[i + shift]) return false;
  return true;
}

export function putValues(buffer: Buffer, at: number, row: Buffer, from: number, to: number): number {
  for (let cell = from; cell < to; ) {
    const length = valueLength(row, cell);
    const value = cell + CELL_HEADER + ((row[cell + 1]! << 8) | row[cell + 2]!);
    at = putHeader(buffer, at, OCTET_STRING, length);
    if (length > LOOP) row.copy(buffer, at, value, value + length);
    else for (let i = 0; i < length; i++) buffer[at + i] = row[value + i]!;
    at += length;
    cell = value + length;
  }
  return at;
}

export function putHeader(buffer: Buffer, at: number, tag: number, length: number): number {
  buffer[at++] = tag;
  if (length > 0x7f) {
    const octets = headerBytes(length) - 2;
    buffer[at++] = 0x80 | octets;
    for (let shift = (octets - 1) * 8; shift > 0; shift -= 8) buffer[at++] = length >>> shift;
  }
  buffer[at++] = length;
  return at;
}
