import type { RowCursor } from '../../load.js';

/** The suffixes of a bulk batch for one prefix. Suffixes of several rows are copied, those of one row are not. */
export class SuffixRun {
  /** After `end`, `bytes[from, to)` contains the suffixes in rising order, each once. */
  bytes: Buffer = Buffer.alloc(0);
  from = 0;
  to = 0;
  readonly #suffix: number;
  #copy = Buffer.allocUnsafe(4096);
  #isSorted = true;

  constructor(suffix: number) {
    this.#suffix = suffix;
  }

  /** Starts with the current row of the cursor. */
  start({ bytes, rowStart, separateStart }: RowCursor): void {
    this.#check(rowStart, separateStart);
    this.bytes = bytes;
    this.from = rowStart;
    this.to = separateStart;
    this.#isSorted = this.#isRising(bytes, rowStart, separateStart);
  }

  /** Adds the current row of the cursor. */
  add({ bytes, rowStart, separateStart }: RowCursor): void {
    this.#check(rowStart, separateStart);
    if (this.bytes !== this.#copy) this.#copyFirst();
    const length = separateStart - rowStart;
    this.#reserve(length);
    const last = this.to - this.#suffix;
    const { bytes: copy, to } = this;
    for (let i = 0; i < length; i++) copy[to + i] = bytes[rowStart + i]!;
    this.to = to + length;
    this.#isSorted &&= this.#isRising(copy, Math.max(last, 0), this.to);
  }

  end(): void {
    if (this.#isSorted) return;
    const n = this.#suffix;
    const suffixes: Buffer[] = [];
    for (let at = this.from; at < this.to; at += n) suffixes.push(this.bytes.subarray(at, at + n));
    suffixes.sort(Buffer.compare);
    this.bytes = Buffer.concat(suffixes.filter((suffix, i) => i === 0 || !suffix.equals(suffixes[i - 1]!)));
    this.from = 0;
    this.to = this.bytes.length;
  }

  #check(from: number, to: number): void {
    if ((to - from) % this.#suffix !== 0) throw new TypeError(`suffixes to load have ${this.#suffix} bytes each`);
  }

  #copyFirst(): void {
    const { bytes, from, to } = this;
    this.bytes = this.#copy;
    this.from = 0;
    this.to = 0;
    this.#reserve(to - from);
    this.to = bytes.copy(this.bytes, 0, from, to);
  }

  #reserve(length: number): void {
    if (this.to + length <= this.#copy.length) return;
    const larger = Buffer.allocUnsafe((this.to + length) * 2);
    this.#copy.copy(larger, 0, 0, this.to);
    this.#copy = larger;
    this.bytes = larger;
  }

  #isRising(bytes: Buffer, from: number, to: number): boolean {
    const n = this.#suffix;
    for (let at = from + n; at < to; at += n) {
      let i = 0;
      while (i < n && bytes[at + i] === bytes[at - n + i]) i++;
      if (i === n || bytes[at + i]! < bytes[at - n + i]!) return false;
    }
    return true;
  }
}
