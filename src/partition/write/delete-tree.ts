import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Cell, PlanStep } from '../../store/contract.js';
import { batchesOf } from '../../store/maybe.js';
import { cellCounter, cellValue, counterBytes, EMPTY, packSorted, unpackRow } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import type { Actor, WriteOptions, WriteRequest } from '../model/directory-types.js';
import { draftFromRow } from '../model/entry-cells.js';
import { presentRow } from '../model/present-row.js';
import {
  childrenRange,
  DELETED_TABLE,
  DETACHED_ID,
  largeQualifiers,
  MASTER,
  MASTER_TABLE,
  META_TABLE,
  type Node,
  Q,
  TREE,
  TREE_TABLE,
  upRdnOf,
} from '../model/tables.js';
import { childId, makeNode, nodeNormText, nodeTreeKey } from '../tree/nodes.js';
import { write } from './attempt.js';
import {
  type Change,
  PendingNamesError,
  retryWithFreshState,
  type StoredEntry,
  type TreeDeletion,
  type WriteContext,
} from './context.js';
import { deletion } from './delete.js';
import { LargeValueWriter } from './large-ahead.js';
import { findWhole } from './open.js';
import { planOf } from './plan.js';
import { applyRules } from './rules/apply.js';

/** Number of entries that one plan deletes. */
const BATCH = 32;
/** Stands above the entries that were taken out of the tree. */
const DETACHED: Node = { id: DETACHED_ID, parent: undefined, normRdn: EMPTY, dn: EMPTY };

/** The cell of row `detached,` + entryUUID of table `meta`: a `DetachedTop` as JSON. */
const RECORD = { family: 0, qualifier: Buffer.from('record') };

/** What the top of a tree delete that is not finished was. */
interface DetachedTop {
  /** entryUUID, hexadecimal, and DN of its parent. */
  readonly parentId: string;
  readonly parentDn: string;
  /** DN of the actor. */
  readonly by: string;
  /** Milliseconds since 1970. */
  readonly time: number;
}

function detachedKey(id: Buffer): Buffer {
  return Buffer.concat([Buffer.from('detached,'), id]);
}

/**
 * Deletes an entry with all entries below it. One plan takes the entry out of the tree, so that from then on no reader
 * finds it or an entry below it. Then each entry is deleted as by itself, those below before those above. After an
 * error or a crash `finishTrees` goes on. The actor must have the right to delete every entry.
 */
export async function removeTree(context: WriteContext, dn: Dn, actor: Actor, options: WriteOptions): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be deleted');
  const request: WriteRequest = { op: 'delete', actor, changes: [] };
  const { id } = await write(context, {
    lockKey: dn.norm,
    request,
    largeWriter: new LargeValueWriter(context.store, MASTER_TABLE.name),
    attachedSteps: options.attached,
    observer: options.observer,
    find: () => findWhole(context, dn, options),
    change: ({ node, stored }) => detachment(context, node, stored, request),
  });
  await finishTree(context, id);
}

/** Returns the change that moves the entry, with its subtree, below `DETACHED`. The plan guards its counters. */
async function detachment(
  context: WriteContext,
  from: Node,
  before: StoredEntry,
  request: WriteRequest,
): Promise<Change> {
  const { store, schema, shared } = context;
  // References are brought up to date only in entries that are in the tree.
  if (shared.nameChanges.records.length > 0) throw new PendingNamesError();
  const treeRow = await store.get(TREE_TABLE.name, nodeTreeKey(from));
  await requireAllDeletable(context, from, request);
  const { id, normRdn, dn, parent } = from;
  const occupantId = await childId(store, DETACHED, normRdn);
  if (occupantId) await finishTree(context, occupantId);
  const [parentId, parentDn] = [parent!.id.toString('hex'), parent!.dn.toString()];
  const record: DetachedTop = { parentId, parentDn, by: request.actor.dn, time: Date.now() };
  const put = [{ ...RECORD, value: Buffer.from(JSON.stringify(record)) }];
  const upRdn = upRdnOf(before.row);
  const to = { id, parent: DETACHED, normRdn, dn };
  const place = { from, to, upRdn, rdn: schema.parseDnBytes(upRdn).rdns[0]!, treeRow };
  const detachment = [{ table: META_TABLE.name, key: detachedKey(id), put }];
  return { op: 'rename', id, actor: request.actor, before, after: before.draft, place, detachment };
}

/** Throws unless the actor sees, and has the right to delete, each entry below. The error names none of them. */
async function requireAllDeletable(context: WriteContext, top: Node, request: WriteRequest): Promise<void> {
  const { access } = request.actor;
  if (access?.version === undefined) return;
  const slice = new TimeSlice();
  const parents = [top];
  for (let parent = parents.pop(); parent; parent = parents.pop()) {
    for await (const { rows } of batchesOf(context.store.scan(TREE_TABLE.name, childrenRange(parent.id)))) {
      const ids = rows.map((row) => entryIdOf(row!));
      const masterRows = await context.store.getMany(MASTER_TABLE.name, ids);
      for (const [i, masterRow] of masterRows.entries()) {
        if (!masterRow) throw new StoreError('guard', 'an entry below has been deleted meanwhile');
        const node = makeNode(ids[i]!, masterRow, parent);
        const row = presentRow(context, masterRow);
        const isHidden = access.viewer.sightOf && !access.viewer.sightOf({ id: node.id, parent, row });
        if (isHidden || access.checkTarget(request, { node, row }))
          throw new LdapError('insufficientAccessRights', 'no right to delete every entry below the entry');
        if (hasChildren(rows[i]!)) parents.push(node);
        await slice.yieldIfOver();
      }
    }
  }
}

function entryIdOf(treeRow: Buffer): Buffer {
  return cellValue(treeRow, TREE.treeInfo, Q.id)!;
}

function hasChildren(treeRow: Buffer): boolean {
  return cellCounter(treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n;
}

/** Goes on with the tree deletes of which not all entries are deleted. Resolves with whether there were any. */
export async function finishTrees(context: WriteContext): Promise<boolean> {
  const ids: Buffer[] = [];
  for await (const { rows } of batchesOf(context.store.scan(TREE_TABLE.name, childrenRange(DETACHED_ID))))
    for (const row of rows) ids.push(entryIdOf(row!));
  for (const id of ids) await finishTree(context, id);
  return ids.length > 0;
}

/** What all deletions of one tree delete share. */
interface Deletion {
  readonly actor: Actor;
  readonly time: Buffer;
  /** entryUUID of the parent that the top had. */
  readonly formerParentId: Buffer;
}

async function finishTree(context: WriteContext, id: Buffer): Promise<void> {
  const { store, schema, locks } = context;
  const lockKey = detachedKey(id).toString('latin1');
  await locks.acquire(lockKey);
  try {
    const metaRow = await store.get(META_TABLE.name, detachedKey(id));
    const row = await store.getHead(MASTER_TABLE.name, id, true);
    if (!metaRow || !row) return;
    await store.waitUntilQuiet?.();
    const record: DetachedTop = JSON.parse(cellValue(metaRow, RECORD.family, RECORD.qualifier)!.toString());
    const formerParentId = Buffer.from(record.parentId, 'hex');
    const tree = { actor: { dn: record.by }, time: counterBytes(BigInt(record.time)), formerParentId };
    const { norm: normRdn } = schema.parseDn(record.parentDn);
    const parent = { ...DETACHED, normRdn, dn: Buffer.from(record.parentDn) };
    await removeBelow(context, makeNode(id, row, parent), tree);
    await removeEntries(context, parent, [id], tree);
  } finally {
    locks.release(lockKey);
  }
}

async function removeBelow(context: WriteContext, parent: Node, tree: Deletion): Promise<void> {
  const { store } = context;
  const slice = new TimeSlice();
  for await (const { rows } of batchesOf(store.scan(TREE_TABLE.name, childrenRange(parent.id)))) {
    for (let start = 0; start < rows.length; start += BATCH) {
      const treeRows = rows.slice(start, start + BATCH) as Buffer[];
      for (const id of treeRows.filter(hasChildren).map(entryIdOf)) {
        const row = await store.getHead(MASTER_TABLE.name, id, true);
        if (row) await removeBelow(context, makeNode(id, row, parent), tree);
      }
      await removeEntries(context, parent, treeRows.map(entryIdOf), tree);
      await slice.yieldIfOver();
    }
  }
}

/** Deletes entries without entries below them. Skips those that another process has deleted. */
async function removeEntries(context: WriteContext, parent: Node, ids: Buffer[], tree: Deletion): Promise<void> {
  for (let done = 0; done < ids.length; )
    done += await retryWithFreshState(context, () => removeSome(context, parent, ids.slice(done), tree));
}

/** Deletes the first of the entries in one plan, and returns their number. */
async function removeSome(context: WriteContext, parent: Node, ids: Buffer[], tree: Deletion): Promise<number> {
  const { store, shared, references } = context;
  const largeWriter = new LargeValueWriter(store, DELETED_TABLE.name);
  const rows = await store.getMany(MASTER_TABLE.name, ids);
  // The writer writes the large values of one entry.
  if (rows.some((row) => row && largeQualifiers(row))) rows.length = 1;
  const nodes = rows.map((row, i) => row && makeNode(ids[i]!, row, parent));
  const names = nodes.flatMap((node) => (node ? nodeNormText(context, node) : []));
  const part: TreeDeletion = { time: tree.time, nameChanges: [], areReferenced: await references.areReferenced(names) };
  const changes: Change[] = [];
  const steps: PlanStep[] = [];
  let count = 0;
  try {
    for (; count < rows.length; count++) {
      const node = nodes[count];
      if (!node) continue;
      const stored = storedEntry(context, node, rows[count]!, tree);
      const change = { ...(await deletion(context, { node, stored, actor: tree.actor, largeWriter })), tree: part };
      steps.push(...(await applyRules(context, change)));
      changes.push(change);
    }
  } catch (error) {
    if (!(error instanceof PendingNamesError)) throw error;
  }
  if (part.nameChanges.length > 0)
    steps.push(shared.nameChangesStep([...shared.nameChanges.records, ...part.nameChanges]));
  if (parent.id === DETACHED_ID) steps.push({ table: META_TABLE.name, key: detachedKey(ids[0]!), deleteRow: true });
  const planned = changes.map((change) => ({ change }));
  try {
    if (changes.length > 0) await store.commit(planOf(context, planned, steps));
  } catch (error) {
    await largeWriter.discardIfPossible();
    throw error;
  }
  shared.expire();
  context.onCommit?.();
  for (const { id, place } of changes) {
    const from = place.from!;
    references.onNameChanged({ id: id.toString('hex'), from: from.dn.toString(), formerKey: nodeTreeKey(from) });
  }
  // The next entry waits for changes of names.
  if (count === 0) await references.settle();
  return count;
}

/** Returns the entry as it was in the tree. */
function storedEntry(context: WriteContext, node: Node, row: Buffer, { formerParentId: value }: Deletion): StoredEntry {
  const isTop = node.parent!.id === DETACHED_ID;
  const isParentId = (cell: Cell) => cell.family === MASTER.treeInfo && cell.qualifier.equals(Q.parentId);
  const cells = isTop ? unpackRow(row).map((cell) => (isParentId(cell) ? { ...cell, value } : cell)) : [];
  const formerRow = isTop ? packSorted(cells) : row;
  return { row: formerRow, draft: draftFromRow(context.descriptions, formerRow, largeQualifiers(row)) };
}
