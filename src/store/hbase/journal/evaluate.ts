import type { Cell, CellName, Increment, Plan, PlanStep, RowStep } from '../../contract.js';
import { cellValue, compareCells, counterBytes, EMPTY, packRow, unpackRow } from '../../row.js';
import { cellChanges } from '../../row-edit.js';
import { Stage, type StagedRow, type StagedTable } from '../../stage.js';
import type { Cluster, OpenTable } from '../cluster.js';
import { MAX_KEY } from '../rpc/requests.js';
import type { Addition, AppendedRow, IndexMark, PlanRecord, RowChange } from './codec.js';
import { type PlanRow, rowId } from './plan-rows.js';
import { sumByCell } from './shared-rows.js';
import { STEP } from './tickets.js';

/** The cells that guards and counters look at: cells of separate families, and rows with the families concerned. */
export interface PlanReads {
  readonly rows: ReadonlyMap<string, Buffer | undefined>;
  /** By family, then `cellKey`. */
  readonly cells: ReadonlyMap<string, Buffer | undefined>;
  /** `SharedRow.joinSequence` of the rows that are held shared. */
  readonly joinSequences: ReadonlyMap<string, bigint>;
}

export function cellId(table: string, family: number, key: Buffer): string {
  return `${family} ${rowId(table, key)}`;
}

/**
 * Runs the steps on the cells read, like every engine, and returns the new content of each row. Throws `guard`, and the
 * other errors of an invalid plan. `ticket` is the first ticket drawn for the plan. Appended rows get the following
 * ones as keys.
 */
export function evaluate(
  cluster: Cluster,
  plan: Plan,
  planRows: readonly PlanRow[],
  reads: PlanReads,
  planNumber: bigint,
  ticket: bigint,
): PlanRecord {
  const changes = new Changes();
  const stage = new Stage<OpenTable>({
    maxKey: MAX_KEY,
    table: (name) => cluster.cachedTable(name),
    row: ({ spec }, key) => reads.rows.get(rowId(spec.name, key)),
    cell: ({ spec }, family, key) => reads.cells.get(cellId(spec.name, family, key)),
    cellKeys: ({ spec }, family, prefix) => readCellKeys(reads, spec.name, family, prefix),
    lastAppended: () => ticket,
  });
  stage.apply(withoutFollowerGuards(plan, planRows));
  stage.drain(changes);
  const rows: RowChange[] = [];
  const followers: RowChange[] = [];
  const shared: Addition[] = [];
  const blind: IndexMark[] = [];
  for (const row of planRows) {
    const { table, key, id, access } = row;
    const name = table.spec.name;
    if (access === 'exclusive') rows.push(rowChange(row, changes, reads.rows.get(id)));
    else if (access === 'follower') followers.push(rowChange(row, changes, undefined));
    else if (access === 'blind') blind.push({ table: name, key, put: changes.rows.get(id) !== undefined });
    else if (rowIncrements(row).length > 0)
      shared.push({
        table: name,
        key,
        increments: packIncrements(rowIncrements(row)),
        joinSequence: reads.joinSequences.get(id)!,
      });
  }
  return { plan: planNumber, ticket, rows, shared, blind, appends: appendedRows(plan, changes, ticket), followers };
}

function withoutFollowerGuards(plan: Plan, planRows: readonly PlanRow[]): Plan {
  const followers = planRows.filter(({ access }) => access === 'follower');
  if (followers.length === 0) return plan;
  const unread = new Set<PlanStep>(followers.flatMap(({ steps }) => steps));
  return { ...plan, steps: plan.steps.map((step) => (unread.has(step) ? { ...step, guards: [] } : step)) };
}

/** Returns the cell keys, in the form used by the stage, of the row's cells that were read. */
function readCellKeys(reads: PlanReads, table: string, family: number, prefix: Buffer): Buffer[] {
  const start = cellId(table, family, prefix);
  const prefixLength = cellId(table, family, EMPTY).length;
  return [...reads.cells.keys()]
    .filter((id) => id.startsWith(start))
    .map((id) => Buffer.from(id.slice(prefixLength), 'latin1'));
}

class Changes {
  readonly rows = new Map<string, Buffer | undefined>();
  /** Cells of separate families, by row. */
  readonly cells = new Map<string, { put: Cell[]; delete: CellName[] }>();

  row({ spec }: StagedTable, key: Buffer, row: StagedRow | undefined): void {
    // The stage returns packed rows when its source does.
    this.rows.set(rowId(spec.name, key), row as Buffer | undefined);
  }

  cell({ spec }: StagedTable, family: number, key: Buffer, value: Buffer | undefined): void {
    const end = 2 + key.readUInt16BE(0);
    const id = rowId(spec.name, key.subarray(2, end));
    let cells = this.cells.get(id);
    if (!cells) {
      cells = { put: [], delete: [] };
      this.cells.set(id, cells);
    }
    const name = { family, qualifier: key.subarray(end) };
    if (value) cells.put.push({ ...name, value });
    else cells.delete.push(name);
  }

  appended(): void {}
}

function rowChange({ table, key, id, steps }: PlanRow, changes: Changes, before: Buffer | undefined): RowChange {
  const after = changes.rows.has(id) ? changes.rows.get(id) : before;
  const separate = changes.cells.get(id);
  const deleteRow = steps.some((step) => step.deleteRow);
  const deletes = deleteRow ? [] : deletedCells(table, steps, after);
  const puts = deleteRow ? unpackRow(after ?? EMPTY) : cellChanges(before ?? EMPTY, unpackRow(after ?? EMPTY)).written;
  return {
    table: table.spec.name,
    key,
    deleteRow,
    deletes: packRow(
      [...deletes, ...(deleteRow ? [] : (separate?.delete ?? []))].map((name) => ({ ...name, value: EMPTY })),
    ),
    puts: [...puts, ...(separate?.put ?? [])].sort(compareCells),
  };
}

/** Returns the cells that the steps delete and do not put later, without duplicates, in order. */
function deletedCells({ spec }: OpenTable, steps: readonly RowStep[], after: Buffer | undefined): CellName[] {
  const names = steps.flatMap((step) => step.delete ?? []).filter(({ family }) => !spec.families[family]?.separate);
  names.sort(compareCells);
  return names.filter(
    (name, i) =>
      (i === 0 || compareCells(names[i - 1]!, name) !== 0) && !(after && cellValue(after, name.family, name.qualifier)),
  );
}

export function rowIncrements(row: PlanRow): Increment[] {
  return sumByCell(row.steps.flatMap((step) => step.add ?? []));
}

function packIncrements(increments: readonly Increment[]): Buffer {
  return packRow(increments.map(({ family, qualifier, by }) => ({ family, qualifier, value: counterBytes(by) })));
}

/** Assigns a ticket to each appended row as key. The stage numbers the rows of each table from `ticket` + 1 on. */
function appendedRows(plan: Plan, changes: Changes, ticket: bigint): AppendedRow[] {
  const list: AppendedRow[] = [];
  const lastByTable = new Map<string, bigint>();
  for (const step of plan.steps) {
    if (!('append' in step)) continue;
    const last = (lastByTable.get(step.table) ?? ticket) + 1n;
    lastByTable.set(step.table, last);
    const row = changes.rows.get(rowId(step.table, counterBytes(last)))!;
    list.push({ table: step.table, key: counterBytes(ticket + STEP * BigInt(list.length)), row });
  }
  return list;
}
