/** Page size of new data files, in bytes. It allows keys of `MAX_KEY` bytes. */
export const PAGE = 8192;

/**
 * What a page begins with, and the first of a run of pages with one long value: `MDB_page_header` in LMDB's `mdb.c`.
 */
export const PAGE_HEADER = 24;

/** The longest value, in bytes, that takes so many pages of its own. */
export function roomIn(pages: number): number {
  return pages * PAGE - PAGE_HEADER;
}
