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

/** Of a long record this number of bytes is kept unchanged for the rejects file. */
export const REJECT_BYTES = 64 * 1024;

/** A line of a long record whose value was decoded as it arrived. The text of the record has only the name and `::`. */
export interface LongLine {
  /** Offset of the line in the text. */
  readonly offset: number;
  /** Number of continuation lines that the line has in the file. */
  readonly foldCount: number;
  /** The decoded value; a string describes the mistake in it. */
  readonly value: Buffer | string;
}

/**
 * A record that is too long to be kept as text. Values longer than `lineBytes` are decoded as they arrive, each into a
 * buffer of its own. The rest of the record becomes a text that `LineReader` can read.
 */
export class LongRecord {
  readonly longLines: LongLine[] = [];
  /** Number of line ends so far. */
  lineCount = 0;
  byteCount = 0;
  /** Whether the blank line after the record has arrived. */
  isEnded = false;
  readonly #lineBytes: number;
  readonly #maxBytes: number;
  readonly #text: GrowingBytes;
  #beginning: Buffer = Buffer.alloc(0);
  #tail: Buffer = Buffer.alloc(0);
  /** Offset of the current logical line in the text; -1 before the first line. */
  #lineStart = -1;
  /** Number of continuation lines of the current line so far. */
  #foldCount = 0;
  /** Whether the value of the current line stays in the text: the line is no attribute, or the value is a URL. */
  #staysInText = false;
  #value: LongValue | undefined;
  #isAtLineStart = true;
  /** Whether the last byte was a CR, which may be part of a line end. */
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

  /** The first bytes of the record as in the file, at most `REJECT_BYTES`. */
  get beginning(): Buffer {
    return this.#beginning;
  }

  get tail(): Buffer {
    return this.#tail;
  }

  /** Consumes bytes up to the end of the record. Returns the number of bytes consumed. */
  push(chunk: Buffer): number {
    let offset = 0;
    while (offset < chunk.length && !this.isEnded) {
      const lfOffset = chunk.indexOf(LF, offset);
      const end = lfOffset < 0 ? chunk.length : lfOffset;
      this.#pushContent(chunk.subarray(offset, end));
      if (lfOffset >= 0) this.#endLine();
      offset = lfOffset < 0 ? end : end + 1;
    }
    this.byteCount += offset;
    const consumed = chunk.subarray(0, offset);
    if (this.#beginning.length < REJECT_BYTES)
      this.#beginning = Buffer.concat([this.#beginning, consumed]).subarray(0, REJECT_BYTES);
    this.#tail = Buffer.concat([this.#tail, consumed.subarray(-2)]).subarray(-2);
    return offset;
  }

  end(): void {
    this.#endLogicalLine();
  }

  #pushContent(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#hasPendingCr) this.#pushPart(CR_BYTES);
    this.#hasPendingCr = bytes[bytes.length - 1] === CR;
    const content = this.#hasPendingCr ? bytes.subarray(0, bytes.length - 1) : bytes;
    if (content.length > 0) this.#pushPart(content);
  }

  /** Adds some bytes of a physical line, without its line end. */
  #pushPart(bytes: Buffer): void {
    let start = 0;
    if (this.#isAtLineStart) {
      this.#isAtLineStart = false;
      if (bytes[0] !== SPACE || this.#lineStart < 0) this.#beginLogicalLine();
      else {
        this.#foldCount++;
        if (this.#value) start = 1;
      }
    }
    if (this.#value) this.#value.push(bytes.subarray(start));
    else {
      this.#text.push(bytes);
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

/** A value that arrives in several calls of `push`. */
class LongValue {
  readonly #decoder: Base64Decoder | undefined;
  readonly #bytes: GrowingBytes;
  /** Whether only spaces have arrived so far. */
  #isBlank = true;

  constructor(isBase64: boolean, maxBytes: number) {
    this.#decoder = isBase64 ? new Base64Decoder() : undefined;
    this.#bytes = new GrowingBytes(maxBytes);
  }

  push(bytes: Buffer): void {
    let start = 0;
    if (this.#isBlank) {
      while (bytes[start] === SPACE) start++;
      this.#isBlank = start === bytes.length;
    }
    const text = bytes.subarray(start);
    this.#bytes.push(this.#decoder ? this.#decoder.push(text) : text);
  }

  /** Returns the value, or the mistake in it as a string. */
  end(): Buffer | string {
    if (this.#decoder) return this.#decoder.end() ?? this.#bytes.finish();
    // CRs before line ends were removed before. Any other CR is a mistake.
    return this.#bytes.view().includes(CR) ? CR_ALONE : this.#bytes.finish();
  }
}

/** Capacities of small buffers. A larger buffer gets the maximum: memory is in use only when it is written to. */
const CAPACITIES = [1024 * 1024, 16 * 1024 * 1024];

/** A growing buffer that uses little more memory than the bytes stored in it. */
class GrowingBytes {
  readonly #maxLength: number;
  #bytes: Buffer = Buffer.alloc(0);
  length = 0;

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  push(bytes: Buffer): void {
    const neededLength = this.length + bytes.length;
    if (neededLength > this.#bytes.length) {
      const capacity = CAPACITIES.find((size) => size >= neededLength) ?? Math.max(this.#maxLength, neededLength);
      const largerBuffer = Buffer.allocUnsafeSlow(capacity);
      this.view().copy(largerBuffer);
      this.#bytes = largerBuffer;
    }
    bytes.copy(this.#bytes, this.length);
    this.length = neededLength;
  }

  /** Returns the bytes stored so far. The view is valid until the next `push`. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Returns all bytes. Copies them to a buffer of exact size if that costs little. */
  finish(): Buffer {
    return this.#bytes.length > CAPACITIES[1]! ? this.view() : Buffer.from(this.view());
  }
}
