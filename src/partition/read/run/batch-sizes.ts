/** Candidates that are taken from an index at a time. */
export const INDEX_BATCH = 512;

/** Entries that one request reads where rows are spread over servers. */
export const READ_BATCH = 256;

/** Entries that are examined between two looks at the clock: a filter of thousands of terms takes 1 ms an entry. */
export const CLOCK_INTERVAL = 4;

/** Rows in the first batch after a search has waited for its client, as the client may soon be behind again. */
export const ROWS_AFTER_WAIT = 16;
