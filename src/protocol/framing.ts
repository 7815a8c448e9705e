import { hex, ProtocolError } from './reader.js';
import { SEQUENCE } from './tags.js';

/** A whole LDAPMessage, in `buffer[start, end)`. */
export interface Frame {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
}

/**
 * The decision about a message. `keep`: return the message when it is complete. `drop`: discard its bytes as they
 * arrive. `wait`: return no further message for now.
 */
export type Admission = 'keep' | 'drop' | 'wait';

export interface FramerLimits {
  /** Longest message, including its identifier and length octets. */
  readonly maxMessageBytes: number;
  /** Messages up to this length are kept without a call of `admit`. */
  readonly alwaysAdmittedBytes?: number;
  /**
   * Decides whether the Framer keeps a message. `firstBytes`: the beginning of the message, at least `HEAD_BYTES`;
   * `total`: length of the message. After `wait` the next call of `next` calls `admit` again. Exceptions pass through
   * `next`.
   */
  readonly admit?: (firstBytes: Buffer, total: number) => Admission;
}

/** Number of bytes that contain the messageID and the operation's tag of any message, however lengths are encoded. */
export const HEAD_BYTES = 32;
/** Length of the longest header: identifier octet, 0x84 and four length octets. */
const LONGEST_HEADER = 6;
const EMPTY = Buffer.alloc(0);
const INITIAL_PART_BYTES = 1024;
/** When this fraction (one eighth) of a message has arrived, the buffer grows to the whole length. */
const TRUSTED_FRACTION = 8;
const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'];
const TLS_HANDSHAKE = 0x16;
const TLS_MAJOR_VERSION = 0x03;
/** First bytes of a PROXY protocol header, version 2. */
const PROXY_SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

/**
 * Splits the bytes of a connection into messages.
 * A message within one chunk is returned as a view. A message across chunks is copied into a buffer. The buffer doubles
 * as bytes arrive until an eighth of the message is there, and then grows to the length of the message. So time is
 * linear in the bytes received, memory is at most eight times these bytes whatever length a header claims, and a long
 * message is hardly copied more than once.
 * `next` throws a fatal ProtocolError as soon as a header shows that no acceptable message follows. The Framer must not
 * be used after that.
 */
export class Framer {
  readonly #limits: FramerLimits;
  /** Received chunks. The first byte that was not consumed is at `#offset` of `#queue[#headIndex]`. */
  #queue: Buffer[] = [];
  #headIndex = 0;
  #offset = 0;
  /** Buffer for a message that continues in the next chunk. */
  #partial: Buffer | undefined;
  #partialLength = 0;
  /** Whether `admit` has approved the message in `#partial`. */
  #isPartialAdmitted = false;
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
    while (this.#headIndex < this.#queue.length && !this.#isWaiting) {
      const chunk = this.#queue[this.#headIndex]!;
      const frame = this.#consume(chunk);
      if (this.#offset === chunk.length) this.#dropChunk();
      if (frame) return frame;
    }
    return undefined;
  }

  /** Calls `admit` again if the waiting message is in `#partial`. Otherwise `#consumeFromChunk` does. */
  #retryAdmission(): void {
    this.#isWaiting = false;
    if (this.#partial)
      this.#admitPart(this.#partial, EMPTY, this.#messageLength(this.#partial, 0, this.#partialLength));
  }

  #consume(chunk: Buffer): Frame | undefined {
    if (this.#bytesToSkip > 0) {
      const count = Math.min(this.#bytesToSkip, chunk.length - this.#offset);
      this.#bytesToSkip -= count;
      this.#offset += count;
      return undefined;
    }
    return this.#partial ? this.#fillPart(this.#partial, chunk) : this.#consumeFromChunk(chunk);
  }

  /** Whether the last message is incomplete. */
  get hasPartialMessage(): boolean {
    return this.#bytesToSkip > 0 || this.pendingBytes > 0;
  }

  /** Bytes received and not yet returned. */
  get pendingBytes(): number {
    let bytes = this.#partialLength - this.#offset;
    for (let i = this.#headIndex; i < this.#queue.length; i++) bytes += this.#queue[i]!.length;
    return bytes;
  }

  #consumeFromChunk(chunk: Buffer): Frame | undefined {
    const start = this.#offset;
    const total = this.#messageLength(chunk, start, chunk.length);
    if (chunk.length - start >= Math.min(HEAD_BYTES, total) && !this.#askAdmission(chunk.subarray(start), total)) {
      return undefined;
    }
    if (total > 0 && total <= chunk.length - start) {
      this.#offset = start + total;
      return { buffer: chunk, start, end: this.#offset };
    }
    this.#partial = Buffer.allocUnsafeSlow(bufferSize(chunk.length - start, total));
    this.#partialLength = 0;
    this.#isPartialAdmitted = chunk.length - start >= HEAD_BYTES;
    this.#append(this.#partial, chunk, chunk.length - start);
    return undefined;
  }

  /** Calls `admit` and records an answer `wait` or `drop`. Returns whether the answer is `keep`. */
  #askAdmission(firstBytes: Buffer, total: number): boolean {
    const { admit, alwaysAdmittedBytes = 0 } = this.#limits;
    if (!admit || total <= alwaysAdmittedBytes) return true;
    const admission = admit(firstBytes, total);
    if (admission === 'wait') this.#isWaiting = true;
    if (admission === 'drop') this.#bytesToSkip = total - this.#partialLength;
    return admission === 'keep';
  }

  /** Copies bytes from the chunk to the partial message. Returns the message when it is complete. */
  #fillPart(partial: Buffer, chunk: Buffer): Frame | undefined {
    let total = this.#messageLength(partial, 0, this.#partialLength);
    while (total === 0) {
      if (this.#offset === chunk.length) return undefined;
      partial[this.#partialLength++] = chunk[this.#offset++]!;
      total = this.#messageLength(partial, 0, this.#partialLength);
    }
    if (!this.#isPartialAdmitted && !this.#admitPart(partial, chunk, total)) return undefined;
    const count = Math.min(total - this.#partialLength, chunk.length - this.#offset);
    const message = this.#append(this.#growPart(partial, count, total), chunk, count);
    if (this.#partialLength < total) return undefined;
    this.#clearPart();
    return { buffer: message, start: 0, end: total };
  }

  /** Fills `#partial` up to `HEAD_BYTES` and calls `admit`. Its initial size (`INITIAL_PART_BYTES`) suffices. */
  #admitPart(partial: Buffer, chunk: Buffer, total: number): boolean {
    const missingCount = Math.min(HEAD_BYTES, total) - this.#partialLength;
    if (missingCount > 0) this.#append(partial, chunk, Math.min(missingCount, chunk.length - this.#offset));
    if (this.#partialLength < Math.min(HEAD_BYTES, total)) return false;
    this.#isPartialAdmitted = this.#askAdmission(partial.subarray(0, this.#partialLength), total);
    if (this.#bytesToSkip > 0) this.#clearPart();
    return this.#isPartialAdmitted;
  }

  #clearPart(): void {
    this.#partial = undefined;
    this.#partialLength = 0;
  }

  #growPart(partial: Buffer, neededBytes: number, total: number): Buffer {
    if (this.#partialLength + neededBytes <= partial.length) return partial;
    const larger = Buffer.allocUnsafeSlow(bufferSize(this.#partialLength + neededBytes, total));
    partial.copy(larger, 0, 0, this.#partialLength);
    this.#partial = larger;
    return larger;
  }

  #append(partial: Buffer, chunk: Buffer, count: number): Buffer {
    if (count === 1) partial[this.#partialLength] = chunk[this.#offset]!;
    else chunk.copy(partial, this.#partialLength, this.#offset, this.#offset + count);
    this.#partialLength += count;
    this.#offset += count;
    return partial;
  }

  #dropChunk(): void {
    this.#offset = 0;
    if (++this.#headIndex === this.#queue.length) {
      this.#queue.length = 0;
      this.#headIndex = 0;
    } else if (this.#headIndex === 256) {
      this.#queue.splice(0, this.#headIndex);
      this.#headIndex = 0;
    }
  }

  /** Returns the length of the message at `buffer[start]`, including the header; 0 if the header is incomplete. */
  #messageLength(buffer: Buffer, start: number, end: number): number {
    const availableCount = end - start;
    if (availableCount < 1) return 0;
    const tag = buffer[start]!;
    if (tag !== SEQUENCE) throw notAMessageError(buffer.subarray(start, end));
    if (availableCount < 2) return 0;
    const lengthOctet = buffer[start + 1]!;
    if (lengthOctet <= 0x7f) return this.#checkLength(2 + lengthOctet);
    const count = lengthOctet & 0x7f;
    if (count === 0) throw new ProtocolError('LDAP message has an indefinite length', 1);
    if (count > LONGEST_HEADER - 2)
      throw new ProtocolError(`LDAP message has a length of ${count} bytes; 4 is the most`, 1);
    if (availableCount < 2 + count) return 0;
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

/** Returns the buffer size for a message of `total` bytes (0 while unknown) of which some have arrived. */
function bufferSize(receivedBytes: number, total: number): number {
  if (total === 0) return INITIAL_PART_BYTES;
  return receivedBytes >= total / TRUSTED_FRACTION ? total : Math.max(INITIAL_PART_BYTES, 2 * receivedBytes);
}

function notAMessageError(bytes: Buffer): ProtocolError {
  const protocolName = foreignProtocol(bytes);
  const guess = protocolName ? ` (${protocolName}?)` : '';
  const error = new ProtocolError(`not an LDAP message: it begins with ${hex(bytes[0]!)}${guess}`, 0);
  error.foreign = protocolName;
  return error;
}

/** Recognizes by its first bytes another protocol that a client speaks to the wrong port; undefined if none. */
function foreignProtocol(bytes: Uint8Array): 'TLS' | 'HTTP' | 'SSH' | 'PROXY protocol' | undefined {
  if (bytes[0] === TLS_HANDSHAKE && bytes[1] === TLS_MAJOR_VERSION) return 'TLS';
  const text = Buffer.from(bytes.subarray(0, 16)).toString('latin1');
  if (HTTP_METHODS.some((method) => text.startsWith(`${method} `)) || text.startsWith('PRI * HTTP/2')) return 'HTTP';
  if (text.startsWith('SSH-')) return 'SSH';
  if (text.startsWith('PROXY ') || text.startsWith(PROXY_SIGNATURE.toString('latin1'))) return 'PROXY protocol';
  return undefined;
}
