import { access, constants, mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from '../errors.js';
import { checkDataFile, DATA_FILE } from './data-file.js';

const MARKER = 'rowan.json';
const FORMAT = 3;
const LOCK = 'lock.mdb';

interface Marker {
  readonly format: number;
  readonly store: 'lmdb';
  /** The format that the store had, while it is brought to this one. */
  readonly from?: number;
}

const CURRENT: Marker = { format: FORMAT, store: 'lmdb' };

/**
 * Makes the folder ready for LMDB, or says why it cannot be: LMDB itself crashes on files that are not its own. True when
 * the tables are to be upgraded, and `endUpgrade` called then.
 */
export async function prepareFolder(folder: string, create: boolean, readOnly: boolean): Promise<boolean> {
  const marker = await readMarker(folder);
  if (!marker) await createMarker(folder, create);
  await checkAccess(folder, readOnly);
  await checkDataFile(join(folder, DATA_FILE));
  const { format, from = format } = marker ?? CURRENT;
  if (from === FORMAT) return false;
  if (readOnly) {
    throw new StoreError(
      'format',
      `${folder} has format ${from} of an older Rowan; start "rowan serve" once, or anything else that writes, to bring it to format ${FORMAT}`,
    );
  }
  // Whoever knows only the older format must not meet the newer one.
  if (format < FORMAT) await writeMarker(folder, { ...CURRENT, from });
  return true;
}

/** The tables are in this format. */
export async function endUpgrade(folder: string): Promise<void> {
  await writeMarker(folder, CURRENT);
}

const READ = constants.R_OK;
const WRITE = constants.R_OK | constants.W_OK;

/** What LMDB opens for reading and writing. It crashes when it may not have its lock file, which readers write to as well. */
async function checkAccess(folder: string, readOnly: boolean): Promise<void> {
  await access(folder, (readOnly ? READ : WRITE) | constants.X_OK);
  await accessIfThere(join(folder, DATA_FILE), readOnly ? READ : WRITE);
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

async function readMarker(folder: string): Promise<Marker | undefined> {
  try {
    return parseMarker(folder, await readFile(join(folder, MARKER), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A marker of a format that this Rowan knows. */
function parseMarker(folder: string, text: string): Marker {
  let marker: { format?: unknown; store?: unknown; from?: unknown };
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
  return marker as Marker;
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
  await writeMarker(folder, CURRENT);
}

/** Written whole or not at all, and durable before there is any data. */
async function writeMarker(folder: string, marker: Marker): Promise<void> {
  const temporary = join(folder, `${MARKER}.${process.pid}`);
  const file = await open(temporary, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify(marker) + '\n');
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
