import { crProblem } from '../bytes/text-form.js';
import { LdifFault } from './ldif-types.js';
import type { LongLine } from './long-record.js';
import { hashStep, type Name, type NameTable } from './names.js';

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
  readonly #names: NameTable;
  readonly #hasCr: boolean;
  #offset = 0;
  /** Number of the physical line at `#offset`. */
  #nextLine: number;
  /** Whether the end of the record has been passed. */
  #recordEnded = false;
  /** Lines whose values `LongRecord` has decoded already, by offset in the block. */
  readonly #longLines: ReadonlyMap<number, LongLine> | undefined;

  bytes: Buffer;
  start = 0;
  stop = 0;
  /** Number of the first physical line of the current line. */
  number = 0;
  /** Range of the current line in the block, from its first physical line to the start of the next line. */
  from = 0;
  end = 0;
  /** Offset in `bytes` of the colon after the name that `readName()` returned. */
  colon = 0;
  /** Number of the last line in the record that has only spaces, and so continues the line before; 0 if none. */
  #spacesLine = 0;
  /** The decoded value of the current line, if `LongRecord` has decoded it. */
  longLine: LongLine | undefined;

  constructor(block: Buffer, firstLine: number, names: NameTable, longLines: readonly LongLine[] = []) {
    if (longLines.length > 0) this.#longLines = new Map(longLines.map((line) => [line.offset, line]));
    this.#block = block;
    this.#names = names;
    this.#hasCr = block.includes(CR);
    this.#nextLine = firstLine;
    this.bytes = block;
  }

  /** Number of the line that follows. */
  get nextNumber(): number {
    return this.#nextLine;
  }

  /** Moves to the next record, past blank lines and lines of spaces. Returns false at the end of the block. */
  nextRecord(): boolean {
    const block = this.#block;
    this.#recordEnded = false;
    this.#spacesLine = 0;
    for (;;) {
      if (this.#offset >= block.length) return false;
      let at = this.#offset;
      while (block[at] === SPACE) at++;
      if (block[at] === CR) at++;
      if (at < block.length && block[at] !== LF) return true;
      this.#offset = at + 1;
      this.#nextLine++;
    }
  }

  /**
   * Moves to the next line of the record. Returns false at the end of the record (a blank line, which is consumed, or
   * the end of the block) until `nextRecord` is called.
   */
  next(): boolean {
    if (this.#recordEnded) return false;
    const block = this.#block;
    const end = block.length;
    for (;;) {
      const from = this.#offset;
      if (from >= end) return this.#endRecord();
      let stop = this.#contentEnd(from);
      const number = this.#nextLine++;
      if (stop === from) return this.#endRecord();
      const folded = this.#offset < end && block[this.#offset] === SPACE;
      while (this.#offset < end && block[this.#offset] === SPACE) {
        let at = this.#offset;
        stop = this.#contentEnd(at);
        while (at < stop && block[at] === SPACE) at++;
        if (at === stop) this.#spacesLine = this.#nextLine;
        this.#nextLine++;
      }
      // Not a comment with a CR inside, which would hide the text behind the CR.
      if (block[from] === HASH && !(this.#hasCr && crProblem(block, from, this.#offset))) continue;
      if (this.#longLines) this.#readLongLine(from);
      this.number = number;
      this.from = from;
      this.end = Math.min(this.#offset, end);
      if (folded) this.#unfold(from, stop);
      else {
        this.bytes = block;
        this.start = from;
        this.stop = stop;
      }
      return true;
    }
  }

  #readLongLine(from: number): void {
    this.longLine = this.#longLines!.get(from);
    this.#nextLine += this.longLine?.foldCount ?? 0;
  }

  /** Returns the root cause of a fault in the current line: a CR or a line of spaces, if any, else `fault` itself. */
  causeOf(fault: LdifFault): LdifFault {
    const { bytes, start, stop, number } = this;
    const problem = crProblem(this.#block, this.from, this.end);
    if (problem) return new LdifFault(number, problem);
    const isDn = bytes.toString('latin1', start, Math.min(stop, start + 3)).toLowerCase() === 'dn:';
    return this.#spacesLine > 0 && isDn ? new LdifFault(this.#spacesLine, SPACES_MESSAGE) : fault;
  }

  skipRecord(): void {
    while (this.next());
  }

  #endRecord(): false {
    this.#recordEnded = true;
    return false;
  }

  /** Returns the attribute description before the colon of the line. */
  readName(): Name {
    const { bytes, start, stop } = this;
    const problem = this.#hasCr && crProblem(this.#block, this.from, this.end);
    if (problem) throw new LdifFault(this.number, problem);
    const guess = this.#names.predict(bytes, start, stop);
    if (guess) {
      this.colon = start + guess.bytes.length;
      return guess;
    }
    let hash = 0;
    let at = start;
    for (; at < stop; at++) {
      const byte = bytes[at]!;
      if (byte === COLON) break;
      hash = hashStep(hash, byte);
    }
    if (at === stop || bytes[start] === SPACE) throw new LdifFault(this.number, this.#describeNonAttribute());
    this.colon = at;
    const name = this.#names.intern(bytes, start, at, hash);
    if (!name) throw new LdifFault(this.number, `${quoteName(bytes, start, at)} is not an attribute description`);
    return name;
  }

  /** Returns the end of the content of the physical line at `from`, and moves `#offset` to the next line. */
  #contentEnd(from: number): number {
    const block = this.#block;
    const near = Math.min(block.length, from + SHORT_LINE);
    let at = from;
    while (at < near && block[at] !== LF) at++;
    if (at === near && at < block.length) {
      const found = block.indexOf(LF, at);
      at = found < 0 ? block.length : found;
    }
    this.#offset = at + 1;
    return at > from && block[at - 1] === CR ? at - 1 : at;
  }

  /** Joins the physical lines in `block[from, stop)` without the line ends and the spaces after them. */
  #unfold(from: number, stop: number): void {
    const block = this.#block;
    const joined = Buffer.allocUnsafe(stop - from);
    let length = 0;
    for (let at = from; at <= stop; ) {
      const found = block.indexOf(LF, at);
      const next = found < 0 || found > stop ? stop : found;
      const contentEnd = next > at && block[next - 1] === CR && next < stop ? next - 1 : next;
      length += block.copy(joined, length, at, contentEnd);
      at = next + 2;
    }
    this.bytes = joined;
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
