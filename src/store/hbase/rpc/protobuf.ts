import { StoreError } from '../../store-error.js';

/** The subset of Protocol Buffers that HBase's messages need. Field numbers are given where they are used. */

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;

/** Returns the length of the varint of `value`, an integer from 0 to 2^53 - 1, in bytes. */
export function varintLength(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x20_0000) return 3;
  if (value < 0x1000_0000) return 4;
  let length = 5;
  for (let remainder = Math.floor(value / 0x8_0000_0000); remainder > 0; remainder = Math.floor(remainder / 0x80))
    length++;
  return length;
}

/** Writes the varint of `value` at `offset`. Returns the offset after it. */
export function writeVarint(out: Buffer, offset: number, value: number): number {
  let remainder = value;
  while (remainder > 0x7f_ffff_ff) {
    out[offset++] = (remainder % 0x80) | 0x80;
    remainder = Math.floor(remainder / 0x80);
  }
  while (remainder > 0x7f) {
    out[offset++] = (remainder & 0x7f) | 0x80;
    remainder >>>= 7;
  }
  out[offset++] = remainder;
  return offset;
}

/** Builds a message. Fields are written in call order. An `undefined` value writes nothing. */
export class MessageWriter {
  #buffer = Buffer.allocUnsafe(128);
  #length = 0;

  /** Writes an integer from 0 to 2^53 - 1, or a bigint from 0 to 2^64 - 1. */
  uint(field: number, value: number | bigint | undefined): this {
    if (value === undefined) return this;
    this.#reserve(20);
    this.#varint(field * 8 + VARINT);
    if (typeof value === 'number') this.#varint(value);
    else this.#varint64(value);
    return this;
  }

  bool(field: number, value: boolean | undefined): this {
    return value === undefined ? this : this.uint(field, value ? 1 : 0);
  }

  bytes(field: number, value: Buffer | undefined): this {
    if (value === undefined) return this;
    this.#reserve(20 + value.length);
    this.#varint(field * 8 + DELIMITED);
    this.#varint(value.length);
    this.#buffer.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  string(field: number, value: string | undefined): this {
    return value === undefined ? this : this.bytes(field, Buffer.from(value));
  }

  message(field: number, value: MessageWriter | undefined): this {
    return value === undefined ? this : this.bytes(field, value.#buffer.subarray(0, value.#length));
  }

  /** Copies fields that are already encoded. */
  raw(fields: Buffer): this {
    this.#reserve(fields.length);
    this.#buffer.set(fields, this.#length);
    this.#length += fields.length;
    return this;
  }

  finish(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#length));
  }

  #varint(value: number): void {
    this.#length = writeVarint(this.#buffer, this.#length, value);
  }

  #varint64(value: bigint): void {
    let remainder = BigInt.asUintN(64, value);
    for (; remainder > 0x7fn; remainder >>= 7n) this.#buffer[this.#length++] = Number(remainder & 0x7fn) | 0x80;
    this.#buffer[this.#length++] = Number(remainder);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return;
    const largerBuffer = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + bytes));
    this.#buffer.copy(largerBuffer, 0, 0, this.#length);
    this.#buffer = largerBuffer;
  }
}

/**
 * Iterates over the fields of a message, which is `buffer[offset, end)`:
 *
 *     while (reader.next()) switch (reader.field) { case 1: … reader.uint() … break; default: reader.skip(); }
 *
 * Every length is checked against the end of the message before use. Invalid input throws `corrupt`.
 */
export class MessageReader {
  readonly buffer: Buffer;
  offset: number;
  readonly end: number;
  field = 0;
  #wireType = 0;

  constructor(buffer: Buffer, offset = 0, end = buffer.length) {
    this.buffer = buffer;
    this.offset = offset;
    this.end = end;
  }

  /** Advances to the next field. Returns false at the end. The value of the field must then be read or skipped. */
  next(): boolean {
    if (this.offset >= this.end) return false;
    const tag = this.varint();
    this.field = Math.floor(tag / 8);
    this.#wireType = tag % 8;
    if (this.field === 0 || this.field > 0x1fff_ffff) throw this.#corrupt(`field number ${this.field}`);
    return true;
  }

  /** Advances to the next field with this number and skips all others. Returns false at the end. */
  nextField(field: number): boolean {
    while (this.next()) {
      if (this.field === field) return true;
      this.skip();
    }
    return false;
  }

  /** Reads a varint up to 2^53 - 1 without a field tag. */
  varint(): number {
    const firstByte = this.offset < this.end ? this.buffer[this.offset]! : 0x80;
    if (firstByte < 0x80) {
      this.offset++;
      return firstByte;
    }
    let value = 0;
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.#nextByte(scale > 2 ** 63);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
    }
    if (value > Number.MAX_SAFE_INTEGER) throw this.#corrupt('a number beyond 2^53');
    return value;
  }

  uint(): number {
    this.#expect(VARINT);
    return this.varint();
  }

  uint64(): bigint {
    this.#expect(VARINT);
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#nextByte(shift > 63n);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
  }

  bool(): boolean {
    this.#expect(VARINT);
    return this.#skipVarint() !== 0;
  }

  /** Returns a view into the buffer. */
  bytes(): Buffer {
    const end = this.#readValueEnd();
    const value = this.buffer.subarray(this.offset, end);
    this.offset = end;
    return value;
  }

  string(): string {
    const end = this.#readValueEnd();
    const value = this.buffer.toString('utf8', this.offset, end);
    this.offset = end;
    return value;
  }

  /** Returns a reader of the message that is the value of the field. */
  message(): MessageReader {
    const end = this.#readValueEnd();
    const inner = new MessageReader(this.buffer, this.offset, end);
    this.offset = end;
    return inner;
  }

  /** Returns a reader of a message that follows its own length, outside of any field. */
  delimitedMessage(): MessageReader {
    const length = this.varint();
    if (length > this.end - this.offset) throw this.#corrupt(`a message of ${length} bytes`);
    const inner = new MessageReader(this.buffer, this.offset, this.offset + length);
    this.offset += length;
    return inner;
  }

  skip(): void {
    if (this.#wireType === VARINT) this.#skipVarint();
    else if (this.#wireType === DELIMITED) this.offset = this.#readValueEnd();
    else if (this.#wireType === FIXED64) this.#advance(8);
    else if (this.#wireType === FIXED32) this.#advance(4);
    else throw this.#corrupt(`wire type ${this.#wireType}`);
  }

  #readValueEnd(): number {
    this.#expect(DELIMITED);
    const length = this.varint();
    if (length > this.end - this.offset) throw this.#corrupt(`a field of ${length} bytes`);
    return this.offset + length;
  }

  #advance(bytes: number): void {
    if (bytes > this.end - this.offset) throw this.#corrupt(`a field of ${bytes} bytes`);
    this.offset += bytes;
  }

  /** Returns the OR of the 7-bit groups: 0 only for the number 0. */
  #skipVarint(): number {
    let bits = 0;
    for (let n = 1; ; n++) {
      const byte = this.#nextByte(n > 10);
      bits |= byte & 0x7f;
      if (byte < 0x80) return bits;
    }
  }

  #nextByte(isTooLong: boolean): number {
    if (isTooLong) throw this.#corrupt('a number of more than 10 bytes');
    if (this.offset >= this.end) throw this.#corrupt('the end in the middle of a number');
    return this.buffer[this.offset++]!;
  }

  #expect(wireType: number): void {
    if (this.#wireType !== wireType)
      throw this.#corrupt(`wire type ${this.#wireType} in field ${this.field}, not ${wireType}`);
  }

  #corrupt(defect: string): StoreError {
    return new StoreError('corrupt', `HBase message has ${defect} at offset ${this.offset} of ${this.end}`);
  }
}
