import type { Plan, PlanStep, RowStep } from '../../contract.js';
import { isPromise } from '../../maybe.js';
import { checkKey } from '../../tables.js';
import { type Cluster, GATES, type OpenTable } from '../cluster.js';
import { MAX_KEY } from '../rpc/mutations.js';

/**
 * How a plan accesses a row. `exclusive`: locked, read and changed. `shared`: guards and counters only. `blind`: an
 * index row without guards. `follower`: changed under the lock of another row.
 */
export type RowAccess = 'exclusive' | 'shared' | 'blind' | 'follower';

/** The steps of a plan on one row. */
export interface PlanRow {
  readonly table: OpenTable;
  readonly key: Buffer;
  readonly id: string;
  readonly steps: RowStep[];
  access: RowAccess;
}

export function rowId(table: string, key: Buffer): string {
  return `${table}\0${key.toString('latin1')}`;
}

/**
 * Groups the steps of a plan by row. Rejects with `limit` for an invalid key. Rows of missing tables are left out: the
 * plan fails when its steps are evaluated, unless an earlier guard fails. `heldGates` names the tables whose gates
 * (locks of whole tables) the caller holds.
 */
export async function planRows(cluster: Cluster, plan: Plan, heldGates: readonly string[] = []): Promise<PlanRow[]> {
  const rows = new Map<string, PlanRow>();
  for (const step of plan.steps) {
    const lookup = cluster.findTable(step.table);
    const table = isPromise(lookup) ? await lookup : lookup;
    if (!table || 'append' in step) continue;
    checkKey(step.key, table.spec, MAX_KEY);
    const id = rowId(step.table, step.key);
    const access = rowAccessOf(step, table);
    const row = rows.get(id);
    if (!row) rows.set(id, { table, key: step.key, id, steps: [step], access });
    else {
      row.steps.push(step);
      if (row.access !== access) row.access = 'exclusive';
    }
  }
  const planRows = [...rows.values()];
  const hasExclusiveRow = planRows.some(({ access }) => access === 'exclusive');
  for (const row of planRows) if (row.access === 'follower' && !hasExclusiveRow) row.access = 'exclusive';
  return [...planRows, ...gateRows(cluster, planRows, heldGates)];
}

function rowAccessOf(step: RowStep, { spec }: OpenTable): RowAccess {
  if (spec.suffixBytes !== undefined) return step.guards?.length ? 'exclusive' : 'blind';
  if (step.deleteRow || step.put?.length || step.delete?.length) return isFollower(step) ? 'follower' : 'exclusive';
  const canShare = step.guards?.every(
    (guard) => guard.op !== 'counterEquals' && !spec.families[guard.family]?.separate,
  );
  return (canShare ?? true) ? 'shared' : 'exclusive';
}

function isFollower(step: RowStep): boolean {
  return step.follows === true && !step.deleteRow && !step.add?.length;
}

/**
 * Returns the gates of the tables in which the plan changes or guards rows other than index rows. The plan holds the
 * gates shared, because a bulk load with an exclusive gate may still delete rows that it has put.
 */
function gateRows(cluster: Cluster, rows: Iterable<PlanRow>, heldGates: readonly string[]): PlanRow[] {
  const tableNames = new Set<string>();
  for (const { access, table } of rows)
    if (access !== 'blind' && !heldGates.includes(table.spec.name)) tableNames.add(table.spec.name);
  return [...tableNames].map((name) => gateRow(cluster, name, 'shared'));
}

export function gateRow(cluster: Cluster, name: string, access: RowAccess): PlanRow {
  const key = Buffer.from(name, 'latin1');
  return { table: cluster.cachedTable(GATES), key, id: rowId(GATES, key), steps: [], access };
}

export function countAppends(steps: readonly PlanStep[]): number {
  return steps.reduce((count, step) => count + ('append' in step ? 1 : 0), 0);
}
