import type { LoadRow } from './contract.js';
import { putBytes } from './row.js';
import { sortKeys } from './sort-keys.js';

/**
 * Rows for a bulk load in one buffer, built without an object per row. Each row begins at a multiple of 4 with three
 * lengths (u32, host byte order): of the key, of the row and of the separate cells, which follow. Rows are packed in
 * any order; the consumer, which may be another thread, sorts them.
 */
export class PackedRows implements Iterable<LoadRow> {
  /**
   * Begins at the start of its ArrayBuffer. An engine that transfers the memory to another thread sets `bytes` again if
   * the write failed, and may pass the memory to `recycleMemory` if the write succeeded.
   */
  bytes: Buffer;
  /** The offset of each row in `bytes`. */
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

  /** Returns the same rows in key order. Rows with equal keys stay in the order of packing. */
  sorted(): PackedRows {
    const { bytes, offsets } = this;
    const words = wordView(bytes);
    const count = offsets.length;
    const starts = new Uint32Array(count);
    const ends = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      const start = offsets[i]!;
      starts[i] = start + ROW_HEADER_BYTES;
      ends[i] = start + ROW_HEADER_BYTES + words[start >>> 2]!;
    }
    const order = sortKeys({ bytes, starts, ends, count });
    for (let i = 0; i < count; i++) order[i] = offsets[order[i]!]!;
    return new PackedRows(bytes, order);
  }

  /** Yields the rows in key order. */
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

/** Returns a view of the buffer as 32-bit words, for the lengths in the row headers. */
function wordView({ buffer }: Buffer): Uint32Array {
  return new Uint32Array(buffer, 0, buffer.byteLength >>> 2);
}

const ROW_HEADER_BYTES = 12;

/** Walks packed rows in the order of `offsets`. The fields are offsets in `bytes` of the current row. */
export class RowCursor {
  readonly bytes: Buffer;
  readonly #words: Uint32Array;
  readonly #offsets: Uint32Array;
  #index = 0;
  keyStart = 0;
  rowStart = 0;
  separateStart = 0;
  end = 0;

  constructor({ bytes, offsets }: PackedRows) {
    this.bytes = bytes;
    this.#words = wordView(bytes);
    this.#offsets = offsets;
  }

  next(): boolean {
    if (this.#index === this.#offsets.length) return false;
    const offset = this.#offsets[this.#index++]!;
    const wordIndex = offset >>> 2;
    this.keyStart = offset + ROW_HEADER_BYTES;
    this.rowStart = this.keyStart + this.#words[wordIndex]!;
    this.separateStart = this.rowStart + this.#words[wordIndex + 1]!;
    this.end = this.separateStart + this.#words[wordIndex + 2]!;
    return true;
  }
}

/** Unused memory, kept for the next batches: new memory costs zeroing and garbage collection. */
const spareBuffers: ArrayBuffer[] = [];
let spareBytes = 0;
const MAX_SPARE_BYTES = 32 * 1024 * 1024;

/** Takes back the memory of packed rows that are no longer in use. */
export function recycleMemory(memory: readonly ArrayBuffer[]): void {
  for (const buffer of memory) {
    if (spareBytes + buffer.byteLength > MAX_SPARE_BYTES) continue;
    spareBytes += buffer.byteLength;
    spareBuffers.push(buffer);
  }
}

/** Rounds up to one of four sizes per power of two, so that buffers can be reused more often. */
function roundUpSize(length: number): number {
  const granularity = 2 ** Math.max(Math.floor(Math.log2(length)) - 2, 12);
  return Math.ceil(length / granularity) * granularity;
}

/** Returns the smallest sufficient spare buffer, or a new one. Memory of Node's pool could not be transferred. */
function takeMemory(length: number): ArrayBuffer {
  let bestIndex = -1;
  for (let i = 0; i < spareBuffers.length; i++) {
    const size = spareBuffers[i]!.byteLength;
    if (size >= length && (bestIndex < 0 || size < spareBuffers[bestIndex]!.byteLength)) bestIndex = i;
  }
  if (bestIndex < 0) return new ArrayBuffer(roundUpSize(length));
  const [buffer] = spareBuffers.splice(bestIndex, 1);
  spareBytes -= buffer!.byteLength;
  return buffer!;
}

const MIN_PACKER_BYTES = 64 * 1024;

/**
 * Packs rows one after another. For each row the caller calls `begin`, writes the key, calls `endKey`, writes the
 * packed row, calls `endRow`, writes the separate cells, and calls `end`. The caller writes with `write`, or calls
 * `reserve` and then fills `bytes` (or `view`, the same memory) from `at` on.
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

  /** `expected`: estimated number of bytes to be packed. */
  constructor(expected = 0) {
    this.bytes = Buffer.from(takeMemory(Math.max(expected, MIN_PACKER_BYTES)));
    this.view = new DataView(this.bytes.buffer);
    this.#words = wordView(this.bytes);
  }

  /** Reserves `room` bytes in advance: the caller may write them without calling `reserve`. */
  begin(room = 0): void {
    this.at = (this.at + 3) & ~3;
    this.reserve(ROW_HEADER_BYTES + room);
    this.#start = this.at;
    this.at += ROW_HEADER_BYTES;
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
    const wordIndex = this.#start >>> 2;
    this.#words[wordIndex] = this.#rowStart - this.#start - ROW_HEADER_BYTES;
    this.#words[wordIndex + 1] = this.#separateStart - this.#rowStart;
    this.#words[wordIndex + 2] = this.at - this.#separateStart;
  }

  /** Makes room for `length` more bytes. May replace `bytes` and `view`. */
  reserve(length: number): void {
    const neededBytes = this.at + length;
    if (neededBytes <= this.bytes.length) return;
    const { bytes } = this;
    const larger = Buffer.from(takeMemory(Math.max(neededBytes, bytes.length * 2)));
    larger.set(bytes.subarray(0, this.at));
    this.bytes = larger;
    this.view = new DataView(larger.buffer);
    this.#words = wordView(larger);
    recycleMemory([bytes.buffer as ArrayBuffer]);
  }

  write(source: Uint8Array): void {
    this.reserve(source.length);
    this.at = putBytes(this.bytes, this.at, source);
  }

  #growStarts(): void {
    const larger = new Uint32Array(this.#starts.length * 2);
    larger.set(this.#starts);
    this.#starts = larger;
  }

  /** Returns the packed rows. The packer must not be used afterwards. */
  rows(): PackedRows {
    return new PackedRows(this.bytes, this.#starts.slice(0, this.count));
  }
}
