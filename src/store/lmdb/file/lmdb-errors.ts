import { statfsSync, writeSync } from 'node:fs';
import { StoreError, type StoreErrorCode } from '../../store-error.js';

/** Error codes of LMDB, as in `code` of the errors of `lmdb`. Positive codes are errno values of the system. */
const CORRUPT_CODES = new Set([
  ...[-30797, -30796, -30793], // page not found, corrupted, not an LMDB file
  ...[-30787, -30786, -30779], // cursor stack too deep, page overfull, internal problem
]);
const PANIC = -30795;
const VERSION = -30794;
const MAP_FULL = -30792;
const DBS_FULL = -30791;
const READERS_FULL = -30790;
const EPERM = 1;
const EIO = 5;
const EACCES = 13;
const ENOSPC = 28;
const EFBIG = 27;
const EROFS = 30;
const EDQUOT = 122;

const FULL_CODES = new Set([ENOSPC, EFBIG, EDQUOT, MAP_FULL]);

function errorCode(error: unknown): number | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'number' ? code : undefined;
}

/** Returns whether the error comes from LMDB or the system, and not from Rowan's own code. */
export function isLmdbError(error: unknown): boolean {
  return errorCode(error) !== undefined;
}

/** Converts an error of LMDB or the file system into a StoreError whose message names the folder and a remedy. */
export function toStoreError(error: unknown, folder: string, applied: 'no' | 'unknown' = 'no'): unknown {
  if (error instanceof StoreError || error instanceof TypeError) return error;
  const [code, message] = describeError(error, toErrno(error), folder);
  return new StoreError(code, message, { cause: error, applied });
}

function describeError(error: unknown, code: number | undefined, folder: string): [StoreErrorCode, string] {
  if (code === undefined) return ['unavailable', `store in ${folder} failed: ${errorMessage(error)}`];
  // LMDB reports a short write as an I/O error; on a nearly full device, lack of space is the likely cause.
  if (FULL_CODES.has(code) || (code === EIO && isNearlyFull(folder)))
    return ['full', `no room left to write to ${folder}; free space on its device and try again`];
  if (CORRUPT_CODES.has(code)) return ['damaged', `data in ${folder} is damaged: ${errorMessage(error)}`];
  const path = (error as NodeJS.ErrnoException).path ?? folder;
  switch (code) {
    case EROFS:
      return ['permission', `${path} is on a file system that is mounted read-only; mount it for writing`];
    case EACCES:
    case EPERM:
      return ['permission', `${path} may not be read and written by this user; change its owner or mode`];
    case VERSION:
      return ['format', `data in ${folder} was written by another version of the store; upgrade Rowan`];
    case READERS_FULL:
      return ['unavailable', `too many readers have ${folder} open; stop some`];
    case PANIC:
      return [
        'unavailable',
        `LMDB takes nothing more for ${folder} after a write that failed midway; end all processes that have it open, and start again`,
      ];
    case DBS_FULL:
      return ['limit', `too many tables in ${folder}`];
    case EIO:
      return ['unavailable', `input/output error in ${folder}; check its device and limits`];
    default:
      return ['unavailable', `store in ${folder} failed: ${errorMessage(error)}`];
  }
}

const ERRNO_BY_NAME: Record<string, number> = { EPERM, EIO, EACCES, ENOSPC, EFBIG, EROFS, EDQUOT };

function toErrno(error: unknown): number | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? ERRNO_BY_NAME[code] : errorCode(error);
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

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
