import { closeSync, constants, fstatSync, openSync, readSync, statSync, write, writeSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Statistics } from '../processes/statistics.js';

/** Bytes from which waiting lines are written at once. */
const FULL_BYTES = 64 * 1024;
/** Bytes that may wait while the file is slow. Further lines are dropped. */
const MAX_PENDING_BYTES = 4 * 1024 ** 2;
/** Interval between two checks whether the file was renamed, in milliseconds. */
const CHECK_MS = 1000;
/** A FIFO without a reader is an error instead of a wait. */
const OPEN_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
const LF = 0x0a;
/** Bytes at the beginning of a file by which a log is told from other files. */
const HEAD_BYTES = 512;
/** Permissions of a new audit log. */
export const AUDIT_MODE = 0o600;

export interface LineFileOptions {
  /** Name of the log in messages. */
  readonly name: string;
  /** Path of the file, or `stderr`. */
  readonly output: string;
  /** Permissions of a new file. */
  readonly mode: number;
  /** Longest time until lines are written, in milliseconds. */
  readonly delayMs: number;
  readonly log: Logger;
  /** Counts the dropped lines. */
  readonly statistics: Pick<Statistics, 'logLinesDropped'>;
}

/**
 * Appends lines to a file that several processes append to. Each write has whole lines. A file that was renamed or
 * removed is opened anew within `CHECK_MS`. Lines that cannot be written are dropped and counted; the log gets one line
 * when that begins, and one line when it ends.
 */
export class LineFile {
  readonly #options: LineFileOptions;
  /** The waiting lines after a byte for the line feed that ends a torn line. */
  #pending = newPending();
  #pendingLength = 1;
  #timer: NodeJS.Timeout | undefined;
  #isWriting = false;
  /** Called when the last write has ended. */
  #onClosed: (() => void) | undefined;
  #file: { readonly fd: number; readonly inode: number; readonly device: number } | undefined;
  #checkedAt = 0;
  /** Lines dropped since the file could last be written; undefined: the file can be written. */
  #droppedCount: number | undefined;
  /** Whether the last write ended within a line. */
  #isTorn = false;
  readonly #writeRest = (): void => this.#writePending();

  constructor(options: LineFileOptions) {
    this.#options = options;
    if (options.output !== 'stderr') this.#openNow();
    process.once('exit', this.#writeRest);
  }

  /** Opens the file before the first line, so that the log tells of a file that cannot be opened at once. */
  #openNow(): void {
    try {
      this.#openIfMoved();
      this.#checkedAt = Number.NEGATIVE_INFINITY;
    } catch (error) {
      this.#drop(Buffer.alloc(0), (error as Error).message);
    }
  }

  /** Appends whole lines, with their line ends. The bytes are copied. */
  append(lines: Uint8Array): void {
    if (this.#pendingLength > MAX_PENDING_BYTES) this.#drop(lines, 'the device is too slow');
    else {
      const length = this.#pendingLength + lines.length;
      if (length > this.#pending.length) this.#grow(length);
      this.#pending.set(lines, this.#pendingLength);
      this.#pendingLength = length;
    }
    this.#schedule();
  }

  /** Writes the waiting lines now or later. */
  #schedule(): void {
    if (this.#pendingLength >= FULL_BYTES || this.#onClosed) this.#flush();
    else if (this.#pendingLength > 1) this.#timer ??= setTimeout(() => this.#flush(), this.#options.delayMs);
  }

  #grow(length: number): void {
    const bytes = Buffer.allocUnsafeSlow(2 * length);
    this.#pending.copy(bytes, 0, 0, this.#pendingLength);
    this.#pending = bytes;
  }

  /** Writes the waiting lines without blocking this process, unless a write runs. */
  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isWriting) return;
    const bytes = this.#takePending();
    if (!bytes) {
      if (this.#onClosed) this.#close();
      this.#onClosed?.();
      return;
    }
    this.#isWriting = true;
    const end = (error: Error | null | undefined, writtenLength: number): void => {
      this.#isWriting = false;
      this.#handleWritten(bytes, writtenLength, error);
      this.#schedule();
    };
    if (!this.#file) process.stderr.write(bytes, (error) => end(error, bytes.length));
    else this.#write(this.#file.fd, bytes, 0, end);
  }

  /** Takes the waiting lines for a write. Drops the lines and returns undefined when the file cannot be opened. */
  #takePending(): Buffer | undefined {
    if (this.#pendingLength === 1) return undefined;
    const bytes = this.#pending.subarray(this.#isTorn ? 0 : 1, this.#pendingLength);
    this.#pending = newPending();
    this.#pendingLength = 1;
    try {
      if (this.#options.output !== 'stderr') this.#openIfMoved();
      return bytes;
    } catch (error) {
      this.#drop(bytes, (error as Error).message);
      return undefined;
    }
  }

  /** A full device writes a part and reports the error at the next write. */
  #write(fd: number, bytes: Buffer, from: number, end: (error: Error | null, writtenLength: number) => void): void {
    write(fd, bytes, from, (error, count) => {
      if (error || from + count === bytes.length) end(error, from + (count ?? 0));
      else this.#write(fd, bytes, from + count, end);
    });
  }

  #handleWritten(bytes: Buffer, writtenLength: number, error: Error | null | undefined): void {
    if (writtenLength > 0) this.#isTorn = bytes[writtenLength - 1] !== LF;
    if (error) this.#drop(bytes.subarray(writtenLength), error.message);
    else if (this.#droppedCount !== undefined) {
      const { name, log } = this.#options;
      log.warn({ dropped: this.#droppedCount }, `the ${name} can be written again; lines were dropped`);
      this.#droppedCount = undefined;
    }
  }

  #drop(bytes: Uint8Array, reason: string): void {
    const { name, log, statistics } = this.#options;
    if (this.#droppedCount === undefined)
      log.error(`the ${name} cannot be written, its lines are dropped until it can: ${reason}`);
    let count = 0;
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count++;
    statistics.logLinesDropped += count;
    this.#droppedCount = (this.#droppedCount ?? 0) + count;
  }

  #openIfMoved(): void {
    const now = performance.now();
    if (this.#file && now - this.#checkedAt < CHECK_MS) return;
    this.#checkedAt = now;
    const { output, mode } = this.#options;
    const found = this.#file && statSync(output, { throwIfNoEntry: false });
    if (this.#file && found?.ino === this.#file.inode && found.dev === this.#file.device) return;
    this.#close();
    const fd = openLog(output, mode);
    const { ino, dev } = fstatSync(fd);
    this.#file = { fd, inode: ino, device: dev };
  }

  #close(): void {
    if (this.#file) closeSync(this.#file.fd);
    this.#file = undefined;
  }

  /** Writes the waiting lines before returning. */
  #writePending(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const bytes = this.#takePending();
    if (!bytes) return;
    try {
      if (!this.#file) process.stderr.write(bytes);
      else for (let at = 0; at < bytes.length; ) at += writeSync(this.#file.fd, bytes, at);
    } catch (error) {
      this.#drop(bytes, (error as Error).message);
    }
  }

  /** Writes the waiting lines and closes the file. Resolves when that is done. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onClosed = resolve;
      this.#flush();
    });
    // The process may exit before that, which writes the waiting lines.
    process.off('exit', this.#writeRest);
  }
}

function newPending(): Buffer {
  const bytes = Buffer.allocUnsafeSlow(2 * FULL_BYTES);
  bytes[0] = LF;
  return bytes;
}

/** Opens a log file for appending, and makes a new one with `mode`. Returns its descriptor. Throws when it cannot. */
export function openLog(path: string, mode: number): number {
  if (!isText(path)) throw new Error(`${path}: is no text, so no log; choose another file`);
  return openSync(path, OPEN_FLAGS, mode);
}

/** Whether the path has no file with a NUL byte at its beginning, such as that of a store. Throws as `openSync`. */
export function isText(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return true;
  const fd = openSync(path, constants.O_RDONLY);
  const head = Buffer.alloc(HEAD_BYTES);
  const length = readSync(fd, head, 0, HEAD_BYTES, 0);
  closeSync(fd);
  return !head.subarray(0, length).includes(0);
}
