import type { AppendStep, Guard, Plan, PlanStep, RowStep } from '../../store/contract.js';
import { cellCounter, unpackRow } from '../../store/row.js';
import { changeCells, changeTime } from '../model/change-record.js';
import type { Draft } from '../model/draft.js';
import { ImpliedRows, implyEntry, implyType } from '../model/implied.js';
import { CHANGES_TABLE, MASTER, MASTER_TABLE, type Node, Q, TREE, TREE_TABLE } from '../model/tables.js';
import { nodeTreeKey, ROOT } from '../tree/nodes.js';
import { isSubentryClass, specialValue } from '../tree/specials.js';
import { type Change, changedTypes, type WriteContext } from './context.js';
import { deletionSteps, restorationSteps } from './deleted-rows.js';
import { indexSteps, normCellChanges } from './differences.js';
import type { WrittenValues } from './large-ahead.js';
import { type MasterWrite, masterWrite } from './master-write.js';
import { mergeSteps } from './merge-steps.js';

/** A change and the large values that were written before its plan. */
export interface PlannedChange {
  readonly change: Change;
  /** The new large values that were written ahead into the row. */
  readonly writtenValues?: WrittenValues | undefined;
}

/**
 * Returns the plan of one change, or of several changes that are committed together. The first step is decisive: the
 * name that is taken or released, or the row that is changed. The others are on the shared row, the tree row, counters,
 * rows of table `deleted`, index rows and the change record. `more`: further steps.
 */
export function planOf(context: WriteContext, planned: readonly PlannedChange[], more: readonly PlanStep[] = []): Plan {
  const steps: PlanStep[] = [];
  for (const plannedChange of planned) addSteps(context, plannedChange, steps);
  for (const step of more) steps.push(step);
  // One change has steps on different rows only. Merging the many steps for a large group would double the cost.
  const areDistinct =
    planned.length === 1 && !isMove(planned[0]!.change) && !more.some((step) => sharesRow(step, steps));
  return { steps: areDistinct ? steps : mergeSteps(steps), decisive: 0 };
}

/** Whether another step is on the same row. */
function sharesRow(step: PlanStep, steps: readonly PlanStep[]): boolean {
  if ('append' in step) return false;
  const { table, key } = step;
  return steps.filter((one) => one.table === table && !('append' in one) && one.key.equals(key)).length > 1;
}

function addSteps(context: WriteContext, { change, writtenValues }: PlannedChange, steps: PlanStep[]): void {
  const { id, place, before, after } = change;
  const types = before && after && changedTypes(change);
  const impliedRows = impliedChange(context, change, types);
  const masterWriteStep = masterWrite(context, change, writtenValues);
  const treeRowSteps = treeRowStepsOf(change, impliedRows);
  for (const step of treeRowSteps) steps.push(step);
  steps.push(masterWriteStep.step, sharedStep(context, change));
  if (treeRowSteps.length === 0) steps.push(treeRowUpdate(place.to!, id, impliedRows));
  for (const step of counterSteps(change)) steps.push(step);
  const time = change.tree?.time ?? changeTime();
  for (const step of deletedRowSteps(change, time)) steps.push(step);
  for (const step of indexSteps(id, impliedRows.before.rows, impliedRows.after.rows)) steps.push(step);
  if (change.detachment) return;
  const attributes = types && [...types].map(({ name }) => name);
  steps.push(recordStep(context, change, masterWriteStep, time, attributes));
}

/** The implied rows and cells of the entry before and after the change, of the types that change. */
interface ImpliedChange {
  readonly before: ImpliedRows;
  readonly after: ImpliedRows;
}

function impliedChange(
  context: WriteContext,
  { before, after }: Change,
  types: ReturnType<typeof changedTypes> | undefined,
): ImpliedChange {
  const { indexes } = context.shared;
  const change = { before: new ImpliedRows(), after: new ImpliedRows() };
  if (!types) {
    if (before) implyEntry(before.draft, indexes, change.before);
    if (after) implyEntry(after, indexes, change.after);
    return change;
  }
  for (const type of types) {
    const index = indexes.ofType(type);
    implyType(type, before!.draft.ofType(type), index, change.before);
    implyType(type, after!.ofType(type), index, change.after);
  }
  return change;
}

const idGuard = (node: Node): Guard => ({ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id });
const NO_ROW: Guard = { op: 'absent', family: TREE.treeInfo, qualifier: Q.id };

/** Returns the steps that insert and delete tree rows, which takes and releases names. Empty if the tree row stays. */
function treeRowStepsOf({ id, place: { from, to, treeRow } }: Change, implied: ImpliedChange): RowStep[] {
  const table = TREE_TABLE.name;
  if (!from) {
    const cells = [{ family: TREE.treeInfo, qualifier: Q.id, value: id }, ...implied.after.cells];
    return [{ table, key: nodeTreeKey(to!), guards: [NO_ROW], put: cells }];
  }
  const counterGuard = (qualifier: Buffer): Guard => ({
    op: 'counterEquals',
    family: TREE.treeInfo,
    qualifier,
    value: cellCounter(treeRow, TREE.treeInfo, qualifier),
  });
  if (!to)
    return [{ table, key: nodeTreeKey(from), guards: [idGuard(from), counterGuard(Q.oneLevelCount)], deleteRow: true }];
  if (!treeRow) return [];
  const { removedCells, writtenCells } = normCellChanges(implied.before.cells, implied.after.cells);
  const changedNames = new Set([...removedCells, ...writtenCells].map((cell) => cell.qualifier.toString('latin1')));
  const keptCells = unpackRow(treeRow).filter(
    (cell) => cell.family !== TREE.normAttributes || !changedNames.has(cell.qualifier.toString('latin1')),
  );
  return [
    { table, key: nodeTreeKey(to), guards: [NO_ROW], put: [...keptCells, ...writtenCells] },
    {
      table,
      key: nodeTreeKey(from),
      guards: [idGuard(from), counterGuard(Q.oneLevelCount), counterGuard(Q.subLevelCount)],
      deleteRow: true,
    },
  ];
}

/** Returns the step that updates a tree row which stays. It follows the decisive master row (`RowStep.follows`). */
function treeRowUpdate(node: Node, id: Buffer, implied: ImpliedChange): RowStep {
  const { removedCells, writtenCells } = normCellChanges(implied.before.cells, implied.after.cells);
  return {
    table: TREE_TABLE.name,
    key: nodeTreeKey(node),
    guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: id }],
    delete: removedCells,
    put: writtenCells,
    follows: true,
  };
}

/**
 * Returns the step on the shared row. It guards the list of indexes and the access rules that allowed the change, and
 * increments `treeVersion` if cached names become outdated.
 */
function sharedStep(context: WriteContext, change: Change): RowStep {
  const { op, actor, place, before, after } = change;
  const wasSpecial = before !== undefined && isSpecial(before.draft);
  const isStillSpecial = after !== undefined && isSpecial(after);
  const isMoved = op === 'restore' || (place.from !== undefined && place.to !== undefined && place.from !== place.to);
  const { version } = actor.access ?? {};
  return context.shared.guardStep(isMoved || wasSpecial !== isStillSpecial, version, dependsOnNames(context, change));
}

/** Whether the change takes or releases a name, or changes references. */
function dependsOnNames({ shared }: WriteContext, change: Change): boolean {
  const { from, to } = change.place;
  if (from !== to) return true;
  for (const type of changedTypes(change)) if (shared.references.has(type)) return true;
  return false;
}

/** Whether the entry is an alias, a referral or a subentry, so that its changes affect `specialsOf`. */
export function isSpecial(draft: Draft): boolean {
  return draft.attributes.some(
    ({ description, values }) =>
      description.type.name === 'objectClass' &&
      values.some(({ bytes }) => specialValue(bytes) !== undefined || isSubentryClass(bytes)),
  );
}

/** Whether the entry gets another parent. */
function isMove({ place: { from, to } }: Change): boolean {
  return from !== undefined && to !== undefined && !from.parent!.id.equals(to.parent!.id);
}

/**
 * Returns the steps on the counters of all ancestors. For a move they also guard that the ancestors keep their parents,
 * so that two concurrent moves cannot form a cycle.
 */
function counterSteps(change: Change): RowStep[] {
  const { from, to, treeRow } = change.place;
  if (!from) return countSteps(to!.parent!, 1n, 1n);
  if (!to) return countSteps(from.parent!, -1n, -1n);
  if (!isMove(change)) return [];
  const count = 1n + cellCounter(treeRow, TREE.treeInfo, Q.subLevelCount);
  const countedSteps = [...countSteps(from.parent!, -1n, -count), ...countSteps(to.parent!, 1n, count)];
  return [...countedSteps, ...ancestorGuards(to.parent!)];
}

function ancestorGuards(parent: Node): RowStep[] {
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

function deletedRowSteps(change: Change, time: Buffer): PlanStep[] {
  if (!change.deletedRow) return [];
  return change.op === 'restore' ? restorationSteps(change) : deletionSteps(change, time);
}

function recordStep(
  context: WriteContext,
  change: Change,
  { beforeImage }: MasterWrite,
  time: Buffer,
  attributes: readonly string[] | undefined,
): AppendStep {
  const { op, id, actor, after, place } = change;
  const csn = after ? after.firstValue('entryCSN')! : context.csn.nextCsn(change.before!.draft.valueText('entryCSN'));
  const append = changeCells({
    op,
    id,
    dn: (place.from ?? place.to!).dn,
    newDn: op === 'rename' ? place.to!.dn : undefined,
    writerDn: actor.dn,
    csn,
    time,
    attributes,
    beforeImage,
  });
  return { table: CHANGES_TABLE.name, append };
}

/** Returns steps that add to the counters of `parent` and of all its ancestors. Each step guards the entryUUID. */
function countSteps(parent: Node, oneLevel: bigint, subLevel: bigint): RowStep[] {
  const steps: RowStep[] = [];
  for (let node: Node | undefined = parent; node?.parent; node = node.parent)
    steps.push(countStep(node, node === parent ? oneLevel : 0n, subLevel));
  return steps;
}

function countStep(node: Node, oneLevel: bigint, subLevel: bigint): RowStep {
  const increments = [{ family: TREE.treeInfo, qualifier: Q.subLevelCount, by: subLevel }];
  if (oneLevel !== 0n) increments.unshift({ family: TREE.treeInfo, qualifier: Q.oneLevelCount, by: oneLevel });
  return {
    table: TREE_TABLE.name,
    key: nodeTreeKey(node),
    guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id }],
    add: increments,
  };
}

/** Returns the counter steps for many new entries, given by parent: one per ancestor, with the sum. */
export function sumSteps(counts: ReadonlyMap<Node, number>): RowStep[] {
  const sums = new Map<string, { readonly node: Node; oneLevelSum: number; sub: number }>();
  for (const [parent, count] of counts) {
    for (let node: Node | undefined = parent; node && node !== ROOT; node = node.parent) {
      const id = node.id.toString('latin1');
      const sum = sums.get(id) ?? { node, oneLevelSum: 0, sub: 0 };
      if (node === parent) sum.oneLevelSum += count;
      sum.sub += count;
      sums.set(id, sum);
    }
  }
  return [...sums.values()].map(({ node, oneLevelSum, sub }) => countStep(node, BigInt(oneLevelSum), BigInt(sub)));
}
