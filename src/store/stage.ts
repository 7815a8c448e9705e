import type { AppendStep, CellName, Plan, RowStep, TableSpec } from './contract.js';
import { isChange, type LogWriter } from './log.js';
import { cellValue, counterBytes, packRow } from './row.js';
import { type Edit, editRow, guardHolds, stepEdits } from './row-edit.js';
import { StoreError } from './store-error.js';
import { cellKey, checkFamilies, checkKey, MARK_ROW } from './tables.js';

export interface StagedTable {
  readonly spec: TableSpec;
}

/** A row that an engine stores in segments, so that reading and changing a few cells is cheap. Immutable. */
export interface SplitRow {
  value(family: number, qualifier: Buffer): Buffer | undefined;
  /** Returns the row with the edits applied, which are sorted by name; undefined when no cell is left. */
  withEdits(edits: readonly Edit[]): SplitRow | undefined;
}

export type StagedRow = Buffer | SplitRow;

/** Reads the state that a batch starts from. Implemented by the engine. Returned buffers belong to the stage. */
export interface StageSource<T extends StagedTable> {
  /** Length of the longest key that the engine accepts, in bytes. */
  readonly maxKey: number;
  table(name: string): T;
  readRow(table: T, key: Buffer): StagedRow | undefined;
  /** The value of a separate family under `key`, made by `cellKey(rowKey, qualifier)`. */
  readCell(table: T, family: number, key: Buffer): Buffer | undefined;
  /** The keys of a separate family that start with `prefix`. */
  listCellKeys(table: T, family: number, prefix: Buffer): Buffer[];
  /** The greatest row number ever appended to the table; 0 for none. */
  lastRowNumber(table: T): bigint;
}

/** Receives the changes of a batch: each row, cell and last number once. An undefined row or value means deletion. */
export interface StageSink<T extends StagedTable> {
  /** `original` is the row as the source returned it, or `unread`. */
  writeRow(table: T, key: Buffer, row: StagedRow | undefined, original: StagedRow | undefined | 'unread'): void;
  writeCell(table: T, family: number, key: Buffer, value: Buffer | undefined): void;
  writeLastRowNumber(table: T, rowNumber: bigint): void;
}

/** The staged state of a row or of a separate cell. */
interface Slot<V> {
  readonly key: Buffer;
  value: V | undefined;
  /** The value as the source returned it. */
  original: V | undefined | 'unread';
  /** False until `value` is read or written. Index rows are written without being read. */
  isKnown: boolean;
  isDirty: boolean;
}

type RowSlot = Slot<StagedRow>;
type CellSlot = Slot<Buffer>;

interface PendingChanges {
  readonly rows: Map<string, RowSlot>;
  /** Cells of families that are stored apart from the row (`separate`): by family number, then by row and column. */
  readonly cells: Map<number, Map<string, CellSlot>>;
  lastRowNumber: bigint | undefined;
}

/**
 * Collects the changes of a batch of plans in memory before the engine writes them. Each plan sees the changes of
 * earlier plans; a plan that fails is undone alone. A row that many plans change is read once and written once.
 */
export class Stage<T extends StagedTable> {
  readonly #source: StageSource<T>;
  readonly #tables = new Map<T, PendingChanges>();
  #undo: (() => void)[] = [];

  constructor(source: StageSource<T>) {
    this.#source = source;
  }

  /**
   * Stages one plan. On an error (`guard` with the step's index, and others), undoes the plan and throws. `log`: what
   * the plan touches is appended to the log, with what is in `log` already.
   */
  apply(plan: Plan, log?: LogWriter): void {
    this.#undo = [];
    try {
      for (const [index, step] of plan.steps.entries()) {
        if ('append' in step) {
          const key = this.#stageAppend(step);
          log?.add(step.table, key, 'row');
        } else {
          const slot = this.#stageRow(step, index);
          if (log && isChange(step)) {
            const { value } = slot;
            const isSplit = value !== undefined && !(value instanceof Uint8Array);
            log.addStep(step, this.#source.table(step.table).spec, isSplit);
          }
        }
      }
      for (const step of log?.steps() ?? []) this.#stageAppend(step);
    } catch (error) {
      for (const undo of this.#undo.reverse()) undo();
      throw error;
    }
  }

  drain(sink: StageSink<T>): void {
    for (const [table, pending] of this.#tables) {
      for (const slot of pending.rows.values())
        if (slot.isDirty) sink.writeRow(table, slot.key, slot.value, slot.original);
      for (const [family, cells] of pending.cells) {
        for (const slot of cells.values()) if (slot.isDirty) sink.writeCell(table, family, slot.key, slot.value);
      }
      if (pending.lastRowNumber !== undefined) sink.writeLastRowNumber(table, pending.lastRowNumber);
    }
  }

  /** Returns the key of the row. */
  #stageAppend(step: AppendStep): Buffer {
    const table = this.#source.table(step.table);
    const pending = this.#pendingChanges(table);
    const lastNumber = pending.lastRowNumber;
    const rowNumber = (lastNumber ?? this.#source.lastRowNumber(table)) + 1n;
    this.#undo.push(() => {
      pending.lastRowNumber = lastNumber;
    });
    pending.lastRowNumber = rowNumber;
    const slot = this.#slot(pending.rows, counterBytes(rowNumber));
    slot.original = undefined;
    this.#write(slot, packRow(step.append));
    return slot.key;
  }

  #stageRow(step: RowStep, index: number): RowSlot {
    const table = this.#source.table(step.table);
    const pending = this.#pendingChanges(table);
    checkStep(step, table.spec, this.#source.maxKey);
    const slot = this.#slot(pending.rows, step.key);
    for (const guard of step.guards ?? []) {
      const value = table.spec.families[guard.family]?.separate
        ? this.#readCell(table, pending, guard.family, cellKey(step.key, guard.qualifier))
        : valueIn(this.#readRow(table, slot), guard);
      if (!guardHolds(guard, value))
        throw new StoreError('guard', `guard ${guard.op} of step ${index} on ${step.table} failed`, { step: index });
    }
    if (table.spec.suffixBytes !== undefined) this.#stageIndexRow(step, slot);
    else this.#stageCells(table, pending, slot, step);
    if (step.numbered) this.#raiseLastNumber(table, pending, step.key.readBigUInt64BE());
    return slot;
  }

  #raiseLastNumber(table: T, pending: PendingChanges, rowNumber: bigint): void {
    const lastNumber = pending.lastRowNumber;
    if (rowNumber <= (lastNumber ?? this.#source.lastRowNumber(table))) return;
    this.#undo.push(() => {
      pending.lastRowNumber = lastNumber;
    });
    pending.lastRowNumber = rowNumber;
  }

  /** An index row has no cells to edit: the step either writes or deletes it. */
  #stageIndexRow(step: RowStep, slot: RowSlot): void {
    if (step.put?.length) this.#write(slot, MARK_ROW);
    else if (step.deleteRow || step.delete?.length) this.#write(slot, undefined);
  }

  #stageCells(table: T, pending: PendingChanges, slot: RowSlot, step: RowStep): void {
    if (step.deleteRow) {
      for (const [family, spec] of table.spec.families.entries()) {
        if (spec.separate) this.#deleteCells(table, pending, family, step.key);
      }
    }
    const families = table.spec.families;
    const isSeparate = (family: number) => families[family]?.separate === true;
    for (const name of step.delete ?? []) {
      if (isSeparate(name.family)) this.#writeCell(pending, name.family, cellKey(step.key, name.qualifier), undefined);
    }
    for (const cell of step.put ?? []) {
      if (isSeparate(cell.family)) this.#writeCell(pending, cell.family, cellKey(step.key, cell.qualifier), cell.value);
    }
    if (!step.deleteRow && !step.put?.length && !step.delete?.length && !step.add?.length) return;
    const row = step.deleteRow ? undefined : this.#readRow(table, slot);
    const edits = stepEdits(
      step,
      (name) => valueIn(row, name),
      (family) => !isSeparate(family),
    );
    if (edits.length || step.deleteRow) this.#write(slot, applyEdits(row, edits));
  }

  #deleteCells(table: T, pending: PendingChanges, family: number, key: Buffer): void {
    const prefix = cellKey(key, Buffer.alloc(0));
    for (const storedKey of this.#source.listCellKeys(table, family, prefix))
      this.#writeCell(pending, family, storedKey, undefined);
    for (const slot of pending.cells.get(family)?.values() ?? []) {
      if (slot.value && slot.key.subarray(0, prefix.length).equals(prefix)) this.#write(slot, undefined);
    }
  }

  #readRow(table: T, slot: RowSlot): StagedRow | undefined {
    if (!slot.isKnown) {
      slot.value = this.#source.readRow(table, slot.key);
      slot.original = slot.value;
      slot.isKnown = true;
    }
    return slot.value;
  }

  #readCell(table: T, pending: PendingChanges, family: number, key: Buffer): Buffer | undefined {
    const slot = this.#cellSlot(pending, family, key);
    if (!slot.isKnown) {
      slot.value = this.#source.readCell(table, family, key);
      slot.isKnown = true;
    }
    return slot.value;
  }

  #writeCell(pending: PendingChanges, family: number, key: Buffer, value: Buffer | undefined): void {
    if (key.length > this.#source.maxKey) {
      throw new StoreError(
        'limit',
        `row key and qualifier of ${key.length} bytes; ${this.#source.maxKey} are the most`,
      );
    }
    this.#write(this.#cellSlot(pending, family, key), value);
  }

  #write<V>(slot: Slot<V>, value: V | undefined): void {
    const { value: oldValue, isKnown: wasKnown, isDirty: wasDirty } = slot;
    this.#undo.push(() => {
      slot.value = oldValue;
      slot.isKnown = wasKnown;
      slot.isDirty = wasDirty;
    });
    slot.value = value;
    slot.isKnown = true;
    slot.isDirty = true;
  }

  #pendingChanges(table: T): PendingChanges {
    let pending = this.#tables.get(table);
    if (!pending) {
      pending = { rows: new Map(), cells: new Map(), lastRowNumber: undefined };
      this.#tables.set(table, pending);
    }
    return pending;
  }

  #cellSlot(pending: PendingChanges, family: number, key: Buffer): CellSlot {
    let cells = pending.cells.get(family);
    if (!cells) {
      cells = new Map();
      pending.cells.set(family, cells);
    }
    return this.#slot(cells, key);
  }

  #slot<V>(slots: Map<string, Slot<V>>, key: Buffer): Slot<V> {
    const name = key.toString('latin1');
    let slot = slots.get(name);
    if (!slot) {
      slot = { key, value: undefined, original: 'unread', isKnown: false, isDirty: false };
      slots.set(name, slot);
    }
    return slot;
  }
}

function valueIn(row: StagedRow | undefined, { family, qualifier }: CellName): Buffer | undefined {
  return row instanceof Uint8Array ? cellValue(row, family, qualifier) : row?.value(family, qualifier);
}

function applyEdits(row: StagedRow | undefined, edits: readonly Edit[]): StagedRow | undefined {
  return row === undefined || row instanceof Uint8Array ? editRow(row, edits) : row.withEdits(edits);
}

/** Throws `limit` for a key of a wrong length, and TypeError for other errors of the step. */
function checkStep(step: RowStep, spec: TableSpec, maxKey: number): void {
  checkKey(step.key, spec, maxKey);
  checkFamilies(step.guards, spec);
  checkFamilies(step.delete, spec);
  checkFamilies(step.put, spec);
  checkFamilies(step.add, spec);
  if (spec.suffixBytes === undefined) return;
  const isMark = ({ qualifier }: CellName) => qualifier.length === 0;
  const putsMark = (step.put?.every((cell) => isMark(cell) && cell.value.length === 0) ?? true) && !step.add?.length;
  if (!putsMark || step.delete?.some((name) => !isMark(name)))
    throw new TypeError(`a row of ${spec.name} is the cell MARK and nothing else`);
}
