/**
 * From which size on something is treated otherwise, in one place: docs/terms.md tells what the words mean. Changing
 * `LARGE_VALUE`, `CHUNK` or `WIDE_VALUES` changes what is stored, for entries that are written from then on; forms that
 * are stored cut do not fit another `MAX_NORM`.
 */

/**
 * Bytes. A longer value is *large*: it lives in chunks in family largeValues, so that searches do not drag it along.
 */
export const LARGE_VALUE = 64 * 1024;
/** Bytes of a chunk of a large value: what is read and sent at a time. */
export const CHUNK = 128 * 1024;
/**
 * Bytes. New large values that are longer together are written *ahead* of their plan, which is in memory as a whole.
 */
export const AHEAD = 4 * 1024 * 1024;
/** Chunks that one commit writes ahead: others' commits wait for no more. */
export const PORTION = 32;

/** Values. An attribute that has more is *wide*: a change of a few of its values does not read the others. */
export const WIDE_VALUES = 256;

/**
 * Bytes outside largeValues. A longer entry is *long*: work with it holds the event loop for longer than others should
 * wait.
 */
export const LONG_ROW = 256 * 1024;
/** Values in wide attributes. An entry that has more is long, too. */
export const LONG_VALUES = 1000;
/** Bytes. A shorter row has no wide attribute: it need not be looked through to know that it is not long. */
export const SHORT_ROW = 2 * 1024;

/** Bytes. A longer normal form is *cut* in keys and qualifiers (`cutNorm`). */
export const MAX_NORM = 512;

/**
 * What is evaluated of the memberURLs of an entry: so many values, so many bytes of them together, and of a filter so
 * many items, of which each `(` and each `*` begins one.
 */
export const MEMBER_URLS = { values: 100, bytes: 64 * 1024, items: 100 };

/** Times a plan whose guard failed is made again before the operation answers `busy`. */
export const MAX_TRIES = 200;
