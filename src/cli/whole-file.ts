import { openSync, readdirSync, readlinkSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { tellInterruption } from './interruption.js';

/** Files for their owner alone. */
const MODE = 0o600;

/**
 * A file that is written beside its place, as `FILE.PID.part`, and takes it when it is whole. A process that ends
 * before leaves neither, unless it is killed at once: then the next one that writes the file removes what it left.
 */
export class WholeFile {
  readonly fd: number;
  readonly #place: string;
  readonly #part: string;
  readonly #quiet: () => void;
  readonly #remove = (): void => rmSync(this.#part, { force: true });

  /** `file` is no file, or a regular one. */
  constructor(file: string) {
    try {
      this.#place = placeOf(file);
      removeLeftovers(this.#place);
    } catch (error) {
      throw naming(error, file);
    }
    this.#part = partOf(this.#place);
    process.once('exit', this.#remove);
    this.#quiet = tellInterruption(() => {
      this.#remove();
      return `interrupted; ${file} is not written`;
    });
    try {
      this.fd = openSync(this.#part, 'wx', MODE);
    } catch (error) {
      this.#forget();
      throw naming(error, file);
    }
  }

  #forget(): void {
    process.off('exit', this.#remove);
    this.#quiet();
  }

  /** For when all is written and closed. */
  finish(): void {
    renameSync(this.#part, this.#place);
    this.#forget();
  }
}

/** A short file at once, for processes that begin by `removeLeftovers`. */
export function replaceFile(file: string, text: string): void {
  const part = partOf(file);
  writeFileSync(part, text, { mode: MODE });
  renameSync(part, file);
}

/** What processes that live no more have left of `file`. */
export function removeLeftovers(file: string): void {
  const folder = dirname(file);
  const start = `${basename(file)}.`;
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(start)) continue;
    const [, pid] = /^(\d+)\.part$/.exec(name.slice(start.length)) ?? [];
    if (pid !== undefined && !livesElsewhere(Number(pid))) rmSync(join(folder, name), { force: true });
  }
}

function livesElsewhere(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function partOf(file: string): string {
  return `${file}.${process.pid}.part`;
}

/** Where symbolic links lead, also those to what does not exist yet. */
function placeOf(file: string): string {
  const real = unlessMissing(() => realpathSync(file));
  if (real !== undefined) return real;
  const link = unlessMissing(() => readlinkSync(file));
  return link === undefined ? file : placeOf(resolve(dirname(file), link));
}

function unlessMissing(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    // EINVAL: it is no link, and was made a moment ago.
    if (['ENOENT', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}

/** The error with the name that the user gave, but for those that the folder is the reason of. */
function naming(error: unknown, file: string): unknown {
  if (!(error instanceof Error && 'syscall' in error)) return error;
  const failure = error as NodeJS.ErrnoException;
  failure.path = failure.code === 'EACCES' || failure.code === 'EROFS' ? dirname(resolve(file)) : file;
  return failure;
}
