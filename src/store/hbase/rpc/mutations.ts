import type { CellName, Guard } from '../../contract.js';
import { compareCells, counterBytes, EMPTY } from '../../row.js';
import { StoreError } from '../../store-error.js';
import {
  CellBlock,
  DELETE_COLUMN_TYPE,
  DELETE_FAMILY_TYPE,
  encodeRow,
  estimateBytes,
  LATEST_TIMESTAMP,
  type TableCodec,
} from './cells.js';
import { binaryComparator, Compare, columnFilter, encodeList, familyFilter, filterList } from './filters.js';
import { MessageWriter } from './protobuf.js';
import type { ReadOptions, RowMutation } from './rpc-types.js';

/** Maximum length of a row key in HBase, bytes. */
export const MAX_KEY = 0x7fff;

export function checkKey(key: Buffer): void {
  if (key.length === 0 || key.length > MAX_KEY)
    throw new StoreError('limit', `key of ${key.length} bytes; 1 to ${MAX_KEY} are taken`);
}

/** Encodes Column messages (family 1, qualifier 2). Families in `families` are read as a whole. */
export function encodeColumnList(table: TableCodec, options: ReadOptions): Buffer[] {
  const out: Buffer[] = [];
  const qualifiersByFamily = new Map<number, Buffer[]>();
  for (const family of options.families ?? []) qualifiersByFamily.set(family, []);
  for (const { family, qualifier } of options.columns ?? []) {
    if (!options.families?.includes(family))
      qualifiersByFamily.set(family, [...(qualifiersByFamily.get(family) ?? []), qualifier]);
  }
  for (const [family, qualifiers] of qualifiersByFamily) {
    const column = new MessageWriter().bytes(1, table.family(family));
    for (const qualifier of qualifiers) column.bytes(2, qualifier);
    out.push(column.finish());
  }
  return out;
}

/** MutationProto.MutationType */
const INCREMENT = 1;
const PUT = 2;
const DELETE = 3;

/** An encoded mutation: MutationProto messages (row 1, mutate_type 2, associated_cell_count 8) and their cells. */
export interface EncodedMutation {
  readonly messages: readonly Buffer[];
  readonly cells: readonly Buffer[];
}

/** Checks and encodes the mutation. Returns no messages for a mutation without changes. */
export function encodeMutation(table: TableCodec, mutation: RowMutation): EncodedMutation {
  checkKey(mutation.key);
  checkColumns(mutation);
  const deleteBlock = encodeDeletes(table, mutation);
  const putBlock = new CellBlock(table, estimateBytes(mutation.key, mutation.put ?? []));
  for (const cell of mutation.put ?? []) {
    putBlock.add(mutation.key, cell, cell.value, undefined, cell.timestamp ?? mutation.timestamp);
  }
  const incrementBlock = new CellBlock(table);
  for (const add of mutation.add ?? []) incrementBlock.add(mutation.key, add, counterBytes(add.by));
  const messages: Buffer[] = [];
  for (const [block, type] of [
    [deleteBlock, DELETE],
    [putBlock, PUT],
    [incrementBlock, INCREMENT],
  ] as const) {
    if (block.count > 0) messages.push(encodeMutationMessage(mutation.key, type, block.count));
  }
  return { messages, cells: [...deleteBlock.parts, ...putBlock.parts, ...incrementBlock.parts] };
}

function encodeMutationMessage(key: Buffer, type: number, cellCount: number): Buffer {
  return new MessageWriter().bytes(1, key).uint(2, type).uint(8, cellCount).finish();
}

/** Encodes the put of a packed row as MutationProto and cells. `keyEnd`: the result of `putKeyEnd`. */
export function encodePut(
  table: TableCodec,
  key: Buffer,
  row: Buffer,
  keyEnd: Buffer,
): { message: Buffer; cells: Buffer } {
  checkKey(key);
  const { cells, count } = encodeRow(table, key, row, keyEnd);
  return { message: encodeMutationMessage(key, PUT, count), cells };
}

function checkColumns(mutation: RowMutation): void {
  const { put = [], add = [], delete: deletes = [] } = mutation;
  if (mutation.deleteRow && (add.length > 0 || (put.length > 0 && mutation.timestamp === undefined)))
    throw new TypeError('deleteRow beside add, or beside put without a timestamp');
  for (const name of add) {
    if (includesCell(put, name) || includesCell(deletes, name))
      throw new TypeError('one cell is both added to and put or deleted');
  }
}

function includesCell(cellNames: readonly CellName[], cellName: CellName): boolean {
  return cellNames.some((listedName) => compareCells(listedName, cellName) === 0);
}

function encodeDeletes(table: TableCodec, mutation: RowMutation): CellBlock {
  const block = new CellBlock(table);
  const { key, timestamp } = mutation;
  if (mutation.deleteRow) {
    const deleteTimestamp = timestamp === undefined ? LATEST_TIMESTAMP : timestamp - 1n;
    for (let family = 0; family < table.families.length; family++)
      block.add(key, { family, qualifier: EMPTY }, EMPTY, DELETE_FAMILY_TYPE, deleteTimestamp);
  }
  for (const name of mutation.delete ?? []) {
    if (!includesCell(mutation.put ?? [], name))
      block.add(key, name, EMPTY, DELETE_COLUMN_TYPE, name.timestamp ?? timestamp);
  }
  return block;
}

/** Encodes guards as Conditions, of which one has to hold. Two are needed for a counter that may be absent. */
export function encodeConditions(table: TableCodec, key: Buffer, guards: readonly Guard[]): Buffer[] {
  const [guard] = guards;
  if (!guard) throw new TypeError('no guard');
  if (guards.length > 1) return [filterCondition(table, key, guards)];
  switch (guard.op) {
    case 'absent':
      return [columnCondition(table, key, guard, EMPTY)];
    case 'equals':
      // In a column condition an empty value means absence.
      if (guard.value.length === 0) return [filterCondition(table, key, guards)];
      return [columnCondition(table, key, guard, guard.value)];
    case 'counterEquals': {
      const equals = columnCondition(table, key, guard, counterBytes(guard.value));
      return guard.value === 0n ? [equals, columnCondition(table, key, guard, EMPTY)] : [equals];
    }
  }
}

/** Condition: row 1, family 2, qualifier 3, compare_type 4, comparator 5. */
function columnCondition(table: TableCodec, key: Buffer, name: CellName, value: Buffer): Buffer {
  return new MessageWriter()
    .bytes(1, key)
    .bytes(2, table.family(name.family))
    .bytes(3, name.qualifier)
    .uint(4, Compare.equal)
    .message(5, binaryComparator(value))
    .finish();
}

/** Condition: row 1, filter 7. Only the first cell of families without a guard is read. */
function filterCondition(table: TableCodec, key: Buffer, guards: readonly Guard[]): Buffer {
  const families = [...new Set(guards.map(({ family }) => family))];
  const tests = families.map((family) => familyFilter(Compare.equal, table.family(family)));
  const filter = filterList('all', [encodeList('one', tests), ...guards.map((guard) => guardFilter(table, guard))]);
  return new MessageWriter().bytes(1, key).bytes(7, filter).finish();
}

function guardFilter(table: TableCodec, guard: Guard): Buffer {
  const column = { family: table.family(guard.family), qualifier: guard.qualifier };
  const { equal, less } = Compare;
  switch (guard.op) {
    case 'absent':
      // No value is less than the empty one, so only a row without the cell passes.
      return columnFilter({ ...column, compare: less, value: EMPTY, passesIfMissing: true });
    case 'equals':
      return columnFilter({ ...column, compare: equal, value: guard.value, passesIfMissing: false });
    case 'counterEquals': {
      const value = counterBytes(guard.value);
      return columnFilter({ ...column, compare: equal, value, passesIfMissing: guard.value === 0n });
    }
  }
}
