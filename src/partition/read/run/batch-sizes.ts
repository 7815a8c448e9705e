/** Number of candidates that are taken from an index at a time. */
export const INDEX_BATCH = 512;

/** Number of entries that one request reads if rows are spread over servers. */
export const READ_BATCH = 256;

/** Entries examined between two checks of the clock. A filter of thousands of terms takes 1 ms per entry. */
export const CLOCK_INTERVAL = 4;

/** Number of rows in the first batch after a search has waited for its client, which may soon be slow again. */
export const ROWS_AFTER_WAIT = 16;
