/**
 * Sizes above which data is handled differently: see docs/terms.md. A change of `LARGE_VALUE`, `CHUNK` or `WIDE_VALUES`
 * affects entries that are written from then on. A change of `MAX_NORM` invalidates stored cut values.
 */

/** Bytes. A longer value is *large*: it is stored in chunks in family largeValues, so that searches do not read it. */
export const LARGE_VALUE = 64 * 1024;
/** Bytes of a chunk of a large value, the unit of reading and sending. */
export const CHUNK = 128 * 1024;
/** Bytes. New large values with a greater total length are written *ahead* of their plan, to save memory. */
export const AHEAD_BYTES = 4 * 1024 * 1024;
/** Number of chunks that one commit writes ahead. Limits the time that commits of other clients wait. */
export const AHEAD_CHUNKS = 32;

/** Values. An attribute with more values is *wide*: a change of a few values does not read the others. */
export const WIDE_VALUES = 256;

/** Bytes outside largeValues. A longer entry is *long*: work on it would block the event loop for too long. */
export const LONG_ROW = 256 * 1024;
/** Values in wide attributes. An entry with more is long, too. */
export const LONG_VALUES = 1000;
/** Bytes. A shorter row has no wide attribute, so a row of this size is not long and needs no further check. */
export const SHORT_ROW = 2 * 1024;

/** Bytes. A longer normal form is *cut* in keys and qualifiers (`cutNorm`). */
export const MAX_NORM = 512;

/** Limits for the memberURLs of an entry: number, total bytes, and items of a filter, one per `(` and `*`. */
export const MEMBER_URLS = { values: 100, bytes: 64 * 1024, items: 100 };

/** Attempts of a plan whose guard fails, before the operation returns `busy`. */
export const MAX_TRIES = 200;
