import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store-error.js';

/** Page size of new data files, in bytes. It allows keys of `MAX_KEY` bytes. */
export const PAGE_BYTES = 8192;

/** Bytes of the header of a page, or of the first of the overflow pages of a value (`MDB_page_header` in `mdb.c`). */
const PAGE_HEADER_BYTES = 24;

/** The longest value, in bytes, that fits into this many overflow pages. */
export function overflowRoom(pages: number): number {
  return pages * PAGE_BYTES - PAGE_HEADER_BYTES;
}

/*
 * The start of LMDB's data file (format version 2, little-endian; docs/formats/lmdb.md): page 0 and page 1 are meta
 * pages. The header of the page is followed by
 *
 *   magic u32 │ version u32 │ address u64 │ map size u64 │ two databases of 48 bytes │ last page u64 │ transaction u64
 *
 * The databases are the free list and the list of named databases. The first u32 of the free list is the page size, and
 * the flags of the free list are the flags of the file.
 */
const MAGIC = 0xbeefc0de;
const VERSION = 2;

/** Length of LMDB's record of a database, in bytes. Its last eight are the root page. */
const RECORD_BYTES = 48;

const MAGIC_AT = PAGE_HEADER_BYTES;
const VERSION_AT = MAGIC_AT + 4;
const PAGE_SIZE_AT = PAGE_HEADER_BYTES + 24;
const FLAGS_AT = PAGE_SIZE_AT + 4;
const FREE_ROOT_AT = PAGE_SIZE_AT + RECORD_BYTES - 8;
const LAST_PAGE_AT = PAGE_SIZE_AT + 2 * RECORD_BYTES;
const TRANSACTION_AT = LAST_PAGE_AT + 8;
const META_BYTES = TRANSACTION_AT + 8;

/** Flag: the keys of the free list are integers. */
const INTEGER_KEYS = 8;
/** Flag: a commit may be flushed after the next one begins. Programs other than Rowan may set this flag. */
const OVERLAPPING_SYNC = 0x1000;

/** Returns whether LMDB accepts the file flags: other flags, such as that of a third meta page, make LMDB crash. */
function hasKnownFlags(fileFlags: number): boolean {
  return (fileFlags & ~OVERLAPPING_SYNC) === INTEGER_KEYS;
}

/** Name of the data file in the folder of a store. */
export const DATA_FILE = 'data.mdb';

/** What a meta page tells of the file. */
interface Meta {
  readonly pageSize: number;
  readonly lastPage: bigint;
  readonly transaction: bigint;
  /** Root page of the free list. */
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

/** Root page of an empty database. */
const NO_PAGE = 0xffffffffffffffffn;
/** Offsets in a page, and in a node of a page (docs/formats/lmdb.md). */
const KIND_AT = 18;
const LOWER_AT = 20;
const NODE_FLAGS_AT = 4;
const KEY_LENGTH_AT = 6;
const NODE_HEADER_BYTES = 8;
/** Page kind of a branch; flag of a node whose value has pages of its own. */
const BRANCH = 1;
const BIG_VALUE = 1;

/**
 * Returns whether all pages that a file of `size` bytes lacks are in its free list: LMDB does not write pages that a
 * transaction allocates and frees again. False if the free list cannot be read.
 */
async function areMissingPagesFree(file: FileHandle, size: number, meta: Meta): Promise<boolean> {
  const { pageSize, lastPage, freeRoot } = meta;
  const filePages = Math.floor(size / pageSize);
  const readAt = async (offset: number, length: number): Promise<Buffer> => {
    if (offset + length > size) throw new RangeError('outside of the file');
    const bytes = Buffer.alloc(length);
    await file.read(bytes, 0, length, offset);
    return bytes;
  };
  let missingCount = Number(lastPage) + 1 - filePages;
  const pages = freeRoot === NO_PAGE ? [] : [Number(freeRoot)];
  try {
    for (let count = 0; pages.length > 0; count++) {
      if (count > filePages) return false;
      const page = await readAt(pages.pop()! * pageSize, pageSize);
      const isBranch = (page.readUInt16LE(KIND_AT) & BRANCH) !== 0;
      for (let i = 0; i < page.readUInt16LE(LOWER_AT); i += 2) {
        const node = page.subarray(PAGE_HEADER_BYTES + page.readUInt16LE(PAGE_HEADER_BYTES + i));
        const value = node.subarray(NODE_HEADER_BYTES + node.readUInt16LE(KEY_LENGTH_AT));
        if (isBranch) pages.push(node.readUIntLE(0, 6));
        else if ((node.readUInt16LE(NODE_FLAGS_AT) & BIG_VALUE) === 0) missingCount -= freePagesFrom(filePages, value);
        else {
          const offset = Number(value.readBigUInt64LE()) * pageSize + PAGE_HEADER_BYTES;
          missingCount -= freePagesFrom(filePages, await readAt(offset, node.readUInt32LE()));
        }
      }
    }
  } catch (error) {
    // An offset leads out of the page or the file.
    if (error instanceof RangeError) return false;
    throw error;
  }
  return missingCount === 0;
}

/**
 * Returns how many pages from `firstPage` on a row of the free list has: a count, then page numbers. A negative number
 * -n means that the next page number begins n adjacent pages; zeros are ignored.
 */
function freePagesFrom(firstPage: number, row: Buffer): number {
  const count = Number(row.readBigInt64LE());
  let pageCount = 0;
  let runLength = 1;
  for (let i = 1; i <= count; i++) {
    const number = Number(row.readBigInt64LE(i * 8));
    if (number > 0) pageCount += Math.max(0, number + runLength - Math.max(number, firstPage));
    runLength = number < 0 ? -number : 1;
  }
  return pageCount;
}
