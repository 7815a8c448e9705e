/** Page size of new data files, in bytes. It allows keys of `MAX_KEY` bytes. */
export const PAGE_BYTES = 8192;

/** Bytes of the header of a page, or of the first of the overflow pages of a value (`MDB_page_header` in `mdb.c`). */
export const PAGE_HEADER_BYTES = 24;

/** The longest value, in bytes, that fits into this many overflow pages. */
export function overflowRoom(pages: number): number {
  return pages * PAGE_BYTES - PAGE_HEADER_BYTES;
}
