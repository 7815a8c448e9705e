import { foreignProtocol } from './foreign.js';
import { ProtocolError } from './protocol-error.js';
import { hex } from './reader.js';
import { SEQUENCE } from './tags.js';

/** A whole LDAPMessage, in `buffer[start, end)`. */
export interface Frame {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
}

/** The fate of a message: keep the bytes, skip the bytes as they arrive, or return no further message for now. */
export type Admission = 'keep' | 'drop' | 'wait';

export interface FramerLimits {
  /** Including identifier and length octets. */
  readonly maxMessageBytes: number;
  /** Messages of more bytes need the approval of `admit`. */
  readonly exemptBytes?: number;
  /**
   * Decides whether the Framer keeps a message. After `wait` the Framer calls `admit` again in the next call of `next`.
   * `head`: the first bytes of the message, at least `HEAD_BYTES`; `total`: length of the message. `next` passes
   * exceptions on.
   */
  readonly admit?: (head: Buffer, total: number) => Admission;
}

/** These first bytes of a message contain the messageID and the operation's tag, however lengths are encoded. */
export const HEAD_BYTES = 32;
/** Identifier octet, 0x84 and four length octets. */
const LONGEST_HEADER = 6;
const EMPTY = Buffer.alloc(0);
const INITIAL_PART_BYTES = 1024;
/** When 1/`TRUSTED_FRACTION` of a message has arrived, the buffer grows to the whole length. */
const TRUSTED_FRACTION = 8;

/**
 * Finds message boundaries in the bytes of a connection.
 *
 * A message within one chunk is returned as a view. A message across chunks is collected in a buffer. The buffer
 * doubles as bytes arrive until an eighth of the message is there, and then grows to the length of the message. So time
 * is linear in the bytes received, memory is at most eight times these bytes whatever length a header claims, and a
 * long message is copied hardly more than once. `next` throws a fatal ProtocolError as soon as the header shows that no
 * acceptable message follows; then the Framer must not be used any more.
 */
export class Framer {
  readonly #limits: FramerLimits;
  /** Received chunks. Elements before `#head` are consumed; `#at` is the first unconsumed byte of `#queue[#head]`. */
  #queue: Buffer[] = [];
  #head = 0;
  #at = 0;
  /** Collects a message that continues in the next chunk. */
  #part: Buffer | undefined;
  #partLength = 0;
  /** Whether `admit` has approved the message in `#part`. */
  #admitted = false;
  /** Remaining bytes of a message that is skipped. */
  #bytesToSkip = 0;
  /** Whether `admit` has returned `wait` for the current message. */
  #isWaiting = false;

  constructor(limits: FramerLimits) {
    this.#limits = limits;
  }

  /** The Framer takes ownership of `chunk`: frames are views of the chunk. */
  push(chunk: Buffer): void {
    if (chunk.length > 0) this.#queue.push(chunk);
  }

  /** The next whole message, or undefined if more bytes are needed. */
  next(): Frame | undefined {
    if (this.#isWaiting) this.#retryAdmission();
    while (this.#head < this.#queue.length && !this.#isWaiting) {
      const chunk = this.#queue[this.#head]!;
      const frame = this.#consume(chunk);
      if (this.#at === chunk.length) this.#dropChunk();
      if (frame) return frame;
    }
    return undefined;
  }

  /** Calls `admit` again for a waiting message that is in `#part`. `#consumeFromChunk` retries the others. */
  #retryAdmission(): void {
    this.#isWaiting = false;
    if (this.#part) this.#admitPart(this.#part, EMPTY, this.#messageLength(this.#part, 0, this.#partLength));
  }

  #consume(chunk: Buffer): Frame | undefined {
    if (this.#bytesToSkip > 0) {
      const count = Math.min(this.#bytesToSkip, chunk.length - this.#at);
      this.#bytesToSkip -= count;
      this.#at += count;
      return undefined;
    }
    return this.#part ? this.#fillPart(this.#part, chunk) : this.#consumeFromChunk(chunk);
  }

  /** Whether a message has begun and not ended. */
  get hasPartialMessage(): boolean {
    return this.#bytesToSkip > 0 || this.pendingBytes > 0;
  }

  /** Bytes received and not yet returned. */
  get pendingBytes(): number {
    let bytes = this.#partLength - this.#at;
    for (let i = this.#head; i < this.#queue.length; i++) bytes += this.#queue[i]!.length;
    return bytes;
  }

  #consumeFromChunk(chunk: Buffer): Frame | undefined {
    const start = this.#at;
    const total = this.#messageLength(chunk, start, chunk.length);
    if (chunk.length - start >= Math.min(HEAD_BYTES, total) && !this.#isAdmitted(chunk.subarray(start), total)) {
      return undefined;
    }
    if (total > 0 && total <= chunk.length - start) {
      this.#at = start + total;
      return { buffer: chunk, start, end: this.#at };
    }
    this.#part = Buffer.allocUnsafeSlow(bufferSize(chunk.length - start, total));
    this.#partLength = 0;
    this.#admitted = chunk.length - start >= HEAD_BYTES;
    this.#append(this.#part, chunk, chunk.length - start);
    return undefined;
  }

  /** Calls `admit` and records the answers `wait` and `drop`. */
  #isAdmitted(head: Buffer, total: number): boolean {
    const { admit, exemptBytes = 0 } = this.#limits;
    if (!admit || total <= exemptBytes) return true;
    const verdict = admit(head, total);
    if (verdict === 'wait') this.#isWaiting = true;
    if (verdict === 'drop') this.#bytesToSkip = total - this.#partLength;
    return verdict === 'keep';
  }

  /** Moves bytes from the chunk to the part: the header first, then the rest of the message. */
  #fillPart(part: Buffer, chunk: Buffer): Frame | undefined {
    let total = this.#messageLength(part, 0, this.#partLength);
    while (total === 0) {
      if (this.#at === chunk.length) return undefined;
      part[this.#partLength++] = chunk[this.#at++]!;
      total = this.#messageLength(part, 0, this.#partLength);
    }
    if (!this.#admitted && !this.#admitPart(part, chunk, total)) return undefined;
    const wanted = Math.min(total - this.#partLength, chunk.length - this.#at);
    const whole = this.#append(this.#growPart(part, wanted, total), chunk, wanted);
    if (this.#partLength < total) return undefined;
    this.#clearPart();
    return { buffer: whole, start: 0, end: total };
  }

  /**
   * Fills the part with the first `HEAD_BYTES` of the message, which fit into `INITIAL_PART_BYTES`, and calls `admit`.
   */
  #admitPart(part: Buffer, chunk: Buffer, total: number): boolean {
    const lacking = Math.min(HEAD_BYTES, total) - this.#partLength;
    if (lacking > 0) this.#append(part, chunk, Math.min(lacking, chunk.length - this.#at));
    if (this.#partLength < Math.min(HEAD_BYTES, total)) return false;
    this.#admitted = this.#isAdmitted(part.subarray(0, this.#partLength), total);
    if (this.#bytesToSkip > 0) this.#clearPart();
    return this.#admitted;
  }

  #clearPart(): void {
    this.#part = undefined;
    this.#partLength = 0;
  }

  #growPart(part: Buffer, wanted: number, total: number): Buffer {
    if (this.#partLength + wanted <= part.length) return part;
    const larger = Buffer.allocUnsafeSlow(bufferSize(this.#partLength + wanted, total));
    part.copy(larger, 0, 0, this.#partLength);
    this.#part = larger;
    return larger;
  }

  #append(part: Buffer, chunk: Buffer, count: number): Buffer {
    if (count === 1) part[this.#partLength] = chunk[this.#at]!;
    else chunk.copy(part, this.#partLength, this.#at, this.#at + count);
    this.#partLength += count;
    this.#at += count;
    return part;
  }

  #dropChunk(): void {
    this.#at = 0;
    if (++this.#head === this.#queue.length) {
      this.#queue.length = 0;
      this.#head = 0;
    } else if (this.#head === 256) {
      this.#queue.splice(0, this.#head);
      this.#head = 0;
    }
  }

  /** Length of the message at `buffer[start]`, including the header; 0 if the header is incomplete. */
  #messageLength(buffer: Buffer, start: number, end: number): number {
    const have = end - start;
    if (have < 1) return 0;
    const tag = buffer[start]!;
    if (tag !== SEQUENCE) throw notAMessage(buffer.subarray(start, end));
    if (have < 2) return 0;
    const first = buffer[start + 1]!;
    if (first <= 0x7f) return this.#checkLength(2 + first);
    const count = first & 0x7f;
    if (count === 0) throw new ProtocolError('LDAP message has an indefinite length', 1);
    if (count > LONGEST_HEADER - 2)
      throw new ProtocolError(`LDAP message has a length of ${count} bytes; 4 is the most`, 1);
    if (have < 2 + count) return 0;
    let length = 0;
    for (let i = 0; i < count; i++) length = length * 256 + buffer[start + 2 + i]!;
    return this.#checkLength(2 + count + length);
  }

  #checkLength(total: number): number {
    const max = this.#limits.maxMessageBytes;
    if (total > max) throw new ProtocolError(`LDAP message of ${total} bytes; ${max} are accepted`, 1);
    return total;
  }
}

/** Buffer size for `have` bytes of a message of `total` bytes and for further bytes. `total`: 0 while unknown. */
function bufferSize(have: number, total: number): number {
  if (total === 0) return INITIAL_PART_BYTES;
  return have >= total / TRUSTED_FRACTION ? total : Math.max(INITIAL_PART_BYTES, 2 * have);
}

function notAMessage(bytes: Buffer): ProtocolError {
  const foreign = foreignProtocol(bytes);
  const guess = foreign ? ` (${foreign}?)` : '';
  const error = new ProtocolError(`not an LDAP message: it begins with ${hex(bytes[0]!)}${guess}`, 0);
  error.foreign = foreign;
  return error;
}
