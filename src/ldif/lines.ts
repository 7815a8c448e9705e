import { crProblem } from '../bytes/text-form.js';
import { LdifFault } from './ldif-types.js';
import type { LongLine } from './long-record.js';
import { hashStep, type Name, type Names } from './names.js';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const HASH = 0x23;
const COLON = 0x3a;

/** Lines longer than this are searched by the C library, shorter ones faster here. */
const SHORT = 200;
const MAX_NAME_SHOWN = 40;
const SPACES = 'a line of spaces alone continues the line before it; make it empty, so that it ends the record';

/**
 * The logical lines of a block of whole records: comments left out, folded lines joined, each with its number. The line
 * in hand is `bytes[start, stop)`, in the block itself unless it was folded. Nothing is allocated for a line.
 */
export class Lines {
  readonly #block: Buffer;
  readonly #names: Names;
  readonly #hasCr: boolean;
  #at = 0;
  /** Number of the physical line at `#at`. */
  #next: number;
  /** The record's end has been passed. */
  #ended = false;
  /** Lines of the block whose values stand elsewhere, by where they begin. */
  readonly #apart: ReadonlyMap<number, LongLine> | undefined;

  bytes: Buffer;
  start = 0;
  stop = 0;
  /** Number of its first physical line. */
  number = 0;
  /** Where its first physical line begins in the block, and where the line after it does. */
  from = 0;
  end = 0;
  /** Offset in `bytes` of the colon after the name that `name()` read. */
  colon = 0;
  /** Number of the last line of the record that has spaces alone and so continues the one before it; 0: none. */
  #spaces = 0;
  /** Its value, where that stands elsewhere. */
  apart: LongLine | undefined;

  constructor(block: Buffer, firstLine: number, names: Names, apart: readonly LongLine[] = []) {
    if (apart.length > 0) this.#apart = new Map(apart.map((line) => [line.at, line]));
    this.#block = block;
    this.#names = names;
    this.#hasCr = block.includes(CR);
    this.#next = firstLine;
    this.bytes = block;
  }

  /** Number of the line that follows. */
  get nextNumber(): number {
    return this.#next;
  }

  /**
   * Moves to the next record, past blank lines; false at the end of the block. A line of spaces is blank where it
   * continues nothing.
   */
  nextRecord(): boolean {
    const block = this.#block;
    this.#ended = false;
    this.#spaces = 0;
    for (;;) {
      if (this.#at >= block.length) return false;
      let at = this.#at;
      while (block[at] === SPACE) at++;
      if (block[at] === CR) at++;
      if (at < block.length && block[at] !== LF) return true;
      this.#at = at + 1;
      this.#next++;
    }
  }

  /**
   * The next line of the record; false at its end (a blank line, which is passed, or the end of the block) until
   * `nextRecord`.
   */
  next(): boolean {
    if (this.#ended) return false;
    const block = this.#block;
    const end = block.length;
    for (;;) {
      const from = this.#at;
      if (from >= end) return this.#endRecord();
      let stop = this.#contentEnd(from);
      const number = this.#next++;
      if (stop === from) return this.#endRecord();
      const folded = this.#at < end && block[this.#at] === SPACE;
      while (this.#at < end && block[this.#at] === SPACE) {
        let at = this.#at;
        stop = this.#contentEnd(at);
        while (at < stop && block[at] === SPACE) at++;
        if (at === stop) this.#spaces = this.#next;
        this.#next++;
      }
      // A comment that a CR ends would hide what comes behind it.
      if (block[from] === HASH && !(this.#hasCr && crProblem(block, from, this.#at))) continue;
      if (this.#apart) this.#takeApart(from);
      this.number = number;
      this.from = from;
      this.end = Math.min(this.#at, end);
      if (folded) this.#unfold(from, stop);
      else {
        this.bytes = block;
        this.start = from;
        this.stop = stop;
      }
      return true;
    }
  }

  #takeApart(from: number): void {
    this.apart = this.#apart!.get(from);
    this.#next += this.apart?.folds ?? 0;
  }

  /** The fault in the line in hand, or what has caused it. */
  causeOf(fault: LdifFault): LdifFault {
    const { bytes, start, stop, number } = this;
    const problem = crProblem(this.#block, this.from, this.end);
    if (problem) return new LdifFault(number, problem);
    const isDn = bytes.toString('latin1', start, Math.min(stop, start + 3)).toLowerCase() === 'dn:';
    return this.#spaces > 0 && isDn ? new LdifFault(this.#spaces, SPACES) : fault;
  }

  /** Passes the rest of the record. */
  skipRecord(): void {
    while (this.next());
  }

  #endRecord(): false {
    this.#ended = true;
    return false;
  }

  /** The attribute description before the line's colon. */
  name(): Name {
    const { bytes, start, stop } = this;
    const problem = this.#hasCr && crProblem(this.#block, this.from, this.end);
    if (problem) throw new LdifFault(this.number, problem);
    const guess = this.#names.guess(bytes, start, stop);
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
    if (at === stop || bytes[start] === SPACE) throw new LdifFault(this.number, this.#notAttribute());
    this.colon = at;
    const name = this.#names.get(bytes, start, at, hash);
    if (!name) throw new LdifFault(this.number, `${shown(bytes, start, at)} is not an attribute description`);
    return name;
  }

  /** End of the content of the physical line at `from`; `#at` goes to the next line. */
  #contentEnd(from: number): number {
    const block = this.#block;
    const near = Math.min(block.length, from + SHORT);
    let at = from;
    while (at < near && block[at] !== LF) at++;
    if (at === near && at < block.length) {
      const found = block.indexOf(LF, at);
      at = found < 0 ? block.length : found;
    }
    this.#at = at + 1;
    return at > from && block[at - 1] === CR ? at - 1 : at;
  }

  /** Joins the physical lines in `block[from, stop)`: each line end and the space after it go. */
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

  #notAttribute(): string {
    const { bytes, start, stop } = this;
    if (bytes[start] === SPACE) return 'a continuation line with no line before it';
    if (bytes.subarray(start, stop).every((byte) => byte === SPACE || byte === TAB))
      return 'a line of white space alone; make it empty, or remove it';
    // A line that is no attribute may be anything, a secret among it: only its length is told.
    return stop - start === 1 && bytes[start] === 0x2d
      ? '"-" stands only between the changes of "changetype: modify"'
      : `no colon in this line of ${stop - start} bytes; expected "attribute: value"`;
  }
}

function shown(bytes: Buffer, from: number, to: number): string {
  const text = bytes.toString('latin1', from, Math.min(to, from + MAX_NAME_SHOWN));
  return JSON.stringify(to - from > MAX_NAME_SHOWN ? text + '…' : text);
}
