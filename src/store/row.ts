import { compareRun } from '../bytes/compare.js';
import type { Cell, CellName, ColumnRange } from './contract.js';
import { StoreError } from './store-error.js';

/**
 * The packed row: cells one after another, sorted by family number, then by qualifier bytes; no header, no count.
 *
 *   family u8 │ qualifier length u16 │ value length u32 │ qualifier │ value   (big-endian; docs/formats/packed-row.md)
 *
 * Readers walk the row by offsets with the functions below, without building objects:
 *
 *   for (let at = 0; at < row.length; at = nextCell(row, at)) { … qualifierStart(at) … }
 */

export const CELL_HEADER = 7;
export const MAX_QUALIFIER = 0xffff;
export const EMPTY = Buffer.alloc(0);

/** The one cell of a row in a table with `suffixBytes`. */
export const MARK: Cell = { family: 0, qualifier: EMPTY, value: EMPTY };

export function cellFamily(row: Buffer, offset: number): number {
  return row[offset]!;
}

export function qualifierLength(row: Buffer, offset: number): number {
  return (row[offset + 1]! << 8) | row[offset + 2]!;
}

export function valueLength(row: Buffer, offset: number): number {
  return ((row[offset + 3]! << 24) | (row[offset + 4]! << 16) | (row[offset + 5]! << 8) | row[offset + 6]!) >>> 0;
}

export function qualifierStart(offset: number): number {
  return offset + CELL_HEADER;
}

export function valueStart(row: Buffer, offset: number): number {
  return offset + CELL_HEADER + qualifierLength(row, offset);
}

/** Offset of the cell after the cell at `offset`. Throws `corrupt` if a length points past the end of the row. */
export function nextCell(row: Buffer, offset: number): number {
  const nextOffset = offset + CELL_HEADER + qualifierLength(row, offset) + valueLength(row, offset);
  if (!(nextOffset <= row.length))
    throw new StoreError('corrupt', `packed row of ${row.length} bytes is cut at offset ${offset}`);
  return nextOffset;
}

/** Compares the qualifier of the cell at `offset` with `qualifier`: < 0, 0, > 0 by byte order. */
export function compareQualifier(row: Buffer, offset: number, qualifier: Buffer): number {
  const start = offset + CELL_HEADER;
  return compareRun(row, start, start + qualifierLength(row, offset), qualifier);
}

/** Offset of the cell `family`:`qualifier`, or -1. */
export function findCell(row: Buffer, family: number, qualifier: Buffer): number {
  for (let offset = 0; offset < row.length; offset = nextCell(row, offset)) {
    const f = row[offset]!;
    if (f < family) continue;
    if (f > family) return -1;
    const d = compareQualifier(row, offset, qualifier);
    if (d === 0) return offset;
    if (d > 0) return -1;
  }
  return -1;
}

/** The value of the cell `family`:`qualifier`, a view into the row, or undefined. */
export function cellValue(row: Buffer, family: number, qualifier: Buffer): Buffer | undefined {
  const offset = findCell(row, family, qualifier);
  if (offset < 0) return undefined;
  const start = valueStart(row, offset);
  return row.subarray(start, start + valueLength(row, offset));
}

/** All cells as views into the row. For writers and tests; hot paths walk the row by offsets. */
export function unpackRow(row: Buffer): Cell[] {
  const cells: Cell[] = [];
  for (let offset = 0; offset < row.length; offset = nextCell(row, offset)) cells.push(cellAt(row, offset));
  return cells;
}

/** The cell at `offset`, with views into the row. */
export function cellAt(row: Buffer, offset: number): Cell {
  const start = valueStart(row, offset);
  return {
    family: row[offset]!,
    qualifier: row.subarray(qualifierStart(offset), start),
    value: row.subarray(start, nextCell(row, offset)),
  };
}

export function compareCells(a: CellName, b: CellName): number {
  if (a.family !== b.family) return a.family - b.family;
  const p = a.qualifier;
  const q = b.qualifier;
  const shorter = Math.min(p.length, q.length);
  // Qualifiers differ early: a loop is cheaper than the call of Buffer.compare.
  for (let i = 0; i < shorter; i++) {
    const d = p[i]! - q[i]!;
    if (d !== 0) return d;
  }
  return p.length - q.length;
}

/** Writes a cell at `offset` and returns the offset behind it. Throws `limit` if the qualifier is too long. */
export function writeCell(row: Buffer, offset: number, family: number, qualifier: Buffer, value: Buffer): number {
  const q = qualifier.length;
  const v = value.length;
  if (q > MAX_QUALIFIER) throw new StoreError('limit', `qualifier of ${q} bytes; ${MAX_QUALIFIER} is the most`);
  row[offset] = family;
  row[offset + 1] = q >>> 8;
  row[offset + 2] = q;
  row[offset + 3] = v >>> 24;
  row[offset + 4] = v >>> 16;
  row[offset + 5] = v >>> 8;
  row[offset + 6] = v;
  return putBytes(row, putBytes(row, offset + CELL_HEADER, qualifier), value);
}

/** Packs cells that are sorted by `compareCells`, each name once. */
export function packSorted(cells: readonly Cell[]): Buffer {
  let length = 0;
  for (const cell of cells) length += CELL_HEADER + cell.qualifier.length + cell.value.length;
  const row = Buffer.allocUnsafe(length);
  let offset = 0;
  for (const cell of cells) offset = writeCell(row, offset, cell.family, cell.qualifier, cell.value);
  return row;
}

/** Packs cells in any order. Of two cells with the same name, the later wins. */
export function packRow(cells: readonly Cell[]): Buffer {
  const sorted = isRising(cells) ? cells : sortCells(cells);
  return packSorted(sorted);
}

function isRising(cells: readonly Cell[]): boolean {
  for (let i = 1; i < cells.length; i++) if (compareCells(cells[i - 1]!, cells[i]!) >= 0) return false;
  return true;
}

/** Up to this many cells are sorted by insertion, since they are usually almost sorted. */
const MAX_INSERTION_SORT = 96;

function sortCells(cells: readonly Cell[]): Cell[] {
  const sorted = [...cells];
  if (sorted.length > MAX_INSERTION_SORT) sorted.sort(compareCells);
  else {
    for (let i = 1; i < sorted.length; i++) {
      const cell = sorted[i]!;
      let offset = i;
      for (; offset > 0 && compareCells(sorted[offset - 1]!, cell) > 0; offset--) sorted[offset] = sorted[offset - 1]!;
      sorted[offset] = cell;
    }
  }
  let keptCount = 0;
  for (const cell of sorted) {
    if (keptCount > 0 && compareCells(sorted[keptCount - 1]!, cell) === 0) keptCount--;
    sorted[keptCount++] = cell;
  }
  sorted.length = keptCount;
  return sorted;
}

/** Returns a number of 64 bits in big-endian order: a counter, or the key of an appended row. */
export function counterBytes(value: bigint): Buffer {
  const b = Buffer.allocUnsafe(8);
  b.writeBigInt64BE(value);
  return b;
}

/** The number in a counter cell; 0 if the cell is absent. Throws `corrupt` if the value is not 8 bytes. */
export function readCounter(value: Buffer | undefined): bigint {
  if (!value) return 0n;
  if (value.length !== 8) throw new StoreError('corrupt', `counter of ${value.length} bytes`);
  return value.readBigInt64BE();
}

/** `readCounter` of the cell `family`:`qualifier`. */
export function cellCounter(row: Buffer | undefined, family: number, qualifier: Buffer): bigint {
  return readCounter(row && cellValue(row, family, qualifier));
}

/** Returns the cells of `row[0..end)` in `ranges`, packed into a new buffer; undefined when there are none. */
export function selectColumns(row: Buffer, end: number, ranges: readonly ColumnRange[]): Buffer | undefined {
  const cellRuns: Buffer[] = [];
  let offset = 0;
  for (const range of ranges) {
    while (offset < end && isBefore(row, offset, range)) offset = nextCell(row, offset);
    const start = offset;
    while (offset < end && !isBeyond(row, offset, range)) offset = nextCell(row, offset);
    if (offset > start) cellRuns.push(row.subarray(start, offset));
  }
  return cellRuns.length > 0 ? Buffer.concat(cellRuns) : undefined;
}

function isBefore(row: Buffer, offset: number, { family, from }: ColumnRange): boolean {
  return row[offset] === family ? from !== undefined && compareQualifier(row, offset, from) < 0 : row[offset]! < family;
}

function isBeyond(row: Buffer, offset: number, { family, to }: ColumnRange): boolean {
  if (row[offset] !== family) return row[offset]! > family;
  return to !== undefined && compareQualifier(row, offset, to) >= 0;
}

/** Bytes that are written often, stored as 32-bit words: copying takes a quarter of the steps of a copy by bytes. */
export interface FixedBytes {
  readonly words: Int32Array;
  /** Number of meaningful bytes. `putFixed` writes up to three more bytes behind them. */
  readonly length: number;
}

/** Maximum number of bytes that `putFixed` writes beyond `length`. */
export const FIXED_EXCESS = 3;

export function fixedBytes(...byteStrings: readonly Uint8Array[]): FixedBytes {
  const bytes = Buffer.concat(byteStrings);
  const paddedBytes = Buffer.alloc((bytes.length + FIXED_EXCESS) & ~FIXED_EXCESS);
  paddedBytes.set(bytes);
  const words = new Int32Array(paddedBytes.length / 4);
  for (let i = 0; i < words.length; i++) words[i] = paddedBytes.readInt32BE(i * 4);
  return { words, length: bytes.length };
}

/** Writes the bytes at `offset` and returns the offset behind them. Needs `FIXED_EXCESS` more bytes of room. */
export function putFixed(view: DataView, offset: number, { words, length }: FixedBytes): number {
  for (let i = 0, outEnd = offset; i < words.length; i++, outEnd += 4) view.setInt32(outEnd, words[i]!);
  return offset + length;
}

/** Most bytes that are copied in a loop. A call of `set` costs as much as a loop over this many bytes. */
const MAX_LOOP_BYTES = 64;

/** Writes `source` at `offset` and returns the offset behind it. */
export function putBytes(bytes: Uint8Array, offset: number, source: Uint8Array): number {
  const n = source.length;
  if (n > MAX_LOOP_BYTES) bytes.set(source, offset);
  else for (let i = 0; i < n; i++) bytes[offset + i] = source[i]!;
  return offset + n;
}
