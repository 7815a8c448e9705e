import { openSync, readdirSync, readlinkSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { onInterruption } from './last-resort.js';

/** Readable by the owner only. */
const OWNER_ONLY_MODE = 0o600;

/**
 * A file that is written as `FILE.PID.part` and renamed to `FILE` when it is complete. A process that ends early
 * removes the part. A killed process leaves the part behind; the next process that writes the file removes it.
 */
export class AtomicFile {
  readonly fd: number;
  readonly #target: string;
  readonly #partPath: string;
  readonly #removeHandlers: () => void;
  readonly #removePart = (): void => rmSync(this.#partPath, { force: true });

  /** `file` must be missing or a regular file. */
  constructor(file: string) {
    try {
      this.#target = resolveLinks(file);
      removeLeftovers(this.#target);
    } catch (error) {
      throw withUserPath(error, file);
    }
    this.#partPath = partPath(this.#target);
    process.once('exit', this.#removePart);
    this.#removeHandlers = onInterruption(() => {
      this.#removePart();
      return `interrupted; ${file} is not written`;
    });
    try {
      this.fd = openSync(this.#partPath, 'wx', OWNER_ONLY_MODE);
    } catch (error) {
      this.#removeCleanup();
      throw withUserPath(error, file);
    }
  }

  #removeCleanup(): void {
    process.off('exit', this.#removePart);
    this.#removeHandlers();
  }

  /** Renames the part. The caller has written everything and closed `fd`. */
  finish(): void {
    renameSync(this.#partPath, this.#target);
    this.#removeCleanup();
  }
}

/** Replaces a short file atomically. The caller has called `removeLeftovers` at its start. */
export function replaceFile(file: string, text: string): void {
  const temporaryPath = partPath(file);
  writeFileSync(temporaryPath, text, { mode: OWNER_ONLY_MODE });
  renameSync(temporaryPath, file);
}

/** Removes the parts of `file` that belong to dead processes. */
export function removeLeftovers(file: string): void {
  const folder = dirname(file);
  const prefix = `${basename(file)}.`;
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(prefix)) continue;
    const [, pid] = /^(\d+)\.part$/.exec(name.slice(prefix.length)) ?? [];
    if (pid !== undefined && !isOtherProcess(Number(pid))) rmSync(join(folder, name), { force: true });
  }
}

/** Whether `pid` is a living process other than this process. */
export function isOtherProcess(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function partPath(file: string): string {
  return `${file}.${process.pid}.part`;
}

/** Resolves symbolic links, even when their target does not exist. */
function resolveLinks(file: string): string {
  const realPath = ignoreMissing(() => realpathSync(file));
  if (realPath !== undefined) return realPath;
  const linkTarget = ignoreMissing(() => readlinkSync(file));
  return linkTarget === undefined ? file : resolveLinks(resolve(dirname(file), linkTarget));
}

function ignoreMissing(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    // EINVAL: the file is not a link, since it was created a moment ago.
    if (['ENOENT', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}

/** Gives a system error the file name of the user, or the folder when the folder is the cause. */
export function withUserPath(error: unknown, file: string): unknown {
  if (!(error instanceof Error && 'syscall' in error)) return error;
  const failure = error as NodeJS.ErrnoException;
  failure.path = failure.code === 'EACCES' || failure.code === 'EROFS' ? dirname(resolve(file)) : file;
  return failure;
}
