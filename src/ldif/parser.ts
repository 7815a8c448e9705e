import { CR_DOUBLED, crProblem, utf16Problem } from '../bytes/text-form.js';
import { type LdifApart, LdifFault, type LdifOptions, type LdifRecord } from './ldif-types.js';
import { Lines } from './lines.js';
import { KEPT, LongRecord } from './long-record.js';
import { Names } from './names.js';
import { checkVersion, type RecordBody, readRecord } from './record.js';
import { MAX_RECORD_BYTES } from './values.js';

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const LONG_RECORD = 1024 * 1024;
/** Of a long record values are taken apart when their line has this part of the length that makes a record long. */
const LONG_LINE = 1 / 16;
/** No attribute line, so that what is left of a record is not imported for the whole. */
const CUT = Buffer.from('\n(the rest of the record is left out here)\n');
const FOREIGN = Buffer.from('(the text is left out here)\n');

/**
 * Reads LDIF (RFC 2849) piece by piece: content and change records, mixed, in any pieces. A blank line ends a record
 * whatever is in it, so everything up to the last blank line of a piece is whole records and is parsed at once, the
 * values being views of it; the rest waits. The parser owns the chunks: they must not be written to afterwards.
 *
 *   const parser = new LdifParser();
 *   for await (const chunk of stream) for (const record of parser.push(chunk)) …
 *   for (const record of parser.end()) …
 */
export class LdifParser {
  readonly #options: LdifOptions;
  readonly #maxBytes: number;
  readonly #longBytes: number;
  readonly #names = new Names();
  /** Bytes of the records that are not whole yet. */
  #parts: Buffer[] = [];
  #held = 0;
  /** Byte and line of the file where `#parts` begin. */
  #offset = 0;
  #line = 1;
  /** The first two bytes, as far as they came. */
  #start: Buffer = Buffer.alloc(0);
  /** The text is no LDIF in any part: nothing of it is read any more. */
  #isForeign = false;
  /** Beginning of a record that is too long, while the rest of it is passed over. */
  #tooLong: { line: number; offset: number; text: Buffer } | undefined;
  /** The record in hand, where it is long: nothing else is held then. */
  #long: LongRecord | undefined;

  constructor(options: LdifOptions = {}) {
    this.#options = options;
    this.#maxBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
    this.#longBytes = options.longRecordBytes ?? LONG_RECORD;
  }

  /** The records that this chunk completes, in order. */
  push(chunk: Buffer): LdifRecord[] {
    if (this.#isForeign) return [];
    if (this.#start.length < 2) {
      this.#start = Buffer.concat([this.#start, chunk.subarray(0, 2 - this.#start.length)]);
      const problem = utf16Problem(this.#start);
      if (problem) return [this.#foreign(problem)];
    }
    if (this.#long) return this.#pushLong(this.#long, chunk);
    const cut = this.#lastBoundary(chunk);
    let records: LdifRecord[] = [];
    if (cut > 0) {
      this.#keep(chunk.subarray(0, cut));
      records = this.#parseHeld();
    }
    if (cut < chunk.length) this.#keep(chunk.subarray(cut));
    if (this.#held > this.#maxBytes) this.#overflow();
    else if (this.#held > this.#longBytes && !this.#tooLong) this.#beginLong();
    return records;
  }

  /** Stands for all records: each of them would be refused for the same reason. */
  #foreign(problem: string): LdifRecord {
    this.#isForeign = true;
    this.#join();
    return { kind: 'error', line: 1, faultLine: 1, offset: 0, text: FOREIGN, reason: `line 1: ${problem}` };
  }

  /** What is held is the beginning of one record. */
  #beginLong(): void {
    const held = this.#withoutMark(this.#join());
    this.#long = new LongRecord(this.#longBytes * LONG_LINE, this.#maxBytes);
    this.#long.push(held);
  }

  #pushLong(long: LongRecord, chunk: Buffer): LdifRecord[] {
    const taken = long.push(chunk);
    if (long.ended) {
      const records = this.#parseLong(long);
      return taken < chunk.length ? [...records, ...this.push(chunk.subarray(taken))] : records;
    }
    if (long.bytes > this.#maxBytes) {
      this.#long = undefined;
      this.#tooLong = { line: this.#line, offset: this.#offset, text: long.head };
      const { tail } = long;
      this.#line += long.lineEnds - countLines(tail, tail.length);
      this.#offset += long.bytes - tail.length;
      this.#keep(tail);
    }
    return [];
  }

  #parseLong(long: LongRecord): LdifRecord[] {
    this.#long = undefined;
    const records: LdifRecord[] = [];
    this.#parse(long.text, records, long);
    return records;
  }

  /** The last record, where no blank line follows it. */
  end(): LdifRecord[] {
    if (!this.#long) return this.#parseHeld();
    this.#long.end();
    return this.#parseLong(this.#long);
  }

  /** Offset in `chunk` after the last blank line that ends in it, 0 when none does. */
  #lastBoundary(chunk: Buffer): number {
    for (let at = chunk.length - 1; at >= 0; at--) {
      if (chunk[at] !== LF) continue;
      const before = this.#byte(chunk, at - 1);
      if (before === LF || (before === CR && this.#byte(chunk, at - 2) === LF)) return at + 1;
    }
    return 0;
  }

  /** Byte of the chunk; negative offsets reach back into what is held. */
  #byte(chunk: Buffer, at: number): number | undefined {
    if (at >= 0) return chunk[at];
    let back = -at;
    for (let i = this.#parts.length - 1; i >= 0; i--) {
      const part = this.#parts[i]!;
      if (back <= part.length) return part[part.length - back];
      back -= part.length;
    }
    return undefined;
  }

  #keep(part: Buffer): void {
    this.#parts.push(part);
    this.#held += part.length;
  }

  #join(): Buffer {
    const joined = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts, this.#held);
    this.#parts = [];
    this.#held = 0;
    return joined;
  }

  /** What is held is one record, too long: only its beginning is kept and, to find its end, the last bytes. */
  #overflow(): void {
    const held = this.#join();
    this.#tooLong ??= { line: this.#line, offset: this.#offset, text: Buffer.from(held.subarray(0, KEPT)) };
    const rest = held.length - 2;
    this.#line += countLines(held, rest);
    this.#offset += rest;
    this.#keep(Buffer.from(held.subarray(rest)));
  }

  #parseHeld(): LdifRecord[] {
    let block = this.#join();
    const records: LdifRecord[] = [];
    if (this.#tooLong) {
      const { line, offset, text } = this.#tooLong;
      records.push(this.#lengthError(line, offset, text));
      this.#tooLong = undefined;
      const rest = firstBoundary(block);
      this.#line += countLines(block, rest);
      this.#offset += rest;
      block = block.subarray(rest);
    }
    block = this.#withoutMark(block);
    this.#parse(block, records);
    return records;
  }

  /** Without the byte order mark that a file may begin with. */
  #withoutMark(block: Buffer): Buffer {
    if (this.#offset > 0 || !block.subarray(0, BOM.length).equals(BOM)) return block;
    this.#offset += BOM.length;
    return block.subarray(BOM.length);
  }

  #parse(block: Buffer, records: LdifRecord[], long?: LongRecord): void {
    const lines = new Lines(block, this.#line, this.#names, long?.lines);
    while (lines.nextRecord()) {
      const record = this.#record(lines, block);
      if (record) records.push(long ? withApart(record, record.offset - this.#offset, long) : record);
      this.#names.trim();
    }
    this.#line = lines.nextNumber;
    this.#offset += long ? long.bytes : block.length;
  }

  /** One record; undefined for comments alone, or a `version:` alone. */
  #record(lines: Lines, block: Buffer): LdifRecord | undefined {
    if (!lines.next()) return undefined;
    let { number: line, from } = lines;
    let body: RecordBody;
    try {
      if (lines.name().group.lower === 'version') {
        checkVersion(lines, this.#options);
        if (!lines.next()) return undefined;
        ({ number: line, from } = lines);
      }
      body = readRecord(lines, this.#options);
    } catch (error) {
      if (!(error instanceof LdifFault)) throw error;
      const { line: faultLine, message } = lines.causeOf(error);
      lines.skipRecord();
      body = { kind: 'error', faultLine, reason: `line ${faultLine}: ${message}` };
    }
    const offset = this.#offset + from;
    const text = block.subarray(from, lines.end);
    if (text.length > this.#maxBytes) return this.#lengthError(line, offset, text.subarray(0, KEPT));
    // The kind that a bulk load consists of is built without a copy of properties: that costs more than reading it.
    if (body.kind === 'content')
      return { kind: 'content', line, offset, text, dn: body.dn, attributes: body.attributes };
    return { ...body, line, offset, text };
  }

  #lengthError(line: number, offset: number, text: Buffer): LdifRecord {
    const problem = crProblem(text, 0, text.length);
    const why = problem && (problem === CR_DOUBLED || !text.includes(LF)) ? `; ${problem}` : '';
    const reason = `line ${line}: a record of more than ${this.#maxBytes} bytes${why}`;
    return { kind: 'error', faultLine: line, reason, line, offset, text };
  }
}

/** The record with the values that are not in its text; of one in which such a value is wrong the beginning is kept. */
function withApart(record: LdifRecord, from: number, { text, lines, head }: LongRecord): LdifRecord {
  const apart: LdifApart[] = [];
  for (const { at, value } of lines) {
    if (typeof value === 'string') return { ...record, text: Buffer.concat([head, CUT]) };
    apart.push({ at: text.indexOf(LF, at) - from, value });
  }
  return { ...record, apart };
}

/** Offset after the first blank line that follows another line, or the block's length. */
function firstBoundary(block: Buffer): number {
  for (let at = block.indexOf(LF); at >= 0; at = block.indexOf(LF, at + 1)) {
    if (block[at + 1] === LF) return at + 2;
    if (block[at + 1] === CR && block[at + 2] === LF) return at + 3;
  }
  return block.length;
}

function countLines(bytes: Buffer, to: number): number {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0 && at < to; at = bytes.indexOf(LF, at + 1)) count++;
  return count;
}
