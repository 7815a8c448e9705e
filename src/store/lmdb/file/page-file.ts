import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { PAGE_BYTES } from './pages.js';

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

  /** Reads the first `length` bytes of a page into `target`. Throws `UnreadablePage`. */
  read(page: number, target: Buffer, length: number): void {
    let bytesDone = 0;
    while (bytesDone < length) {
      const bytesRead = this.#readOnce(page, target, bytesDone, length - bytesDone);
      if (bytesRead === 0) throw new UnreadablePage(`page ${page}: is not in the file`);
      bytesDone += bytesRead;
    }
  }

  #readOnce(page: number, target: Buffer, bytesDone: number, length: number): number {
    try {
      return readSync(this.#fd, target, bytesDone, length, page * PAGE_BYTES + bytesDone);
    } catch (error) {
      throw new UnreadablePage(`page ${page}: cannot be read: ${(error as Error).message}`);
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}
