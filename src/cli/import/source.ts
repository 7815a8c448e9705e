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

function fingerprintOf(fd: number, size: number): Fingerprint {
  const head = Buffer.alloc(Math.min(size, HEAD_BYTES));
  let at = 0;
  while (at < head.length) {
    const read = readSync(fd, head, at, head.length - at, at);
    if (read === 0) break;
    at += read;
  }
  return { size, head: createHash('sha256').update(head.subarray(0, at)).digest('hex') };
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
  const fingerprint = stat.isFile() ? fingerprintOf(fd, stat.size) : undefined;
  const start = stat.isFile() ? { start: 0 } : {};
  return { name: path, chunks: createReadStream(path, { fd, highWaterMark: READ_BYTES, ...start }), fingerprint };
}

export class RecordSource {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #parser: LdifParser;
  #batch: LdifRecord[] = [];
  #at = 0;
  /** Bytes that are read but not parsed. */
  #chunk: Buffer = Buffer.alloc(0);
  #ended = false;
  bytes = 0;

  constructor(chunks: AsyncIterable<Buffer>, options: LdifOptions) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#parser = new LdifParser(options);
  }

  /** Whether another record exists. Reads until the next record or the end of the file. */
  async hasMore(): Promise<boolean> {
    while (this.#at === this.#batch.length) {
      if (this.#ended) return false;
      await this.#read();
    }
    return true;
  }

  async #read(): Promise<void> {
    if (this.#chunk.length === 0) {
      const { value, done } = await this.#chunks.next();
      this.#ended = done === true;
      if (!done) this.#chunk = value;
      this.bytes += this.#chunk.length;
    }
    // Records may be long. Releases the current ones before the next are read.
    this.#batch = [];
    this.#at = 0;
    const piece = this.#chunk.subarray(0, PARSE_BYTES);
    this.#chunk = this.#chunk.subarray(piece.length);
    this.#batch = this.#ended ? this.#parser.end() : this.#parser.push(piece);
  }

  /** Takes the parsed records up to the first that does not match. Empty when the next record does not match. */
  takeWhile(wanted: (record: LdifRecord) => boolean): LdifRecord[] {
    const from = this.#at;
    while (this.#at < this.#batch.length && wanted(this.#batch[this.#at]!)) this.#at++;
    if (from > 0 || this.#at < this.#batch.length) return this.#batch.slice(from, this.#at);
    const all = this.#batch;
    this.#batch = [];
    this.#at = 0;
    return all;
  }

  async close(): Promise<void> {
    this.#ended = true;
    this.#batch = [];
    this.#at = 0;
    await this.#chunks.return?.();
  }
}
