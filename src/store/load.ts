import type { LoadRow } from './contract.js';
import { putBytes } from './put.js';
import { sortKeys } from './sort-keys.js';

/**
 * Rows for a bulk load in one piece of memory, made without an object a row. Each row begins at a multiple of 4 with
 * three lengths (u32, the machine's order: key, row, separate cells), then the bytes of the three. They are packed in
 * any order, and sorted by whoever takes them, who may be another thread.
 */
export class PackedRows implements Iterable<LoadRow> {
  /**
   * From the start of its ArrayBuffer. An engine that hands the memory to another thread gives it back when it could
   * not write, and may give it to `giveMemory` when it has.
   */
  bytes: Buffer;
  /** Where each row begins. */
  readonly offsets: Uint32Array;

  constructor(bytes: Buffer, offsets: Uint32Array) {
    this.bytes = bytes;
    this.offsets = offsets;
  }

  static of(rows: Iterable<LoadRow>): PackedRows {
    const packer = new RowPacker();
    for (const { key, row, separate } of rows) {
      packer.begin();
      packer.write(key);
      packer.endKey();
      packer.write(row);
      packer.endRow();
      if (separate) packer.write(separate);
      packer.end();
    }
    return packer.rows();
  }

  /** In key order; rows of one key stay in the order of packing. */
  sorted(): PackedRows {
    const { bytes, offsets } = this;
    const words = wordsOf(bytes);
    const count = offsets.length;
    const starts = new Uint32Array(count);
    const ends = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const start = offsets[i]!;
      starts[i] = start + HEADER;
      ends[i] = start + HEADER + words[start >>> 2]!;
    }
    const order = sortKeys({ bytes, starts, ends, count });
    for (let i = 0; i < count; i++) order[i] = offsets[order[i]!]!;
    return new PackedRows(bytes, order);
  }

  /** In key order. */
  *[Symbol.iterator](): Generator<LoadRow> {
    const cursor = new RowCursor(this.sorted());
    while (cursor.next()) {
      const { bytes, keyStart, rowStart, separateStart, end } = cursor;
      yield {
        key: bytes.subarray(keyStart, rowStart),
        row: bytes.subarray(rowStart, separateStart),
        separate: separateStart < end ? bytes.subarray(separateStart, end) : undefined,
      };
    }
  }
}

function wordsOf({ buffer }: Buffer): Uint32Array {
  return new Uint32Array(buffer, 0, buffer.byteLength >>> 2);
}

const HEADER = 12;

/** Walks packed rows in the order of their offsets; the row in hand is told by offsets. */
export class RowCursor {
  readonly bytes: Buffer;
  readonly #words: Uint32Array;
  readonly #offsets: Uint32Array;
  #at = 0;
  keyStart = 0;
  rowStart = 0;
  separateStart = 0;
  end = 0;

  constructor({ bytes, offsets }: PackedRows) {
    this.bytes = bytes;
    this.#words = wordsOf(bytes);
    this.#offsets = offsets;
  }

  next(): boolean {
    if (this.#at === this.#offsets.length) return false;
    const at = this.#offsets[this.#at++]!;
    const word = at >>> 2;
    this.keyStart = at + HEADER;
    this.rowStart = this.keyStart + this.#words[word]!;
    this.separateStart = this.rowStart + this.#words[word + 1]!;
    this.end = this.separateStart + this.#words[word + 2]!;
    return true;
  }
}

/**
 * Memory that nobody uses, kept for the rows of the next batch: new memory costs its zeros and the garbage collector's
 * time.
 */
const spare: ArrayBuffer[] = [];
let spareBytes = 0;
const MAX_SPARE = 32 * 1024 * 1024;

/** Takes over memory of packed rows that nobody reads any more. */
export function giveMemory(memory: readonly ArrayBuffer[]): void {
  for (const part of memory) {
    if (spareBytes + part.byteLength > MAX_SPARE) continue;
    spareBytes += part.byteLength;
    spare.push(part);
  }
}

/** Four sizes from one power of two to the next: parts of one size take the place of each other. */
function sizeFor(length: number): number {
  const step = 2 ** Math.max(Math.floor(Math.log2(length)) - 2, 12);
  return Math.ceil(length / step) * step;
}

/**
 * The smallest spare part of at least `length` bytes, or new memory; never of Node's pool: it may be handed to another
 * thread.
 */
function takeMemory(length: number): ArrayBuffer {
  let best = -1;
  for (let i = 0; i < spare.length; i++) {
    const size = spare[i]!.byteLength;
    if (size >= length && (best < 0 || size < spare[best]!.byteLength)) best = i;
  }
  if (best < 0) return new ArrayBuffer(sizeFor(length));
  const [found] = spare.splice(best, 1);
  spareBytes -= found!.byteLength;
  return found!;
}

const LEAST_BYTES = 64 * 1024;

/**
 * Packs rows one after another: `begin`, the key's bytes, `endKey`, the row's, `endRow`, those of the separate cells,
 * `end`. Bytes are written by `write` or by the caller: `reserve`, then `bytes` (or `view`, the same memory) from `at`
 * on.
 */
export class RowPacker {
  bytes: Buffer;
  view: DataView;
  at = 0;
  count = 0;
  #words: Uint32Array;
  #starts = new Uint32Array(256);
  #start = 0;
  #rowStart = 0;
  #separateStart = 0;

  /** `expected`: bytes that will be packed; there may be more. */
  constructor(expected = 0) {
    this.bytes = Buffer.from(takeMemory(Math.max(expected, LEAST_BYTES)));
    this.view = new DataView(this.bytes.buffer);
    this.#words = wordsOf(this.bytes);
  }

  /** `room`: bytes that the caller will write without `reserve`. */
  begin(room = 0): void {
    this.at = (this.at + 3) & ~3;
    this.reserve(HEADER + room);
    this.#start = this.at;
    this.at += HEADER;
    if (this.count === this.#starts.length) this.#growStarts();
    this.#starts[this.count++] = this.#start;
    this.#rowStart = 0;
    this.#separateStart = 0;
  }

  endKey(): void {
    this.#rowStart = this.at;
  }

  endRow(): void {
    this.#separateStart = this.at;
  }

  end(): void {
    const word = this.#start >>> 2;
    this.#words[word] = this.#rowStart - this.#start - HEADER;
    this.#words[word + 1] = this.#separateStart - this.#rowStart;
    this.#words[word + 2] = this.at - this.#separateStart;
  }

  /** Makes room for `length` more bytes. `bytes` may be another buffer afterwards. */
  reserve(length: number): void {
    const needed = this.at + length;
    if (needed <= this.bytes.length) return;
    const { bytes } = this;
    const larger = Buffer.from(takeMemory(Math.max(needed, bytes.length * 2)));
    larger.set(bytes.subarray(0, this.at));
    this.bytes = larger;
    this.view = new DataView(larger.buffer);
    this.#words = wordsOf(larger);
    giveMemory([bytes.buffer as ArrayBuffer]);
  }

  write(from: Uint8Array): void {
    this.reserve(from.length);
    this.at = putBytes(this.bytes, this.at, from);
  }

  #growStarts(): void {
    const larger = new Uint32Array(this.#starts.length * 2);
    larger.set(this.#starts);
    this.#starts = larger;
  }

  /** All that was packed. Nothing more may be packed. */
  rows(): PackedRows {
    return new PackedRows(this.bytes, this.#starts.slice(0, this.count));
  }
}
