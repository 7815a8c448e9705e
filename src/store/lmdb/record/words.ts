import { CELL_HEADER, qualifierLength, valueLength } from '../../row.js';
import { DecodedLayout } from './row-layout.js';

/** The position of a word's hole: the place of the bytes that differ from cell to cell. */
export const NO_HOLE = 0;
export const IN_QUALIFIER = 1;
export const IN_VALUE = 2;

/**
 * A dictionary entry: a whole packed cell that occurs in many rows, or a packed cell with a hole in the qualifier or
 * the value, for the common bytes of many cells. The length fields of the cell do not count the bytes of the hole.
 */
export interface Word {
  readonly hole: typeof NO_HOLE | typeof IN_QUALIFIER | typeof IN_VALUE;
  /** Offset of the hole in the cell; the length of the cell if there is no hole. */
  readonly at: number;
  readonly cell: Buffer;
}

/** Maximum length of a word, in bytes. */
export const MAX_WORD_BYTES = 192;
/** Word numbers below this take one byte, others two bytes. Number 0 marks a cell that is spelled out. */
export const ONE_BYTE = 192;

/** The words of one table by number, from 1 on, in the form for decoding: bytes packed into 32-bit integers. */
export class Words {
  /**
   * Arrays by word number. The bytes before the hole begin at `pool[heads[n]]`, the bytes behind at `pool[tails[n]]`.
   */
  holes = new Uint8Array(64);
  families = new Uint8Array(64);
  heads = new Int32Array(64);
  headLengths = new Int32Array(64);
  tails = new Int32Array(64);
  tailLengths = new Int32Array(64);
  /** Length of the qualifier or value that contains the hole, without the hole. */
  fixedLengths = new Int32Array(64);
  /** A token that is replaced when the numbers are assigned anew. See `RowLayout.numbering`. */
  numbering = {};
  pool = new Int32Array(1024);
  readonly list: Word[] = [];
  /** Receives the layout of each decoded row. The readable tables of a store share one object. */
  readonly layout: DecodedLayout;
  #used = 0;

  constructor(layout = new DecodedLayout()) {
    this.layout = layout;
  }

  /** The greatest word number in use. */
  get count(): number {
    return this.list.length;
  }

  add(word: Word): number {
    const { cell, at, hole } = word;
    this.list.push(word);
    const number = this.list.length;
    this.#grow(number, cell.length);
    this.holes[number] = hole;
    this.families[number] = cell[0]!;
    this.heads[number] = this.#put(cell.subarray(0, at));
    this.headLengths[number] = at;
    this.tails[number] = this.#put(cell.subarray(at));
    this.tailLengths[number] = cell.length - at;
    this.fixedLengths[number] = hole === IN_QUALIFIER ? qualifierLength(cell, 0) : valueLength(cell, 0);
    return number;
  }

  clear(): void {
    this.list.length = 0;
    this.numbering = {};
    this.#used = 0;
  }

  #put(bytes: Buffer): number {
    const start = this.#used;
    for (let i = 0; i < bytes.length; i += 4) {
      this.pool[this.#used++] =
        (bytes[i]! << 24) | ((bytes[i + 1] ?? 0) << 16) | ((bytes[i + 2] ?? 0) << 8) | (bytes[i + 3] ?? 0);
    }
    return start;
  }

  #grow(number: number, bytes: number): void {
    if (number >= this.holes.length) {
      this.holes = doubled(this.holes, Uint8Array);
      this.families = doubled(this.families, Uint8Array);
      this.heads = doubled(this.heads, Int32Array);
      this.headLengths = doubled(this.headLengths, Int32Array);
      this.tails = doubled(this.tails, Int32Array);
      this.tailLengths = doubled(this.tailLengths, Int32Array);
      this.fixedLengths = doubled(this.fixedLengths, Int32Array);
    }
    if (this.#used + (bytes >>> 2) + 2 > this.pool.length) this.pool = doubled(this.pool, Int32Array);
  }
}

function doubled<T extends Uint8Array | Int32Array>(array: T, kind: new (length: number) => T): T {
  const larger = new kind(array.length * 2);
  larger.set(array);
  return larger;
}

/** The stored form of a word: kind of hole u8 │ offset of the hole u8 │ cell. */
export function wordToBytes({ hole, at, cell }: Word): Buffer {
  return Buffer.concat([Buffer.from([hole, at]), cell]);
}

/** Parses the stored form of a word; undefined if malformed. */
export function wordFromBytes(bytes: Buffer): Word | undefined {
  const hole = bytes[0];
  const at = bytes[1]!;
  const cell = bytes.subarray(2);
  if (hole !== NO_HOLE && hole !== IN_QUALIFIER && hole !== IN_VALUE) return undefined;
  if (cell.length < CELL_HEADER || cell.length > MAX_WORD_BYTES) return undefined;
  const value = CELL_HEADER + qualifierLength(cell, 0);
  if (value + valueLength(cell, 0) !== cell.length) return undefined;
  const [first, last] =
    hole === NO_HOLE ? [cell.length, cell.length] : hole === IN_VALUE ? [value, cell.length] : [CELL_HEADER, value];
  return at >= first && at <= last ? { hole, at, cell } : undefined;
}
