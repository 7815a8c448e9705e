import { constants } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, readdir, realpath, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';

/** A drop folder cannot be used, or a file of it: `message` says why, and what helps. */
export class DropError extends Error {
  override readonly name = 'DropError';
}

const PLACES = ['working', 'target', 'processing', 'processed', 'expired', 'error'] as const;
export type Place = (typeof PLACES)[number];

/** Less what the process's umask takes. */
const FOLDER_MODE = 0o775;

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException | undefined)?.code ?? '');
}

/** For people: what the system calls the error, or what kind of one it is; never its message, which may have values. */
export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | undefined)?.code ?? (error instanceof Error ? error.name : 'unknown');
}

/** What the disk or the system says of itself, and not of a file: it may be otherwise later. */
export function isPassing(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE', 'ENOMEM', 'ESTALE');
}

/** The folders below one drop folder. */
export class Layout {
  /** Absolute. */
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Makes the folders that are not there. Throws `DropError` where one is not as it has to be. */
  static async open(folder: string): Promise<Layout> {
    const layout = new Layout(resolve(folder));
    await checkedFolder(layout.folder, 'the drop folder');
    await layout.#make();
    return layout;
  }

  async #make(): Promise<void> {
    const incoming = join(this.folder, 'incoming');
    await mkdir(incoming, { mode: FOLDER_MODE }).catch(unlessThere);
    const { dev } = await checkedFolder(incoming, 'incoming');
    for (const place of PLACES) {
      const path = this.path(place);
      await mkdir(path, { mode: FOLDER_MODE }).catch(unlessThere);
      const found = await checkedFolder(path, place);
      if (found.dev !== dev)
        throw new DropError(
          `${path}: is on another file system than ${incoming}, so that no file can be moved there at once; use one file system`,
        );
    }
  }

  /** One that others have made. Throws `DropError` where it lacks `incoming/target`, or is not as it has to be. */
  static async existing(folder: string): Promise<Layout> {
    const layout = new Layout(resolve(folder));
    await checkedFolder(layout.folder, 'the folder');
    await checkedFolder(join(layout.folder, 'incoming'), 'incoming');
    await checkedFolder(layout.path('target'), 'incoming/target');
    return layout;
  }

  path(place: Place, name: string | Buffer = ''): string {
    return join(this.folder, 'incoming', place, String(name));
  }

  /** A path of which the name may be no text. */
  bytes(place: Place, name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`${this.path(place)}${sep}`), name]);
  }

  /** Names in one of the folders, but for those that begin with a dot. */
  async names(place: Place): Promise<Buffer[]> {
    const names = await readdir(this.path(place), { encoding: 'buffer' });
    return names.filter((name) => name[0] !== 0x2e);
  }

  async sync(...places: Place[]): Promise<void> {
    for (const place of places) await syncFolder(this.path(place));
  }

  /**
   * The drop folder that `replyTo` names: beside this one, or below one that is. Throws `DropError` where that is not
   * there as a drop folder, or lies elsewhere.
   */
  async reply(replyTo: string): Promise<Layout> {
    const root = dirname(this.folder);
    const parts = replyTo.split('/');
    const isPlain = parts.every((part) => part !== '' && !part.startsWith('.') && !/[\\\p{Cc}]/u.test(part));
    const path = join(root, ...parts);
    if (!isPlain) throw new DropError(`replyTo '${printable(replyTo)}' is no name of a folder below ${root}; give one`);
    // Its receipts would be dropped files, with receipts of their own.
    if (`${path}${sep}`.startsWith(`${this.folder}${sep}`))
      throw new DropError(`replyTo names the drop folder itself, or a folder in it; name another`);
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined)
      throw new DropError(`replyTo names '${replyTo}', which is not there; make the folder ${path}`);
    if (real !== join(await realpath(root), ...parts))
      throw new DropError(`replyTo names '${replyTo}', which is a link or lies behind one; name the folder itself`);
    try {
      return await Layout.existing(path);
    } catch (error) {
      if (!(error instanceof DropError)) throw error;
      throw new DropError(`replyTo names '${replyTo}', which is no drop folder: ${error.message}`, { cause: error });
    }
  }
}

function unlessThere(error: unknown): void {
  if (!hasCode(error, 'EEXIST')) throw error;
}

/** Throws `DropError` where `path` is no folder of which those who may write are known. */
async function checkedFolder(path: string, what: string): Promise<{ dev: number }> {
  const found = await lstat(path).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) throw new DropError(`${path}: ${what} is not there; make it`);
    throw error;
  });
  if (found.isSymbolicLink()) throw new DropError(`${path}: is a symbolic link; give the folder itself`);
  if (!found.isDirectory()) throw new DropError(`${path}: is no folder`);
  if (found.mode & 0o002)
    throw new DropError(`${path}: everybody may write there, and so change the directory; run chmod o-w on it`);
  return found;
}

/** For messages: control characters as `?`. */
export function printable(text: string): string {
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

/** Opens a claimed file for reading. Throws `DropError` where it is none, or is longer than `maxBytes`. */
export async function openClaimed(path: string | Buffer, maxBytes: number): Promise<FileHandle> {
  const kind = await lstat(path);
  if (kind.isSymbolicLink()) throw new DropError('it is a symbolic link; drop the file itself');
  if (!kind.isFile()) throw new DropError('it is no file');
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const { size } = await handle.stat();
  if (size <= maxBytes) return handle;
  await handle.close();
  throw new DropError(`it has ${size} bytes, and may have ${maxBytes}; make several of it, or load it by rowan import`);
}

/**
 * Writes a file whole and durable, in place of any of the name; `part`: where it is written first, `mode`: who may read
 * it. Whoever wants it to stay there syncs its folder.
 */
export async function writeWhole(
  path: string,
  part: string,
  content: AsyncIterable<Buffer> | Iterable<Buffer>,
  mode: number,
): Promise<void> {
  try {
    await writePart(part, content, mode);
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

export const OWNER_ALONE = 0o600;
export const EVERYBODY = 0o644;

/** The same of a short text that all may read, where nothing has the name. Gives whether it was written. */
export async function writeNew(path: string, part: string, text: string): Promise<boolean> {
  await writePart(part, [Buffer.from(text)], EVERYBODY);
  try {
    await link(part, path);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(part, { force: true });
  }
}

async function writePart(path: string, content: AsyncIterable<Buffer> | Iterable<Buffer>, mode: number): Promise<void> {
  const handle = await open(path, 'wx', mode);
  try {
    for await (const piece of content) await handle.writeFile(piece);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}
