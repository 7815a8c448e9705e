import { statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { DATA_FILE } from './data-file.js';

/** Memory limit of the process in bytes, page cache included. */
export function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/**
 * Returns whether the data file is too large for read-ahead by the operating system. If the file fits into memory,
 * read-ahead fills the cache quickly after a start. Otherwise each random read would evict many pages for few useful
 * pages.
 */
export function exceedsMemory(folder: string, memory: number): boolean {
  const { size } = statSync(join(folder, DATA_FILE), { throwIfNoEntry: false }) ?? { size: 0 };
  return size > memory / 2;
}
