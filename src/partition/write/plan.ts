import type { AppendStep, Guard, Plan, PlanStep, RowStep } from '../../store/contract.js';
import { cellCounter, unpackRow } from '../../store/row.js';
import { changeCells, changeTime } from '../model/change-record.js';
import type { Draft } from '../model/draft.js';
import { Implied, implyEntry, implyType } from '../model/implied.js';
import type { Node } from '../model/node.js';
import { CHANGES_TABLE, MASTER, MASTER_TABLE, Q, TREE, TREE_TABLE } from '../model/tables.js';
import { nodeTreeKey } from '../tree/nodes.js';
import { specialValue } from '../tree/referrals.js';
import { type Change, changedTypes } from './change.js';
import type { WriteContext } from './context.js';
import { countSteps } from './counters.js';
import { bringBackSteps, keepSteps } from './deleted-rows.js';
import { indexSteps, normCellChanges } from './differences.js';
import type { WrittenAhead } from './large-ahead.js';
import { type MasterWrite, masterWrite } from './master-write.js';
import { mergeSteps } from './merge-steps.js';

/** A change with what was written for it before its plan. */
export interface Planned {
  readonly change: Change;
  /** Its new large values, where they are in its row already. */
  readonly written?: WrittenAhead | undefined;
}

/**
 * The plan of one change, or of several that happen together. The first step decides: the name that is taken or given
 * up, or the row that is changed. Then the shared row, the tree row that follows, counters, rows of table `deleted`,
 * index rows, the change record. `more`: steps that go with them.
 */
export function planOf(context: WriteContext, planned: readonly Planned[], more: readonly PlanStep[] = []): Plan {
  const steps: PlanStep[] = [];
  for (const one of planned) addSteps(context, one, steps);
  for (const step of more) steps.push(step);
  // The steps of one change are on rows of their own: to merge those of a large group costs as much as to make them.
  const apart = planned.length === 1 && !isMove(planned[0]!.change) && !more.some((step) => meets(step, steps));
  return { steps: apart ? steps : mergeSteps(steps), decisive: 0 };
}

/** Whether another step is on the same row. */
function meets(step: PlanStep, steps: readonly PlanStep[]): boolean {
  if ('append' in step) return false;
  const { table, key } = step;
  return steps.filter((one) => one.table === table && !('append' in one) && one.key.equals(key)).length > 1;
}

function addSteps(context: WriteContext, { change, written }: Planned, steps: PlanStep[]): void {
  const { id, place, before, after } = change;
  const types = before && after && changedTypes(change);
  const implied = impliedBy(context, change, types);
  const master = masterWrite(context, change, written);
  const names = nameSteps(change, implied);
  for (const step of names) steps.push(step);
  steps.push(master.step, sharedStep(context, change));
  if (names.length === 0) steps.push(followingStep(place.to!, id, implied));
  for (const step of counterSteps(change)) steps.push(step);
  const time = changeTime();
  for (const step of asideSteps(change, time)) steps.push(step);
  for (const step of indexSteps(id, implied.before.rows, implied.after.rows)) steps.push(step);
  const attributes = types && [...types].map(({ name }) => name);
  steps.push(recordStep(context, change, master, time, attributes));
}

/** Implied rows and cells of the entry as it is and as it will be: of those types that do not stay as they are. */
interface ImpliedChange {
  readonly before: Implied;
  readonly after: Implied;
}

function impliedBy(
  context: WriteContext,
  { before, after }: Change,
  types: ReturnType<typeof changedTypes> | undefined,
): ImpliedChange {
  const { indexes } = context.shared;
  const change = { before: new Implied(), after: new Implied() };
  if (!types) {
    if (before) implyEntry(before.draft, indexes, change.before);
    if (after) implyEntry(after, indexes, change.after);
    return change;
  }
  for (const type of types) {
    const index = indexes.of(type);
    implyType(type, before!.draft.ofType(type), index, change.before);
    implyType(type, after!.ofType(type), index, change.after);
  }
  return change;
}

const idIs = (node: Node): Guard => ({ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id });
const FREE: Guard = { op: 'absent', family: TREE.treeInfo, qualifier: Q.id };

/** Tree rows that come and go: names that are taken and given up. Empty where the entry keeps its tree row. */
function nameSteps({ id, place: { from, to, treeRow } }: Change, implied: ImpliedChange): RowStep[] {
  const table = TREE_TABLE.name;
  if (!from) {
    const put = [{ family: TREE.treeInfo, qualifier: Q.id, value: id }, ...implied.after.cells];
    return [{ table, key: nodeTreeKey(to!), guards: [FREE], put }];
  }
  const counts = (qualifier: Buffer): Guard => ({
    op: 'counterEquals',
    family: TREE.treeInfo,
    qualifier,
    value: cellCounter(treeRow, TREE.treeInfo, qualifier),
  });
  if (!to) return [{ table, key: nodeTreeKey(from), guards: [idIs(from), counts(Q.oneLevelCount)], deleteRow: true }];
  if (!treeRow) return [];
  const { gone, come } = normCellChanges(implied.before.cells, implied.after.cells);
  const names = new Set([...gone, ...come].map((cell) => cell.qualifier.toString('latin1')));
  const kept = unpackRow(treeRow).filter(
    (cell) => cell.family !== TREE.normAttributes || !names.has(cell.qualifier.toString('latin1')),
  );
  return [
    { table, key: nodeTreeKey(to), guards: [FREE], put: [...kept, ...come] },
    {
      table,
      key: nodeTreeKey(from),
      guards: [idIs(from), counts(Q.oneLevelCount), counts(Q.subLevelCount)],
      deleteRow: true,
    },
  ];
}

/** The tree row of an entry that keeps it: its master row stands for it. */
function followingStep(node: Node, id: Buffer, implied: ImpliedChange): RowStep {
  const { gone, come } = normCellChanges(implied.before.cells, implied.after.cells);
  return {
    table: TREE_TABLE.name,
    key: nodeTreeKey(node),
    guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id }],
    delete: gone,
    put: come,
    follows: true,
  };
}

/**
 * Guards the list of indexes, and the access rules that allowed the change; says that names have changed where others
 * may remember them.
 */
function sharedStep(context: WriteContext, change: Change): RowStep {
  const { op, actor, place, before, after } = change;
  const were = before !== undefined && isSpecial(before.draft);
  const are = after !== undefined && isSpecial(after);
  const moved = op === 'restore' || (place.from !== undefined && place.to !== undefined && place.from !== place.to);
  const { version } = actor.access ?? {};
  return context.shared.guardStep(moved || were !== are, version, dependsOnNames(context, change));
}

/** Whether it takes or gives up a name, or changes references. */
function dependsOnNames({ shared }: WriteContext, change: Change): boolean {
  const { from, to } = change.place;
  if (from !== to) return true;
  for (const type of changedTypes(change)) if (shared.references.has(type)) return true;
  return false;
}

/** Whether the entry changes what `specialsOf` tells. */
export function isSpecial(draft: Draft): boolean {
  return draft.attributes.some(
    ({ description, values }) =>
      description.type.name === 'objectClass' && values.some(({ bytes }) => specialValue(bytes) !== undefined),
  );
}

/** Whether the entry gets another parent. */
function isMove({ place: { from, to } }: Change): boolean {
  return from !== undefined && to !== undefined && !from.parent!.id.equals(to.parent!.id);
}

/**
 * The counters of those above it; of a move also that they still stand where they were read: two moves cannot make a
 * circle.
 */
function counterSteps(change: Change): RowStep[] {
  const { from, to, treeRow } = change.place;
  if (!from) return countSteps(to!.parent!, 1n, 1n);
  if (!to) return countSteps(from.parent!, -1n, -1n);
  if (!isMove(change)) return [];
  const sub = 1n + cellCounter(treeRow, TREE.treeInfo, Q.subLevelCount);
  return [...countSteps(from.parent!, -1n, -sub), ...countSteps(to.parent!, 1n, sub), ...chainGuards(to.parent!)];
}

function chainGuards(parent: Node): RowStep[] {
  const steps: RowStep[] = [];
  for (let node: Node | undefined = parent; node?.parent; node = node.parent) {
    steps.push({
      table: MASTER_TABLE.name,
      key: node.id,
      guards: [{ op: 'equals', family: MASTER.treeInfo, qualifier: Q.parentId, value: node.parent.id }],
    });
  }
  return steps;
}

function asideSteps(change: Change, time: Buffer): PlanStep[] {
  if (!change.aside) return [];
  return change.op === 'restore' ? bringBackSteps(change) : keepSteps(change, time);
}

function recordStep(
  context: WriteContext,
  change: Change,
  { before }: MasterWrite,
  time: Buffer,
  attributes: readonly string[] | undefined,
): AppendStep {
  const { op, id, actor, after, place } = change;
  const csn = after ? after.value('entryCSN')! : context.csn.next(change.before!.draft.text('entryCSN'));
  const append = changeCells({
    op,
    id,
    dn: (place.from ?? place.to!).dn,
    newDn: op === 'rename' ? place.to!.dn : undefined,
    by: actor.dn,
    csn,
    time,
    attributes,
    before,
  });
  return { table: CHANGES_TABLE.name, append };
}
