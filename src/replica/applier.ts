import { appendFileSync, createReadStream, existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { indexBirths } from '../partition/index/index-admin.js';
import { CHANGES_TABLE } from '../partition/model/tables.js';
import type { LoadRow, PlanStep, RowStep, Store, TableSpec } from '../store/contract.js';
import { LOG_TABLE } from '../store/log.js';
import { EMPTY, MARK, unpackRow } from '../store/row.js';
import { cellChanges } from '../store/row-edit.js';
import { isGuardFailure } from '../store/store-error.js';
import { lastEntry } from './history.js';
import { decodePlain, encodePlain, type Message, type TableList, type TouchedRow } from './wire.js';

/** A part of a group of changes, which is applied at once: the tables that there are, or steps of one transaction. */
type Part = TableList | { readonly steps: readonly PlanStep[] };

/** Its first line is the number of the last entry of the log before the group, each further one a part, as JSON. */
const fileIn = (folder: string): string => join(folder, 'replica.group');

/** Whether a group is applied in parts at present, or was until its process ended. */
export function hasHalfGroup(folder: string): boolean {
  return existsSync(fileIn(folder));
}

/** Applies a part. `ownTable`: the table that is not among `specs`. */
async function applyPart(store: Store, part: Part, ownTable = LOG_TABLE): Promise<void> {
  if ('steps' in part) return store.commit({ steps: part.steps, decisive: 0, unlogged: true });
  const births = part.births && (await indexBirths(store));
  const same = part.specs.filter(({ name }) => part.births?.[name] === births?.[name]);
  const kept = new Set([ownTable.name, ...same.map(({ name }) => name)]);
  for (const { name } of await store.tables()) if (!kept.has(name)) await store.dropTable(name);
  for (const spec of [ownTable, ...part.specs]) await store.createTable(spec);
}

/**
 * Keeps the parts of a group until its end. A single transaction waits in memory. More are in a file, whole, before the
 * first of them is applied, so that half a group can always be finished: by `finishGroup`, before the folder follows
 * or is promoted.
 */
export class Group {
  readonly #store: Store;
  readonly #file: string;
  #parts: Part[] = [];
  #isInFile = false;

  constructor(store: Store) {
    this.#store = store;
    this.#file = fileIn(store.folder!);
  }

  async add(part: Part): Promise<void> {
    this.#parts.push(part);
    if (this.#parts.length > 1 || 'specs' in part) await this.#write();
  }

  /** Applies the group. Resolves when all of it is durable. */
  async end(): Promise<void> {
    if (this.#isInFile) {
      await this.#write();
      this.#isInFile = false;
      renameSync(`${this.#file}.new`, this.#file);
      await finishGroup(this.#store);
    } else for (const part of this.#parts.splice(0)) await applyPart(this.#store, part);
  }

  async #write(): Promise<void> {
    const file = `${this.#file}.new`;
    if (!this.#isInFile) writeFileSync(file, `${await lastEntry(this.#store)}\n`, { mode: 0o600 });
    this.#isInFile = true;
    for (const part of this.#parts.splice(0))
      appendFileSync(file, Buffer.concat([encodePlain(part), Buffer.from('\n')]), { flush: true });
  }
}

/** Applies the group that a process has left half applied, if there is one. No process may follow meanwhile. */
export async function finishGroup(store: Store): Promise<void> {
  const file = fileIn(store.folder!);
  if (!existsSync(file)) return;
  const before = String(await lastEntry(store));
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const isPart = line.startsWith('{');
    if (isPart) await applyPart(store, decodePlain(Buffer.from(line)) as Part);
    // All of it is applied already: the last transaction of a group has its entries of the log.
    else if (line !== before) break;
  }
  rmSync(file);
}

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
