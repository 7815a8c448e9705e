import { PAGE_HEADER_BYTES } from './pages.js';

/*
 * The start of LMDB's data file (format version 2, little-endian; docs/formats/lmdb.md): page 0 and page 1 are meta
 * pages. The header of the page is followed by
 *
 *   magic u32 │ version u32 │ address u64 │ map size u64 │ two databases of 48 bytes │ last page u64 │ transaction u64
 *
 * The databases are the free list and the list of named databases. The first u32 of the free list is the page size, and
 * the flags of the free list are the flags of the file.
 */
export const MAGIC = 0xbeefc0de;
export const VERSION = 2;

/** Length of LMDB's record of a database, in bytes. Its last eight are the root page. */
const RECORD_BYTES = 48;

export const MAGIC_AT = PAGE_HEADER_BYTES;
export const VERSION_AT = MAGIC_AT + 4;
export const PAGE_SIZE_AT = PAGE_HEADER_BYTES + 24;
export const FLAGS_AT = PAGE_SIZE_AT + 4;
export const FREE_ROOT_AT = PAGE_SIZE_AT + RECORD_BYTES - 8;
export const LAST_PAGE_AT = PAGE_SIZE_AT + 2 * RECORD_BYTES;
export const TRANSACTION_AT = LAST_PAGE_AT + 8;
export const META_BYTES = TRANSACTION_AT + 8;

/** Flag: the keys of the free list are integers. */
const INTEGER_KEYS = 8;
/** Flag: a commit may be flushed after the next one begins. Programs other than Rowan may set this flag. */
const OVERLAPPING_SYNC = 0x1000;

/** Returns whether LMDB accepts the file flags: other flags, such as that of a third meta page, make LMDB crash. */
export function hasKnownFlags(fileFlags: number): boolean {
  return (fileFlags & ~OVERLAPPING_SYNC) === INTEGER_KEYS;
}
