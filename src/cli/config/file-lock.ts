import { readlinkSync, realpathSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isOtherProcess, withUserPath } from '../atomic-file.js';
import { CliError } from '../exit.js';

const MAX_WAIT_MS = 30_000;
const POLL_MS = 20;

/**
 * Does `work` while this process holds `FILE.lock`, a symbolic link to the process id of the holder: a link appears
 * together with its target. The lock of a dead process is taken over. Throws when the lock is not free in 30 s.
 */
export async function withFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const path = `${realpathSync(file)}.lock`;
  const deadline = Date.now() + MAX_WAIT_MS;
  while (!tryLock(path, file)) {
    if (Date.now() > deadline)
      throw new CliError(`${file} is locked by process ${readHolder(path)}; remove ${path} if it is no rowan config`);
    await sleep(POLL_MS);
  }
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

function tryLock(path: string, file: string): boolean {
  try {
    symlinkSync(String(process.pid), path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw withUserPath(error, file);
  }
  const holder = readHolder(path);
  if (holder !== undefined && !isOtherProcess(holder)) removeLock(path, holder);
  return false;
}

/** Removes the lock of a dead process. The lock of a process that was faster is put back. */
function removeLock(path: string, deadHolder: number): void {
  const asidePath = `${path}.${process.pid}`;
  try {
    renameSync(path, asidePath);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (readHolder(asidePath) === deadHolder) rmSync(asidePath);
  else renameSync(asidePath, path);
}

/** Returns the process id; undefined: there is no lock any more, or the path is no link. */
function readHolder(path: string): number | undefined {
  try {
    return Number(readlinkSync(path));
  } catch (error) {
    if (['ENOENT', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
