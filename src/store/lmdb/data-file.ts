import { type FileHandle, open, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../errors.js';
import { PAGE_HEADER } from './pages.js';

/*
 * The start of LMDB's data file (format version 2, little-endian; docs/formats/lmdb.md): page 0 and page 1 are meta
 * pages. A page begins with 24 bytes of header; a meta page goes on with
 *
 *   magic u32 │ version u32 │ address u64 │ map size u64 │ two databases of 48 bytes │ last page u64 │ transaction u64 │ boot u64
 *
 * The first u32 of the first database is the page size. Half a page into page 0 lies a third meta, without magic and version:
 * the newest that was flushed. LMDB goes back to it when the machine was started anew since the newest was written.
 */
const MAGIC = 0xbeefc0de;
const VERSION = 2;
const MAGIC_AT = PAGE_HEADER;
const VERSION_AT = PAGE_HEADER + 4;
const PAGE_SIZE_AT = PAGE_HEADER + 24;
const LAST_PAGE_AT = PAGE_HEADER + 24 + 96;
const TRANSACTION_AT = LAST_PAGE_AT + 8;
const BOOT_AT = TRANSACTION_AT + 8;
const META_BYTES = BOOT_AT + 8;

/** In the folder of a store. */
export const DATA_FILE = 'data.mdb';

interface Meta {
  readonly pageSize: number;
  readonly lastPage: bigint;
  readonly transaction: bigint;
  /** The first group of the boot id of the machine that wrote it. */
  readonly boot: bigint;
}

/**
 * Checks what LMDB trusts when it maps the file: both meta pages, and that every page they count is in the file. A file
 * cut short would end the process with SIGBUS at the first read. An absent or empty file is new.
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
    // Another process may be writing a meta page while it is read: only what stays wrong is wrong.
    for (let attempt = 0; ; attempt++) {
      const problem = await problemOf(file, path);
      if (!problem) return;
      if (attempt === 3) throw problem;
      await sleep(20);
    }
  } finally {
    await file.close();
  }
}

async function problemOf(file: FileHandle, path: string): Promise<StoreError | undefined> {
  if ((await file.stat()).size === 0) return undefined;
  const first = await readMeta(file, path, 0);
  if (first instanceof StoreError) return first;
  const second = await readMeta(file, path, first.pageSize);
  if (second instanceof StoreError) return second;
  const newest = first.transaction > second.transaction ? first : second;
  const { size } = await file.stat();
  const needed = sizeOf(newest);
  if (BigInt(size) >= needed) return undefined;
  if (newest.boot !== (await bootId())) {
    const flushed = await readMeta(file, path, newest.pageSize >> 1, newest.pageSize);
    if (!(flushed instanceof StoreError) && flushed.transaction > 0n && BigInt(size) >= sizeOf(flushed))
      return undefined;
  }
  return damaged(path, `it should have ${needed} bytes and has ${size}`);
}

function sizeOf(meta: Meta): bigint {
  return (meta.lastPage + 1n) * BigInt(meta.pageSize);
}

/** As LMDB reads it; 0 where the system has none. */
async function bootId(): Promise<bigint> {
  const text = await readFile('/proc/sys/kernel/random/boot_id', 'latin1').catch(() => '0-');
  return BigInt(`0x${text.slice(0, text.indexOf('-'))}`);
}

/** A meta page, or with a `pageSize` given the meta without magic half a page in. */
async function readMeta(file: FileHandle, path: string, at: number, pageSize?: number): Promise<Meta | StoreError> {
  const meta = Buffer.alloc(META_BYTES);
  const { bytesRead } = await file.read(meta, 0, META_BYTES, at);
  if (bytesRead < META_BYTES) return damaged(path, `it is cut at byte ${at + bytesRead}`);
  if (pageSize !== undefined) return metaOf(meta, pageSize);
  if (meta.readUInt32LE(MAGIC_AT) !== MAGIC) return damaged(path, `the page at byte ${at} is no LMDB meta page`);
  const version = meta.readUInt32LE(VERSION_AT) & 0xffff;
  if (version !== VERSION) {
    return new StoreError(
      'format',
      `${path} has LMDB data of version ${version}, this Rowan reads ${VERSION}; upgrade Rowan`,
    );
  }
  const told = meta.readUInt32LE(PAGE_SIZE_AT);
  if (told >= 512 && told <= 65536 && (told & (told - 1)) === 0) return metaOf(meta, told);
  return damaged(path, `the page at byte ${at} tells a page size of ${told}`);
}

function metaOf(meta: Buffer, pageSize: number): Meta {
  return {
    pageSize,
    lastPage: meta.readBigUInt64LE(LAST_PAGE_AT),
    transaction: meta.readBigUInt64LE(TRANSACTION_AT),
    boot: meta.readBigUInt64LE(BOOT_AT),
  };
}

function damaged(path: string, detail: string): StoreError {
  return new StoreError('corrupt', `${path} is damaged: ${detail}; restore it from a backup`);
}
