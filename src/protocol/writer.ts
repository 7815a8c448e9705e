const SLAB = 64 * 1024;
/** Who writes much takes it in pieces of about this size: a slab has room for one, and for a message behind it. */
export const PIECE = 48 * 1024;
/** Up to so many bytes a loop beats TypedArray.set, whose call costs about as much. */
const SHORT = 80;
const EMPTY = Buffer.alloc(0);

/** Copies a short run. Eight bytes a round take half the time of one. */
function copyShort(target: Uint8Array, at: number, source: Uint8Array, from: number, to: number): void {
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
 * Output of BER elements (docs/formats/ber.md), in a slab that replies of one connection share: `take` hands out what
 * was written since the last `take` as a view and writing goes on behind it.
 *
 * The hot path may write at `buffer[at++]` itself after `reserve`. `reserve` may move the bytes not yet taken to a new
 * buffer, so neither `buffer` nor `at` may be held across it; marks count from the first byte not taken and stay good.
 */
export class Writer {
  buffer: Buffer = EMPTY;
  /** Where the next byte goes. */
  at = 0;
  #start = 0;

  /** Bytes written and not taken. */
  get length(): number {
    return this.at - this.#start;
  }

  /** Makes room for `count` bytes at `at`. */
  reserve(count: number): void {
    if (this.at + count > this.buffer.length) this.#grow(count);
  }

  #grow(count: number): void {
    const written = this.at - this.#start;
    const wanted = written + count;
    const larger = Buffer.allocUnsafeSlow(wanted <= SLAB / 2 ? SLAB : 2 * wanted);
    if (written > 0) this.buffer.copy(larger, 0, this.#start, this.at);
    this.buffer = larger;
    this.#start = 0;
    this.at = written;
  }

  /** Everything written since the last `take`; the caller owns it. */
  take(): Buffer {
    if (this.at === this.#start) return EMPTY;
    const taken = this.buffer.subarray(this.#start, this.at);
    this.#start = this.at;
    if (this.buffer.length > SLAB || this.at > PIECE) this.#reset();
    return taken;
  }

  #reset(): void {
    this.buffer = EMPTY;
    this.#start = 0;
    this.at = 0;
  }

  /** Undoes everything written since `length` was `mark`. */
  rewind(mark: number): void {
    this.at = this.#start + mark;
  }

  byte(value: number): void {
    this.reserve(1);
    this.buffer[this.at++] = value;
  }

  /** Identifier and length octets of an element with `length` content octets. */
  header(tag: number, length: number): void {
    this.reserve(6);
    const { buffer } = this;
    let { at } = this;
    buffer[at++] = tag;
    if (length > 0x7f) {
      if (length > 0xffffff) {
        buffer[at++] = 0x84;
        buffer[at++] = length >>> 24;
        buffer[at++] = length >>> 16;
        buffer[at++] = length >>> 8;
      } else if (length > 0xffff) {
        buffer[at++] = 0x83;
        buffer[at++] = length >>> 16;
        buffer[at++] = length >>> 8;
      } else if (length > 0xff) {
        buffer[at++] = 0x82;
        buffer[at++] = length >>> 8;
      } else buffer[at++] = 0x81;
    }
    buffer[at++] = length;
    this.at = at;
  }

  /** A primitive element whose content is `bytes[from, to)`. */
  octetString(tag: number, bytes: Uint8Array, from = 0, to = bytes.length): void {
    const count = to - from;
    if (count > SHORT) {
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

  /** `bytes[from, to)` as they are. */
  raw(bytes: Uint8Array, from = 0, to = bytes.length): void {
    const count = to - from;
    this.reserve(count);
    const { buffer, at } = this;
    if (count <= SHORT) copyShort(buffer, at, bytes, from, to);
    else if (count === bytes.length) buffer.set(bytes, at);
    else buffer.set(new Uint8Array(bytes.buffer, bytes.byteOffset + from, count), at);
    this.at = at + count;
  }

  /** A primitive element whose content is the text's UTF-8. */
  text(tag: number, text: string): void {
    if (text.length > SHORT || !this.#shortAscii(tag, text)) this.#anyText(tag, text);
  }

  #shortAscii(tag: number, text: string): boolean {
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

  #anyText(tag: number, text: string): void {
    const bytes = Buffer.byteLength(text);
    this.header(tag, bytes);
    this.reserve(bytes);
    this.at += this.buffer.write(text, this.at, bytes);
  }

  /** INTEGER, ENUMERATED or the like: the shortest two's complement form of a 32-bit value. */
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
   * Opens a constructed element that is expected to stay below 128 bytes. `end` takes the returned mark; content that
   * turns out longer is moved to make room for a longer length.
   */
  begin(tag: number): number {
    this.reserve(2);
    const mark = this.at + 1 - this.#start;
    this.buffer[this.at++] = tag;
    this.buffer[this.at++] = 0;
    return mark;
  }

  /** Opens a constructed element with two length octets kept free: nothing moves up to 65,535 bytes of content. */
  beginLong(tag: number): number {
    this.reserve(4);
    const { buffer, at } = this;
    buffer[at] = tag;
    buffer[at + 1] = 0x82;
    this.at = at + 4;
    return at + 1 - this.#start;
  }

  /** Closes the element that `begin` or `beginLong` opened at `mark`. */
  end(mark: number): void {
    const { buffer } = this;
    const at = this.#start + mark;
    if (buffer[at] === 0) {
      const length = this.at - at - 1;
      if (length <= 0x7f) buffer[at] = length;
      else this.#widen(mark, 1, length);
      return;
    }
    const length = this.at - at - 3;
    if (length <= 0xffff) {
      buffer[at + 1] = length >>> 8;
      buffer[at + 2] = length;
    } else this.#widen(mark, 3, length);
  }

  /** Writes the shortest length octets in place of the `kept` ones, moving the content behind them. */
  #widen(mark: number, kept: number, length: number): void {
    const octets = length <= 0xff ? 2 : length <= 0xffff ? 3 : length <= 0xffffff ? 4 : 5;
    this.reserve(octets - kept);
    const { buffer } = this;
    const at = this.#start + mark;
    buffer.copyWithin(at + octets, at + kept, this.at);
    this.at += octets - kept;
    buffer[at] = 0x7f + octets;
    for (let i = octets - 1, rest = length; i > 0; i--, rest >>>= 8) buffer[at + i] = rest;
  }
}
