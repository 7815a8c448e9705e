import type { AttributeType, Rdn } from '../schema/types.js';
import type { Cell, CellName, PlanStep, RowStep } from '../store/contract.js';
import { cellChanges } from '../store/edit.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { cellValue, unpackRow } from '../store/row.js';
import type { Draft, DraftAttribute, DraftValue } from './draft.js';
import { draftFromRow, entryCells, type TreeInfo, valueQualifier } from './entry.js';
import { Implied, implyType } from './implied.js';
import { chunkNames, LARGE_VALUE, readLarge } from './large.js';
import type { WrittenAhead } from './large-ahead.js';
import type { Located } from './locate.js';
import { leaveLong } from './long-work.js';
import { type Node, nodeTreeKey } from './nodes.js';
import {
  largeQualifiers,
  MASTER,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  Q,
  TREE,
  TREE_TABLE,
  upRdnOf,
} from './tables.js';
import type { Actor } from './types.js';
import { isWhole } from './wide.js';
import { checkDraft, indexSteps, isSpecial, normCellChanges, stampModified, type WriteContext } from './write.js';

/** An entry that is being changed: as it is, and as it will be. Of a wide one perhaps a part: see `part.ts`. */
export interface Edit {
  readonly node: Node;
  readonly row: Buffer;
  readonly before: Draft;
  readonly after: Draft;
}

/** Reads the entry whole; with `leave`, `LongWork` where it is long. */
export async function openEdit(context: WriteContext, { node, row: found }: Located, leave: boolean): Promise<Edit> {
  leaveLong(leave, found);
  const read = isWhole(found) ? found : context.store.get(MASTER_TABLE.name, node.id);
  const row = isPromise(read) ? await read : read;
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  if (row !== found) leaveLong(leave, row);
  const before = draftFromRow(context.descriptions, row, largeQualifiers(row));
  return { node, row, before, after: before.copy() };
}

/** Reads the large values of these types: they are compared and normalized. */
export async function loadLarge(context: WriteContext, edit: Edit, touched: ReadonlySet<AttributeType>): Promise<void> {
  for (const attribute of [...edit.after.attributes]) {
    if (!touched.has(attribute.description.type) || !attribute.values.some((v) => v.stored)) continue;
    const values: DraftValue[] = [];
    for (const value of attribute.values)
      values.push(value.stored ? await loadValue(context, edit, attribute, value) : value);
    const loaded = { ...attribute, values };
    edit.after.set(loaded);
    edit.before.set(loaded);
  }
}

async function loadValue(
  context: WriteContext,
  edit: Edit,
  attribute: DraftAttribute,
  value: DraftValue,
): Promise<DraftValue> {
  const qualifier = valueQualifier(attribute.text, value.index);
  const bytes = await readLarge(context.store, MASTER_TABLE.name, edit.node.id, qualifier, value.bytes);
  return { bytes, index: value.index, pointer: value.bytes };
}

/** Checks the changed entry, stamps it and adds what the stamps touch to `touched`; gives the new entryCSN. */
export function finishEdit(
  context: WriteContext,
  edit: Edit,
  rdn: Rdn,
  actor: Actor,
  touched: Set<AttributeType>,
): string {
  const structural = edit.before.text('structuralObjectClass');
  checkDraft(context, edit.after, rdn, edit.before);
  const before = structural === undefined ? undefined : context.schema.objectClass(structural);
  const after = context.schema.objectClass(edit.after.text('structuralObjectClass')!);
  if (before && after) context.schema.checkObjectClassChange(before, after);
  const csn = stampModified(context, edit.after, actor);
  for (const name of STAMPS) touched.add(context.schema.requireDescription(name).type);
  return csn;
}

const STAMPS = ['entryCSN', 'modifyTimestamp', 'modifiersName', 'structuralObjectClass'];

/** Steps for the master row, the tree row and the index rows of a changed entry; the first decides. Only cells that differ are written. */
export function editSteps(
  context: WriteContext,
  edit: Edit,
  touched: ReadonlySet<AttributeType>,
  place?: TreeInfoChange,
  ahead?: WrittenAhead,
): PlanStep[] {
  const { before, after } = impliedChange(context, edit, touched);
  const { gone, come } = normCellChanges(before.cells, after.cells);
  const steps: PlanStep[] = [masterStep(edit, place, ahead)];
  const special = isSpecial(edit.before) !== isSpecial(edit.after);
  steps.push(context.shared.guardStep(special || place !== undefined));
  if (!place) {
    steps.push({
      table: TREE_TABLE.name,
      key: nodeTreeKey(edit.node),
      guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: edit.node.id }],
      delete: gone,
      put: come,
      follows: true,
    });
  }
  steps.push(...indexSteps(edit.node.id, before.rows, after.rows));
  return steps;
}

/** Implied rows and cells, before and after, of the touched types that have changed. */
export function impliedChange(
  context: WriteContext,
  edit: Edit,
  touched: ReadonlySet<AttributeType>,
): { before: Implied; after: Implied } {
  const before = new Implied();
  const after = new Implied();
  for (const type of touched) {
    const were = edit.before.ofType(type);
    const are = edit.after.ofType(type);
    if (were.length === are.length && were.every((attribute, i) => attribute === are[i])) continue;
    const index = context.shared.indexes.of(type);
    implyType(type, were, index, before);
    implyType(type, are, index, after);
  }
  return { before, after };
}

/** A new place in the tree. */
export type TreeInfoChange = Pick<TreeInfo, 'parentId' | 'normRdn' | 'upRdn'>;

/** The master row: guarded by its version, only what differs. */
function masterStep(edit: Edit, place?: TreeInfoChange, ahead?: WrittenAhead): RowStep {
  const { row } = edit;
  const version = cellValue(row, MASTER.treeInfo, Q.version)!;
  const info = {
    parentId: parentIdOf(row),
    normRdn: normRdnOf(row),
    upRdn: upRdnOf(row),
    version: nextVersion(version),
    ...place,
  };
  const { cells, separate } = entryCells(edit.after, info, LARGE_VALUE, ahead?.pointers);
  const { gone, come } = cellChanges(row, cells);
  return {
    table: MASTER_TABLE.name,
    key: edit.node.id,
    guards: [
      { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value: version },
      ...(ahead ? [ahead.guard] : []),
    ],
    delete: [...gone, ...goneChunks(row, cells, separate), ...(ahead ? [ahead.mark] : [])],
    put: [...come, ...separate],
  };
}

function nextVersion(version: Buffer): Buffer {
  const next = Buffer.allocUnsafe(8);
  next.writeBigInt64BE(version.readBigInt64BE() + 1n);
  return next;
}

/** Chunks of the row's large values that are gone or replaced, but for those that are written anew. */
function goneChunks(row: Buffer, cells: readonly Cell[], separate: readonly Cell[]): CellName[] {
  const large = largeQualifiers(row);
  if (!large) return [];
  const kept = new Map(cells.map((cell) => [cell.qualifier.toString('latin1'), cell.value]));
  const written = new Set(separate.map((cell) => cell.qualifier.toString('latin1')));
  const gone: CellName[] = [];
  for (const cell of unpackRow(row)) {
    const name = cell.qualifier.toString('latin1');
    if (cell.family !== MASTER.upAttributes || !large.has(name) || kept.get(name)?.equals(cell.value)) continue;
    for (const qualifier of chunkNames(cell.qualifier, cell.value)) {
      if (!written.has(qualifier.toString('latin1'))) gone.push({ family: MASTER.largeValues, qualifier });
    }
  }
  return gone;
}
