import { checkKey } from '../../checks.js';
import type { Plan, PlanStep, RowStep } from '../../contract.js';
import { isPromise } from '../../maybe.js';
import { type Cluster, GATES, type OpenTable } from '../cluster.js';

/** Longest key, bytes; HBase's limit. */
export const MAX_KEY = 0x7fff;

/**
 * `exclusive`: locked, read and changed. `shared`: guards and counters only. `blind`: an index row without guards.
 * `follower`: changed under the lock of another row.
 */
export type Kind = 'exclusive' | 'shared' | 'blind' | 'follower';

/** What a plan does to one row. */
export interface Group {
  readonly table: OpenTable;
  readonly key: Buffer;
  readonly id: string;
  readonly steps: RowStep[];
  kind: Kind;
}

export function rowId(table: string, key: Buffer): string {
  return `${table}\0${key.toString('latin1')}`;
}

/**
 * The rows of a plan; keys that are no keys reject with `limit`. Rows of tables that are not there are left out: the
 * plan fails when its steps are evaluated, unless a guard before them does. The gates of the tables in `open` are held
 * by the caller.
 */
export async function groupSteps(cluster: Cluster, plan: Plan, open: readonly string[] = []): Promise<Group[]> {
  const groups = new Map<string, Group>();
  for (const step of plan.steps) {
    const found = cluster.find(step.table);
    const table = isPromise(found) ? await found : found;
    if (!table || 'append' in step) continue;
    checkKey(step.key, table.spec, MAX_KEY);
    const id = rowId(step.table, step.key);
    const kind = kindOf(step, table);
    const group = groups.get(id);
    if (!group) groups.set(id, { table, key: step.key, id, steps: [step], kind });
    else {
      group.steps.push(step);
      if (group.kind !== kind) group.kind = 'exclusive';
    }
  }
  const list = [...groups.values()];
  const locked = list.some(({ kind }) => kind === 'exclusive');
  for (const group of list) if (group.kind === 'follower' && !locked) group.kind = 'exclusive';
  return [...list, ...gates(cluster, list, open)];
}

function kindOf(step: RowStep, { spec }: OpenTable): Kind {
  if (spec.suffixBytes !== undefined) return step.guards?.length ? 'exclusive' : 'blind';
  if (step.deleteRow || step.put?.length || step.delete?.length) return isFollower(step) ? 'follower' : 'exclusive';
  const stands = step.guards?.every((guard) => guard.op !== 'counterEquals' && !spec.families[guard.family]?.separate);
  return (stands ?? true) ? 'shared' : 'exclusive';
}

function isFollower(step: RowStep): boolean {
  return step.follows === true && !step.deleteRow && !step.add?.length;
}

/**
 * Who changes rows of a table otherwise than by loading it holds its gate shared; so does who guards some: rows that a
 * batch has put may be taken away again.
 */
function gates(cluster: Cluster, groups: Iterable<Group>, open: readonly string[]): Group[] {
  const names = new Set<string>();
  for (const { kind, table } of groups)
    if (kind !== 'blind' && !open.includes(table.spec.name)) names.add(table.spec.name);
  return [...names].map((name) => gate(cluster, name, 'shared'));
}

export function gate(cluster: Cluster, name: string, kind: Kind): Group {
  const key = Buffer.from(name, 'latin1');
  return { table: cluster.known(GATES), key, id: rowId(GATES, key), steps: [], kind };
}

export function appendCount(steps: readonly PlanStep[]): number {
  return steps.reduce((count, step) => count + ('append' in step ? 1 : 0), 0);
}
