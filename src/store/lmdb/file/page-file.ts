import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { PAGE } from './pages.js';

/** Thrown when a page cannot be read. The message names the page. */
export class UnreadablePage extends Error {}

/** Reads pages of the data file without LMDB. */
export class PageFile {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = openSync(path, 'r');
  }

  get size(): number {
    return fstatSync(this.#fd).size;
  }

  /** Reads `length` bytes from the beginning of a page into `into`. Throws `UnreadablePage`. */
  read(page: number, into: Buffer, length: number): void {
    let done = 0;
    while (done < length) {
      const read = this.#read(page, into, done, length - done);
      if (read === 0) throw new UnreadablePage(`page ${page}: is not in the file`);
      done += read;
    }
  }

  #read(page: number, into: Buffer, done: number, length: number): number {
    try {
      return readSync(this.#fd, into, done, length, page * PAGE + done);
    } catch (error) {
      throw new UnreadablePage(`page ${page}: cannot be read: ${(error as Error).message}`);
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}
