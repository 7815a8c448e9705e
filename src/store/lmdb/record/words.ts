import { CELL_HEADER, qualifierLength, valueLength } from '../../row.js';

/** Where a word leaves room for bytes that differ from cell to cell. */
export const NOWHERE = 0;
export const IN_QUALIFIER = 1;
export const IN_VALUE = 2;

/**
 * A cell that many rows have, or what many cells have in common: a packed cell with a hole in its qualifier, in its
 * value or nowhere. Its lengths are those without the hole's bytes.
 */
export interface Word {
  readonly hole: typeof NOWHERE | typeof IN_QUALIFIER | typeof IN_VALUE;
  /** Offset of the hole in the cell; the cell's length where there is none. */
  readonly at: number;
  readonly cell: Buffer;
}

/** A word is no longer than so many bytes. */
export const LONGEST_WORD = 192;
/**
 * Numbers below this are written in one byte, those from it on in two. 0 is no word: it begins a cell that is spelled
 * out.
 */
export const ONE_BYTE = 192;

/** The words of one table by number, beginning with 1, as a decoder needs them: their bytes as words of four. */
export class Words {
  /** By number. The bytes before the hole, from `heads[n]` on in `pool`; those behind it from `tails[n]` on. */
  holes = new Uint8Array(64);
  families = new Uint8Array(64);
  heads = new Int32Array(64);
  headLengths = new Int32Array(64);
  tails = new Int32Array(64);
  tailLengths = new Int32Array(64);
  /** Length of the part that the hole adds to, without it. */
  fixedLengths = new Int32Array(64);
  /** Another object when numbers are given anew. */
  numbering = {};
  pool = new Int32Array(1024);
  readonly list: Word[] = [];
  #used = 0;

  /** The greatest number in use. */
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

/** As kept in LMDB: kind of hole u8 │ its offset u8 │ the cell. */
export function wordToBytes({ hole, at, cell }: Word): Buffer {
  return Buffer.concat([Buffer.from([hole, at]), cell]);
}

/** Undefined where the bytes are no word. */
export function wordFromBytes(bytes: Buffer): Word | undefined {
  const hole = bytes[0];
  const at = bytes[1]!;
  const cell = bytes.subarray(2);
  if (hole !== NOWHERE && hole !== IN_QUALIFIER && hole !== IN_VALUE) return undefined;
  if (cell.length < CELL_HEADER || cell.length > LONGEST_WORD) return undefined;
  const value = CELL_HEADER + qualifierLength(cell, 0);
  if (value + valueLength(cell, 0) !== cell.length) return undefined;
  const [first, last] =
    hole === NOWHERE ? [cell.length, cell.length] : hole === IN_VALUE ? [value, cell.length] : [CELL_HEADER, value];
  return at >= first && at <= last ? { hole, at, cell } : undefined;
}
