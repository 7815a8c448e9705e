import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../errors.js';
import { PAGE_HEADER } from './pages.js';

/*
 * The start of LMDB's data file (format version 2, little-endian; docs/formats/lmdb.md): page 0 and page 1 are meta
 * pages. A page begins with 24 bytes of header; a meta page goes on with
 *
 *   magic u32 │ version u32 │ address u64 │ map size u64 │ two databases of 48 bytes │ last page u64 │ transaction u64
 *
 * The first u32 of the first database is the page size.
 */
const MAGIC = 0xbeefc0de;
const VERSION = 2;
const MAGIC_AT = PAGE_HEADER;
const VERSION_AT = PAGE_HEADER + 4;
const PAGE_SIZE_AT = PAGE_HEADER + 24;
const FLAGS_AT = PAGE_SIZE_AT + 4;
const LAST_PAGE_AT = PAGE_HEADER + 24 + 96;
const TRANSACTION_AT = LAST_PAGE_AT + 8;
const META_BYTES = TRANSACTION_AT + 8;

/** Flags of the free list, which are those of the file: keys are integers. */
const INTEGER_KEYS = 8;
/** A commit is not flushed before the next begins: programs that open the file otherwise than Rowan set it. */
const OVERLAPPING_SYNC = 0x1000;

/** LMDB crashes where it finds others, such as that of a third meta page. */
export function areFileFlags(flags: number): boolean {
  return (flags & ~OVERLAPPING_SYNC) === INTEGER_KEYS;
}

/** In the folder of a store. */
export const DATA_FILE = 'data.mdb';

interface Meta {
  readonly pageSize: number;
  readonly lastPage: bigint;
  readonly transaction: bigint;
}

/**
 * Checks what LMDB trusts when it maps the file: both meta pages, and that every page they count is in the file. A file
 * cut short would end the process with SIGBUS at the first read. An absent or empty file is new. Where pages are not in
 * the file `needsNone` tells whether they are all free: LMDB does not write pages that a transaction takes and gives
 * back.
 */
export async function checkDataFile(path: string, needsNone: () => Promise<boolean>): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    // Another process may be writing a meta page while it is read: only what stays wrong is wrong.
    for (let attempt = 0; ; attempt++) {
      const problem = await problemOf(file, path, needsNone);
      if (!problem) return;
      if (attempt === 3) throw problem;
      await sleep(20);
    }
  } finally {
    await file.close();
  }
}

async function problemOf(
  file: FileHandle,
  path: string,
  needsNone: () => Promise<boolean>,
): Promise<StoreError | undefined> {
  if ((await file.stat()).size === 0) return undefined;
  const first = await readMeta(file, path, 0);
  if (first instanceof StoreError) return first;
  const second = await readMeta(file, path, first.pageSize);
  if (second instanceof StoreError) return second;
  const newest = first.transaction > second.transaction ? first : second;
  const { size } = await file.stat();
  const needed = (newest.lastPage + 1n) * BigInt(newest.pageSize);
  if (BigInt(size) >= needed || (await needsNone())) return undefined;
  return damaged(path, `it should have ${needed} bytes and has ${size}`);
}

async function readMeta(file: FileHandle, path: string, at: number): Promise<Meta | StoreError> {
  const meta = Buffer.alloc(META_BYTES);
  const { bytesRead } = await file.read(meta, 0, META_BYTES, at);
  if (bytesRead < META_BYTES) return damaged(path, `it is cut at byte ${at + bytesRead}`);
  if (meta.readUInt32LE(MAGIC_AT) !== MAGIC) return damaged(path, `the page at byte ${at} is no LMDB meta page`);
  const version = meta.readUInt32LE(VERSION_AT) & 0xffff;
  if (version !== VERSION) {
    return new StoreError(
      'format',
      `${path} has LMDB data of version ${version}, this Rowan reads ${VERSION}; upgrade Rowan`,
    );
  }
  const pageSize = meta.readUInt32LE(PAGE_SIZE_AT);
  if (pageSize < 512 || pageSize > 65536 || (pageSize & (pageSize - 1)) !== 0) {
    return damaged(path, `the page at byte ${at} tells a page size of ${pageSize}`);
  }
  const flags = meta.readUInt16LE(FLAGS_AT);
  if (!areFileFlags(flags)) return damaged(path, `the page at byte ${at} has flags ${flags}`);
  return {
    pageSize,
    lastPage: meta.readBigUInt64LE(LAST_PAGE_AT),
    transaction: meta.readBigUInt64LE(TRANSACTION_AT),
  };
}

function damaged(path: string, detail: string): StoreError {
  return new StoreError('corrupt', `${path} is damaged: ${detail}; restore it from a backup`);
}
