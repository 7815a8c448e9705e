import { crProblem } from '../bytes/text-form.js';
import { LdifFault } from './ldif-types.js';
import type { LongLine } from './long-record.js';
import { type AttributeName, extendHash, type NameTable } from './names.js';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const HASH = 0x23;
const COLON = 0x3a;

/** Longer lines are searched by `indexOf`, shorter ones faster by a loop. */
const SHORT_LINE = 200;
const MAX_NAME_SHOWN = 40;
const SPACES_MESSAGE = 'a line of spaces alone continues the line before it; make it empty, so that it ends the record';

/**
 * Reads the logical lines of a block of whole records: comments are skipped and folded lines joined. The current line
 * is `bytes[start, stop)`, a view of the block unless it was folded. Reading a line allocates nothing.
 */
export class LineReader {
  readonly #block: Buffer;
  readonly #nameTable: NameTable;
  readonly #hasCr: boolean;
  #offset = 0;
  /** Number of the physical line at `#offset`. */
  #nextLineNumber: number;
  #isRecordEnded = false;
  /** Lines whose values `LongRecord` has decoded already, by offset in the block. */
  readonly #longLines: ReadonlyMap<number, LongLine> | undefined;

  bytes: Buffer;
  start = 0;
  stop = 0;
  /** Number of the first physical line of the current line. */
  number = 0;
  /** Range of the current line in the block, from its first physical line to the start of the next line. */
  rangeStart = 0;
  rangeEnd = 0;
  /** Offset in `bytes` of the colon after the name that `readName()` returned. */
  colonOffset = 0;
  /** Number of the last line in the record that has only spaces, and so continues the line before; 0 if none. */
  #spacesLineNumber = 0;
  /** The decoded value of the current line, if `LongRecord` has decoded it. */
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
      let at = this.#offset;
      while (block[at] === SPACE) at++;
      if (block[at] === CR) at++;
      if (at < block.length && block[at] !== LF) return true;
      this.#offset = at + 1;
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
        let at = this.#offset;
        contentEnd = this.#contentEnd(at);
        while (at < contentEnd && block[at] === SPACE) at++;
        if (at === contentEnd) this.#spacesLineNumber = this.#nextLineNumber;
        this.#nextLineNumber++;
      }
      // Not a comment with a CR inside, which would hide the text behind the CR.
      if (block[lineStart] === HASH && !(this.#hasCr && crProblem(block, lineStart, this.#offset))) continue;
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

  #readLongLine(from: number): void {
    this.longLine = this.#longLines!.get(from);
    this.#nextLineNumber += this.longLine?.foldCount ?? 0;
  }

  /** Returns the root cause of a fault in the current line: a CR or a line of spaces, if any, else `fault` itself. */
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
    let at = start;
    for (; at < stop; at++) {
      const byte = bytes[at]!;
      if (byte === COLON) break;
      hash = extendHash(hash, byte);
    }
    if (at === stop || bytes[start] === SPACE) throw new LdifFault(this.number, this.#describeNonAttribute());
    this.colonOffset = at;
    const name = this.#nameTable.intern(bytes, start, at, hash);
    if (!name) throw new LdifFault(this.number, `${quoteName(bytes, start, at)} is not an attribute description`);
    return name;
  }

  /** Returns the end of the content of the physical line at `from`, and moves `#offset` to the next line. */
  #contentEnd(from: number): number {
    const block = this.#block;
    const shortEnd = Math.min(block.length, from + SHORT_LINE);
    let at = from;
    while (at < shortEnd && block[at] !== LF) at++;
    if (at === shortEnd && at < block.length) {
      const lfOffset = block.indexOf(LF, at);
      at = lfOffset < 0 ? block.length : lfOffset;
    }
    this.#offset = at + 1;
    return at > from && block[at - 1] === CR ? at - 1 : at;
  }

  /** Joins the physical lines in `block[from, stop)` without the line ends and the spaces after them. */
  #unfold(from: number, stop: number): void {
    const block = this.#block;
    const unfolded = Buffer.allocUnsafe(stop - from);
    let length = 0;
    for (let at = from; at <= stop; ) {
      const lfOffset = block.indexOf(LF, at);
      const lineEnd = lfOffset < 0 || lfOffset > stop ? stop : lfOffset;
      const contentEnd = lineEnd > at && block[lineEnd - 1] === CR && lineEnd < stop ? lineEnd - 1 : lineEnd;
      length += block.copy(unfolded, length, at, contentEnd);
      at = lineEnd + 2;
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
    // A line without an attribute description may contain anything, even a secret: the message has only its length.
    return stop - start === 1 && bytes[start] === 0x2d
      ? '"-" stands only between the changes of "changetype: modify"'
      : `no colon in this line of ${stop - start} bytes; expected "attribute: value"`;
  }
}

function quoteName(bytes: Buffer, from: number, to: number): string {
  const text = bytes.toString('latin1', from, Math.min(to, from + MAX_NAME_SHOWN));
  return JSON.stringify(to - from > MAX_NAME_SHOWN ? text + '…' : text);
}
