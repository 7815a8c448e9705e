import { LdapError } from '../ldap/error.js';
import type { Change } from '../ldap/types.js';
import type { AttributeDescription, AttributeType, Dn, Rdn } from '../schema/types.js';
import type { Cell, CellName, PlanStep, RowStep } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { cellValue, unpackRow } from '../store/row.js';
import {
  completeClasses,
  type Draft,
  type DraftAttribute,
  type DraftValue,
  draftFromRow,
  entryCells,
  hasValue,
  largePointer,
  type TreeInfo,
  valueQualifier,
} from './entry.js';
import { byType, formRule, Implied, implyType } from './implied.js';
import { ENTRY_UUID_OID } from './indexes.js';
import { chunkCount, chunkQualifier, LARGE_VALUE, readLarge } from './large.js';
import { type Located, refuseReferral, requireHead } from './locate.js';
import { type Node, nodeTreeKey } from './nodes.js';
import { openPart } from './part.js';
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
import type { Actor, WriteOptions } from './types.js';
import { isWhole } from './wide.js';
import {
  changeStep,
  checkDraft,
  commitSteps,
  indexSteps,
  isSpecial,
  normCellChanges,
  refuseServerAttributes,
  retrying,
  stampModified,
  type WriteContext,
} from './write.js';

/** Changes an entry (RFC 4511 §4.6): all of the changes or none. */
export async function modify(
  context: WriteContext,
  dn: Dn,
  changes: readonly Change[],
  actor: Actor,
  options: WriteOptions = {},
): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be modified');
  await retrying(context, async () => {
    const found = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
    const edit = (await openPart(context, found, dn, changes)) ?? (await openEdit(context, found));
    if (!options.manageDsaIT) refuseReferral(context, edit, dn);
    const touched = new Set<AttributeType>();
    for (const change of changes) touched.add(context.schema.requireDescription(change.attribute.type).type);
    await loadLarge(context, edit, new Set([...touched].filter((type) => isLookedAt(context, changes, type))));
    for (const change of changes) applyChange(context, edit.after, change, actor);
    if (touched.has(context.schema.requireDescription('objectClass').type)) completeClasses(context.schema, edit.after);
    const rdn = context.schema.parseRdn(dn.rdns[0]!.text);
    checkNaming(context, edit.after, rdn);
    const csn = finishEdit(context, edit, rdn, actor, touched);
    const steps: PlanStep[] = [
      ...editSteps(context, edit, touched),
      changeStep({
        op: 'modify',
        id: found.node.id,
        dn: found.node.dn,
        by: actor.dn,
        csn,
        attributes: [...touched].map((t) => t.name),
      }),
    ];
    await commitSteps(context, steps, 0);
  });
}

/** An entry that is being changed: as it is, and as it will be. Of a wide one perhaps a part: see `part.ts`. */
export interface Edit {
  readonly node: Node;
  readonly row: Buffer;
  readonly before: Draft;
  readonly after: Draft;
}

export async function openEdit(context: WriteContext, { node, row: found }: Located): Promise<Edit> {
  const read = isWhole(found) ? found : context.store.get(MASTER_TABLE.name, node.id);
  const row = isPromise(read) ? await read : read;
  if (!row) throw new StoreError('guard', 'the entry has been deleted meanwhile');
  const before = draftFromRow(context.descriptions, row, largeQualifiers(row));
  return { node, row, before, after: before.copy() };
}

/** Whether the values that the entry has matter: other rows are made from them, or the changes do not take all of them away. */
function isLookedAt(context: WriteContext, changes: readonly Change[], type: AttributeType): boolean {
  if (formRule(type)) return true;
  return changes.some(
    ({ operation, attribute: { type: text, values } }) =>
      context.schema.requireDescription(text).type === type &&
      operation !== 'replace' &&
      !(operation === 'delete' && values.length === 0),
  );
}

/** Reads the large values of these types: they are compared, normalized and written again. */
export async function loadLarge(context: WriteContext, edit: Edit, touched: ReadonlySet<AttributeType>): Promise<void> {
  for (const [key, attribute] of edit.after.attributes) {
    if (!touched.has(attribute.description.type) || !attribute.values.some((v) => v.stored)) continue;
    const values: DraftValue[] = [];
    for (const value of attribute.values)
      values.push(value.stored ? await loadValue(context, edit, attribute, value) : value);
    edit.after.attributes.set(key, { ...attribute, values });
    edit.before.attributes.set(key, { ...attribute, values });
  }
}

async function loadValue(
  context: WriteContext,
  edit: Edit,
  attribute: DraftAttribute,
  value: DraftValue,
): Promise<DraftValue> {
  const qualifier = valueQualifier(attribute.text, value.index);
  const bytes = readLarge(context.store, MASTER_TABLE.name, edit.node.id, qualifier, value.bytes);
  return { bytes: isPromise(bytes) ? await bytes : bytes, index: value.index };
}

/** One change of a modify request on the draft. */
function applyChange(context: WriteContext, draft: Draft, change: Change, actor: Actor): void {
  const { type, values } = change.attribute;
  const description = context.schema.requireDescription(type);
  refuseServerAttributes([{ description }], actor);
  if (description.type.oid === ENTRY_UUID_OID)
    throw new LdapError('constraintViolation', 'entryUUID is what the entry is known by and never changes');
  switch (change.operation) {
    case 'add':
      addValues(draft, description, type, values);
      break;
    case 'delete':
      deleteValues(draft, description, type, values);
      break;
    case 'replace':
      draft.replace(description, type, values);
      break;
    case 'increment':
      increment(draft, description, type, values);
  }
}

/** Equal for values that are equal; short for long ones. */
function norm(type: AttributeType, value: Buffer): string {
  const form = type.equality?.normalize(value) ?? value;
  return (form.length > LARGE_VALUE ? largePointer(form) : form).toString('latin1');
}

function addValues(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  if (values.length === 0) throw new LdapError('protocolError', `adding to '${text}' needs a value`);
  const present = new Set((draft.get(description)?.values ?? []).map((v) => norm(description.type, v.bytes)));
  for (const value of values) {
    const key = norm(description.type, value);
    if (present.has(key)) throw new LdapError('attributeOrValueExists', `attribute '${text}' has this value already`);
    present.add(key);
  }
  draft.append(description, text, values);
}

function deleteValues(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  const attribute = draft.get(description);
  if (!attribute) throw new LdapError('noSuchAttribute', `the entry has no attribute '${text}'`);
  if (values.length === 0) {
    draft.remove(description);
    return;
  }
  const goes = new Set(values.map((v) => norm(description.type, v)));
  const rest = attribute.values.filter((v) => !goes.delete(norm(description.type, v.bytes)));
  if (goes.size > 0) throw new LdapError('noSuchAttribute', `attribute '${text}' has no such value`);
  if (rest.length === 0 && !attribute.rest) draft.remove(description);
  else attribute.values = rest;
}

/** RFC 4525: adds an integer to every value. */
function increment(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  if (values.length !== 1) throw new LdapError('protocolError', `incrementing '${text}' needs exactly one value`);
  if (description.type.syntax.oid !== INTEGER_SYNTAX)
    throw new LdapError(
      'constraintViolation',
      `attribute '${text}' is not of the syntax Integer and cannot be incremented`,
    );
  const attribute = draft.get(description);
  if (!attribute) throw new LdapError('noSuchAttribute', `the entry has no attribute '${text}'`);
  const by = integer(values[0]!, text);
  attribute.values = attribute.values.map((v) => ({
    bytes: Buffer.from(String(integer(v.bytes, text) + by)),
    index: v.index,
  }));
}

const INTEGER_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.27';

function integer(value: Buffer, text: string): bigint {
  const digits = value.length <= 1000 ? value.toString('latin1') : '';
  if (!/^-?\d+$/.test(digits))
    throw new LdapError('invalidAttributeSyntax', `a value of '${text}' is not an integer of up to 1,000 digits`);
  return BigInt(digits);
}

/** The values that name the entry stay (RFC 4511 §4.6: notAllowedOnRDN). */
function checkNaming(context: WriteContext, draft: Draft, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    const attribute = draft.get(context.schema.requireDescription(ava.type.name));
    if (attribute && hasValue(attribute.values, ava)) continue;
    throw new LdapError(
      'notAllowedOnRDN',
      `the value of '${ava.type.name}' that names the entry cannot be removed; rename the entry instead`,
    );
  }
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
  checkDraft(context, edit.after, rdn);
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
): PlanStep[] {
  const { before, after } = impliedChange(context, edit, touched);
  const { gone, come } = normCellChanges(before, after);
  const steps: PlanStep[] = [masterStep(edit, place)];
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
  steps.push(...indexSteps(edit.node.id, before, after));
  return steps;
}

/** Implied rows and cells of the touched types, before and after. */
export function impliedChange(
  context: WriteContext,
  edit: Edit,
  touched: ReadonlySet<AttributeType>,
): { before: Implied; after: Implied } {
  const imply = (draft: Draft): Implied => {
    const implied = new Implied();
    for (const [type, attributes] of byType(draft)) {
      if (touched.has(type)) implyType(type, attributes, context.shared.indexes.of(type), implied);
    }
    return implied;
  };
  return { before: imply(edit.before), after: imply(edit.after) };
}

/** A new place in the tree. */
export type TreeInfoChange = Pick<TreeInfo, 'parentId' | 'normRdn' | 'upRdn'>;

/** The master row: guarded by its version, only what differs. */
function masterStep(edit: Edit, place?: TreeInfoChange): RowStep {
  const { row } = edit;
  const version = cellValue(row, MASTER.treeInfo, Q.version)!;
  const info = {
    parentId: parentIdOf(row),
    normRdn: normRdnOf(row),
    upRdn: upRdnOf(row),
    version: nextVersion(version),
    ...place,
  };
  const { cells, separate } = entryCells(edit.after, info);
  const old = new Map(unpackRow(row).map((cell) => [`${cell.family} ${cell.qualifier.toString('latin1')}`, cell]));
  const put = [];
  for (const cell of cells) {
    const key = `${cell.family} ${cell.qualifier.toString('latin1')}`;
    if (!old.get(key)?.value.equals(cell.value)) put.push(cell);
    old.delete(key);
  }
  return {
    table: MASTER_TABLE.name,
    key: edit.node.id,
    guards: [{ op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value: version }],
    delete: [...old.values(), ...goneChunks(row, cells, separate)],
    put: [...put, ...separate],
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
    for (let n = 0; n < chunkCount(cell.value); n++) {
      const qualifier = chunkQualifier(cell.qualifier, n);
      if (!written.has(qualifier.toString('latin1'))) gone.push({ family: MASTER.largeValues, qualifier });
    }
  }
  return gone;
}
