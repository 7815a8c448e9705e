import { LdapError } from '../ldap/error.js';
import type { AttributeType, Dn, Rdn } from '../schema/types.js';
import type { Guard, PlanStep, RowStep } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { cellCounter, cellValue, unpackRow } from '../store/row.js';
import { completeRdn } from './complete.js';
import { type Edit, editSteps, finishEdit, impliedChange, loadLarge, openEdit } from './edit.js';
import { findEntry, refuseReferral, requireHead, specialClass, throwNoSuchObject } from './locate.js';
import { isWithin, joinDn, type Node, nodeTreeKey, ROOT } from './nodes.js';
import { cutNorm, MASTER, MASTER_TABLE, Q, TREE, TREE_TABLE, treeKey } from './tables.js';
import type { Actor, WriteOptions } from './types.js';
import {
  changeStep,
  commitSteps,
  countSteps,
  normCellChanges,
  refuseServerNames,
  retrying,
  type WriteContext,
} from './write.js';

export interface RenameTarget {
  readonly newRdn: string;
  readonly deleteOldRdn: boolean;
  readonly newSuperior: string | undefined;
}

/**
 * Renames or moves an entry with all that is below it (RFC 4511 §4.9). Children hang on the entryUUID, so the cost does
 * not grow with the subtree: one tree row, one master row and the counters of two ancestor chains.
 */
export async function rename(
  context: WriteContext,
  dn: Dn,
  to: RenameTarget,
  actor: Actor,
  options: WriteOptions = {},
): Promise<void> {
  const { schema, shared } = context;
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be renamed');
  const rdn = schema.parseRdn(to.newRdn);
  refuseServerNames(rdn, actor);
  const superior = to.newSuperior === undefined ? undefined : schema.parseDn(to.newSuperior);
  await retrying(context, async () => {
    const found = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
    const edit = await openEdit(context, found, options.leaveLong ?? false);
    if (!options.manageDsaIT) refuseReferral(context, edit, dn);
    if (shared.isSuffix(dn)) {
      throw new LdapError(
        'unwillingToPerform',
        'a suffix cannot be renamed; export it and import it under the new name',
      );
    }
    const oldParent = found.node.parent!;
    const parent = superior ? await requireSuperior(context, superior, options.manageDsaIT ?? false) : oldParent;
    refuseMove(found.node, oldParent, parent);
    const touched = await renameValues(context, edit, dn.rdns[0]!, rdn, to.deleteOldRdn);
    const csn = finishEdit(context, edit, rdn, actor, touched);
    const place = { parentId: parent.id, normRdn: cutNorm(rdn.norm), upRdn: Buffer.from(rdn.text) };
    const newDn = joinDn(place.upRdn, parent.dn);
    const steps = [
      ...(await treeSteps(context, edit, touched, parent, place.normRdn)),
      ...editSteps(context, edit, touched, place),
      changeStep({
        op: 'rename',
        id: found.node.id,
        dn: found.node.dn,
        newDn,
        by: actor.dn,
        csn,
        attributes: [...touched].map((t) => t.name),
      }),
    ];
    await commitSteps(context, steps, 0);
    context.nodes.clear();
  });
}

async function requireSuperior(context: WriteContext, superior: Dn, manageDsaIT: boolean): Promise<Node> {
  if (superior.rdns.length === 0)
    throw new LdapError('unwillingToPerform', 'an entry cannot be moved to the root; only suffixes stand there');
  const found = findEntry(context, context.store, superior);
  const parent = isPromise(found) ? await found : found;
  if (!parent) return throwNoSuchObject(context, context.store, superior, false, 'the new superior does not exist');
  const special = specialClass(context, parent.row);
  if (special === 'alias') throw new LdapError('namingViolation', 'an alias entry has no entries below it');
  if (special === 'referral' && !manageDsaIT)
    throw new LdapError('affectsMultipleDSAs', 'the new superior is held by another server');
  return parent.node;
}

function refuseMove(node: Node, oldParent: Node, parent: Node): void {
  if (isWithin(parent, node)) throw new LdapError('unwillingToPerform', 'an entry cannot be moved below itself');
  if (suffixOf(oldParent) !== suffixOf(parent) && !suffixOf(oldParent).id.equals(suffixOf(parent).id)) {
    throw new LdapError(
      'affectsMultipleDSAs',
      'an entry cannot be moved to another suffix; export it and import it there',
    );
  }
}

function suffixOf(node: Node): Node {
  let top = node;
  while (top.parent && top.parent !== ROOT) top = top.parent;
  return top;
}

/** Removes the old RDN's values when asked to and adds the new one's; gives the types touched. */
async function renameValues(
  context: WriteContext,
  edit: Edit,
  oldRdn: Rdn,
  newRdn: Rdn,
  deleteOld: boolean,
): Promise<Set<AttributeType>> {
  const touched = new Set<AttributeType>();
  for (const ava of [...oldRdn.avas, ...newRdn.avas]) touched.add(ava.type);
  await loadLarge(context, edit, touched);
  for (const ava of newRdn.avas) {
    if (ava.value.length === 0)
      throw new LdapError('invalidDNSyntax', `the new RDN gives '${ava.type.name}' an empty value`);
    if (!ava.type.equality)
      throw new LdapError(
        'namingViolation',
        `attribute '${ava.type.name}' has no equality rule and cannot name an entry`,
      );
  }
  if (deleteOld) {
    for (const ava of oldRdn.avas) {
      // What the server keeps stays with the entry (a repaired entry may be named by its entryUUID).
      if (ava.type.noUserModification) continue;
      const attribute = edit.after.get(context.schema.requireDescription(ava.type.name));
      if (!attribute) continue;
      const values = attribute.values.filter((v) => !ava.type.equality?.normalize(v.bytes)?.equals(ava.norm));
      if (values.length === 0) edit.after.remove(attribute.description);
      else edit.after.set({ ...attribute, values });
    }
  }
  completeRdn(edit.after, context.schema, newRdn);
  return touched;
}

/** Moves the tree row: the new name is free and taken, the old row, with its counters as read, goes. */
async function treeSteps(
  context: WriteContext,
  edit: Edit,
  touched: ReadonlySet<AttributeType>,
  parent: Node,
  normRdn: Buffer,
): Promise<PlanStep[]> {
  const { node } = edit;
  const oldKey = nodeTreeKey(node);
  const newKey = treeKey(parent.id, normRdn);
  const read = context.store.get(TREE_TABLE.name, oldKey);
  const row = isPromise(read) ? await read : read;
  if (!row || !cellValue(row, TREE.treeInfo, Q.id)?.equals(node.id))
    throw new StoreError('guard', 'the entry has been renamed meanwhile');
  const { before, after } = impliedChange(context, edit, touched);
  const { gone, come } = normCellChanges(before.cells, after.cells);
  const same: Guard[] = [
    { op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id },
    {
      op: 'counterEquals',
      family: TREE.treeInfo,
      qualifier: Q.oneLevelCount,
      value: cellCounter(row, TREE.treeInfo, Q.oneLevelCount),
    },
    {
      op: 'counterEquals',
      family: TREE.treeInfo,
      qualifier: Q.subLevelCount,
      value: cellCounter(row, TREE.treeInfo, Q.subLevelCount),
    },
  ];
  if (oldKey.equals(newKey)) return [{ table: TREE_TABLE.name, key: oldKey, guards: same, delete: gone, put: come }];
  const taken = context.store.get(TREE_TABLE.name, newKey);
  if (isPromise(taken) ? await taken : taken)
    throw new LdapError('entryAlreadyExists', 'there is an entry with the new name already');
  const names = new Set([...gone, ...come].map((cell) => cell.qualifier.toString('latin1')));
  const kept = unpackRow(row).filter(
    (cell) => cell.family !== TREE.normAttributes || !names.has(cell.qualifier.toString('latin1')),
  );
  const free: Guard[] = [{ op: 'absent', family: TREE.treeInfo, qualifier: Q.id }];
  const moved: RowStep[] = [
    { table: TREE_TABLE.name, key: newKey, guards: free, put: [...kept, ...come] },
    { table: TREE_TABLE.name, key: oldKey, guards: same, deleteRow: true },
  ];
  if (parent.id.equals(node.parent!.id)) return moved;
  const sub = 1n + cellCounter(row, TREE.treeInfo, Q.subLevelCount);
  return [...moved, ...countSteps(node.parent!, -1n, -sub), ...countSteps(parent, 1n, sub), ...chainGuards(parent)];
}

/** Everything above the new parent still hangs where it was read: two racing moves cannot make a cycle. */
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
