import { statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { DATA_FILE } from './data-file.js';

/** Bytes of memory that the process may come to use, page cache included. */
export function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/**
 * Whether the system had better not read on behind a page of the data file that is asked for. While all fits into
 * memory that fills the cache quickly after a start; where it does not, each random read would push out many pages for
 * a few that are of use.
 */
export function outgrows(folder: string, memory: number): boolean {
  const { size } = statSync(join(folder, DATA_FILE), { throwIfNoEntry: false }) ?? { size: 0 };
  return size > memory / 2;
}
