import { crProblem } from '../bytes/text-form.js';
import { LdifFault } from './ldif-types.js';
import type { LongLine } from './long-record.js';
import { type AttributeName, extendHash, type NameTable } from './names.js';
import { LEFT_OUT } from './write.js';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const HASH = 0x23;
const COLON = 0x3a;

/** A line of up to this number of bytes is searched in a loop, a longer one by `indexOf`. */
const SHORT_LINE = 200;
const MAX_NAME_SHOWN = 40;
const SPACES_MESSAGE = 'a line of spaces alone continues the line before it; make it empty, so that it ends the record';

/**
 * Reads the logical lines of a block of whole records: skips comments and joins folded lines. The current line is
 * `bytes[start, stop)`, a view of the block unless it was folded. Reading a line allocates nothing.
 */
export class LineReader {
  readonly #block: Buffer;
  readonly #nameTable: NameTable;
  readonly #hasCr: boolean;
  #offset = 0;
  /** Number of the physical line at `#offset`. */
  #nextLineNumber: number;
  #isRecordEnded = false;
  /** Lines whose values `LongRecord` has decoded, by offset in the block. */
  readonly #longLines: ReadonlyMap<number, LongLine> | undefined;

  /** Comments so far that begin with `LEFT_OUT`. */
  leftOutCount = 0;
  bytes: Buffer;
  start = 0;
  stop = 0;
  /** Line number in the file where the current line begins. */
  number = 0;
  /** Offsets in the block of the first byte of the current line and of the next line, with continuation lines. */
  rangeStart = 0;
  rangeEnd = 0;
  /** Offset in `bytes` of the colon after the name that `readName()` returned. */
  colonOffset = 0;
  /** Number of the record's last line of spaces, which continues the line before; 0 if there is none. */
  #spacesLineNumber = 0;
  /** The decoded value of the current line if `LongRecord` has decoded it. */
  longLine: LongLine | undefined;

  constructor(block: Buffer, firstLine: number, names: NameTable, longLines: readonly LongLine[] = []) {
    if (longLines.length > 0) this.#longLines = new Map(longLines.map((line) => [line.offset, line]));
    this.#block = block;
    this.#nameTable = names;
    this.#hasCr = block.includes(CR);
    this.#nextLineNumber = firstLine;
    this.bytes = block;
  }

  get nextLineNumber(): number {
    return this.#nextLineNumber;
  }

  /** Moves to the next record, past blank lines and lines of spaces. Returns false at the end of the block. */
  nextRecord(): boolean {
    const block = this.#block;
    this.#isRecordEnded = false;
    this.#spacesLineNumber = 0;
    for (;;) {
      if (this.#offset >= block.length) return false;
      let offset = this.#offset;
      while (block[offset] === SPACE) offset++;
      if (block[offset] === CR) offset++;
      if (offset < block.length && block[offset] !== LF) return true;
      this.#offset = offset + 1;
      this.#nextLineNumber++;
    }
  }

  /**
   * Moves to the next line of the record. Returns false at the end of the record (a blank line, which is consumed, or
   * the end of the block) until `nextRecord` is called.
   */
  nextLine(): boolean {
    if (this.#isRecordEnded) return false;
    const block = this.#block;
    const blockEnd = block.length;
    for (;;) {
      const lineStart = this.#offset;
      if (lineStart >= blockEnd) return this.#endRecord();
      let contentEnd = this.#contentEnd(lineStart);
      const lineNumber = this.#nextLineNumber++;
      if (contentEnd === lineStart) return this.#endRecord();
      const isFolded = this.#offset < blockEnd && block[this.#offset] === SPACE;
      while (this.#offset < blockEnd && block[this.#offset] === SPACE) {
        let offset = this.#offset;
        contentEnd = this.#contentEnd(offset);
        while (offset < contentEnd && block[offset] === SPACE) offset++;
        if (offset === contentEnd) this.#spacesLineNumber = this.#nextLineNumber;
        this.#nextLineNumber++;
      }
      // A comment with a CR inside is not skipped, but read as a line. The CR may be the line end of another system,
      // and skipping would lose the text after it.
      if (block[lineStart] === HASH && !(this.#hasCr && crProblem(block, lineStart, this.#offset))) {
        if (block.toString('latin1', lineStart, lineStart + LEFT_OUT.length) === LEFT_OUT) this.leftOutCount++;
        continue;
      }
      if (this.#longLines) this.#readLongLine(lineStart);
      this.number = lineNumber;
      this.rangeStart = lineStart;
      this.rangeEnd = Math.min(this.#offset, blockEnd);
      if (isFolded) this.#unfold(lineStart, contentEnd);
      else {
        this.bytes = block;
        this.start = lineStart;
        this.stop = contentEnd;
      }
      return true;
    }
  }

  #readLongLine(start: number): void {
    this.longLine = this.#longLines!.get(start);
    this.#nextLineNumber += this.longLine?.foldCount ?? 0;
  }

  /** Returns the likely cause of a fault in the current line: a CR or a line of spaces, else `fault` itself. */
  rootCauseOf(fault: LdifFault): LdifFault {
    const { bytes, start, stop, number } = this;
    const problem = crProblem(this.#block, this.rangeStart, this.rangeEnd);
    if (problem) return new LdifFault(number, problem);
    const isDn = bytes.toString('latin1', start, Math.min(stop, start + 3)).toLowerCase() === 'dn:';
    return this.#spacesLineNumber > 0 && isDn ? new LdifFault(this.#spacesLineNumber, SPACES_MESSAGE) : fault;
  }

  skipRecord(): void {
    while (this.nextLine());
  }

  #endRecord(): false {
    this.#isRecordEnded = true;
    return false;
  }

  /** Returns the attribute description before the colon of the line. */
  readName(): AttributeName {
    const { bytes, start, stop } = this;
    const problem = this.#hasCr && crProblem(this.#block, this.rangeStart, this.rangeEnd);
    if (problem) throw new LdifFault(this.number, problem);
    const predictedName = this.#nameTable.predict(bytes, start, stop);
    if (predictedName) {
      this.colonOffset = start + predictedName.bytes.length;
      return predictedName;
    }
    let hash = 0;
    let offset = start;
    for (; offset < stop; offset++) {
      const byte = bytes[offset]!;
      if (byte === COLON) break;
      hash = extendHash(hash, byte);
    }
    if (offset === stop || bytes[start] === SPACE) throw new LdifFault(this.number, this.#describeNonAttribute());
    this.colonOffset = offset;
    const name = this.#nameTable.intern(bytes, start, offset, hash);
    if (!name) throw new LdifFault(this.number, `${quoteName(bytes, start, offset)} is not an attribute description`);
    return name;
  }

  /** Returns the end of the content of the physical line at `start`. Moves `#offset` to the next line. */
  #contentEnd(start: number): number {
    const block = this.#block;
    const shortEnd = Math.min(block.length, start + SHORT_LINE);
    let offset = start;
    while (offset < shortEnd && block[offset] !== LF) offset++;
    if (offset === shortEnd && offset < block.length) {
      const lfOffset = block.indexOf(LF, offset);
      offset = lfOffset < 0 ? block.length : lfOffset;
    }
    this.#offset = offset + 1;
    return offset > start && block[offset - 1] === CR ? offset - 1 : offset;
  }

  /** Joins the physical lines in `block[start, stop)`, without line ends and the space after each. */
  #unfold(start: number, stop: number): void {
    const block = this.#block;
    const unfolded = Buffer.allocUnsafe(stop - start);
    let length = 0;
    for (let offset = start; offset <= stop; ) {
      const lfOffset = block.indexOf(LF, offset);
      const lineEnd = lfOffset < 0 || lfOffset > stop ? stop : lfOffset;
      const contentEnd = lineEnd > offset && block[lineEnd - 1] === CR && lineEnd < stop ? lineEnd - 1 : lineEnd;
      length += block.copy(unfolded, length, offset, contentEnd);
      offset = lineEnd + 2;
    }
    this.bytes = unfolded;
    this.start = 0;
    this.stop = length;
  }

  #describeNonAttribute(): string {
    const { bytes, start, stop } = this;
    if (bytes[start] === SPACE) return 'a continuation line with no line before it';
    if (bytes.subarray(start, stop).every((byte) => byte === SPACE || byte === TAB))
      return 'a line of white space alone; make it empty, or remove it';
    // The line may contain anything, even a secret. The message therefore shows only its length.
    return stop - start === 1 && bytes[start] === 0x2d
      ? '"-" stands only between the changes of "changetype: modify"'
      : `no colon in this line of ${stop - start} bytes; expected "attribute: value"`;
  }
}

function quoteName(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('latin1', start, Math.min(end, start + MAX_NAME_SHOWN));
  return JSON.stringify(end - start > MAX_NAME_SHOWN ? text + '…' : text);
}
