import { PAGE_HEADER } from './pages.js';

/*
 * The start of LMDB's data file (format version 2, little-endian; docs/formats/lmdb.md): page 0 and page 1 are meta
 * pages. After the header of the page come
 *
 *   magic u32 │ version u32 │ address u64 │ map size u64 │ two databases of 48 bytes │ last page u64 │ transaction u64
 *
 * The databases are the free list and the one that names all others. The first u32 of the free list is the page size,
 * its flags are those of the file.
 */
export const MAGIC = 0xbeefc0de;
export const VERSION = 2;

/** Bytes of LMDB's record of a database. */
export const RECORD_BYTES = 48;

export const MAGIC_AT = PAGE_HEADER;
export const VERSION_AT = MAGIC_AT + 4;
export const MAP_SIZE_AT = PAGE_HEADER + 16;
export const FREE_AT = PAGE_HEADER + 24;
export const PAGE_SIZE_AT = FREE_AT;
export const FLAGS_AT = FREE_AT + 4;
export const MAIN_AT = FREE_AT + RECORD_BYTES;
export const LAST_PAGE_AT = MAIN_AT + RECORD_BYTES;
export const TRANSACTION_AT = LAST_PAGE_AT + 8;
export const META_BYTES = TRANSACTION_AT + 8;

/** The free list has integers as keys. */
const INTEGER_KEYS = 8;
/** A commit is not flushed before the next begins: programs that open the file otherwise than Rowan set it. */
const OVERLAPPING_SYNC = 0x1000;

/** LMDB crashes where it finds others, such as that of a third meta page. */
export function areFileFlags(flags: number): boolean {
  return (flags & ~OVERLAPPING_SYNC) === INTEGER_KEYS;
}
