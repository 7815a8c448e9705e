import type { Cell, CellName, Increment, Plan, PlanStep, RowStep } from '../../contract.js';
import { cellValue, compareCells, counterBytes, EMPTY, packRow, unpackRow } from '../../row.js';
import { cellChanges } from '../../row-edit.js';
import { Stage, type StagedRow, type StagedTable } from '../../stage.js';
import type { Cluster, OpenTable } from '../cluster.js';
import { MAX_KEY } from '../rpc/mutations.js';
import type { AppendedRow, CounterAddition, IndexMark, PlanRecord, RowChange } from './codec.js';
import { type PlanRow, rowId } from './plan-rows.js';
import { sumByCell } from './shared-rows.js';
import { TICKET_STEP } from './tickets.js';

/** The cells that a plan's guards and increments depend on: rows with the families concerned, and separate cells. */
export interface PlanReads {
  readonly rows: ReadonlyMap<string, Buffer | undefined>;
  /** By family, then `cellKey`. */
  readonly separateCells: ReadonlyMap<string, Buffer | undefined>;
  /** `SharedRow.joinSequence` of the rows that are held shared. */
  readonly joinSequences: ReadonlyMap<string, bigint>;
}

export function cellId(table: string, family: number, key: Buffer): string {
  return `${family} ${rowId(table, key)}`;
}

/**
 * Runs the steps on the cells that were read and returns the new content of each row. Throws `guard`, and the other
 * errors of an invalid plan. `ticket` is the first ticket drawn for the plan. Appended rows get this ticket and the
 * following ones as keys.
 */
export function evaluate(
  cluster: Cluster,
  plan: Plan,
  planRows: readonly PlanRow[],
  reads: PlanReads,
  planNumber: bigint,
  ticket: bigint,
): PlanRecord {
  const changes = new StagedChanges();
  const stage = new Stage<OpenTable>({
    maxKey: MAX_KEY,
    table: (name) => cluster.cachedTable(name),
    readRow: ({ spec }, key) => reads.rows.get(rowId(spec.name, key)),
    readCell: ({ spec }, family, key) => reads.separateCells.get(cellId(spec.name, family, key)),
    listCellKeys: ({ spec }, family, prefix) => readCellKeys(reads, spec.name, family, prefix),
    lastRowNumber: () => ticket,
  });
  stage.apply(withoutFollowerGuards(plan, planRows));
  stage.drain(changes);
  const rowChanges: RowChange[] = [];
  const followerChanges: RowChange[] = [];
  const counterAdditions: CounterAddition[] = [];
  const indexMarks: IndexMark[] = [];
  for (const row of planRows) {
    const { table, key, id, access } = row;
    const tableName = table.spec.name;
    if (access === 'exclusive') rowChanges.push(rowChange(row, changes, reads.rows.get(id)));
    else if (access === 'follower') followerChanges.push(rowChange(row, changes, undefined));
    else if (access === 'blind') indexMarks.push({ table: tableName, key, isPut: changes.rows.get(id) !== undefined });
    else if (rowIncrements(row).length > 0)
      counterAdditions.push({
        table: tableName,
        key,
        packedIncrements: packIncrements(rowIncrements(row)),
        joinSequence: reads.joinSequences.get(id)!,
      });
  }
  const appendedRows = listAppendedRows(plan, changes, ticket);
  return { plan: planNumber, ticket, rowChanges, counterAdditions, indexMarks, appendedRows, followerChanges };
}

function withoutFollowerGuards(plan: Plan, planRows: readonly PlanRow[]): Plan {
  const followers = planRows.filter(({ access }) => access === 'follower');
  if (followers.length === 0) return plan;
  const followerSteps = new Set<PlanStep>(followers.flatMap(({ steps }) => steps));
  return { ...plan, steps: plan.steps.map((step) => (followerSteps.has(step) ? { ...step, guards: [] } : step)) };
}

/** Returns the keys (`cellKey`) of the row's separate cells that were read. */
function readCellKeys(reads: PlanReads, table: string, family: number, prefix: Buffer): Buffer[] {
  const idPrefix = cellId(table, family, prefix);
  const prefixLength = cellId(table, family, EMPTY).length;
  return [...reads.separateCells.keys()]
    .filter((id) => id.startsWith(idPrefix))
    .map((id) => Buffer.from(id.slice(prefixLength), 'latin1'));
}

class StagedChanges {
  readonly rows = new Map<string, Buffer | undefined>();
  /** Cells of separate families, by row. */
  readonly cells = new Map<string, { put: Cell[]; delete: CellName[] }>();

  writeRow({ spec }: StagedTable, key: Buffer, row: StagedRow | undefined): void {
    // The stage returns packed rows when its source does.
    this.rows.set(rowId(spec.name, key), row as Buffer | undefined);
  }

  writeCell({ spec }: StagedTable, family: number, key: Buffer, value: Buffer | undefined): void {
    const rowKeyEnd = 2 + key.readUInt16BE(0);
    const id = rowId(spec.name, key.subarray(2, rowKeyEnd));
    let rowCells = this.cells.get(id);
    if (!rowCells) {
      rowCells = { put: [], delete: [] };
      this.cells.set(id, rowCells);
    }
    const column = { family, qualifier: key.subarray(rowKeyEnd) };
    if (value) rowCells.put.push({ ...column, value });
    else rowCells.delete.push(column);
  }

  writeLastRowNumber(): void {}
}

function rowChange({ table, key, id, steps }: PlanRow, changes: StagedChanges, oldRow: Buffer | undefined): RowChange {
  const newRow = changes.rows.has(id) ? changes.rows.get(id) : oldRow;
  const separateCells = changes.cells.get(id);
  const deleteRow = steps.some((step) => step.deleteRow);
  const deletes = deleteRow ? [] : deletedCells(table, steps, newRow);
  const newCells = unpackRow(newRow ?? EMPTY);
  const puts = deleteRow ? newCells : cellChanges(oldRow ?? EMPTY, newCells).writtenCells;
  return {
    table: table.spec.name,
    key,
    deleteRow,
    packedDeletes: packRow(
      [...deletes, ...(deleteRow ? [] : (separateCells?.delete ?? []))].map((name) => ({ ...name, value: EMPTY })),
    ),
    puts: [...puts, ...(separateCells?.put ?? [])].sort(compareCells),
  };
}

/** Returns the cells that the steps delete and do not put later, without duplicates, in order. */
function deletedCells({ spec }: OpenTable, steps: readonly RowStep[], newRow: Buffer | undefined): CellName[] {
  const columns = steps.flatMap((step) => step.delete ?? []).filter(({ family }) => !spec.families[family]?.separate);
  columns.sort(compareCells);
  return columns.filter(
    (column, i) =>
      (i === 0 || compareCells(columns[i - 1]!, column) !== 0) &&
      !(newRow && cellValue(newRow, column.family, column.qualifier)),
  );
}

export function rowIncrements(row: PlanRow): Increment[] {
  return sumByCell(row.steps.flatMap((step) => step.add ?? []));
}

function packIncrements(increments: readonly Increment[]): Buffer {
  return packRow(increments.map(({ family, qualifier, by }) => ({ family, qualifier, value: counterBytes(by) })));
}

/** Assigns a ticket to each appended row as key. The stage numbers the rows of each table from `ticket` + 1 on. */
function listAppendedRows(plan: Plan, changes: StagedChanges, ticket: bigint): AppendedRow[] {
  const appendedRows: AppendedRow[] = [];
  const lastKeyByTable = new Map<string, bigint>();
  for (const step of plan.steps) {
    if (!('append' in step)) continue;
    const stageKey = (lastKeyByTable.get(step.table) ?? ticket) + 1n;
    lastKeyByTable.set(step.table, stageKey);
    const row = changes.rows.get(rowId(step.table, counterBytes(stageKey)))!;
    const key = counterBytes(ticket + TICKET_STEP * BigInt(appendedRows.length));
    appendedRows.push({ table: step.table, key, row });
  }
  return appendedRows;
}
