import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { isPromise } from '../../store/maybe.js';
import { cellCounter } from '../../store/row.js';
import type { Actor, WriteOptions } from '../model/directory-types.js';
import { normRule } from '../model/implied.js';
import type { Node } from '../model/node.js';
import { DELETED_TABLE, largeQualifiers, MASTER_TABLE, Q, TREE, TREE_TABLE, upRdnOf } from '../model/tables.js';
import { nodeTreeKey } from '../tree/nodes.js';
import { write } from './attempt.js';
import type { Change, DeletedRow, StoredEntry } from './change.js';
import type { WriteContext } from './context.js';
import { LargeValueWriter, moveLargeValues, NO_MOVED_VALUES } from './large-ahead.js';
import { findWhole, loadLarge } from './open.js';

/** Deletes a leaf entry (RFC 4511 §4.8). Its rows stay in table `deleted` until the entry is restored or purged. */
export async function remove(context: WriteContext, dn: Dn, actor: Actor, options: WriteOptions = {}): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be deleted');
  const largeWriter = new LargeValueWriter(context.store, DELETED_TABLE.name);
  const change = await write(context, {
    lockKey: dn.norm,
    request: { op: 'delete', actor, changes: [] },
    largeWriter,
    attachedSteps: options.attached,
    find: () => findWhole(context, dn, options),
    change: ({ node, stored }) => deletion(context, dn, node, stored, actor, largeWriter, options.refuseLong),
  });
  const oldNode = change.place.from!;
  const nameChange = { id: change.id.toString('hex'), from: oldNode.dn.toString() };
  context.references.onNameChanged({ ...nameChange, formerKey: nodeTreeKey(oldNode) });
}

async function deletion(
  context: WriteContext,
  dn: Dn,
  node: Node,
  { row, draft }: StoredEntry,
  actor: Actor,
  largeWriter: LargeValueWriter,
  refusesLong?: boolean,
): Promise<Change> {
  const obstacle = await nonLeafError(context, node);
  const hasNormalForm = (type: AttributeType): boolean => normRule(type) !== undefined;
  const maybeDraft = loadLarge(context.store, MASTER_TABLE.name, node.id, draft, hasNormalForm, refusesLong);
  const before = { row, draft: await maybeDraft };
  const deletedRow = obstacle
    ? { row: undefined, movedValues: NO_MOVED_VALUES }
    : await readDeletedRow(context, node.id, row, largeWriter);
  const place = { from: node, to: undefined, upRdn: upRdnOf(row), rdn: dn.rdns[0]! };
  return { op: 'delete', id: node.id, actor, before, after: undefined, place, deletedRow, obstacle };
}

async function nonLeafError(context: WriteContext, node: Node): Promise<LdapError | undefined> {
  const maybeRow = context.store.getHead(TREE_TABLE.name, nodeTreeKey(node), true);
  const count = cellCounter(isPromise(maybeRow) ? await maybeRow : maybeRow, TREE.treeInfo, Q.oneLevelCount);
  if (count <= 0n) return undefined;
  return new LdapError('notAllowedOnNonLeaf', 'right below the entry there are others; delete them first');
}

/** Reads the row in table `deleted` that the deletion replaces, and the large values that move there. */
async function readDeletedRow(
  context: WriteContext,
  id: Buffer,
  row: Buffer,
  largeWriter: LargeValueWriter,
): Promise<DeletedRow> {
  const movedValues = largeQualifiers(row)
    ? await moveLargeValues(context.store, largeWriter, MASTER_TABLE.name, id, row)
    : NO_MOVED_VALUES;
  const maybeRow = context.store.get(DELETED_TABLE.name, id);
  return { row: isPromise(maybeRow) ? await maybeRow : maybeRow, movedValues };
}
