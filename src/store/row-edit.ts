import { sameBytes } from '../bytes/compare.js';
import type { Cell, CellName, Guard, Increment, RowStep } from './contract.js';
import {
  CELL_HEADER,
  cellAt,
  compareCells,
  compareQualifier,
  counterBytes,
  nextCell,
  packSorted,
  readCounter,
  valueStart,
  writeCell,
} from './row.js';
import { StoreError } from './store-error.js';

/** The change of one cell: the new value, or undefined to delete the cell. */
export interface Edit extends CellName {
  readonly value: Buffer | undefined;
}

/** Returns whether the present value of the guarded cell satisfies the guard. */
export function guardHolds(guard: Guard, value: Buffer | undefined): boolean {
  switch (guard.op) {
    case 'absent':
      return value === undefined;
    case 'equals':
      return value?.equals(guard.value) ?? false;
    case 'counterEquals':
      return readCounter(value) === guard.value;
  }
}

/** The value of the cell after the increment. Throws `limit` beyond 64 bits. */
function addToCounter(add: Increment, value: Buffer | undefined): Buffer {
  const sum = readCounter(value) + add.by;
  if (BigInt.asIntN(64, sum) !== sum) throw new StoreError('limit', 'counter beyond 64 bits');
  return counterBytes(sum);
}

/**
 * Returns the edits of the step, sorted by name, each name once. Deletes apply first, then puts, then increments.
 * `readCell` returns the present value of a cell. `isStored` returns whether the cells of a family lie in the row;
 * cells of separate families and `deleteRow` are left to the caller.
 */
export function stepEdits(
  step: RowStep,
  readCell: (name: CellName) => Buffer | undefined,
  isStored: (family: number) => boolean,
): readonly Edit[] {
  if (!step.delete?.length && !step.add?.length) return lastEditPerName(rowPuts(step, isStored));
  const edits: Edit[] = [];
  for (const name of step.delete ?? []) {
    if (isStored(name.family)) edits.push({ family: name.family, qualifier: name.qualifier, value: undefined });
  }
  for (const cell of rowPuts(step, isStored)) edits.push(cell);
  for (const add of step.add ?? []) {
    if (!isStored(add.family)) throw new TypeError('a counter cannot live in a separate family');
    const earlierEdit = edits.findLast((e) => compareCells(e, add) === 0);
    const value = earlierEdit ? earlierEdit.value : readCell(add);
    edits.push({ family: add.family, qualifier: add.qualifier, value: addToCounter(add, value) });
  }
  return lastEditPerName(edits);
}

function rowPuts({ put = [] }: RowStep, isStored: (family: number) => boolean): readonly Edit[] {
  return put.every(({ family }) => isStored(family)) ? put : put.filter(({ family }) => isStored(family));
}

function lastEditPerName(edits: readonly Edit[]): readonly Edit[] {
  let isSorted = true;
  for (let i = 1; i < edits.length && isSorted; i++) isSorted = compareCells(edits[i - 1]!, edits[i]!) < 0;
  if (isSorted) return edits;
  const unique: Edit[] = [];
  for (const edit of [...edits].sort(compareCells)) {
    const previousEdit = unique[unique.length - 1];
    if (previousEdit && compareCells(previousEdit, edit) === 0) unique[unique.length - 1] = edit;
    else unique.push(edit);
  }
  return unique;
}

/** Returns a new row with the edits applied; undefined when no cell is left. */
export function editRow(row: Buffer | undefined, edits: readonly Edit[]): Buffer | undefined {
  if (!row) return newRow(edits);
  const oldRow = row;
  let length = oldRow.length;
  for (const edit of edits) if (edit.value) length += CELL_HEADER + edit.qualifier.length + edit.value.length;
  const out = Buffer.allocUnsafe(length);
  // The old row is copied to the end of `out`. From there its unchanged cells move forward, which creates no views.
  const end = length - oldRow.length;
  out.set(oldRow, end);
  let outEnd = 0;
  let oldOffset = 0;
  for (const edit of edits) {
    const offset = seekCell(oldRow, oldOffset, edit);
    out.copyWithin(outEnd, end + oldOffset, end + offset);
    outEnd += offset - oldOffset;
    oldOffset = offset < oldRow.length && hasName(oldRow, offset, edit) ? nextCell(oldRow, offset) : offset;
    if (edit.value) outEnd = writeCell(out, outEnd, edit.family, edit.qualifier, edit.value);
  }
  out.copyWithin(outEnd, end + oldOffset, length);
  outEnd += oldRow.length - oldOffset;
  if (outEnd === 0) return undefined;
  return outEnd === length ? out : Buffer.from(out.subarray(0, outEnd));
}

function isPut(edit: Edit): edit is Cell {
  return edit.value !== undefined;
}

function newRow(edits: readonly Edit[]): Buffer | undefined {
  const cells = edits.every(isPut) ? edits : edits.filter(isPut);
  return cells.length > 0 ? packSorted(cells) : undefined;
}

/** Offset of the first cell from `offset` on that is not before `name`. */
function seekCell(row: Buffer, offset: number, name: CellName): number {
  while (offset < row.length) {
    const family = row[offset]!;
    if (family > name.family || (family === name.family && compareQualifier(row, offset, name.qualifier) >= 0)) break;
    offset = nextCell(row, offset);
  }
  return offset;
}

/** The difference between a present packed row and its wanted cells, each list sorted by name. */
export interface CellChanges {
  /** Cells to delete, with their present values. */
  readonly removedCells: readonly Cell[];
  /** Cells to add or overwrite, with their new values. */
  readonly writtenCells: readonly Cell[];
  /** The present value of each cell of `writtenCells`; undefined for an added cell. */
  readonly previousValues: readonly (Buffer | undefined)[];
}

/** Compares a packed row with the wanted cells, which are sorted by name. */
export function cellChanges(row: Buffer, cells: readonly Cell[]): CellChanges {
  const removedCells: Cell[] = [];
  const writtenCells: Cell[] = [];
  const previousValues: (Buffer | undefined)[] = [];
  let offset = 0;
  for (const cell of cells) {
    for (const to = seekCell(row, offset, cell); offset < to; offset = nextCell(row, offset))
      removedCells.push(cellAt(row, offset));
    const isPresent = offset < row.length && hasName(row, offset, cell);
    const start = isPresent ? valueStart(row, offset) : 0;
    const nextStart = isPresent ? nextCell(row, offset) : offset;
    if (!isPresent || !sameBytes(cell.value, row, start, nextStart)) {
      writtenCells.push(cell);
      previousValues.push(isPresent ? row.subarray(start, nextStart) : undefined);
    }
    offset = nextStart;
  }
  for (; offset < row.length; offset = nextCell(row, offset)) removedCells.push(cellAt(row, offset));
  return { removedCells, writtenCells, previousValues };
}

function hasName(row: Buffer, offset: number, name: CellName): boolean {
  return row[offset] === name.family && compareQualifier(row, offset, name.qualifier) === 0;
}

/** Throws `corrupt` unless all lengths in the packed row stay inside the row and the cells are in order. */
export function checkRow(row: Buffer): void {
  let previousAt = -1;
  for (let offset = 0; offset < row.length; ) {
    if (offset + CELL_HEADER > row.length)
      throw new StoreError('corrupt', `packed row of ${row.length} bytes is cut at offset ${offset}`);
    const nextOffset = nextCell(row, offset);
    if (previousAt >= 0 && !isInOrder(row, previousAt, offset))
      throw new StoreError('corrupt', `cells of a packed row are out of order at offset ${offset}`);
    previousAt = offset;
    offset = nextOffset;
  }
}

function isInOrder(row: Buffer, a: number, b: number): boolean {
  if (row[a]! !== row[b]!) return row[a]! < row[b]!;
  const start = b + CELL_HEADER;
  const qualifier = row.subarray(start, start + row.readUInt16BE(b + 1));
  return compareQualifier(row, a, qualifier) < 0;
}
