import type { CellName } from '../../contract.js';
import { CELL_HEADER, EMPTY, nextCell, qualifierLength, valueLength } from '../../row.js';
import { StoreError } from '../../store-error.js';
import type { TableHandle } from './rpc-types.js';

/**
 * Cell blocks of the KeyValueCodec, all numbers big-endian:
 *
 *   length u32 │ key length u32 │ value length u32 │ key │ value
 *   key = row length u16 │ row │ family length u8 │ family │ qualifier │ timestamp u64 │ type u8
 *
 * They are read where they lie, straight into packed rows.
 */

/** Bytes of a cell beside row, family, qualifier and value: three lengths and the key's fixed part. */
const CELL_FIXED = 24;
/** Bytes of a key beside row, family and qualifier. */
const KEY_FIXED = 12;

export const PUT = 4;
export const DELETE_COLUMN = 12;
const DELETE_FAMILY = 14;
/** Timestamp that the server replaces by its own time. */
export const LATEST = 0x7fff_ffff_ffff_ffffn;

/** A table's families as the wire has them. */
export class TableCodec {
  readonly name: string;
  readonly families: readonly Buffer[];
  readonly #encodings = new Map<unknown, WeakMap<object, Buffer>>();
  /** Whether family numbers are in the order in which the servers send families: by name. */
  readonly #inNameOrder: boolean;

  constructor(table: TableHandle) {
    this.name = table.name;
    this.families = table.families.map((name) => Buffer.from(name));
    this.#inNameOrder = this.families.every((f, i) => i === 0 || Buffer.compare(this.families[i - 1]!, f) < 0);
  }

  /** What `encode` makes of the options for this table; made once for each object. */
  encoded<T extends object>(options: T, encode: (table: TableCodec, options: T) => Buffer): Buffer {
    let known = this.#encodings.get(encode);
    if (!known) {
      known = new WeakMap();
      this.#encodings.set(encode, known);
    }
    let bytes = known.get(options);
    if (!bytes) {
      bytes = encode(this, options);
      known.set(options, bytes);
    }
    return bytes;
  }

  family(number: number): Buffer {
    const family = this.families[number];
    if (!family) throw new TypeError(`table ${this.name} has no family ${number}`);
    return family;
  }

  /** Packs the `count` cells of one row from where `cells` stands, and moves it past them; undefined for no cells. */
  pack(cells: CellCursor, count: number): Buffer | undefined {
    if (count === 0) return undefined;
    const from = cells.at;
    let bytes = 0;
    for (let i = 0; i < count; i++) {
      cells.skip();
      bytes += CELL_HEADER + cells.qualifierLength + cells.valueLength;
    }
    const end = cells.at;
    const row = Buffer.allocUnsafe(bytes);
    if (this.#inNameOrder) {
      cells.at = from;
      this.#fill(cells, count, row, 0, -1);
    } else {
      let to = 0;
      for (let family = 0; family < this.families.length; family++) {
        cells.at = from;
        to = this.#fill(cells, count, row, to, family);
      }
    }
    cells.at = end;
    return row;
  }

  /** Copies cells of the family `only` (-1: of any) into `row` from `to` on; gives the offset after the last one. */
  #fill(cells: CellCursor, count: number, row: Buffer, to: number, only: number): number {
    const block = cells.block;
    let family = 0;
    for (let i = 0; i < count; i++) {
      cells.enter();
      family = this.familyOf(cells, family);
      if (only < 0 || family === only) {
        const q = cells.qualifierLength;
        const v = cells.valueLength;
        row[to] = family;
        row[to + 1] = q >>> 8;
        row[to + 2] = q;
        row[to + 3] = v >>> 24;
        row[to + 4] = v >>> 16;
        row[to + 5] = v >>> 8;
        row[to + 6] = v;
        copy(block, cells.qualifierStart, row, to + CELL_HEADER, q);
        copy(block, cells.valueStart, row, to + CELL_HEADER + q, v);
        to += CELL_HEADER + q + v;
      }
      cells.leave();
    }
    return to;
  }

  /** The number of the family of the cell that `cells` is in; `guess` is tried first. */
  familyOf(cells: CellCursor, guess = 0): number {
    if (isFamily(cells, this.families[guess]!)) return guess;
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

/** Runs shorter than this are copied by a loop: cheaper than a call into the runtime. */
const LOOP = 48;

function copy(from: Buffer, at: number, to: Buffer, start: number, length: number): void {
  if (length < LOOP) for (let i = 0; i < length; i++) to[start + i] = from[at + i]!;
  else from.copy(to, start, at, at + length);
}

/**
 * Stands in a cell block, before a cell (`at`) or, between `enter` and `leave`, in one. Lengths are checked on
 * entering.
 */
export class CellCursor {
  readonly block: Buffer;
  at = 0;
  rowStart = 0;
  rowLength = 0;
  familyStart = 0;
  familyLength = 0;
  qualifierStart = 0;
  qualifierLength = 0;
  valueStart = 0;
  valueLength = 0;
  #next = 0;

  constructor(block: Buffer) {
    this.block = block;
  }

  get done(): boolean {
    return this.at >= this.block.length;
  }

  enter(): void {
    const b = this.block;
    const at = this.at;
    if (b.length - at < CELL_FIXED) throw this.#corrupt('is cut');
    const length = u32(b, at);
    const key = u32(b, at + 4);
    this.valueLength = u32(b, at + 8);
    if (length > b.length - at - 4 || key < KEY_FIXED || key + this.valueLength + 8 > length) {
      throw this.#corrupt(`has lengths ${length}, ${key}, ${this.valueLength}`);
    }
    this.rowStart = at + 14;
    this.rowLength = (b[at + 12]! << 8) | b[at + 13]!;
    if (this.rowLength + KEY_FIXED > key) throw this.#corrupt(`has a row key of ${this.rowLength} bytes`);
    this.familyStart = this.rowStart + this.rowLength + 1;
    this.familyLength = b[this.familyStart - 1]!;
    this.qualifierLength = key - KEY_FIXED - this.rowLength - this.familyLength;
    if (this.qualifierLength < 0) throw this.#corrupt(`has a family of ${this.familyLength} bytes`);
    if (this.qualifierLength > 0xffff) throw this.#corrupt(`has a qualifier of ${this.qualifierLength} bytes`);
    this.qualifierStart = this.familyStart + this.familyLength;
    this.valueStart = at + 12 + key;
    this.#next = at + 4 + length;
  }

  leave(): void {
    this.at = this.#next;
  }

  skip(): void {
    this.enter();
    this.leave();
  }

  /** Of the cell it is in: a copy. */
  row(): Buffer {
    return Buffer.from(this.block.subarray(this.rowStart, this.rowStart + this.rowLength));
  }

  qualifier(): Buffer {
    return this.block.subarray(this.qualifierStart, this.qualifierStart + this.qualifierLength);
  }

  value(): Buffer {
    return this.block.subarray(this.valueStart, this.valueStart + this.valueLength);
  }

  /** Milliseconds; a whole number below 2^53. */
  timestamp(): number {
    const at = this.qualifierStart + this.qualifierLength;
    return u32(this.block, at) * 0x1_0000_0000 + u32(this.block, at + 4);
  }

  #corrupt(what: string): StoreError {
    return new StoreError('corrupt', `cell at offset ${this.at} of a block of ${this.block.length} bytes ${what}`);
  }
}

function u32(b: Buffer, at: number): number {
  return ((b[at]! << 24) | (b[at + 1]! << 16) | (b[at + 2]! << 8) | b[at + 3]!) >>> 0;
}

/** Longer values are referred to instead of copied. */
export const APART = 32 * 1024;

/** Builds a cell block. Long values must not change until it is sent. */
export class CellBlock {
  readonly #table: TableCodec;
  #out: Buffer;
  #length = 0;
  /** What is complete: long values, and what is between them; `#out` goes on from `#from`. */
  readonly #parts: Buffer[] = [];
  #from = 0;
  count = 0;

  /** `bytes`: how long it will probably be. */
  constructor(table: TableCodec, bytes = 0) {
    this.#table = table;
    this.#out = bytes === 0 ? EMPTY : Buffer.allocUnsafe(bytes);
  }

  get parts(): readonly Buffer[] {
    return this.#length === this.#from ? this.#parts : [...this.#parts, this.#out.subarray(this.#from, this.#length)];
  }

  /** `stamp`: milliseconds, or LATEST for the server's time. */
  add(key: Buffer, name: CellName, value: Buffer, type = PUT, stamp = LATEST): void {
    const family = this.#table.family(name.family);
    const { qualifier } = name;
    const keyLength = KEY_FIXED + key.length + family.length + qualifier.length;
    const apart = value.length >= APART;
    let at = this.#room(12 + keyLength + (apart ? 0 : value.length));
    const out = this.#out;
    at = out.writeUInt32BE(8 + keyLength + value.length, at);
    at = out.writeUInt32BE(keyLength, at);
    at = out.writeUInt32BE(value.length, at);
    at = out.writeUInt16BE(key.length, at);
    copy(key, 0, out, at, key.length);
    at += key.length;
    out[at++] = family.length;
    copy(family, 0, out, at, family.length);
    at += family.length;
    copy(qualifier, 0, out, at, qualifier.length);
    at = out.writeBigUInt64BE(stamp, at + qualifier.length);
    out[at++] = type;
    if (apart) {
      this.#parts.push(out.subarray(this.#from, this.#length), value);
      this.#from = this.#length;
    } else copy(value, 0, out, at, value.length);
    this.count++;
  }

  /** A marker that hides what the family of the row has up to `stamp`. */
  deleteFamily(key: Buffer, family: number, stamp: bigint): void {
    this.add(key, { family, qualifier: EMPTY }, EMPTY, DELETE_FAMILY, stamp);
  }

  /** Where so many bytes may be written. */
  #room(bytes: number): number {
    const at = this.#length;
    this.#length += bytes;
    if (this.#length > this.#out.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#length, 2 * this.#out.length));
      this.#out.copy(larger, 0, 0, at);
      this.#out = larger;
    }
    return at;
  }
}

/** The end of the key of a cell that is put: timestamp and type. */
export function putEnd(stamp: bigint): Buffer {
  const end = Buffer.allocUnsafe(9);
  end.writeBigUInt64BE(stamp);
  end[8] = PUT;
  return end;
}

/** The cells of a packed row, in any order, as the block that puts them; `end` is what `putEnd` gave. */
export function blockOfRow(table: TableCodec, key: Buffer, row: Buffer, end: Buffer): { cells: Buffer; count: number } {
  let bytes = 0;
  let count = 0;
  for (let at = 0; at < row.length; count++) {
    const next = nextCell(row, at);
    bytes += CELL_FIXED + key.length + table.family(row[at]!).length + next - at - CELL_HEADER;
    at = next;
  }
  const out = Buffer.allocUnsafe(bytes);
  let to = 0;
  for (let at = 0; at < row.length; at = nextCell(row, at)) {
    const family = table.family(row[at]!);
    const q = qualifierLength(row, at);
    const v = valueLength(row, at);
    const keyLength = KEY_FIXED + key.length + family.length + q;
    to = put32(out, to, 8 + keyLength + v);
    to = put32(out, to, keyLength);
    to = put32(out, to, v);
    out[to++] = key.length >>> 8;
    out[to++] = key.length;
    to = append(key, 0, out, to, key.length);
    out[to++] = family.length;
    to = append(family, 0, out, to, family.length);
    to = append(row, at + CELL_HEADER, out, to, q);
    to = append(end, 0, out, to, end.length);
    to = append(row, at + CELL_HEADER + q, out, to, v);
  }
  return { cells: out, count };
}

function append(from: Buffer, at: number, to: Buffer, start: number, length: number): number {
  copy(from, at, to, start, length);
  return start + length;
}

function put32(out: Buffer, at: number, value: number): number {
  out[at] = value >>> 24;
  out[at + 1] = value >>> 16;
  out[at + 2] = value >>> 8;
  out[at + 3] = value;
  return at + 4;
}

/** Bytes of the cells of one row in a block; family names have one byte, as a rule. */
export function blockBytes(key: Buffer, cells: readonly { qualifier: Buffer; value: Buffer }[]): number {
  let bytes = 0;
  for (const { qualifier, value } of cells)
    bytes += CELL_FIXED + 1 + key.length + qualifier.length + (value.length < APART ? value.length : 0);
  return bytes;
}
