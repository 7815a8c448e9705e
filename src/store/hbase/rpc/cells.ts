import type { CellName } from '../../contract.js';
import { CELL_HEADER, EMPTY, nextCell, qualifierLength, valueLength } from '../../row.js';
import { StoreError } from '../../store-error.js';
import type { TableHandle } from './rpc-types.js';

/**
 * Cell blocks of the KeyValueCodec. All numbers are big-endian:
 *
 *     length u32 │ key length u32 │ value length u32 │ key │ value
 *     key = row length u16 │ row │ family length u8 │ family │ qualifier │ timestamp u64 │ type u8
 *
 * Cells are copied directly from the received block into packed rows.
 */

/** Size of a cell without row, family, qualifier and value, bytes: three lengths and the other fields of the key. */
const FIXED_CELL_BYTES = 24;
/** Size of a key without row, family and qualifier, bytes. */
const FIXED_KEY_BYTES = 12;

export const PUT_TYPE = 4;
export const DELETE_COLUMN_TYPE = 12;
/** Type of a marker that deletes the cells of a family up to the marker's timestamp. */
export const DELETE_FAMILY_TYPE = 14;
/** Timestamp that the server replaces by its clock. */
export const LATEST_TIMESTAMP = 0x7fff_ffff_ffff_ffffn;

/** The families of a table as encoded on the wire. */
export class TableCodec {
  readonly name: string;
  readonly families: readonly Buffer[];
  readonly #encodings = new Map<unknown, WeakMap<object, Buffer>>();
  /** Whether the families are numbered in the order in which servers send them, which is by name. */
  readonly #isInNameOrder: boolean;

  constructor(table: TableHandle) {
    this.name = table.name;
    this.families = table.families.map((name) => Buffer.from(name));
    this.#isInNameOrder = this.families.every((f, i) => i === 0 || Buffer.compare(this.families[i - 1]!, f) < 0);
  }

  /** Returns the encoded options for this table. Cached by object. */
  encodeOnce<T extends object>(options: T, encode: (table: TableCodec, options: T) => Buffer): Buffer {
    let encodings = this.#encodings.get(encode);
    if (!encodings) {
      encodings = new WeakMap();
      this.#encodings.set(encode, encodings);
    }
    let bytes = encodings.get(options);
    if (!bytes) {
      bytes = encode(this, options);
      encodings.set(options, bytes);
    }
    return bytes;
  }

  family(number: number): Buffer {
    const family = this.families[number];
    if (!family) throw new TypeError(`table ${this.name} has no family ${number}`);
    return family;
  }

  /** Packs the next `count` cells, which belong to a row, and advances past them. Returns undefined for no cells. */
  pack(cells: CellCursor, count: number): Buffer | undefined {
    if (count === 0) return undefined;
    const startOffset = cells.offset;
    let rowLength = 0;
    for (let i = 0; i < count; i++) {
      cells.skip();
      rowLength += CELL_HEADER + cells.qualifierLength + cells.valueLength;
    }
    const endOffset = cells.offset;
    const row = Buffer.allocUnsafe(rowLength);
    if (this.#isInNameOrder) {
      cells.offset = startOffset;
      this.#copyCells(cells, count, row, 0, -1);
    } else {
      let outEnd = 0;
      for (let family = 0; family < this.families.length; family++) {
        cells.offset = startOffset;
        outEnd = this.#copyCells(cells, count, row, outEnd, family);
      }
    }
    cells.offset = endOffset;
    return row;
  }

  /** Copies the cells of family `onlyFamily` (-1: all) to offset `outEnd` of `row`. Returns the offset after them. */
  #copyCells(cells: CellCursor, count: number, row: Buffer, outEnd: number, onlyFamily: number): number {
    const block = cells.block;
    let family = 0;
    for (let i = 0; i < count; i++) {
      cells.parse();
      family = this.familyNumber(cells, family);
      if (onlyFamily < 0 || family === onlyFamily) {
        const q = cells.qualifierLength;
        const v = cells.valueLength;
        row[outEnd] = family;
        row[outEnd + 1] = q >>> 8;
        row[outEnd + 2] = q;
        row[outEnd + 3] = v >>> 24;
        row[outEnd + 4] = v >>> 16;
        row[outEnd + 5] = v >>> 8;
        row[outEnd + 6] = v;
        copyBytes(block, cells.qualifierStart, row, outEnd + CELL_HEADER, q);
        copyBytes(block, cells.valueStart, row, outEnd + CELL_HEADER + q, v);
        outEnd += CELL_HEADER + q + v;
      }
      cells.advance();
    }
    return outEnd;
  }

  /** Returns the family number of the current cell. `likelyFamily` is tried first. */
  familyNumber(cells: CellCursor, likelyFamily = 0): number {
    if (isFamily(cells, this.families[likelyFamily]!)) return likelyFamily;
    for (let i = 0; i < this.families.length; i++) if (isFamily(cells, this.families[i]!)) return i;
    const name = cells.block.toString('latin1', cells.familyStart, cells.familyStart + cells.familyLength);
    throw new StoreError('conflict', `table ${this.name} has a family '${name}' that is not in its specification`);
  }
}

function isFamily(cells: CellCursor, family: Buffer): boolean {
  if (cells.familyLength !== family.length) return false;
  for (let i = 0; i < family.length; i++) if (cells.block[cells.familyStart + i] !== family[i]) return false;
  return true;
}

/** Shorter byte sequences are copied by a loop, which is cheaper than a call into the runtime. */
const LOOP_COPY_BELOW = 48;

function copyBytes(source: Buffer, sourceStart: number, target: Buffer, targetStart: number, length: number): void {
  if (length < LOOP_COPY_BELOW) for (let i = 0; i < length; i++) target[targetStart + i] = source[sourceStart + i]!;
  else source.copy(target, targetStart, sourceStart, sourceStart + length);
}

/** A position in a cell block. `parse` reads and checks the lengths of the cell; `advance` moves to the next one. */
export class CellCursor {
  readonly block: Buffer;
  offset = 0;
  rowStart = 0;
  rowLength = 0;
  familyStart = 0;
  familyLength = 0;
  qualifierStart = 0;
  qualifierLength = 0;
  valueStart = 0;
  valueLength = 0;
  #nextOffset = 0;

  constructor(block: Buffer) {
    this.block = block;
  }

  get isAtEnd(): boolean {
    return this.offset >= this.block.length;
  }

  parse(): void {
    const { block, offset } = this;
    const bytesLeft = block.length - offset;
    if (bytesLeft < FIXED_CELL_BYTES) throw this.#corrupt('is cut');
    const length = readUint32(block, offset);
    const keyLength = readUint32(block, offset + 4);
    this.valueLength = readUint32(block, offset + 8);
    if (length > bytesLeft - 4 || keyLength < FIXED_KEY_BYTES || keyLength + this.valueLength + 8 > length)
      throw this.#corrupt(`has lengths ${length}, ${keyLength}, ${this.valueLength}`);
    this.rowStart = offset + 14;
    this.rowLength = (block[offset + 12]! << 8) | block[offset + 13]!;
    if (this.rowLength + FIXED_KEY_BYTES > keyLength) throw this.#corrupt(`has a row key of ${this.rowLength} bytes`);
    this.familyStart = this.rowStart + this.rowLength + 1;
    this.familyLength = block[this.familyStart - 1]!;
    this.qualifierLength = keyLength - FIXED_KEY_BYTES - this.rowLength - this.familyLength;
    if (this.qualifierLength < 0) throw this.#corrupt(`has a family of ${this.familyLength} bytes`);
    if (this.qualifierLength > 0xffff) throw this.#corrupt(`has a qualifier of ${this.qualifierLength} bytes`);
    this.qualifierStart = this.familyStart + this.familyLength;
    this.valueStart = offset + 12 + keyLength;
    this.#nextOffset = offset + 4 + length;
  }

  advance(): void {
    this.offset = this.#nextOffset;
  }

  skip(): void {
    this.parse();
    this.advance();
  }

  /** Returns a copy of the row key. */
  row(): Buffer {
    return Buffer.from(this.block.subarray(this.rowStart, this.rowStart + this.rowLength));
  }

  qualifier(): Buffer {
    return this.block.subarray(this.qualifierStart, this.qualifierStart + this.qualifierLength);
  }

  value(): Buffer {
    return this.block.subarray(this.valueStart, this.valueStart + this.valueLength);
  }

  /** Returns the timestamp in milliseconds, an integer below 2^53. */
  timestamp(): number {
    const offset = this.qualifierStart + this.qualifierLength;
    return readUint32(this.block, offset) * 0x1_0000_0000 + readUint32(this.block, offset + 4);
  }

  #corrupt(flaw: string): StoreError {
    return new StoreError('corrupt', `cell at offset ${this.offset} of a block of ${this.block.length} bytes ${flaw}`);
  }
}

function readUint32(b: Buffer, offset: number): number {
  return ((b[offset]! << 24) | (b[offset + 1]! << 16) | (b[offset + 2]! << 8) | b[offset + 3]!) >>> 0;
}

/** Values of this size or more are referenced instead of copied, bytes. */
export const MIN_REFERENCED_BYTES = 32 * 1024;

/** Builds a cell block. Values that it references must not change until the block is sent. */
export class CellBlock {
  readonly #table: TableCodec;
  #buffer: Buffer;
  #length = 0;
  /** Completed buffers: referenced values and the bytes between them. */
  readonly #completedBuffers: Buffer[] = [];
  /** Offset in `#buffer` of the bytes that are not in `#completedBuffers` yet. */
  #pendingStart = 0;
  count = 0;

  /** `bytes`: expected size of the block. */
  constructor(table: TableCodec, bytes = 0) {
    this.#table = table;
    this.#buffer = bytes === 0 ? EMPTY : Buffer.allocUnsafe(bytes);
  }

  get parts(): readonly Buffer[] {
    return this.#length === this.#pendingStart
      ? this.#completedBuffers
      : [...this.#completedBuffers, this.#buffer.subarray(this.#pendingStart, this.#length)];
  }

  /** `timestamp`: milliseconds, or `LATEST_TIMESTAMP` for the server's clock. */
  add(key: Buffer, column: CellName, value: Buffer, type = PUT_TYPE, timestamp = LATEST_TIMESTAMP): void {
    const family = this.#table.family(column.family);
    const { qualifier } = column;
    const keyLength = FIXED_KEY_BYTES + key.length + family.length + qualifier.length;
    const isReferenced = value.length >= MIN_REFERENCED_BYTES;
    let offset = this.#reserve(12 + keyLength + (isReferenced ? 0 : value.length));
    const out = this.#buffer;
    offset = out.writeUInt32BE(8 + keyLength + value.length, offset);
    offset = out.writeUInt32BE(keyLength, offset);
    offset = out.writeUInt32BE(value.length, offset);
    offset = out.writeUInt16BE(key.length, offset);
    copyBytes(key, 0, out, offset, key.length);
    offset += key.length;
    out[offset++] = family.length;
    copyBytes(family, 0, out, offset, family.length);
    offset += family.length;
    copyBytes(qualifier, 0, out, offset, qualifier.length);
    offset = out.writeBigUInt64BE(timestamp, offset + qualifier.length);
    out[offset++] = type;
    if (isReferenced) {
      this.#completedBuffers.push(out.subarray(this.#pendingStart, this.#length), value);
      this.#pendingStart = this.#length;
    } else copyBytes(value, 0, out, offset, value.length);
    this.count++;
  }

  /** Returns the offset at which `bytes` bytes may be written. */
  #reserve(bytes: number): number {
    const offset = this.#length;
    this.#length += bytes;
    if (this.#length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#length, 2 * this.#buffer.length));
      this.#buffer.copy(larger, 0, 0, offset);
      this.#buffer = larger;
    }
    return offset;
  }
}

/** Returns the end of the key of a put cell: timestamp and type. */
export function putKeyEnd(timestamp: bigint): Buffer {
  const end = Buffer.allocUnsafe(9);
  end.writeBigUInt64BE(timestamp);
  end[8] = PUT_TYPE;
  return end;
}

/** Encodes the cells of a packed row, in any order, as puts. `tail`: the result of `putKeyEnd`. */
export function encodeRow(table: TableCodec, key: Buffer, row: Buffer, tail: Buffer): { cells: Buffer; count: number } {
  let bytes = 0;
  let count = 0;
  for (let offset = 0; offset < row.length; count++) {
    const nextOffset = nextCell(row, offset);
    bytes += FIXED_CELL_BYTES + key.length + table.family(row[offset]!).length + nextOffset - offset - CELL_HEADER;
    offset = nextOffset;
  }
  const out = Buffer.allocUnsafe(bytes);
  let outEnd = 0;
  for (let offset = 0; offset < row.length; offset = nextCell(row, offset)) {
    const family = table.family(row[offset]!);
    const q = qualifierLength(row, offset);
    const v = valueLength(row, offset);
    const keyLength = FIXED_KEY_BYTES + key.length + family.length + q;
    outEnd = writeUint32(out, outEnd, 8 + keyLength + v);
    outEnd = writeUint32(out, outEnd, keyLength);
    outEnd = writeUint32(out, outEnd, v);
    out[outEnd++] = key.length >>> 8;
    out[outEnd++] = key.length;
    outEnd = appendBytes(key, 0, out, outEnd, key.length);
    out[outEnd++] = family.length;
    outEnd = appendBytes(family, 0, out, outEnd, family.length);
    outEnd = appendBytes(row, offset + CELL_HEADER, out, outEnd, q);
    outEnd = appendBytes(tail, 0, out, outEnd, tail.length);
    outEnd = appendBytes(row, offset + CELL_HEADER + q, out, outEnd, v);
  }
  return { cells: out, count };
}

function appendBytes(source: Buffer, sourceStart: number, target: Buffer, targetStart: number, length: number): number {
  copyBytes(source, sourceStart, target, targetStart, length);
  return targetStart + length;
}

function writeUint32(out: Buffer, offset: number, value: number): number {
  out[offset] = value >>> 24;
  out[offset + 1] = value >>> 16;
  out[offset + 2] = value >>> 8;
  out[offset + 3] = value;
  return offset + 4;
}

/** Estimates the size of a row's cells in a block, on the assumption that family names have a single byte. */
export function estimateBytes(key: Buffer, cells: readonly { qualifier: Buffer; value: Buffer }[]): number {
  let bytes = 0;
  for (const { qualifier, value } of cells)
    bytes +=
      FIXED_CELL_BYTES + 1 + key.length + qualifier.length + (value.length < MIN_REFERENCED_BYTES ? value.length : 0);
  return bytes;
}
