import type { Cell, CellName, Increment, Plan, PlanStep, RowStep } from '../../contract.js';
import { cellValue, compareCells, counterBytes, EMPTY, packRow, unpackRow } from '../../row.js';
import { cellChanges } from '../../row-edit.js';
import { Stage, type StagedRow, type StagedTable } from '../../stage.js';
import type { Cluster, OpenTable } from '../cluster.js';
import type { Addition, Appended, Mark, PlanRecord, RowChange } from './codec.js';
import { type Group, MAX_KEY, rowId } from './groups.js';
import { sums } from './shared-rows.js';
import { STEP } from './tickets.js';

/**
 * What the plan's guards and counters look at: guarded cells of separate families, and of rows at least the families
 * that they are in.
 */
export interface Seen {
  readonly rows: ReadonlyMap<string, Buffer | undefined>;
  /** By family, then `cellKey`. */
  readonly cells: ReadonlyMap<string, Buffer | undefined>;
  /** `SharedRow.since` of rows that are held shared. */
  readonly since: ReadonlyMap<string, bigint>;
}

export function cellId(table: string, family: number, key: Buffer): string {
  return `${family} ${rowId(table, key)}`;
}

/**
 * Runs the steps on what was seen, as every engine runs them, and gives what each row becomes. Throws `guard` and
 * whatever else is wrong with the plan. `ticket` is the first of those drawn for it: appended rows have the others as
 * keys.
 */
export function evaluate(
  cluster: Cluster,
  plan: Plan,
  groups: readonly Group[],
  seen: Seen,
  number: bigint,
  ticket: bigint,
): PlanRecord {
  const changes = new Changes();
  const stage = new Stage<OpenTable>({
    maxKey: MAX_KEY,
    table: (name) => cluster.known(name),
    row: ({ spec }, key) => seen.rows.get(rowId(spec.name, key)),
    cell: ({ spec }, family, key) => seen.cells.get(cellId(spec.name, family, key)),
    cellKeys: ({ spec }, family, prefix) => seenCells(seen, spec.name, family, prefix),
    lastAppended: () => ticket,
  });
  stage.apply(withoutFollowersGuards(plan, groups));
  stage.drain(changes);
  const rows: RowChange[] = [];
  const followers: RowChange[] = [];
  const shared: Addition[] = [];
  const blind: Mark[] = [];
  for (const group of groups) {
    const { table, key, id, kind } = group;
    const name = table.spec.name;
    if (kind === 'exclusive') rows.push(rowChange(group, changes, seen.rows.get(id)));
    else if (kind === 'follower') followers.push(rowChange(group, changes, undefined));
    else if (kind === 'blind') blind.push({ table: name, key, put: changes.rows.get(id) !== undefined });
    else if (additions(group).length > 0)
      shared.push({ table: name, key, add: packAdds(additions(group)), since: seen.since.get(id)! });
  }
  return { plan: number, ticket, rows, shared, blind, appends: appended(plan, changes, ticket), followers };
}

function withoutFollowersGuards(plan: Plan, groups: readonly Group[]): Plan {
  const followers = groups.filter(({ kind }) => kind === 'follower');
  if (followers.length === 0) return plan;
  const unread = new Set<PlanStep>(followers.flatMap(({ steps }) => steps));
  return { ...plan, steps: plan.steps.map((step) => (unread.has(step) ? { ...step, guards: [] } : step)) };
}

/** Names under which stage keeps the cells of a row that were looked at. */
function seenCells(seen: Seen, table: string, family: number, prefix: Buffer): Buffer[] {
  const start = cellId(table, family, prefix);
  const head = cellId(table, family, EMPTY).length;
  return [...seen.cells.keys()].filter((id) => id.startsWith(start)).map((id) => Buffer.from(id.slice(head), 'latin1'));
}

/** Receives what the stage changed. */
class Changes {
  readonly rows = new Map<string, Buffer | undefined>();
  /** Cells of separate families by row. */
  readonly cells = new Map<string, { put: Cell[]; delete: CellName[] }>();

  row({ spec }: StagedTable, key: Buffer, row: StagedRow | undefined): void {
    // The source gives packed rows alone, so they stay so.
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

function rowChange({ table, key, id, steps }: Group, changes: Changes, before: Buffer | undefined): RowChange {
  const after = changes.rows.has(id) ? changes.rows.get(id) : before;
  const separate = changes.cells.get(id);
  const wipe = steps.some((step) => step.deleteRow);
  const gone = wipe ? [] : goneCells(table, steps, after);
  const come = wipe ? unpackRow(after ?? EMPTY) : cellChanges(before ?? EMPTY, unpackRow(after ?? EMPTY)).come;
  return {
    table: table.spec.name,
    key,
    wipe,
    gone: packRow([...gone, ...(wipe ? [] : (separate?.delete ?? []))].map((name) => ({ ...name, value: EMPTY }))),
    come: [...come, ...(separate?.put ?? [])].sort(compareCells),
  };
}

/** Cells that the steps delete and do not put afterwards, each once, in order. They need not be there. */
function goneCells({ spec }: OpenTable, steps: readonly RowStep[], after: Buffer | undefined): CellName[] {
  const names = steps.flatMap((step) => step.delete ?? []).filter(({ family }) => !spec.families[family]?.separate);
  names.sort(compareCells);
  return names.filter(
    (name, i) =>
      (i === 0 || compareCells(names[i - 1]!, name) !== 0) && !(after && cellValue(after, name.family, name.qualifier)),
  );
}

export function additions(group: Group): Increment[] {
  return sums(group.steps.flatMap((step) => step.add ?? []));
}

function packAdds(adds: readonly Increment[]): Buffer {
  return packRow(adds.map(({ family, qualifier, by }) => ({ family, qualifier, value: counterBytes(by) })));
}

/**
 * The stage numbers the rows it appends from `ticket` + 1 on, each table by itself; here all have numbers of their own.
 */
function appended(plan: Plan, changes: Changes, ticket: bigint): Appended[] {
  const list: Appended[] = [];
  const perTable = new Map<string, bigint>();
  for (const step of plan.steps) {
    if (!('append' in step)) continue;
    const last = (perTable.get(step.table) ?? ticket) + 1n;
    perTable.set(step.table, last);
    const row = changes.rows.get(rowId(step.table, counterBytes(last)))!;
    list.push({ table: step.table, key: counterBytes(ticket + STEP * BigInt(list.length)), row });
  }
  return list;
}
