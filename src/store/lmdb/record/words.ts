import type { RowLayout } from '../../contract.js';
import { CELL_HEADER, qualifierLength, valueLength } from '../../row.js';

/** Rows with more cells than this have no layout. */
export const LAYOUT_CELLS = 512;

/** The `RowLayout` that the decoder writes. */
export class DecodedLayout implements RowLayout {
  row: Buffer | undefined;
  cellCount = 0;
  readonly cellStarts = new Int32Array(LAYOUT_CELLS);
  readonly nameNumbers = new Int32Array(LAYOUT_CELLS);
  numbering = {};
}

/** The field of a cell in which a dictionary word has its hole: the place of bytes that differ from cell to cell. */
export const NO_HOLE = 0;
export const IN_QUALIFIER = 1;
export const IN_VALUE = 2;

/**
 * An entry of a table's dictionary: a packed cell that occurs in many rows, or the bytes that many packed cells share
 * before and behind a hole in the qualifier or the value. The length fields of the cell do not count the hole.
 */
export interface Word {
  readonly holeKind: typeof NO_HOLE | typeof IN_QUALIFIER | typeof IN_VALUE;
  /** Offset of the hole in the cell; the length of the cell if there is no hole. */
  readonly holeAt: number;
  readonly cell: Buffer;
}

/** Maximum length of a word, in bytes. */
export const MAX_WORD_BYTES = 192;
/** Word numbers below this take one byte, others two bytes. Number 0 stands for a cell that is stored in full. */
export const TWO_BYTE_FROM = 192;

/** The words of one table by number, from 1 on, in the form for decoding: bytes packed into 32-bit integers. */
export class Words {
  /**
   * Arrays by word number. `headStarts` and `tailStarts` are the offsets in `pool` of the bytes before and behind the
   * hole.
   */
  holeKinds = new Uint8Array(64);
  families = new Uint8Array(64);
  headStarts = new Int32Array(64);
  headLengths = new Int32Array(64);
  tailStarts = new Int32Array(64);
  tailLengths = new Int32Array(64);
  /** Length of the qualifier or value that contains the hole, without the hole. */
  fixedLengths = new Int32Array(64);
  /** A token that is replaced when the word numbers are assigned anew. See `RowLayout.numbering`. */
  numbering = {};
  pool = new Int32Array(1024);
  readonly list: Word[] = [];
  /** Receives the layout of each decoded row. The readable tables of a store share one object. */
  readonly layout: DecodedLayout;
  #poolLength = 0;

  constructor(layout = new DecodedLayout()) {
    this.layout = layout;
  }

  /** The greatest word number in use. */
  get count(): number {
    return this.list.length;
  }

  add(word: Word): number {
    const { cell, holeAt, holeKind } = word;
    this.list.push(word);
    const number = this.list.length;
    this.#reserve(number, cell.length);
    this.holeKinds[number] = holeKind;
    this.families[number] = cell[0]!;
    this.headStarts[number] = this.#addToPool(cell.subarray(0, holeAt));
    this.headLengths[number] = holeAt;
    this.tailStarts[number] = this.#addToPool(cell.subarray(holeAt));
    this.tailLengths[number] = cell.length - holeAt;
    this.fixedLengths[number] = holeKind === IN_QUALIFIER ? qualifierLength(cell, 0) : valueLength(cell, 0);
    return number;
  }

  clear(): void {
    this.list.length = 0;
    this.numbering = {};
    this.#poolLength = 0;
  }

  #addToPool(bytes: Buffer): number {
    const start = this.#poolLength;
    for (let i = 0; i < bytes.length; i += 4) {
      this.pool[this.#poolLength++] =
        (bytes[i]! << 24) | ((bytes[i + 1] ?? 0) << 16) | ((bytes[i + 2] ?? 0) << 8) | (bytes[i + 3] ?? 0);
    }
    return start;
  }

  #reserve(number: number, bytes: number): void {
    if (number >= this.holeKinds.length) {
      this.holeKinds = doubleArray(this.holeKinds, Uint8Array);
      this.families = doubleArray(this.families, Uint8Array);
      this.headStarts = doubleArray(this.headStarts, Int32Array);
      this.headLengths = doubleArray(this.headLengths, Int32Array);
      this.tailStarts = doubleArray(this.tailStarts, Int32Array);
      this.tailLengths = doubleArray(this.tailLengths, Int32Array);
      this.fixedLengths = doubleArray(this.fixedLengths, Int32Array);
    }
    if (this.#poolLength + (bytes >>> 2) + 2 > this.pool.length) this.pool = doubleArray(this.pool, Int32Array);
  }
}

function doubleArray<T extends Uint8Array | Int32Array>(array: T, kind: new (length: number) => T): T {
  const larger = new kind(array.length * 2);
  larger.set(array);
  return larger;
}

/** The stored form of a word: kind of hole u8 │ offset of the hole u8 │ cell. */
export function wordToBytes({ holeKind, holeAt, cell }: Word): Buffer {
  return Buffer.concat([Buffer.from([holeKind, holeAt]), cell]);
}

/** Parses the stored form of a word; undefined if malformed. */
export function wordFromBytes(bytes: Buffer): Word | undefined {
  const holeKind = bytes[0];
  const holeAt = bytes[1]!;
  const cell = bytes.subarray(2);
  if (holeKind !== NO_HOLE && holeKind !== IN_QUALIFIER && holeKind !== IN_VALUE) return undefined;
  if (cell.length < CELL_HEADER || cell.length > MAX_WORD_BYTES) return undefined;
  const valueAt = CELL_HEADER + qualifierLength(cell, 0);
  if (valueAt + valueLength(cell, 0) !== cell.length) return undefined;
  const [minAt, maxAt] =
    holeKind === NO_HOLE
      ? [cell.length, cell.length]
      : holeKind === IN_VALUE
        ? [valueAt, cell.length]
        : [CELL_HEADER, valueAt];
  return holeAt >= minAt && holeAt <= maxAt ? { holeKind, holeAt, cell } : undefined;
}
