import { CR_DOUBLED, crProblem, utf16Problem } from '../bytes/text-form.js';
import { type LdifDetachedValue, LdifFault, type LdifOptions, type LdifRecord } from './ldif-types.js';
import { LineReader } from './lines.js';
import { LongRecord, REJECT_BYTES } from './long-record.js';
import { NameTable } from './names.js';
import { checkVersion, type RecordBody, readRecord } from './record.js';
import { MAX_RECORD_BYTES } from './values.js';

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const LONG_RECORD = 1024 * 1024;
/** In a long record, lines above this fraction of the size of a long record are decoded on arrival. */
const LONG_LINE = 1 / 16;
/** Not an attribute line, so that a truncated record fails to import. */
const TRUNCATED_NOTE = Buffer.from('\n(the rest of the record is left out here)\n');
const OMITTED_NOTE = Buffer.from('(the text is left out here)\n');

/**
 * Reads LDIF (RFC 2849) from chunks of any size; content and change records may be mixed. A blank line always ends a
 * record. Everything up to the last blank line of a chunk is therefore parsed at once, with values that are views of
 * the chunk. The rest waits for the next chunk. The caller must not change chunks afterwards.
 *
 *   const parser = new LdifParser();
 *   for await (const chunk of stream) for (const record of parser.push(chunk)) …
 *   for (const record of parser.end()) …
 */
export class LdifParser {
  readonly #options: LdifOptions;
  readonly #maxBytes: number;
  readonly #longBytes: number;
  readonly #names = new NameTable();
  /** Bytes of records that are not complete. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Byte offset and line in the file where `#pending` begins. */
  #offset = 0;
  #line = 1;
  /** The first two bytes of the file, as far as they have arrived. */
  #firstBytes: Buffer = Buffer.alloc(0);
  /** Whether the file is no LDIF at all (UTF-16). The rest of the file is ignored. */
  #isUtf16 = false;
  /** Beginning of a record that is too long, while the rest of the record is skipped. */
  #oversized: { line: number; offset: number; text: Buffer } | undefined;
  /** The current record if it is long. `#pending` is empty then. */
  #longRecord: LongRecord | undefined;

  constructor(options: LdifOptions = {}) {
    this.#options = options;
    this.#maxBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
    this.#longBytes = options.longRecordBytes ?? LONG_RECORD;
  }

  push(chunk: Buffer): LdifRecord[] {
    if (this.#isUtf16) return [];
    if (this.#firstBytes.length < 2) {
      this.#firstBytes = Buffer.concat([this.#firstBytes, chunk.subarray(0, 2 - this.#firstBytes.length)]);
      const problem = utf16Problem(this.#firstBytes);
      if (problem) return [this.#rejectFile(problem)];
    }
    if (this.#longRecord) return this.#pushLongRecord(this.#longRecord, chunk);
    const cut = this.#lastBoundary(chunk);
    let records: LdifRecord[] = [];
    if (cut > 0) {
      this.#addPending(chunk.subarray(0, cut));
      records = this.#parsePending();
    }
    if (cut < chunk.length) this.#addPending(chunk.subarray(cut));
    if (this.#pendingBytes > this.#maxBytes) this.#skipOversized();
    else if (this.#pendingBytes > this.#longBytes && !this.#oversized) this.#beginLongRecord();
    return records;
  }

  /** Returns one failure for the whole file, since every record would fail for the same reason. */
  #rejectFile(problem: string): LdifRecord {
    this.#isUtf16 = true;
    this.#takePending();
    return { kind: 'error', line: 1, faultLine: 1, offset: 0, text: OMITTED_NOTE, reason: `line 1: ${problem}` };
  }

  /** Called when the pending bytes are the beginning of one record. */
  #beginLongRecord(): void {
    const pending = this.#stripBom(this.#takePending());
    this.#longRecord = new LongRecord(this.#longBytes * LONG_LINE, this.#maxBytes);
    this.#longRecord.push(pending);
  }

  #pushLongRecord(long: LongRecord, chunk: Buffer): LdifRecord[] {
    const taken = long.push(chunk);
    if (long.ended) {
      const records = this.#parseLongRecord(long);
      return taken < chunk.length ? [...records, ...this.push(chunk.subarray(taken))] : records;
    }
    if (long.byteCount > this.#maxBytes) {
      this.#longRecord = undefined;
      this.#oversized = { line: this.#line, offset: this.#offset, text: long.head };
      const { tail } = long;
      this.#line += long.lineCount - countLines(tail, tail.length);
      this.#offset += long.byteCount - tail.length;
      this.#addPending(tail);
    }
    return [];
  }

  #parseLongRecord(long: LongRecord): LdifRecord[] {
    this.#longRecord = undefined;
    const records: LdifRecord[] = [];
    this.#parse(long.text, records, long);
    return records;
  }

  /** Returns the last record, if no blank line follows it. */
  end(): LdifRecord[] {
    if (!this.#longRecord) return this.#parsePending();
    this.#longRecord.end();
    return this.#parseLongRecord(this.#longRecord);
  }

  /** Returns the offset after the last blank line that ends in `chunk`, or 0. */
  #lastBoundary(chunk: Buffer): number {
    for (let at = chunk.length - 1; at >= 0; at--) {
      if (chunk[at] !== LF) continue;
      const before = this.#byteAt(chunk, at - 1);
      if (before === LF || (before === CR && this.#byteAt(chunk, at - 2) === LF)) return at + 1;
    }
    return 0;
  }

  /** Returns a byte of the chunk. Negative offsets reach back into the pending bytes. */
  #byteAt(chunk: Buffer, at: number): number | undefined {
    if (at >= 0) return chunk[at];
    let back = -at;
    for (let i = this.#pending.length - 1; i >= 0; i--) {
      const part = this.#pending[i]!;
      if (back <= part.length) return part[part.length - back];
      back -= part.length;
    }
    return undefined;
  }

  #addPending(part: Buffer): void {
    this.#pending.push(part);
    this.#pendingBytes += part.length;
  }

  #takePending(): Buffer {
    const joined = this.#pending.length === 1 ? this.#pending[0]! : Buffer.concat(this.#pending, this.#pendingBytes);
    this.#pending = [];
    this.#pendingBytes = 0;
    return joined;
  }

  /** The pending bytes are one record that is too long. Keeps its beginning, and the last bytes to detect its end. */
  #skipOversized(): void {
    const pending = this.#takePending();
    this.#oversized ??= {
      line: this.#line,
      offset: this.#offset,
      text: Buffer.from(pending.subarray(0, REJECT_BYTES)),
    };
    const rest = pending.length - 2;
    this.#line += countLines(pending, rest);
    this.#offset += rest;
    this.#addPending(Buffer.from(pending.subarray(rest)));
  }

  #parsePending(): LdifRecord[] {
    let block = this.#takePending();
    const records: LdifRecord[] = [];
    if (this.#oversized) {
      const { line, offset, text } = this.#oversized;
      records.push(this.#lengthError(line, offset, text));
      this.#oversized = undefined;
      const rest = firstBoundary(block);
      this.#line += countLines(block, rest);
      this.#offset += rest;
      block = block.subarray(rest);
    }
    block = this.#stripBom(block);
    this.#parse(block, records);
    return records;
  }

  #stripBom(block: Buffer): Buffer {
    if (this.#offset > 0 || !block.subarray(0, BOM.length).equals(BOM)) return block;
    this.#offset += BOM.length;
    return block.subarray(BOM.length);
  }

  #parse(block: Buffer, records: LdifRecord[], long?: LongRecord): void {
    const lines = new LineReader(block, this.#line, this.#names, long?.longLines);
    while (lines.nextRecord()) {
      const record = this.#readRecord(lines, block);
      if (record) records.push(long ? attachValues(record, record.offset - this.#offset, long) : record);
      this.#names.clearIfLarge();
    }
    this.#line = lines.nextNumber;
    this.#offset += long ? long.byteCount : block.length;
  }

  /** Reads one record. Returns undefined for a record of comments alone or of `version:` alone. */
  #readRecord(lines: LineReader, block: Buffer): LdifRecord | undefined {
    if (!lines.next()) return undefined;
    let { number: line, from } = lines;
    let body: RecordBody;
    try {
      if (lines.readName().group.lower === 'version') {
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
    if (text.length > this.#maxBytes) return this.#lengthError(line, offset, text.subarray(0, REJECT_BYTES));
    // Bulk loads consist of content records. Copying their properties would cost more than reading them.
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

/** Adds the values that the text lacks. A record with an invalid value keeps only its beginning as text. */
function attachValues(record: LdifRecord, from: number, { text, longLines, head }: LongRecord): LdifRecord {
  const apart: LdifDetachedValue[] = [];
  for (const { offset, value } of longLines) {
    if (typeof value === 'string') return { ...record, text: Buffer.concat([head, TRUNCATED_NOTE]) };
    apart.push({ at: text.indexOf(LF, offset) - from, value });
  }
  return { ...record, apart };
}

/** Returns the offset after the first blank line that follows another line, or the length of the block. */
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
