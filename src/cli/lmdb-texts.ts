import { isNearlyFull } from '../store/lmdb/file/lmdb-errors.js';

/** Suppresses errors of failed commits that `lmdb` prints itself. The caller of the commit reports them. */
export function suppressLmdbErrors(): void {
  const print = console.error;
  console.error = (...messages: unknown[]) => {
    const [error] = messages;
    const isFromLmdb = error instanceof Error && 'code' in error && typeof error.code === 'number';
    if (!isFromLmdb || !/[/\\]lmdb[/\\]/.test(error.stack ?? '')) print(...messages);
  };
}

/**
 * Makes all that this process writes to standard error begin with a newline while the disk of the data folder is nearly
 * full: a thread of LMDB then prints `Write error: …` there at any time, without a newline.
 */
export function beginLines(folder: string): void {
  const write = process.stderr.write.bind(process.stderr) as (...args: unknown[]) => boolean;
  process.stderr.write = (data: string | Uint8Array, ...rest: unknown[]) =>
    write(isNearlyFull(folder) ? Buffer.concat([Buffer.from('\n'), Buffer.from(data as string)]) : data, ...rest);
}
