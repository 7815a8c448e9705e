import { createHash } from 'node:crypto';
import { closeSync, createReadStream, fstatSync, openSync, readSync } from 'node:fs';
import { type LdifOptions, LdifParser, type LdifRecord } from '../../ldif/index.js';
import { CliError } from '../exit.js';

/** What is asked of the system at a time. */
const READ = 512 * 1024;
/** Records of a piece are objects all at once: few of them live long enough to be moved by the garbage collector. */
const PIECE = 64 * 1024;
/** Bytes of a file's beginning that tell it from others. */
const HEAD = 1024 * 1024;

/** What a file is known by when its import is taken up again. */
export interface Fingerprint {
  readonly size: number;
  /** SHA-256 of its first MiB, in hexadecimal. */
  readonly head: string;
}

/** An LDIF file, or standard input, which has no fingerprint. */
export interface InputFile {
  readonly name: string;
  readonly chunks: AsyncIterable<Buffer>;
  readonly fingerprint: Fingerprint | undefined;
}

function fingerprintOf(fd: number, size: number): Fingerprint {
  const head = Buffer.alloc(Math.min(size, HEAD));
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
  return { name: path, chunks: createReadStream(path, { fd, highWaterMark: READ, ...start }), fingerprint };
}

/** The records of a file, taken in runs. */
export class RecordSource {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #parser: LdifParser;
  #batch: LdifRecord[] = [];
  #at = 0;
  /** Read and not parsed yet. */
  #chunk: Buffer = Buffer.alloc(0);
  #ended = false;
  /** Read so far. */
  bytes = 0;

  constructor(chunks: AsyncIterable<Buffer>, options: LdifOptions) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#parser = new LdifParser(options);
  }

  /** Whether there is a record; reads on until there is one, or to the end. */
  async more(): Promise<boolean> {
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
    // A record may be long: none is held while the next one comes.
    this.#batch = [];
    this.#at = 0;
    const piece = this.#chunk.subarray(0, PIECE);
    this.#chunk = this.#chunk.subarray(piece.length);
    this.#batch = this.#ended ? this.#parser.end() : this.#parser.push(piece);
  }

  /** The records at hand up to the first that is not wanted; none when that is the next. */
  takeWhile(wanted: (record: LdifRecord) => boolean): LdifRecord[] {
    const from = this.#at;
    while (this.#at < this.#batch.length && wanted(this.#batch[this.#at]!)) this.#at++;
    if (from > 0 || this.#at < this.#batch.length) return this.#batch.slice(from, this.#at);
    const all = this.#batch;
    this.#batch = [];
    this.#at = 0;
    return all;
  }

  /** Stops reading the file. */
  async close(): Promise<void> {
    this.#ended = true;
    this.#batch = [];
    this.#at = 0;
    await this.#chunks.return?.();
  }
}
