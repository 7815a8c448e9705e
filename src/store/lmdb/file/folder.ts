import { access, constants, copyFile, mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { StoreError } from '../../store-error.js';
import { checkDataFile, DATA_FILE } from './data-file.js';

const MARKER_FILE = 'rowan.json';
const FORMAT_VERSION = 4;
const LOCK_FILE = 'lock.mdb';

interface Marker {
  readonly format: number;
  readonly store: 'lmdb';
}

const CURRENT_MARKER: Marker = { format: FORMAT_VERSION, store: 'lmdb' };

/** Checks the files of the folder, because LMDB crashes on malformed files. With `create`, creates an absent store. */
export async function prepareFolder(folder: string, create: boolean, readOnly: boolean): Promise<void> {
  if (!(await hasMarker(folder))) await createMarker(folder, create);
  await checkAccess(folder, readOnly);
  await checkDataFile(join(folder, DATA_FILE));
}

const READ_MODE = constants.R_OK;
const WRITE_MODE = constants.R_OK | constants.W_OK;

/** Throws unless all files are accessible. LMDB crashes without access to its lock file, which readers write, too. */
async function checkAccess(folder: string, readOnly: boolean): Promise<void> {
  await access(folder, (readOnly ? READ_MODE : WRITE_MODE) | constants.X_OK);
  await checkAccessIfPresent(join(folder, DATA_FILE), readOnly ? READ_MODE : WRITE_MODE);
  try {
    const hasLockFile = await checkAccessIfPresent(join(folder, LOCK_FILE), WRITE_MODE);
    if (!hasLockFile) await access(folder, WRITE_MODE);
  } catch (error) {
    // On a read-only file system, LMDB reads without a lock.
    if (!readOnly || (error as NodeJS.ErrnoException).code !== 'EROFS') throw error;
  }
}

/** Returns whether the file exists. Throws if it exists but is not accessible. */
async function checkAccessIfPresent(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Returns whether the folder has a marker of the current format. Throws for any other marker. */
async function hasMarker(folder: string): Promise<boolean> {
  try {
    checkMarker(folder, await readFile(join(folder, MARKER_FILE), 'utf8'));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

function checkMarker(folder: string, text: string): void {
  let marker: { format?: unknown; store?: unknown };
  try {
    marker = JSON.parse(text) as typeof marker;
  } catch (error) {
    throw new StoreError('corrupt', `${join(folder, MARKER_FILE)} is damaged; restore it from a backup`, {
      cause: error,
    });
  }
  const { format, store } = marker;
  if (store !== 'lmdb' || typeof format !== 'number')
    throw new StoreError('format', `${folder} holds another kind of store; choose another folder`);
  if (format === FORMAT_VERSION) return;
  const versions = `format ${format}, this one reads ${FORMAT_VERSION}`;
  throw new StoreError(
    'format',
    format > FORMAT_VERSION
      ? `${folder} was written by a newer Rowan (${versions}); upgrade Rowan`
      : `${folder} was written by an older Rowan (${versions}); with the version that wrote it run "rowan export --data ${folder} > all.ldif", with this one "rowan init" for an empty folder, and import all.ldif there`,
  );
}

async function createMarker(folder: string, create: boolean): Promise<void> {
  if (!create)
    throw new StoreError('format', `${folder} holds no Rowan store; create one with "rowan init --data ${folder}"`);
  await makeFolder(resolve(folder));
  const foreignNames = (await readdir(folder)).filter((name) => !name.startsWith('rowan') && !name.startsWith('.'));
  if (foreignNames.length) {
    throw new StoreError(
      'format',
      `${folder} is not a Rowan store: it holds ${foreignNames[0]}; choose an empty folder`,
    );
  }
  await writeMarker(folder, CURRENT_MARKER);
}

/** Copies the marker, after the data: it makes a store of the folder. */
export function copyMarker(from: string, to: string): Promise<void> {
  return copyFile(join(from, MARKER_FILE), join(to, MARKER_FILE));
}

/** Creates a folder and its parents with mode 0700. Node's recursive `mkdir` would loop forever in `/proc`. */
async function makeFolder(folder: string): Promise<void> {
  const parent = dirname(folder);
  if (parent !== folder && !(await checkAccessIfPresent(parent, constants.F_OK))) await makeFolder(parent);
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code === 'ENOENT')
      throw new StoreError('permission', `${folder}: no folder can be made in ${parent}; choose another`);
    throw error;
  }
}

/** Writes the marker atomically and durably, before there is any data. */
async function writeMarker(folder: string, marker: Marker): Promise<void> {
  const temporaryPath = join(folder, `${MARKER_FILE}.${process.pid}`);
  const file = await open(temporaryPath, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify(marker) + '\n');
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporaryPath, join(folder, MARKER_FILE));
  const directory = await open(folder, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
