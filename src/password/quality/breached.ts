import { hash } from 'node:crypto';
import { type FileHandle, open, opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';

// Lists of breached passwords in the format of haveibeenpwned: sorted lines with the SHA-1 of a password in upper-case
// hex, a colon and a count. A list is either a single file, or a folder of files named by the first five digits, with
// or without `.txt`, whose lines have the remaining 35 digits. A look-up reads about ten blocks, whatever the size.

const SHA1_DIGITS = 40;
const PREFIX_DIGITS = 5;
const MAX_LINE_BYTES = 512;
/** Bytes. A range of at most this size is read whole and searched line by line. */
const BLOCK_BYTES = 4096;
const LF = 0x0a;

/** Thrown when a list is missing or does not have the expected format. */
export class BreachedListFault extends Error {
  override readonly name = 'BreachedListFault';
}

/** Throws `BreachedListFault` when the path has no list. */
export async function requireBreachedList(path: string): Promise<void> {
  await asListFault(path, async () => {
    if ((await stat(path)).isDirectory()) await requirePrefixFile(path);
    else await fileContains(path, '0'.repeat(SHA1_DIGITS));
  });
}

/** Whether the password is in the list. Throws `BreachedListFault`. */
export function isBreached(path: string, clear: Buffer): Promise<boolean> {
  const digits = hash('sha1', clear, 'hex').toUpperCase();
  return asListFault(path, async () => {
    if (!(await stat(path)).isDirectory()) return (await fileContains(path, digits)) ?? false;
    const file = join(path, digits.slice(0, PREFIX_DIGITS));
    const suffix = digits.slice(PREFIX_DIGITS);
    const isListed = (await fileContains(`${file}.txt`, suffix, true)) ?? (await fileContains(file, suffix, true));
    // A folder without any list file, perhaps not mounted, must not count as a list that lacks the password.
    if (isListed === undefined) await requirePrefixFile(path);
    return isListed ?? false;
  });
}

/** Runs `work` and turns its errors into `BreachedListFault`. */
async function asListFault<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BreachedListFault) throw error;
    throw new BreachedListFault(`${path}: ${(error as Error).message}`, { cause: error });
  }
}

async function requirePrefixFile(folder: string): Promise<void> {
  for await (const { name } of await opendir(folder)) if (/^[0-9A-F]{5}(?:\.txt)?$/.test(name)) return;
  throw new BreachedListFault(`${folder}: no file is named by five hex digits, as 21BD1.txt`);
}

/** Whether a line of the file begins with the digits; undefined when `mayBeMissing` is set and the file is missing. */
async function fileContains(path: string, digits: string, mayBeMissing = false): Promise<boolean | undefined> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    if (mayBeMissing && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return await new SortedLines(path, file, digits.length).containsLine(digits);
  } finally {
    await file.close();
  }
}

/** A sorted file of lines that begin with hex digits. */
class SortedLines {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #linePattern: RegExp;
  readonly #block = Buffer.allocUnsafe(BLOCK_BYTES + MAX_LINE_BYTES);

  constructor(path: string, file: FileHandle, digits: number) {
    this.#path = path;
    this.#file = file;
    this.#linePattern = new RegExp(`^([0-9A-F]{${digits}})(?:\\s*:\\s*\\d+)?\\s*$`);
  }

  /** Searches by bisection. If a line with the digits exists, it begins at or after `low` and before `end`. */
  async containsLine(digits: string): Promise<boolean> {
    let low = 0;
    let { size: end } = await this.#file.stat();
    while (end - low > BLOCK_BYTES) {
      const middle = low + Math.floor((end - low) / 2);
      const { start, lineDigits } = await this.#lineAfter(middle);
      if (lineDigits === undefined || start >= end) end = middle + 1;
      else if (lineDigits === digits) return true;
      else if (lineDigits < digits) low = start;
      else end = start;
    }
    const block = await this.#read(low, end - low + MAX_LINE_BYTES);
    for (let lineStart = 0; lineStart < block.length && low + lineStart < end; ) {
      const lineEnd = block.indexOf(LF, lineStart);
      if (this.#digitsOfLine(block.subarray(lineStart, lineEnd < 0 ? block.length : lineEnd)) === digits) return true;
      lineStart = lineEnd < 0 ? block.length : lineEnd + 1;
    }
    return false;
  }

  /** Returns the first line that begins after the position. `lineDigits` is undefined at the end of the file. */
  async #lineAfter(position: number): Promise<{ readonly start: number; readonly lineDigits: string | undefined }> {
    const bytes = await this.#read(position, 2 * MAX_LINE_BYTES);
    const lineStart = bytes.indexOf(LF) + 1;
    if (lineStart === 0 || lineStart === bytes.length) {
      if (bytes.length < 2 * MAX_LINE_BYTES) return { start: position + bytes.length, lineDigits: undefined };
      throw this.#formatFault();
    }
    const lineEnd = bytes.indexOf(LF, lineStart);
    return {
      start: position + lineStart,
      lineDigits: this.#digitsOfLine(bytes.subarray(lineStart, lineEnd < 0 ? bytes.length : lineEnd)),
    };
  }

  #digitsOfLine(line: Buffer): string {
    const lineDigits = this.#linePattern.exec(line.toString('latin1'))?.[1];
    if (lineDigits === undefined) throw this.#formatFault();
    return lineDigits;
  }

  #formatFault(): BreachedListFault {
    return new BreachedListFault(
      `${this.#path}: a line is no upper-case hex of a SHA-1, with a colon and a count behind it`,
    );
  }

  async #read(position: number, length: number): Promise<Buffer> {
    const byteCount = Math.min(length, this.#block.length);
    const { bytesRead } = await this.#file.read(this.#block, 0, byteCount, position);
    return this.#block.subarray(0, bytesRead);
  }
}
