/**
 * Sizes above which data is handled differently: see docs/terms.md. A change of `LARGE_VALUE`, `CHUNK` or `WIDE_VALUES`
 * affects entries that are written from then on. A change of `MAX_NORM` invalidates stored cut values.
 */

/** In bytes. A longer value is *large*: stored in chunks in family largeValues, so that searches do not read it. */
export const LARGE_VALUE = 64 * 1024;
/** Bytes of a chunk of a large value: the unit of reading and sending. */
export const CHUNK = 128 * 1024;
/** In bytes. New large values of more bytes together are written *ahead* of their plan, to save memory. */
export const AHEAD_BYTES = 4 * 1024 * 1024;
/** The most chunks that are written ahead in one commit, for which the commits of other clients have to wait. */
export const AHEAD_CHUNKS = 32;

/** An attribute with more values is *wide*: a change of a few values does not read the others. */
export const WIDE_VALUES = 256;

/** In bytes, without largeValues. A longer entry is *long*: work on it would block the event loop for too long. */
export const LONG_ROW = 256 * 1024;
/** An entry with more values in wide attributes is *long*, too. */
export const LONG_VALUES = 1000;
/** In bytes. A shorter row has no wide attribute, and needs no further check whether the entry is long. */
export const SHORT_ROW = 2 * 1024;

/** In bytes. A longer normal form is *cut* in keys and qualifiers (`cutNorm`). */
export const MAX_NORM = 512;

/** Limits for the memberURLs of an entry: number, total bytes, and filter items (one per `(` and `*`). */
export const MEMBER_URLS = { values: 100, bytes: 64 * 1024, items: 100 };

/** The most attempts of a write whose guards fail. After that it returns `busy`. */
export const MAX_TRIES = 200;
