import type { RowCursor } from '../../load.js';

/** The suffixes of one prefix in a bulk batch. Suffixes of several rows are copied into one buffer. */
export class SuffixRun {
  /** After `finish`, `bytes[start, end)` contains the suffixes in rising order, each once. */
  bytes: Buffer = Buffer.alloc(0);
  start = 0;
  end = 0;
  readonly #suffixBytes: number;
  #copyBuffer = Buffer.allocUnsafe(4096);
  #isSorted = true;

  constructor(suffixBytes: number) {
    this.#suffixBytes = suffixBytes;
  }

  /** Begins another prefix with the suffixes in the current row of the cursor. */
  begin({ bytes, rowStart, separateStart }: RowCursor): void {
    this.#checkLength(rowStart, separateStart);
    this.bytes = bytes;
    this.start = rowStart;
    this.end = separateStart;
    this.#isSorted = this.#isRising(bytes, rowStart, separateStart);
  }

  /** Adds the suffixes in the current row of the cursor. */
  add({ bytes, rowStart, separateStart }: RowCursor): void {
    this.#checkLength(rowStart, separateStart);
    if (this.bytes !== this.#copyBuffer) this.#copyFirstRow();
    const length = separateStart - rowStart;
    this.#reserve(length);
    const lastStart = this.end - this.#suffixBytes;
    const { bytes: copy, end } = this;
    for (let i = 0; i < length; i++) copy[end + i] = bytes[rowStart + i]!;
    this.end = end + length;
    this.#isSorted &&= this.#isRising(copy, Math.max(lastStart, 0), this.end);
  }

  finish(): void {
    if (this.#isSorted) return;
    const n = this.#suffixBytes;
    const suffixes: Buffer[] = [];
    for (let offset = this.start; offset < this.end; offset += n)
      suffixes.push(this.bytes.subarray(offset, offset + n));
    suffixes.sort(Buffer.compare);
    this.bytes = Buffer.concat(suffixes.filter((suffix, i) => i === 0 || !suffix.equals(suffixes[i - 1]!)));
    this.start = 0;
    this.end = this.bytes.length;
  }

  #checkLength(start: number, end: number): void {
    if ((end - start) % this.#suffixBytes !== 0)
      throw new TypeError(`suffixes to load have ${this.#suffixBytes} bytes each`);
  }

  #copyFirstRow(): void {
    const { bytes, start, end } = this;
    this.bytes = this.#copyBuffer;
    this.start = 0;
    this.end = 0;
    this.#reserve(end - start);
    this.end = bytes.copy(this.bytes, 0, start, end);
  }

  #reserve(length: number): void {
    if (this.end + length <= this.#copyBuffer.length) return;
    const larger = Buffer.allocUnsafe((this.end + length) * 2);
    this.#copyBuffer.copy(larger, 0, 0, this.end);
    this.#copyBuffer = larger;
    this.bytes = larger;
  }

  #isRising(bytes: Buffer, start: number, end: number): boolean {
    const n = this.#suffixBytes;
    for (let offset = start + n; offset < end; offset += n) {
      let i = 0;
      while (i < n && bytes[offset + i] === bytes[offset - n + i]) i++;
      if (i === n || bytes[offset + i]! < bytes[offset - n + i]!) return false;
    }
    return true;
  }
}
