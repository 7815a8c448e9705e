import { CHANGES_TABLE } from '../partition/model/tables.js';
import type { LoadRow, RowStep, Store, TableSpec } from '../store/contract.js';
import { LOG_TABLE } from '../store/log.js';
import { EMPTY, MARK, unpackRow } from '../store/row.js';
import { cellChanges } from '../store/row-edit.js';
import { isGuardFailure } from '../store/store-error.js';
import { applyPart, type Group, type Part } from './group.js';
import type { Message, TableList, TouchedRow } from './wire.js';

/** Steps of so many bytes are one transaction, so that memory is bounded. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Bytes of a step besides its key and cells. */
const STEP_BYTES = 100;

/**
 * Writes what a primary sends to the store of a replica. Its plans are unlogged: the primary's log comes with them.
 * `ownTable`: the table of the store that is not among those that are sent. `group`: what makes a group whole; without
 * it, an interruption leaves half of a large one.
 */
export class Applier {
  readonly #store: Store;
  readonly #ownTable: TableSpec;
  readonly #group: Group | undefined;
  #specs = new Map<string, TableSpec>();
  #steps: RowStep[] = [];
  #bytes = 0;

  constructor(store: Store, ownTable = LOG_TABLE, group?: Group) {
    this.#store = store;
    this.#ownTable = ownTable;
    this.#group = group;
  }

  /** Applies a message. Resolves with true at the end of a group, when all of it is durable. */
  async apply(message: Message): Promise<boolean> {
    switch (message.kind) {
      case 'tables':
        await this.#setTables(message);
        return false;
      case 'load':
        await this.#load(message.table, message.rows);
        return false;
      case 'touched':
        for (const row of message.rows) await this.#addRow(row);
        if (this.#bytes >= MAX_BYTES) await this.flush();
        return false;
      case 'log':
        for (const { key, row } of message.entries)
          this.#steps.push({ table: LOG_TABLE.name, key, numbered: true, put: unpackRow(row) });
        return false;
      case 'end':
        await this.flush();
        await this.#group?.end();
        return true;
      default:
        return false;
    }
  }

  /** Writes the rows so far. */
  async flush(): Promise<void> {
    const steps = this.#steps;
    this.#steps = [];
    this.#bytes = 0;
    if (steps.length > 0) await this.#apply({ steps });
  }

  async #apply(part: Part): Promise<void> {
    await (this.#group ? this.#group.add(part) : applyPart(this.#store, part, this.#ownTable));
  }

  async #setTables({ specs, births }: TableList): Promise<void> {
    await this.flush();
    await this.#apply({ specs, ...(births && { births }) });
    this.#specs = new Map(specs.map((spec) => [spec.name, spec]));
  }

  async #load(table: string, rows: readonly LoadRow[]): Promise<void> {
    const last = rows.at(-1);
    if (!last) return;
    const isNumbered = table === CHANGES_TABLE.name;
    const steps = isNumbered ? [{ table, key: last.key, numbered: true, put: unpackRow(last.row) }] : [];
    const plan = { steps, decisive: 0, unlogged: true };
    try {
      const absent = this.#specs.get(table)?.suffixBytes === undefined;
      await this.#store.ingest([{ table, rows, absent }], plan);
    } catch (error) {
      // An interrupted copy has written some of the rows already: they are replaced.
      if (!isGuardFailure(error)) throw error;
      await this.#store.ingest([{ table, rows }], plan);
    }
  }

  async #addRow({ table, key, kind, names, put }: TouchedRow): Promise<void> {
    const spec = this.#specs.get(table);
    if (!spec) return;
    this.#bytes += STEP_BYTES + key.length + put.length;
    const cells = unpackRow(put);
    if (spec.suffixBytes !== undefined) {
      this.#steps.push(cells.length > 0 ? { table, key, put: [MARK] } : { table, key, deleteRow: true });
    } else if (kind === 'whole') {
      this.#steps.push({ table, key, deleteRow: true, put: cells });
    } else if (kind === 'cells') {
      const isGone = (name: (typeof names)[number]): boolean =>
        !cells.some(({ family, qualifier }) => family === name.family && qualifier.equals(name.qualifier));
      this.#steps.push({ table, key, delete: names.filter(isGone), put: cells });
    } else {
      const { removedCells, writtenCells } = cellChanges((await this.#store.get(table, key)) ?? EMPTY, cells);
      if (removedCells.length === 0 && writtenCells.length === 0) return;
      const step = { table, key, delete: removedCells, put: writtenCells };
      this.#steps.push(table === CHANGES_TABLE.name && cells.length > 0 ? { ...step, numbered: true } : step);
    }
  }
}
