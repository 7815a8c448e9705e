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
/** A line that is longer than this fraction of `#longRecordBytes` is decoded as it arrives. */
const LONG_LINE = 1 / 16;
/** Appended to a truncated record in the rejects file. Not an attribute line, so that importing the record fails. */
const TRUNCATED_NOTE = Buffer.from('\n(the rest of the record is left out here)\n');
const OMITTED_NOTE = Buffer.from('(the text is left out here)\n');

/**
 * Reads LDIF (RFC 2849) from chunks of any size; content and change records may be mixed. A blank line always ends a
 * record. Therefore everything up to the last blank line of a chunk is parsed at once, and values are views of the
 * chunk. The rest is kept until the next chunk. The caller must not change chunks afterwards.
 * ~ const parser = new LdifParser();
 * for await (const chunk of stream) for (const record of parser.push(chunk)) …
 * for (const record of parser.end()) …
 */
export class LdifParser {
  readonly #options: LdifOptions;
  readonly #maxRecordBytes: number;
  readonly #longRecordBytes: number;
  readonly #nameTable = new NameTable();
  /** Comments so far that tell what a record of an audit log lacks. */
  leftOutCount = 0;
  /** Bytes of an incomplete record. */
  #pendingChunks: Buffer[] = [];
  #pendingLength = 0;
  /** Byte offset in the file where `#pendingChunks` begins. */
  #offset = 0;
  #lineNumber = 1;
  /** The first two bytes of the file, or fewer if no more have arrived. */
  #firstBytes: Buffer = Buffer.alloc(0);
  /** Whether the file is UTF-16, not LDIF. The rest of the file is ignored. */
  #isUtf16 = false;
  /** The beginning of a record that exceeds the limit, while the rest of the record is skipped. */
  #oversizedRecord: { line: number; offset: number; text: Buffer } | undefined;
  /** The current record if it is long. While it is set, `#pendingChunks` is empty. */
  #longRecord: LongRecord | undefined;

  constructor(options: LdifOptions = {}) {
    this.#options = options;
    this.#maxRecordBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
    this.#longRecordBytes = options.longRecordBytes ?? LONG_RECORD;
  }

  push(chunk: Buffer): LdifRecord[] {
    if (this.#isUtf16) return [];
    if (this.#firstBytes.length < 2) {
      this.#firstBytes = Buffer.concat([this.#firstBytes, chunk.subarray(0, 2 - this.#firstBytes.length)]);
      const problem = utf16Problem(this.#firstBytes);
      if (problem) return [this.#rejectFile(problem)];
    }
    if (this.#longRecord) return this.#pushLongRecord(this.#longRecord, chunk);
    const boundary = this.#lastBoundary(chunk);
    let records: LdifRecord[] = [];
    if (boundary > 0) {
      this.#addPendingChunk(chunk.subarray(0, boundary));
      records = this.#parsePendingBytes();
    }
    if (boundary < chunk.length) this.#addPendingChunk(chunk.subarray(boundary));
    if (this.#pendingLength > this.#maxRecordBytes) this.#skipOversizedRecord();
    else if (this.#pendingLength > this.#longRecordBytes && !this.#oversizedRecord) this.#beginLongRecord();
    return records;
  }

  /** Returns a single failure for the whole file, since every record would fail for the same reason. */
  #rejectFile(problem: string): LdifRecord {
    this.#isUtf16 = true;
    this.#takePendingBytes();
    return { kind: 'error', line: 1, faultLine: 1, offset: 0, text: OMITTED_NOTE, reason: `line 1: ${problem}` };
  }

  /** Turns the pending bytes into a long record. They must be the beginning of a single record. */
  #beginLongRecord(): void {
    const pendingBytes = this.#stripBom(this.#takePendingBytes());
    this.#longRecord = new LongRecord(this.#longRecordBytes * LONG_LINE, this.#maxRecordBytes);
    this.#longRecord.push(pendingBytes);
  }

  #pushLongRecord(longRecord: LongRecord, chunk: Buffer): LdifRecord[] {
    const consumedLength = longRecord.push(chunk);
    if (longRecord.isEnded) {
      const records = this.#parseLongRecord(longRecord);
      return consumedLength < chunk.length ? [...records, ...this.push(chunk.subarray(consumedLength))] : records;
    }
    if (longRecord.byteCount > this.#maxRecordBytes) {
      this.#longRecord = undefined;
      this.#oversizedRecord = { line: this.#lineNumber, offset: this.#offset, text: longRecord.beginning };
      const { tail } = longRecord;
      this.#lineNumber += longRecord.lineCount - countLines(tail, tail.length);
      this.#offset += longRecord.byteCount - tail.length;
      this.#addPendingChunk(tail);
    }
    return [];
  }

  #parseLongRecord(longRecord: LongRecord): LdifRecord[] {
    this.#longRecord = undefined;
    const records: LdifRecord[] = [];
    this.#parse(longRecord.text, records, longRecord);
    return records;
  }

  /** Ends the input. Returns the last record, if no blank line follows it. */
  end(): LdifRecord[] {
    if (!this.#longRecord) return this.#parsePendingBytes();
    this.#longRecord.end();
    return this.#parseLongRecord(this.#longRecord);
  }

  /** Returns the offset after the last blank line that ends in `chunk`; 0 if there is none. */
  #lastBoundary(chunk: Buffer): number {
    for (let offset = chunk.length - 1; offset >= 0; offset--) {
      if (chunk[offset] !== LF) continue;
      const previousByte = this.#byteAt(chunk, offset - 1);
      if (previousByte === LF || (previousByte === CR && this.#byteAt(chunk, offset - 2) === LF)) return offset + 1;
    }
    return 0;
  }

  /** Returns a byte of the chunk. A negative offset counts back from the end of the pending bytes. */
  #byteAt(chunk: Buffer, offset: number): number | undefined {
    if (offset >= 0) return chunk[offset];
    let distance = -offset;
    for (let i = this.#pendingChunks.length - 1; i >= 0; i--) {
      const pendingChunk = this.#pendingChunks[i]!;
      if (distance <= pendingChunk.length) return pendingChunk[pendingChunk.length - distance];
      distance -= pendingChunk.length;
    }
    return undefined;
  }

  #addPendingChunk(chunk: Buffer): void {
    this.#pendingChunks.push(chunk);
    this.#pendingLength += chunk.length;
  }

  #takePendingBytes(): Buffer {
    const chunks = this.#pendingChunks;
    const pendingBytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, this.#pendingLength);
    this.#pendingChunks = [];
    this.#pendingLength = 0;
    return pendingBytes;
  }

  /** Starts to skip the pending record, which exceeds the limit. Keeps its beginning, and the last bytes. */
  #skipOversizedRecord(): void {
    const pendingBytes = this.#takePendingBytes();
    this.#oversizedRecord ??= {
      line: this.#lineNumber,
      offset: this.#offset,
      text: Buffer.from(pendingBytes.subarray(0, REJECT_BYTES)),
    };
    const skippedLength = pendingBytes.length - 2;
    this.#lineNumber += countLines(pendingBytes, skippedLength);
    this.#offset += skippedLength;
    this.#addPendingChunk(Buffer.from(pendingBytes.subarray(skippedLength)));
  }

  #parsePendingBytes(): LdifRecord[] {
    let block = this.#takePendingBytes();
    const records: LdifRecord[] = [];
    if (this.#oversizedRecord) {
      const { line, offset, text } = this.#oversizedRecord;
      records.push(this.#lengthError(line, offset, text));
      this.#oversizedRecord = undefined;
      const skippedLength = firstBoundary(block);
      this.#lineNumber += countLines(block, skippedLength);
      this.#offset += skippedLength;
      block = block.subarray(skippedLength);
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

  #parse(block: Buffer, records: LdifRecord[], longRecord?: LongRecord): void {
    const lines = new LineReader(block, this.#lineNumber, this.#nameTable, longRecord?.longLines);
    while (lines.nextRecord()) {
      const record = this.#readRecord(lines, block);
      if (record) records.push(longRecord ? attachValues(record, record.offset - this.#offset, longRecord) : record);
      this.#nameTable.clearIfLarge();
    }
    this.#lineNumber = lines.nextLineNumber;
    this.leftOutCount += lines.leftOutCount;
    this.#offset += longRecord ? longRecord.byteCount : block.length;
  }

  /** Reads a single record. Returns undefined for a record of comments or of `version:` only. */
  #readRecord(lines: LineReader, block: Buffer): LdifRecord | undefined {
    if (!lines.nextLine()) return undefined;
    let { number: line, rangeStart } = lines;
    let body: RecordBody;
    try {
      if (lines.readName().group.key === 'version') {
        checkVersion(lines, this.#options);
        if (!lines.nextLine()) return undefined;
        ({ number: line, rangeStart } = lines);
      }
      body = readRecord(lines, this.#options);
    } catch (error) {
      if (!(error instanceof LdifFault)) throw error;
      const { line: faultLine, message } = lines.rootCauseOf(error);
      lines.skipRecord();
      body = { kind: 'error', faultLine, reason: `line ${faultLine}: ${message}` };
    }
    const offset = this.#offset + rangeStart;
    const text = block.subarray(rangeStart, lines.rangeEnd);
    if (text.length > this.#maxRecordBytes) return this.#lengthError(line, offset, text.subarray(0, REJECT_BYTES));
    // Bulk loads consist of content records. Copying their properties would cost more than reading them.
    if (body.kind === 'content')
      return { kind: 'content', line, offset, text, dn: body.dn, attributes: body.attributes };
    return { ...body, line, offset, text };
  }

  #lengthError(line: number, offset: number, text: Buffer): LdifRecord {
    const problem = crProblem(text, 0, text.length);
    const crNote = problem && (problem === CR_DOUBLED || !text.includes(LF)) ? `; ${problem}` : '';
    const reason = `line ${line}: a record of more than ${this.#maxRecordBytes} bytes${crNote}`;
    return { kind: 'error', faultLine: line, reason, line, offset, text };
  }
}

/** Adds the values that the text lacks. A record with an invalid value keeps only its beginning as text. */
function attachValues(record: LdifRecord, start: number, { text, longLines, beginning }: LongRecord): LdifRecord {
  const detachedValues: LdifDetachedValue[] = [];
  for (const { offset, value } of longLines) {
    if (typeof value === 'string') return { ...record, text: Buffer.concat([beginning, TRUNCATED_NOTE]) };
    detachedValues.push({ textOffset: text.indexOf(LF, offset) - start, value });
  }
  return { ...record, detachedValues };
}

/** Returns the offset after the first blank line that follows another line, or the length of the block. */
function firstBoundary(block: Buffer): number {
  for (let offset = block.indexOf(LF); offset >= 0; offset = block.indexOf(LF, offset + 1)) {
    if (block[offset + 1] === LF) return offset + 2;
    if (block[offset + 1] === CR && block[offset + 2] === LF) return offset + 3;
  }
  return block.length;
}

function countLines(bytes: Buffer, end: number): number {
  let count = 0;
  for (let offset = bytes.indexOf(LF); offset >= 0 && offset < end; offset = bytes.indexOf(LF, offset + 1)) count++;
  return count;
}

/**
 * Yields an array of records for each chunk of an LDIF stream that completes at least one record. The chunks must be
 * new buffers, as from `fs.createReadStream` or a pipe. Chunks of 64 to 256 KiB are read fastest.
 */
export async function* readLdif(
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
  options: LdifOptions = {},
): AsyncGenerator<LdifRecord[], void, void> {
  const parser = new LdifParser(options);
  for await (const chunk of source) {
    const records = parser.push(chunk);
    if (records.length > 0) yield records;
  }
  const lastRecords = parser.end();
  if (lastRecords.length > 0) yield lastRecords;
}
