import { releaseSlab, retainSlab, SLAB, takeSlab } from './slabs.js';

/** Bytes after which responses are sent. A slab has room for such a chunk and for a message behind the chunk. */
export const RESPONSE_CHUNK = 48 * 1024;
/** Up to this number of bytes a loop is faster than TypedArray.set, because of the cost of the call. */
const MAX_LOOP_BYTES = 80;
const EMPTY = Buffer.alloc(0);

/** Length of the identifier and length octets of an element with `length` content octets. */
function headerBytes(length: number): number {
  if (length < 0x80) return 2;
  if (length < 0x100) return 3;
  if (length < 0x10000) return 4;
  return length < 0x1000000 ? 5 : 6;
}

/** Length of an element with `length` content octets. */
export function elementBytes(length: number): number {
  return headerBytes(length) + length;
}

/** Length of the INTEGER element of a non-negative number. */
export function integerBytes(value: number): number {
  if (value < 0x80) return 3;
  if (value < 0x8000) return 4;
  return value < 0x800000 ? 5 : 6;
}

/** Writes identifier and length octets into reserved space at `at`. Returns the offset of the content. */
export function putHeader(buffer: Buffer, at: number, tag: number, length: number): number {
  buffer[at] = tag;
  if (length > 0x7f) return putLongLength(buffer, at + 1, length);
  buffer[at + 1] = length;
  return at + 2;
}

function putLongLength(buffer: Buffer, at: number, length: number): number {
  const octets = headerBytes(length) - 2;
  buffer[at++] = 0x80 | octets;
  for (let shift = (octets - 1) * 8; shift >= 0; shift -= 8) buffer[at++] = length >>> shift;
  return at;
}

/** Copies a short range. Copying eight bytes per iteration takes half the time of copying single bytes. */
export function copyShort(target: Uint8Array, at: number, source: Uint8Array, from: number, to: number): void {
  let i = from;
  let o = at;
  for (const last = to - 8; i <= last; i += 8, o += 8) {
    target[o] = source[i]!;
    target[o + 1] = source[i + 1]!;
    target[o + 2] = source[i + 2]!;
    target[o + 3] = source[i + 3]!;
    target[o + 4] = source[i + 4]!;
    target[o + 5] = source[i + 5]!;
    target[o + 6] = source[i + 6]!;
    target[o + 7] = source[i + 7]!;
  }
  while (i < to) target[o++] = source[i++]!;
}

/**
 * Writes BER elements (docs/formats/ber.md) into a slab that the responses of one connection share. `take` returns a
 * view of the bytes written since the last `take`; further output goes behind these bytes.
 *
 * With `reusesSlabs` the writer gets its slabs from `takeSlab`. Then the receiver of a view has to call `releaseSlab`
 * with the view.
 *
 * Hot paths may write to `buffer[at++]` directly after `reserve`. `reserve` may move bytes to a new buffer, so a caller
 * must not keep `buffer` or `at` across `reserve`. Marks are relative to the first byte not taken and stay valid.
 */
export class Writer {
  buffer: Buffer = EMPTY;
  /** Offset of the next byte. */
  at = 0;
  #untakenStart = 0;
  readonly #reusesSlabs: boolean;

  constructor(reusesSlabs = false) {
    this.#reusesSlabs = reusesSlabs;
  }

  /** Number of bytes written and not taken. */
  get length(): number {
    return this.at - this.#untakenStart;
  }

  /** Makes room for `count` bytes at `at`. */
  reserve(count: number): void {
    if (this.at + count > this.buffer.length) this.#grow(count);
  }

  #grow(count: number): void {
    const writtenLength = this.at - this.#untakenStart;
    const neededLength = writtenLength + count;
    const newBuffer = this.#allocate(neededLength);
    if (writtenLength > 0) this.buffer.copy(newBuffer, 0, this.#untakenStart, this.at);
    releaseSlab(this.buffer);
    this.buffer = newBuffer;
    this.#untakenStart = 0;
    this.at = writtenLength;
  }

  #allocate(wanted: number): Buffer {
    if (wanted > SLAB / 2) return Buffer.allocUnsafeSlow(2 * wanted);
    return this.#reusesSlabs ? takeSlab() : Buffer.allocUnsafeSlow(SLAB);
  }

  /** Returns the bytes written since the last `take`. The caller owns the view. */
  take(): Buffer {
    if (this.at === this.#untakenStart) return EMPTY;
    const message = this.buffer.subarray(this.#untakenStart, this.at);
    retainSlab(message);
    this.#untakenStart = this.at;
    if (this.buffer.length > SLAB || this.at > RESPONSE_CHUNK) this.release();
    return message;
  }

  /** Releases the buffer; further output goes to a new buffer. All bytes must have been taken. */
  release(): void {
    releaseSlab(this.buffer);
    this.buffer = EMPTY;
    this.#untakenStart = 0;
    this.at = 0;
  }

  /** Writes identifier and length octets of an element with `length` content octets. */
  header(tag: number, length: number): void {
    this.reserve(6);
    this.at = putHeader(this.buffer, this.at, tag, length);
  }

  /** Writes an element for each range `bytes[starts[i], ends[i])`. Ranges ascend and do not overlap. */
  octetStrings(tag: number, bytes: Buffer, starts: Int32Array, ends: Int32Array, from: number, to: number): void {
    if (from === to) return;
    this.reserve(6 * (to - from) + ends[to - 1]! - starts[from]!);
    const { buffer } = this;
    let { at } = this;
    for (let i = from; i < to; i++) {
      const start = starts[i]!;
      const end = ends[i]!;
      const length = end - start;
      if (length > MAX_LOOP_BYTES) {
        at = putHeader(buffer, at, tag, length);
        bytes.copy(buffer, at, start, end);
      } else {
        buffer[at++] = tag;
        buffer[at++] = length;
        copyShort(buffer, at, bytes, start, end);
      }
      at += length;
    }
    this.at = at;
  }

  /** Writes a primitive element with the content `bytes[from, to)`. */
  octetString(tag: number, bytes: Uint8Array, from = 0, to = bytes.length): void {
    const count = to - from;
    if (count > MAX_LOOP_BYTES) {
      this.header(tag, count);
      this.raw(bytes, from, to);
      return;
    }
    this.reserve(2 + count);
    const { buffer, at } = this;
    buffer[at] = tag;
    buffer[at + 1] = count;
    copyShort(buffer, at + 2, bytes, from, to);
    this.at = at + 2 + count;
  }

  /** Writes `bytes[from, to)` without a header. */
  raw(bytes: Uint8Array, from = 0, to = bytes.length): void {
    const count = to - from;
    this.reserve(count);
    const { buffer, at } = this;
    if (count <= MAX_LOOP_BYTES) copyShort(buffer, at, bytes, from, to);
    else if (count === bytes.length) buffer.set(bytes, at);
    else buffer.set(new Uint8Array(bytes.buffer, bytes.byteOffset + from, count), at);
    this.at = at + count;
  }

  /** Writes a primitive element with the text in UTF-8. */
  text(tag: number, text: string): void {
    if (text.length > MAX_LOOP_BYTES || !this.#writeShortAscii(tag, text)) this.#writeText(tag, text);
  }

  #writeShortAscii(tag: number, text: string): boolean {
    const { length } = text;
    this.reserve(2 + length);
    const { buffer, at } = this;
    let bits = 0;
    for (let i = 0; i < length; i++) {
      const unit = text.charCodeAt(i);
      bits |= unit;
      buffer[at + 2 + i] = unit;
    }
    if (bits > 0x7f) return false;
    buffer[at] = tag;
    buffer[at + 1] = length;
    this.at = at + 2 + length;
    return true;
  }

  #writeText(tag: number, text: string): void {
    const bytes = Buffer.byteLength(text);
    this.header(tag, bytes);
    this.reserve(bytes);
    this.at += this.buffer.write(text, this.at, bytes);
  }

  /** Writes an INTEGER or ENUMERATED: the shortest two's complement form of a 32-bit value. */
  integer(tag: number, value: number): void {
    this.reserve(6);
    const { buffer } = this;
    let count = 1;
    while (count < 4 && value >> (count * 8 - 1) !== value >> 31) count++;
    let { at } = this;
    buffer[at++] = tag;
    buffer[at++] = count;
    for (let shift = (count - 1) * 8; shift >= 0; shift -= 8) buffer[at++] = value >> shift;
    this.at = at;
  }

  boolean(tag: number, value: boolean): void {
    this.reserve(3);
    const { buffer, at } = this;
    buffer[at] = tag;
    buffer[at + 1] = 1;
    buffer[at + 2] = value ? 0xff : 0;
    this.at = at + 3;
  }

  /**
   * Opens a constructed element whose content is expected to be shorter than 128 bytes. Returns a mark for `end`, which
   * moves longer content to make room for a longer length.
   */
  begin(tag: number): number {
    this.reserve(2);
    const mark = this.at + 1 - this.#untakenStart;
    this.buffer[this.at++] = tag;
    this.buffer[this.at++] = 0;
    return mark;
  }

  /** Closes the element that `begin` opened at `mark`. */
  end(mark: number): void {
    const lengthOffset = this.#untakenStart + mark;
    const length = this.at - lengthOffset - 1;
    if (length <= 0x7f) {
      this.buffer[lengthOffset] = length;
      return;
    }
    const extraLength = headerBytes(length) - 2;
    this.reserve(extraLength);
    const { buffer } = this;
    const from = this.#untakenStart + mark;
    buffer.copyWithin(from + 1 + extraLength, from + 1, this.at);
    this.at += extraLength;
    putHeader(buffer, from - 1, buffer[from - 1]!, length);
  }
}
