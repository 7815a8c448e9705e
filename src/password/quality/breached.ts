import { hash } from 'node:crypto';
import { type FileHandle, open, opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Known breached passwords, as haveibeenpwned gives them away: lines of the SHA-1 of a password in upper-case hex, a
 * colon and a count, sorted. Either one file of them, or a folder of files that are named by the first five digits,
 * with or without `.txt`, whose lines have the other 35. A look-up reads some ten blocks, whatever the size.
 */

const DIGITS = 40;
const PREFIX = 5;
/** Longer lines are none. */
const MAX_LINE = 512;
/** What is left of a file is read at once and gone through. */
const BLOCK = 4096;
const LF = 0x0a;

/** The list is not there, or is none. */
export class BreachedListFault extends Error {
  override readonly name = 'BreachedListFault';
}

/** Throws `BreachedListFault` where no list is at the path. */
export async function requireBreachedList(path: string): Promise<void> {
  await reading(path, async () => {
    if ((await stat(path)).isDirectory()) await requirePrefixFile(path);
    else await inFile(path, '0'.repeat(DIGITS));
  });
}

/** Whether the password is in the list. Throws `BreachedListFault`. */
export function isBreached(path: string, clear: Buffer): Promise<boolean> {
  const digits = hash('sha1', clear, 'hex').toUpperCase();
  return reading(path, async () => {
    if (!(await stat(path)).isDirectory()) return (await inFile(path, digits)) ?? false;
    const file = join(path, digits.slice(0, PREFIX));
    const rest = digits.slice(PREFIX);
    const found = (await inFile(`${file}.txt`, rest, true)) ?? (await inFile(file, rest, true));
    // Of a folder that holds nothing, as it is not mounted, nobody can tell what would be in it.
    if (found === undefined) await requirePrefixFile(path);
    return found ?? false;
  });
}

async function reading<T>(path: string, work: () => Promise<T>): Promise<T> {
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

/** Whether a line of the file begins with the digits; undefined where there is no file and there may be none. */
async function inFile(path: string, digits: string, mayLack = false): Promise<boolean | undefined> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    if (mayLack && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return await new SortedLines(path, file, digits.length).has(digits);
  } finally {
    await file.close();
  }
}

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

  /** By bisection: the line, if it is there, begins at `from` or behind, and before `to`. */
  async has(digits: string): Promise<boolean> {
    let from = 0;
    let { size: to } = await this.#file.stat();
    while (to - from > BLOCK) {
      const middle = from + Math.floor((to - from) / 2);
      const { start, key } = await this.#lineBehind(middle);
      if (key === undefined || start >= to) to = middle + 1;
      else if (key === digits) return true;
      else if (key < digits) from = start;
      else to = start;
    }
    const rest = await this.#read(from, to - from + MAX_LINE);
    for (let at = 0; at < rest.length && from + at < to; ) {
      const end = rest.indexOf(LF, at);
      if (this.#key(rest.subarray(at, end < 0 ? rest.length : end)) === digits) return true;
      at = end < 0 ? rest.length : end + 1;
    }
    return false;
  }

  /** The first line that begins behind the position. */
  async #lineBehind(position: number): Promise<{ readonly start: number; readonly key: string | undefined }> {
    const bytes = await this.#read(position, 2 * MAX_LINE);
    const begin = bytes.indexOf(LF) + 1;
    if (begin === 0 || begin === bytes.length) {
      if (bytes.length < 2 * MAX_LINE) return { start: position + bytes.length, key: undefined };
      throw this.#fault();
    }
    const end = bytes.indexOf(LF, begin);
    return { start: position + begin, key: this.#key(bytes.subarray(begin, end < 0 ? bytes.length : end)) };
  }

  #key(line: Buffer): string {
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
    const want = Math.min(length, this.#block.length);
    const { bytesRead } = await this.#file.read(this.#block, 0, want, position);
    return this.#block.subarray(0, bytesRead);
  }
}
