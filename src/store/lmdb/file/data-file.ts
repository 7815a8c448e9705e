import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store-error.js';
import { areMissingPagesFree } from './free-list.js';
import {
  FLAGS_AT,
  FREE_ROOT_AT,
  hasKnownFlags,
  LAST_PAGE_AT,
  MAGIC,
  MAGIC_AT,
  META_BYTES,
  PAGE_SIZE_AT,
  TRANSACTION_AT,
  VERSION,
  VERSION_AT,
} from './meta-layout.js';

/** Name of the data file in the folder of a store. */
export const DATA_FILE = 'data.mdb';

interface Meta {
  readonly pageSize: number;
  readonly lastPage: bigint;
  readonly transaction: bigint;
  readonly freeRoot: bigint;
}

/**
 * Checks what LMDB trusts when mapping the file: both meta pages must be valid, and the file must contain all pages
 * that the newest meta page counts. A truncated file would kill the process with SIGBUS at the first read. An absent or
 * empty file is new. Pages may be missing if all of them are free.
 */
export async function checkDataFile(path: string): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    // Another process may be writing a meta page meanwhile, so only a lasting problem counts.
    for (let attempt = 0; ; attempt++) {
      const problem = await findProblem(file, path);
      if (!problem) return;
      if (attempt === 3) throw problem;
      await sleep(20);
    }
  } finally {
    await file.close();
  }
}

async function findProblem(file: FileHandle, path: string): Promise<StoreError | undefined> {
  if ((await file.stat()).size === 0) return undefined;
  const firstMeta = await readMeta(file, path, 0);
  if (firstMeta instanceof StoreError) return firstMeta;
  const secondMeta = await readMeta(file, path, firstMeta.pageSize);
  if (secondMeta instanceof StoreError) return secondMeta;
  const newestMeta = firstMeta.transaction > secondMeta.transaction ? firstMeta : secondMeta;
  const { size } = await file.stat();
  const neededBytes = (newestMeta.lastPage + 1n) * BigInt(newestMeta.pageSize);
  if (BigInt(size) >= neededBytes || (await areMissingPagesFree(file, size, newestMeta))) return undefined;
  return damagedFile(path, `it should have ${neededBytes} bytes and has ${size}`);
}

async function readMeta(file: FileHandle, path: string, offset: number): Promise<Meta | StoreError> {
  const meta = Buffer.alloc(META_BYTES);
  const { bytesRead } = await file.read(meta, 0, META_BYTES, offset);
  if (bytesRead < META_BYTES) return damagedFile(path, `it is cut at byte ${offset + bytesRead}`);
  if (meta.readUInt32LE(MAGIC_AT) !== MAGIC)
    return damagedFile(path, `the page at byte ${offset} is no LMDB meta page`);
  const version = meta.readUInt32LE(VERSION_AT) & 0xffff;
  if (version !== VERSION) {
    return new StoreError(
      'format',
      `${path} has LMDB data of version ${version}, this Rowan reads ${VERSION}; upgrade Rowan`,
    );
  }
  const pageSize = meta.readUInt32LE(PAGE_SIZE_AT);
  if (pageSize < 512 || pageSize > 65536 || (pageSize & (pageSize - 1)) !== 0)
    return damagedFile(path, `the page at byte ${offset} tells a page size of ${pageSize}`);
  const fileFlags = meta.readUInt16LE(FLAGS_AT);
  if (!hasKnownFlags(fileFlags)) return damagedFile(path, `the page at byte ${offset} has flags ${fileFlags}`);
  return {
    pageSize,
    lastPage: meta.readBigUInt64LE(LAST_PAGE_AT),
    transaction: meta.readBigUInt64LE(TRANSACTION_AT),
    freeRoot: meta.readBigUInt64LE(FREE_ROOT_AT),
  };
}

function damagedFile(path: string, detail: string): StoreError {
  return new StoreError('corrupt', `${path} is damaged: ${detail}; restore it from a backup`);
}
