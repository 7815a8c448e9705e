/** Page size of new data files, in bytes. It allows keys of `MAX_KEY` bytes. */
export const PAGE = 8192;

/**
 * Bytes of the header of a page, or of the first of several pages with one long value (`MDB_page_header` in `mdb.c`).
 */
export const PAGE_HEADER = 24;

/** The longest value, in bytes, that fits into this many overflow pages. */
export function overflowRoom(pages: number): number {
  return pages * PAGE - PAGE_HEADER;
}
