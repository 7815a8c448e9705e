import { createHash } from 'node:crypto';
import { closeSync, createReadStream, fstatSync, openSync, readSync } from 'node:fs';
import { type LdifOptions, LdifParser, type LdifRecord } from '../../ldif/index.js';
import { CliError } from '../exit.js';

const READ_BYTES = 512 * 1024;
/** Bytes parsed at a time. Small pieces keep records short-lived, which spares the garbage collector. */
const PARSE_BYTES = 64 * 1024;
/** Bytes at the start of a file that identify it. */
const HEAD_BYTES = 1024 * 1024;

/** Identifies a file when its import is resumed. */
export interface Fingerprint {
  readonly size: number;
  /** SHA-256 of the first MiB, in hexadecimal. */
  readonly head: string;
}

/** An LDIF file, or standard input, which has no fingerprint. */
export interface InputFile {
  readonly name: string;
  readonly chunks: AsyncIterable<Buffer>;
  readonly fingerprint: Fingerprint | undefined;
}

function computeFingerprint(fd: number, size: number): Fingerprint {
  const head = Buffer.alloc(Math.min(size, HEAD_BYTES));
  let length = 0;
  while (length < head.length) {
    const readLength = readSync(fd, head, length, head.length - length, length);
    if (readLength === 0) break;
    length += readLength;
  }
  return { size, head: createHash('sha256').update(head.subarray(0, length)).digest('hex') };
}

/** Opens `path`; `-` is standard input. */
export function openInput(path: string): InputFile {
  if (path === '-') return { name: 'standard input', chunks: process.stdin, fingerprint: undefined };
  const fd = openSync(path, 'r');
  const stat = fstatSync(fd);
  if (stat.isDirectory()) {
    closeSync(fd);
    throw new CliError(`${path}: is a folder, not an LDIF file`);
  }
  const fingerprint = stat.isFile() ? computeFingerprint(fd, stat.size) : undefined;
  const start = stat.isFile() ? { start: 0 } : {};
  return { name: path, chunks: createReadStream(path, { fd, highWaterMark: READ_BYTES, ...start }), fingerprint };
}

export class RecordSource {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #parser: LdifParser;
  #records: LdifRecord[] = [];
  #nextIndex = 0;
  /** Bytes that are read but not parsed. */
  #unparsedBytes: Buffer = Buffer.alloc(0);
  #isEnded = false;
  byteCount = 0;

  constructor(chunks: AsyncIterable<Buffer>, options: LdifOptions) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#parser = new LdifParser(options);
  }

  /** See `LdifParser.leftOutCount`. */
  get leftOutCount(): number {
    return this.#parser.leftOutCount;
  }

  /** Whether another record exists. Reads until the next record or the end of the file. */
  async hasNextRecord(): Promise<boolean> {
    while (this.#nextIndex === this.#records.length) {
      if (this.#isEnded) return false;
      await this.#parseNext();
    }
    return true;
  }

  /** Throws if no record at the beginning has a `dn:` line. */
  async requireLdif(name: string): Promise<void> {
    if (!(await this.hasNextRecord())) return;
    const [first] = this.#records;
    if (first?.kind !== 'error') return;
    if (this.#records.some(({ kind, text }) => kind !== 'error' || /^dn:/i.test(text.toString('latin1', 0, 3)))) return;
    throw new CliError(`${name} is not LDIF: ${first.reason}; nothing is written`);
  }

  async #parseNext(): Promise<void> {
    if (this.#unparsedBytes.length === 0) {
      const { value, done } = await this.#chunks.next();
      this.#isEnded = done === true;
      if (!done) this.#unparsedBytes = value;
      this.byteCount += this.#unparsedBytes.length;
    }
    // Records may be long. Releases the current ones before the next are read.
    this.#records = [];
    this.#nextIndex = 0;
    const parsedBytes = this.#unparsedBytes.subarray(0, PARSE_BYTES);
    this.#unparsedBytes = this.#unparsedBytes.subarray(parsedBytes.length);
    this.#records = this.#isEnded ? this.#parser.end() : this.#parser.push(parsedBytes);
  }

  /** Takes the parsed records up to the first that does not match. Empty when the next record does not match. */
  takeWhile(isWanted: (record: LdifRecord) => boolean): LdifRecord[] {
    const start = this.#nextIndex;
    while (this.#nextIndex < this.#records.length && isWanted(this.#records[this.#nextIndex]!)) this.#nextIndex++;
    if (start > 0 || this.#nextIndex < this.#records.length) return this.#records.slice(start, this.#nextIndex);
    const records = this.#records;
    this.#records = [];
    this.#nextIndex = 0;
    return records;
  }

  async close(): Promise<void> {
    this.#isEnded = true;
    this.#records = [];
    this.#nextIndex = 0;
    await this.#chunks.return?.();
  }
}
