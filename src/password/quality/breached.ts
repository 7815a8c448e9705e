import { hash } from 'node:crypto';
import { type FileHandle, open, opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';

// Lists of breached passwords in the format of haveibeenpwned: sorted lines with the SHA-1 of a password in upper-case
// hex, a colon and a count. A list is either a single file, or a folder of files named by the first five digits, with
// or without `.txt`, whose lines have the remaining 35 digits. A look-up reads about ten blocks, whatever the size.

const DIGITS = 40;
const PREFIX = 5;
/** The most bytes of a line. */
const MAX_LINE = 512;
/** Bytes. A range of at most this size is read whole and searched line by line. */
const BLOCK = 4096;
const LF = 0x0a;

/** Thrown when a list is missing or has another format. */
export class BreachedListFault extends Error {
  override readonly name = 'BreachedListFault';
}

/** Throws `BreachedListFault` when the path has no list. */
export async function requireBreachedList(path: string): Promise<void> {
  await asListFault(path, async () => {
    if ((await stat(path)).isDirectory()) await requirePrefixFile(path);
    else await fileContains(path, '0'.repeat(DIGITS));
  });
}

/** Whether the password is in the list. Throws `BreachedListFault`. */
export function isBreached(path: string, clear: Buffer): Promise<boolean> {
  const digits = hash('sha1', clear, 'hex').toUpperCase();
  return asListFault(path, async () => {
    if (!(await stat(path)).isDirectory()) return (await fileContains(path, digits)) ?? false;
    const file = join(path, digits.slice(0, PREFIX));
    const rest = digits.slice(PREFIX);
    const found = (await fileContains(`${file}.txt`, rest, true)) ?? (await fileContains(file, rest, true));
    // An empty folder, perhaps one that is not mounted, must not pass for a list without the password.
    if (found === undefined) await requirePrefixFile(path);
    return found ?? false;
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

/** Whether a line of the file begins with the digits; undefined when the file is missing and `mayBeMissing` is set. */
async function fileContains(path: string, digits: string, mayBeMissing = false): Promise<boolean | undefined> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    if (mayBeMissing && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return await new SortedLines(path, file, digits.length).has(digits);
  } finally {
    await file.close();
  }
}

/** A sorted file of lines that begin with hex digits. */
class SortedLines {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #form: RegExp;
  readonly #block = Buffer.allocUnsafe(BLOCK + MAX_LINE);

  constructor(path: string, file: FileHandle, digits: number) {
    this.#path = path;
    this.#file = file;
    this.#form = new RegExp(`^([0-9A-F]{${digits}})(?:\\s*:\\s*\\d+)?\\s*$`);
  }

  /** Searches by bisection. A line with the digits begins at or after `from` and before `to`. */
  async has(digits: string): Promise<boolean> {
    let from = 0;
    let { size: to } = await this.#file.stat();
    while (to - from > BLOCK) {
      const middle = from + Math.floor((to - from) / 2);
      const { start, key } = await this.#lineAfter(middle);
      if (key === undefined || start >= to) to = middle + 1;
      else if (key === digits) return true;
      else if (key < digits) from = start;
      else to = start;
    }
    const rest = await this.#read(from, to - from + MAX_LINE);
    for (let at = 0; at < rest.length && from + at < to; ) {
      const end = rest.indexOf(LF, at);
      if (this.#keyOf(rest.subarray(at, end < 0 ? rest.length : end)) === digits) return true;
      at = end < 0 ? rest.length : end + 1;
    }
    return false;
  }

  /** Returns the first line that begins after the position; `key` is undefined at the end of the file. */
  async #lineAfter(position: number): Promise<{ readonly start: number; readonly key: string | undefined }> {
    const bytes = await this.#read(position, 2 * MAX_LINE);
    const begin = bytes.indexOf(LF) + 1;
    if (begin === 0 || begin === bytes.length) {
      if (bytes.length < 2 * MAX_LINE) return { start: position + bytes.length, key: undefined };
      throw this.#fault();
    }
    const end = bytes.indexOf(LF, begin);
    return { start: position + begin, key: this.#keyOf(bytes.subarray(begin, end < 0 ? bytes.length : end)) };
  }

  #keyOf(line: Buffer): string {
    const key = this.#form.exec(line.toString('latin1'))?.[1];
    if (key === undefined) throw this.#fault();
    return key;
  }

  #fault(): BreachedListFault {
    return new BreachedListFault(
      `${this.#path}: a line is no upper-case hex of a SHA-1, with a colon and a count behind it`,
    );
  }

  async #read(position: number, length: number): Promise<Buffer> {
    const count = Math.min(length, this.#block.length);
    const { bytesRead } = await this.#file.read(this.#block, 0, count, position);
    return this.#block.subarray(0, bytesRead);
  }
}
