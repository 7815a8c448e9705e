import { statfsSync, writeSync } from 'node:fs';

/** Less free space than this counts as none, in bytes. A transaction may write as much. */
const NEARLY_FULL_BYTES = 4 << 20;

/** Returns the bytes that are free on the device of the folder; NaN if the system does not tell. */
export function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Number.NaN;
  }
}

export function isNearlyFull(folder: string): boolean {
  return freeBytes(folder) < NEARLY_FULL_BYTES;
}

/**
 * Ends the line `Write error: …` on standard error: LMDB prints it without a newline when the system refuses a write to
 * its file. `error`: the error of LMDB, whose positive codes are those of the system.
 */
export function endLineOfLmdb(error: unknown): void {
  if (!((error as { code?: number }).code! > 0)) return;
  try {
    writeSync(2, '\n');
  } catch {
    // Nobody reads standard error.
  }
}
