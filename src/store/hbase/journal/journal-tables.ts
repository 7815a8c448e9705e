import type { InternalTable } from '../schema/index.js';

/** Tables of the engine itself, which `Store.tables` does not return. */

/** One row per writer, by its id of 8 bytes. The pieces of long records have rows by writer, plan and piece number. */
export const JOURNAL_TABLE: InternalTable = {
  name: 'journal',
  families: [
    { name: 'state', isOrdered: true },
    { name: 'plan', isOrdered: true },
    { name: 'ask', isOrdered: true },
  ],
};
export const JOURNAL = { state: 0, plan: 1, ask: 2 } as const;

/** The row `ticket` is the counter from which tickets are drawn. */
export const NUMBERS_TABLE: InternalTable = { name: 'numbers', families: [{ name: 'n' }] };

/** One row per table with only its gate: a lock, exclusive during a bulk load of the table, shared by other plans. */
export const GATES_TABLE: InternalTable = { name: 'gates', families: [{ name: 'lock', isOrdered: true }] };

export const INTERNAL_TABLES: readonly InternalTable[] = [JOURNAL_TABLE, NUMBERS_TABLE, GATES_TABLE];

/**
 * `beat`: a counter that a living writer increments. `floor`: a ticket of 8 bytes below those of all unfinished and
 * future plans of the writer.
 */
export const STATE = { state: Buffer.from('state'), beat: Buffer.from('beat'), floor: Buffer.from('floor') } as const;
/** State of a writer that may decide plans. */
export const ALIVE = Buffer.from('alive');
/** State of a writer that may decide no more plans. */
export const SWEPT = Buffer.from('swept');
/** State of a writer whose decided plans are all applied. Its locks are dead. */
export const DRAINED = Buffer.from('drained');
/** Guard of mutations that require a living writer, or must not create a writer's row. */
export const IS_ALIVE = { op: 'equals', family: JOURNAL.state, qualifier: STATE.state, value: ALIVE } as const;

/**
 * Timestamp of all cells and deletes in `isOrdered` families, above every ticket and every clock. In these families the
 * order of arrival counts: a delete masks the cells that are there, and none that arrive later.
 */
export const MAX_TIME = 1n << 62n;
/** The timestamp for `deleteRow`, which masks only cells with lower timestamps. */
export const MAX_TIME_ROW = MAX_TIME + 1n;
