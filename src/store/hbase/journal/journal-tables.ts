import type { InternalTable } from '../schema/index.js';

/** Tables of the engine itself; `Store.tables` does not show them. */

/**
 * One row for each writer (an open store), key = its 8-byte id; and rows of id + sequence + piece for records that
 * are too long for one cell.
 */
export const JOURNAL_TABLE: InternalTable = {
  name: 'journal',
  families: [
    { name: 'state', ordered: true },
    { name: 'plan', ordered: true },
    { name: 'ask', ordered: true },
  ],
};
export const JOURNAL = { state: 0, plan: 1, ask: 2 } as const;

/** Row `ticket`: the counter that tickets are drawn from. */
export const NUMBERS_TABLE: InternalTable = { name: 'numbers', families: [{ name: 'n' }] };

/**
 * Rows of nothing but locks. Key: a table's name; held by who loads that table, shared by who writes in it otherwise.
 */
export const GATES_TABLE: InternalTable = { name: 'gates', families: [{ name: 'lock', ordered: true }] };

export const INTERNAL_TABLES: readonly InternalTable[] = [JOURNAL_TABLE, NUMBERS_TABLE, GATES_TABLE];

/** `floor`: the writer's unfinished plans, and those it begins later, have tickets above this one (8 bytes). */
export const STATE = { state: Buffer.from('state'), beat: Buffer.from('beat'), floor: Buffer.from('floor') } as const;
/** A writer's states: it may decide; it may not; and all that it had decided is done, its locks are dead. */
export const ALIVE = Buffer.from('alive');
export const SWEPT = Buffer.from('swept');
export const DRAINED = Buffer.from('drained');
/** Of a mutation of a writer's row that must not make it anew, or is for a living writer. */
export const IS_ALIVE = { op: 'equals', family: JOURNAL.state, qualifier: STATE.state, value: ALIVE } as const;

/**
 * Timestamp of what is put and deleted in `ordered` families, which go by the order of arrival: above every ticket and
 * every clock. A delete masks what is there, and nothing that comes later.
 */
export const FOREVER = 1n << 62n;
/** The same for whole rows: a `deleteRow` masks what is older than its timestamp. */
export const FOREVER_ROW = FOREVER + 1n;
