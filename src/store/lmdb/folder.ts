import { access, constants, mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from '../errors.js';
import { checkDataFile } from './data-file.js';

const MARKER = 'rowan.json';
const FORMAT = 2;
const DATA = 'data.mdb';
const LOCK = 'lock.mdb';

/** Makes the folder ready for LMDB, or says why it cannot be: LMDB itself crashes on files that are not its own. */
export async function prepareFolder(folder: string, create: boolean, readOnly: boolean): Promise<void> {
  const marker = await readMarker(folder);
  const format = marker ? checkMarker(folder, marker) : FORMAT;
  if (!marker) await createMarker(folder, create);
  await checkAccess(folder, readOnly);
  await checkDataFile(join(folder, DATA));
  // Format 1 had no long rows: whoever knows only that one must not meet them.
  if (format < FORMAT && !readOnly) await writeMarker(folder);
}

const READ = constants.R_OK;
const WRITE = constants.R_OK | constants.W_OK;

/** What LMDB opens for reading and writing. It crashes when it may not have its lock file, which readers write to as well. */
async function checkAccess(folder: string, readOnly: boolean): Promise<void> {
  await access(folder, (readOnly ? READ : WRITE) | constants.X_OK);
  await accessIfThere(join(folder, DATA), readOnly ? READ : WRITE);
  try {
    const locked = await accessIfThere(join(folder, LOCK), WRITE);
    if (!locked) await access(folder, WRITE);
  } catch (error) {
    // Nobody writes to a file system that cannot be written to: LMDB reads there without a lock.
    if (!readOnly || (error as NodeJS.ErrnoException).code !== 'EROFS') throw error;
  }
}

/** Whether the file exists; throws when it does and may not be used. */
async function accessIfThere(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

async function readMarker(folder: string): Promise<string | undefined> {
  try {
    return await readFile(join(folder, MARKER), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The format that the marker tells, one that this Rowan reads. */
function checkMarker(folder: string, text: string): number {
  let marker: { format?: unknown; store?: unknown };
  try {
    marker = JSON.parse(text) as typeof marker;
  } catch (error) {
    throw new StoreError('corrupt', `${join(folder, MARKER)} is damaged; restore it from a backup`, { cause: error });
  }
  if (marker.store !== 'lmdb' || typeof marker.format !== 'number') {
    throw new StoreError('format', `${folder} holds another kind of store; choose another folder`);
  }
  if (marker.format > FORMAT) {
    throw new StoreError(
      'format',
      `${folder} was written by a newer Rowan (format ${marker.format}, this one knows ${FORMAT}); upgrade Rowan`,
    );
  }
  return marker.format;
}

async function createMarker(folder: string, create: boolean): Promise<void> {
  if (!create) {
    throw new StoreError('format', `${folder} holds no Rowan store; create one with "rowan init --data ${folder}"`);
  }
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const others = (await readdir(folder)).filter((name) => !name.startsWith('rowan') && !name.startsWith('.'));
  if (others.length) {
    throw new StoreError('format', `${folder} is not a Rowan store: it holds ${others[0]}; choose an empty folder`);
  }
  await writeMarker(folder);
}

/** Written whole or not at all, and durable before there is any data. */
async function writeMarker(folder: string): Promise<void> {
  const temporary = join(folder, `${MARKER}.${process.pid}`);
  const file = await open(temporary, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify({ format: FORMAT, store: 'lmdb' }) + '\n');
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(folder, MARKER));
  const directory = await open(folder, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
