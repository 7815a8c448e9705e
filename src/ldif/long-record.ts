import { Base64Decoder } from '../bytes/base64.js';
import { CR_ALONE } from '../bytes/text-form.js';

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const HASH = 0x23;
const COLON = 0x3a;
const LESS = 0x3c;
const CR_BYTES = Buffer.from([CR]);
const LF_BYTES = Buffer.from([LF]);

/** Bytes of a record without full text that are kept for the rejects file. */
export const REJECT_BYTES = 64 * 1024;

/** A line of a long record whose value was decoded on arrival. The text of the record has only its name and `::`. */
export interface LongLine {
  /** Offset of the line in the text. */
  readonly offset: number;
  /** Number of continuation lines in the file, which the text does not have. */
  readonly foldCount: number;
  /** The decoded value, or the mistake in it as a string. */
  readonly value: Buffer | string;
}

/**
 * A record that is too long to be kept as text. Values longer than `lineBytes` are decoded on arrival, each into one
 * buffer. The rest becomes a text that `LineReader` can read.
 */
export class LongRecord {
  readonly longLines: LongLine[] = [];
  /** Line ends so far. */
  lineCount = 0;
  byteCount = 0;
  /** Whether the blank line that ends the record has been passed. */
  isEnded = false;
  readonly #lineBytes: number;
  readonly #maxBytes: number;
  readonly #text: GrowingBytes;
  #head: Buffer = Buffer.alloc(0);
  #tail: Buffer = Buffer.alloc(0);
  /** Offset of the current logical line in the text; -1 before the first. */
  #lineStart = -1;
  /** Continuation lines of the current line so far. */
  #foldCount = 0;
  /** Whether the current line stays in the text, since it is no attribute, or has a URL. */
  #staysInText = false;
  #value: LongValue | undefined;
  #isAtLineStart = true;
  /** Whether the last byte was a CR, which may belong to a line end. */
  #hasPendingCr = false;

  /** `maxBytes` limits the whole record. */
  constructor(lineBytes: number, maxBytes: number) {
    this.#lineBytes = lineBytes;
    this.#maxBytes = maxBytes;
    this.#text = new GrowingBytes(maxBytes);
  }

  get text(): Buffer {
    return this.#text.view();
  }

  /** The beginning of the record as in the file, at most `REJECT_BYTES`. */
  get head(): Buffer {
    return this.#head;
  }

  get tail(): Buffer {
    return this.#tail;
  }

  /** Consumes bytes up to the end of the record. Returns the number of bytes consumed. */
  push(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && !this.isEnded) {
      const lfOffset = chunk.indexOf(LF, at);
      const end = lfOffset < 0 ? chunk.length : lfOffset;
      this.#pushContent(chunk.subarray(at, end));
      if (lfOffset >= 0) this.#endLine();
      at = lfOffset < 0 ? end : end + 1;
    }
    this.byteCount += at;
    const consumed = chunk.subarray(0, at);
    if (this.#head.length < REJECT_BYTES) this.#head = Buffer.concat([this.#head, consumed]).subarray(0, REJECT_BYTES);
    this.#tail = Buffer.concat([this.#tail, consumed.subarray(-2)]).subarray(-2);
    return at;
  }

  end(): void {
    this.#endLogicalLine();
  }

  #pushContent(part: Buffer): void {
    if (part.length === 0) return;
    if (this.#hasPendingCr) this.#pushPart(CR_BYTES);
    this.#hasPendingCr = part[part.length - 1] === CR;
    const content = this.#hasPendingCr ? part.subarray(0, part.length - 1) : part;
    if (content.length > 0) this.#pushPart(content);
  }

  /** Adds a part of a physical line without its line end. */
  #pushPart(part: Buffer): void {
    let start = 0;
    if (this.#isAtLineStart) {
      this.#isAtLineStart = false;
      if (part[0] !== SPACE || this.#lineStart < 0) this.#beginLogicalLine();
      else {
        this.#foldCount++;
        if (this.#value) start = 1;
      }
    }
    if (this.#value) this.#value.push(part.subarray(start));
    else {
      this.#text.push(part);
      if (!this.#staysInText && this.#text.length - this.#lineStart > this.#lineBytes) this.#detachValue();
    }
  }

  #endLine(): void {
    const hadCr = this.#hasPendingCr;
    this.#hasPendingCr = false;
    this.lineCount++;
    if (this.#isAtLineStart) {
      this.isEnded = this.#lineStart >= 0;
      this.#endLogicalLine();
    }
    this.#isAtLineStart = true;
    if (this.#value) return;
    if (hadCr) this.#text.push(CR_BYTES);
    this.#text.push(LF_BYTES);
  }

  #beginLogicalLine(): void {
    this.#endLogicalLine();
    this.#lineStart = this.#text.length;
    this.#foldCount = 0;
    this.#staysInText = false;
  }

  #endLogicalLine(): void {
    if (!this.#value) return;
    this.longLines.push({ offset: this.#lineStart, foldCount: this.#foldCount, value: this.#value.end() });
    this.#text.push(LF_BYTES);
    this.#value = undefined;
  }

  /** Moves the value of the current line out of the text, into a buffer of its own. */
  #detachValue(): void {
    const line = unfold(this.#text.view().subarray(this.#lineStart));
    const colon = line.indexOf(COLON);
    this.#staysInText = colon < 0 || line[0] === HASH || line[0] === SPACE || line[colon + 1] === LESS;
    if (this.#staysInText) return;
    const isBase64 = line[colon + 1] === COLON;
    this.#value = new LongValue(isBase64, this.#maxBytes);
    this.#value.push(line.subarray(colon + (isBase64 ? 2 : 1)));
    this.#text.length = this.#lineStart;
    this.#text.push(line.subarray(0, colon));
    this.#text.push(VALUE_PLACEHOLDER);
  }
}

const VALUE_PLACEHOLDER = Buffer.from('::');

function unfold(text: Buffer): Buffer {
  return Buffer.from(text.toString('latin1').replaceAll(/\r?\n /g, ''), 'latin1');
}

/** A value that arrives in parts. */
class LongValue {
  readonly #decoder: Base64Decoder | undefined;
  readonly #bytes: GrowingBytes;
  /** Whether only spaces have arrived so far. */
  #isBlank = true;

  constructor(isBase64: boolean, maxBytes: number) {
    this.#decoder = isBase64 ? new Base64Decoder() : undefined;
    this.#bytes = new GrowingBytes(maxBytes);
  }

  push(part: Buffer): void {
    let start = 0;
    if (this.#isBlank) {
      while (part[start] === SPACE) start++;
      this.#isBlank = start === part.length;
    }
    const text = part.subarray(start);
    this.#bytes.push(this.#decoder ? this.#decoder.push(text) : text);
  }

  /** Returns the value, or the mistake in it as a string. */
  end(): Buffer | string {
    if (this.#decoder) return this.#decoder.end() ?? this.#bytes.finish();
    // The CRs of line ends have been removed before.
    return this.#bytes.view().includes(CR) ? CR_ALONE : this.#bytes.finish();
  }
}

/** Small buffer capacities. A larger buffer gets the maximum: the system backs memory only when it is written. */
const CAPACITIES = [1024 * 1024, 16 * 1024 * 1024];

/** A buffer that grows, with little more memory in use than bytes stored. */
class GrowingBytes {
  readonly #maxLength: number;
  #bytes: Buffer = Buffer.alloc(0);
  length = 0;

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  push(part: Buffer): void {
    const neededLength = this.length + part.length;
    if (neededLength > this.#bytes.length) {
      const capacity = CAPACITIES.find((size) => size >= neededLength) ?? Math.max(this.#maxLength, neededLength);
      const largerBuffer = Buffer.allocUnsafeSlow(capacity);
      this.view().copy(largerBuffer);
      this.#bytes = largerBuffer;
    }
    part.copy(this.#bytes, this.length);
    this.length = neededLength;
  }

  /** Returns the bytes so far. The view is valid until the next `push`. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Returns all bytes, copied to an exact buffer where copying costs little. */
  finish(): Buffer {
    return this.#bytes.length > CAPACITIES[1]! ? this.view() : Buffer.from(this.view());
  }
}
