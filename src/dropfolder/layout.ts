import { constants } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, readdir, realpath, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';

/** Thrown when a drop folder, or a file in it, cannot be used. `message` has the reason and a remedy. */
export class DropError extends Error {
  override readonly name = 'DropError';
}

const FOLDER_NAMES = ['working', 'target', 'processing', 'processed', 'expired', 'error'] as const;
export type FolderName = (typeof FOLDER_NAMES)[number];

/** Mode of folders that are created, before the umask is applied. */
const FOLDER_MODE = 0o775;

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException | undefined)?.code ?? '');
}

/** Returns the code of a system error; the class name of any other error, because messages may contain values. */
export function errorCodeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | undefined)?.code ?? (error instanceof Error ? error.name : 'unknown');
}

/** Whether the error is a condition of the disk or the system that may pass, not a problem of the file. */
export function isTransient(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE', 'ENOMEM', 'ESTALE');
}

export class Layout {
  /** Absolute. */
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Creates missing folders. Throws `DropError` when a folder is unsuitable. */
  static async open(folder: string): Promise<Layout> {
    const layout = new Layout(resolve(folder));
    await requireFolder(layout.folder, 'the drop folder');
    await layout.#createFolders();
    return layout;
  }

  async #createFolders(): Promise<void> {
    const incomingFolder = join(this.folder, 'incoming');
    await mkdir(incomingFolder, { mode: FOLDER_MODE }).catch(ignoreExisting);
    const { dev } = await requireFolder(incomingFolder, 'incoming');
    for (const place of FOLDER_NAMES) {
      const path = this.path(place);
      await mkdir(path, { mode: FOLDER_MODE }).catch(ignoreExisting);
      const stats = await requireFolder(path, place);
      if (stats.dev !== dev)
        throw new DropError(
          `${path}: is on another file system than ${incomingFolder}, so that no file can be moved there at once; use one file system`,
        );
    }
  }

  /** Opens an existing drop folder. Throws `DropError` when `incoming/target` is missing or a folder is unsuitable. */
  static async openExisting(folder: string): Promise<Layout> {
    const layout = new Layout(resolve(folder));
    await requireFolder(layout.folder, 'the folder');
    await requireFolder(join(layout.folder, 'incoming'), 'incoming');
    await requireFolder(layout.path('target'), 'incoming/target');
    return layout;
  }

  path(place: FolderName, name: string | Buffer = ''): string {
    return join(this.folder, 'incoming', place, String(name));
  }

  /** Returns the path of a file whose name may not be valid UTF-8. */
  bytePath(place: FolderName, name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`${this.path(place)}${sep}`), name]);
  }

  /** Returns the names in a folder, without names that begin with a dot. */
  async listNames(place: FolderName): Promise<Buffer[]> {
    const names = await readdir(this.path(place), { encoding: 'buffer' });
    return names.filter((name) => name[0] !== 0x2e);
  }

  async sync(...places: FolderName[]): Promise<void> {
    for (const place of places) await syncFolder(this.path(place));
  }

  /** Opens the drop folder `replyTo`, below the parent of this folder. Throws `DropError` for any other path. */
  async openReplyFolder(replyTo: string): Promise<Layout> {
    const root = dirname(this.folder);
    const segments = replyTo.split('/');
    const isPlain = segments.every((part) => part !== '' && !part.startsWith('.') && !/[\\\p{Cc}]/u.test(part));
    const path = join(root, ...segments);
    if (!isPlain)
      throw new DropError(`replyTo '${maskControls(replyTo)}' is no name of a folder below ${root}; give one`);
    // Otherwise receipts would be taken for dropped files, and get receipts themselves.
    if (`${path}${sep}`.startsWith(`${this.folder}${sep}`))
      throw new DropError(`replyTo names the drop folder itself, or a folder in it; name another`);
    // Whatever the error is, nobody can write a receipt there, which the sender is told.
    const realPath = await realpath(path).catch(() => undefined);
    if (realPath === undefined)
      throw new DropError(`replyTo names '${replyTo}', which is not there; make the folder ${path}`);
    if (realPath !== join(await realpath(root), ...segments))
      throw new DropError(`replyTo names '${replyTo}', which is a link or lies behind one; name the folder itself`);
    try {
      return await Layout.openExisting(path);
    } catch (error) {
      if (!(error instanceof DropError)) throw error;
      throw new DropError(`replyTo names '${replyTo}', which is no drop folder: ${error.message}`, { cause: error });
    }
  }
}

function ignoreExisting(error: unknown): void {
  if (!hasCode(error, 'EEXIST')) throw error;
}

/** Throws `DropError` when `path` is not a directory, or is writable by everybody. */
async function requireFolder(path: string, label: string): Promise<{ dev: number }> {
  const stats = await lstat(path).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) throw new DropError(`${path}: ${label} is not there; make it`);
    throw error;
  });
  if (stats.isSymbolicLink()) throw new DropError(`${path}: is a symbolic link; give the folder itself`);
  if (!stats.isDirectory()) throw new DropError(`${path}: is no folder`);
  if (stats.mode & 0o002)
    throw new DropError(`${path}: everybody may write there, and so change the directory; run chmod o-w on it`);
  return stats;
}

/** Replaces control characters by `?`, for messages. */
export function maskControls(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '?');
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Opens a claimed file for reading. Throws `DropError` when it is not a regular file, or is longer than `maxBytes`. */
export async function openDroppedFile(path: string | Buffer, maxBytes: number): Promise<FileHandle> {
  const stats = await lstat(path);
  if (stats.isSymbolicLink()) throw new DropError('it is a symbolic link; drop the file itself');
  if (!stats.isFile()) throw new DropError('it is no file');
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const { size } = await handle.stat();
  if (size <= maxBytes) return handle;
  await handle.close();
  throw new DropError(`it has ${size} bytes, and may have ${maxBytes}; make several of it, or load it by rowan import`);
}

/** Writes a file durably and atomically, by way of the temporary file `partPath`. The caller syncs the folder. */
export async function replaceFile(
  path: string,
  partPath: string,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
  mode: number,
): Promise<void> {
  try {
    await writePart(partPath, content, mode);
    await rename(partPath, path);
  } catch (error) {
    await rm(partPath, { force: true });
    throw error;
  }
}

export const OWNER_ONLY_MODE = 0o600;
export const WORLD_READABLE_MODE = 0o644;

/** Like `replaceFile`, for a short text that all may read, but returns false if `path` exists. */
export async function createFile(path: string, partPath: string, text: string): Promise<boolean> {
  await writePart(partPath, [Buffer.from(text)], WORLD_READABLE_MODE);
  try {
    await link(partPath, path);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(partPath, { force: true });
  }
}

async function writePart(path: string, content: AsyncIterable<Buffer> | Iterable<Buffer>, mode: number): Promise<void> {
  const handle = await open(path, 'wx', mode);
  try {
    for await (const chunk of content) await handle.writeFile(chunk);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(ignoreMissing)) !== undefined;
}

/** Renames a file. Returns false when `source` does not exist. */
export async function renameIfPresent(source: string | Buffer, target: string): Promise<boolean> {
  return (await rename(source, target).then(() => true, ignoreMissing)) ?? false;
}

/** Error handler that turns ENOENT into undefined and throws other errors. */
export function ignoreMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT')) throw error;
}
