import type { RowCursor } from '../../load.js';

/**
 * The suffixes that a bulk batch has for one prefix: those of one row where they lie, those of several put together.
 */
export class SuffixRun {
  /** `bytes[from, to)` once it is ended: rising, each once. */
  bytes: Buffer = Buffer.alloc(0);
  from = 0;
  to = 0;
  readonly #suffix: number;
  #own = Buffer.allocUnsafe(4096);
  #rises = true;

  constructor(suffix: number) {
    this.#suffix = suffix;
  }

  /** The row that the cursor is at. */
  start({ bytes, rowStart, separateStart }: RowCursor): void {
    this.#check(rowStart, separateStart);
    this.bytes = bytes;
    this.from = rowStart;
    this.to = separateStart;
    this.#rises = this.#isRising(bytes, rowStart, separateStart);
  }

  /** One more. */
  add({ bytes, rowStart, separateStart }: RowCursor): void {
    this.#check(rowStart, separateStart);
    if (this.bytes !== this.#own) this.#takeOver();
    const length = separateStart - rowStart;
    this.#reserve(length);
    const last = this.to - this.#suffix;
    const { bytes: own, to } = this;
    for (let i = 0; i < length; i++) own[to + i] = bytes[rowStart + i]!;
    this.to = to + length;
    this.#rises &&= this.#isRising(own, Math.max(last, 0), this.to);
  }

  end(): void {
    if (this.#rises) return;
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

  #takeOver(): void {
    const { bytes, from, to } = this;
    this.bytes = this.#own;
    this.from = 0;
    this.to = 0;
    this.#reserve(to - from);
    this.to = bytes.copy(this.bytes, 0, from, to);
  }

  #reserve(length: number): void {
    if (this.to + length <= this.#own.length) return;
    const larger = Buffer.allocUnsafe((this.to + length) * 2);
    this.#own.copy(larger, 0, 0, this.to);
    this.#own = larger;
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
