import { releaseSlab, retainSlab, SLAB, takeSlab } from './slabs.js';

/** Bytes after which responses are sent. A slab has room for this chunk and for a message after it. */
export const RESPONSE_CHUNK = 48 * 1024;
/** A loop copies up to this number of bytes faster than TypedArray.set, because of the cost of the call. */
const MAX_LOOP_BYTES = 80;
const EMPTY = Buffer.alloc(0);

/** Returns the length of the identifier and length octets of an element with `length` content octets. */
function headerBytes(length: number): number {
  if (length < 0x80) return 2;
  if (length < 0x100) return 3;
  if (length < 0x10000) return 4;
  return length < 0x1000000 ? 5 : 6;
}

/** Returns the length of an element with `length` content octets. */
export function elementBytes(length: number): number {
  return headerBytes(length) + length;
}

/** Returns the length of the INTEGER element of a non-negative number. */
export function integerBytes(value: number): number {
  if (value < 0x80) return 3;
  if (value < 0x8000) return 4;
  return value < 0x800000 ? 5 : 6;
}

/** Writes identifier and length octets into reserved space at `offset`. Returns the offset of the content. */
export function putHeader(buffer: Buffer, offset: number, tag: number, length: number): number {
  buffer[offset] = tag;
  if (length > 0x7f) return putLongLength(buffer, offset + 1, length);
  buffer[offset + 1] = length;
  return offset + 2;
}

function putLongLength(buffer: Buffer, offset: number, length: number): number {
  const octets = headerBytes(length) - 2;
  buffer[offset++] = 0x80 | octets;
  for (let shift = (octets - 1) * 8; shift >= 0; shift -= 8) buffer[offset++] = length >>> shift;
  return offset;
}

/** Copies a short range. Copying eight bytes per iteration takes half the time of copying single bytes. */
export function copyShort(target: Uint8Array, offset: number, source: Uint8Array, start: number, end: number): void {
  let i = start;
  let o = offset;
  for (const lastStart = end - 8; i <= lastStart; i += 8, o += 8) {
    target[o] = source[i]!;
    target[o + 1] = source[i + 1]!;
    target[o + 2] = source[i + 2]!;
    target[o + 3] = source[i + 3]!;
    target[o + 4] = source[i + 4]!;
    target[o + 5] = source[i + 5]!;
    target[o + 6] = source[i + 6]!;
    target[o + 7] = source[i + 7]!;
  }
  while (i < end) target[o++] = source[i++]!;
}

/**
 * Writes BER elements (docs/formats/ber.md) into a slab that the responses of one connection share. `take` returns a
 * view of the bytes written since the last `take`; further output goes after these bytes.
 * With `reusesSlabs` the writer gets its slabs from `takeSlab`. Then the receiver of a view has to call `releaseSlab`
 * with the view.
 * Hot paths may write to `buffer[at++]` directly after `reserve`. `reserve` may move bytes to a new buffer, so a caller
 * must not keep `buffer` or `at` across `reserve`. The content offsets that `begin` returns stay valid, because they
 * count from the first byte that was not taken.
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

  /** Number of bytes written since the last `take`. */
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

  #allocate(neededBytes: number): Buffer {
    if (neededBytes > SLAB / 2) return Buffer.allocUnsafeSlow(2 * neededBytes);
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

  /** Gives the buffer up; further output goes to a new buffer. All bytes must have been taken. */
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
  octetStrings(tag: number, bytes: Buffer, starts: Int32Array, ends: Int32Array, first: number, stop: number): void {
    if (first === stop) return;
    this.reserve(6 * (stop - first) + ends[stop - 1]! - starts[first]!);
    const { buffer } = this;
    let { at } = this;
    for (let i = first; i < stop; i++) {
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

  /** Writes a primitive element with the content `bytes[start, end)`. */
  octetString(tag: number, bytes: Uint8Array, start = 0, end = bytes.length): void {
    const count = end - start;
    if (count > MAX_LOOP_BYTES) {
      this.header(tag, count);
      this.raw(bytes, start, end);
      return;
    }
    this.reserve(2 + count);
    const { buffer, at } = this;
    buffer[at] = tag;
    buffer[at + 1] = count;
    copyShort(buffer, at + 2, bytes, start, end);
    this.at = at + 2 + count;
  }

  /** Writes `bytes[start, end)` without a header. */
  raw(bytes: Uint8Array, start = 0, end = bytes.length): void {
    const count = end - start;
    this.reserve(count);
    const { buffer, at } = this;
    if (count <= MAX_LOOP_BYTES) copyShort(buffer, at, bytes, start, end);
    else if (count === bytes.length) buffer.set(bytes, at);
    else buffer.set(new Uint8Array(bytes.buffer, bytes.byteOffset + start, count), at);
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
   * Opens a constructed element whose content is expected to be shorter than 128 bytes. Returns the offset of the
   * content, which the caller passes to `end`. `end` moves longer content to make room for a longer length.
   */
  begin(tag: number): number {
    this.reserve(2);
    const contentOffset = this.at + 1 - this.#untakenStart;
    this.buffer[this.at++] = tag;
    this.buffer[this.at++] = 0;
    return contentOffset;
  }

  /** Closes the element that `begin` opened. `contentOffset`: the result of `begin`. */
  end(contentOffset: number): void {
    const lengthOffset = this.#untakenStart + contentOffset;
    const length = this.at - lengthOffset - 1;
    if (length <= 0x7f) {
      this.buffer[lengthOffset] = length;
      return;
    }
    const extraLength = headerBytes(length) - 2;
    this.reserve(extraLength);
    const { buffer } = this;
    const start = this.#untakenStart + contentOffset;
    buffer.copyWithin(start + 1 + extraLength, start + 1, this.at);
    this.at += extraLength;
    putHeader(buffer, start - 1, buffer[start - 1]!, length);
  }
}
