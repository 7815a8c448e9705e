import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { isPromise } from '../../store/maybe.js';
import { cellCounter, cellValue } from '../../store/row.js';
import type { Actor, DeletedEntry, WriteOptions } from '../model/directory-types.js';
import { draftFromRow } from '../model/entry-cells.js';
import { normRule } from '../model/implied.js';
import {
  DELETED,
  DELETED_TABLE,
  DELETION,
  largeQualifiers,
  MASTER_TABLE,
  type Node,
  normRdnOf,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  upRdnOf,
} from '../model/tables.js';
import { uuidText } from '../model/uuid.js';
import { joinDn, nodeTreeKey, ROOT } from '../tree/nodes.js';
import { write } from './attempt.js';
import type { Change, DeletedRow, StoredEntry, Target, WriteContext } from './context.js';
import { deletedEntries } from './deleted-rows.js';
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
    observer: options.observer,
    find: () => findWhole(context, dn, options),
    change: async ({ node, stored }) => {
      const obstacle = await nonLeafError(context, node);
      return deletion(context, { node, stored, actor, largeWriter, obstacle, refusesLong: options.refuseLong });
    },
  });
  const oldNode = change.place.from!;
  const nameChange = { id: change.id.toString('hex'), from: oldNode.dn.toString() };
  context.references.onNameChanged({ ...nameChange, formerKey: nodeTreeKey(oldNode) });
}

interface DeletionParts {
  readonly node: Node;
  readonly stored: StoredEntry;
  readonly actor: Actor;
  readonly largeWriter: LargeValueWriter;
  readonly obstacle?: LdapError | undefined;
  readonly refusesLong?: boolean | undefined;
}

/** Returns the change that deletes the entry. */
export async function deletion(
  context: WriteContext,
  { node, stored: { row, draft }, actor, largeWriter, obstacle, refusesLong }: DeletionParts,
): Promise<Change> {
  const hasNormalForm = (type: AttributeType): boolean => normRule(type) !== undefined;
  const maybeDraft = loadLarge(context.store, MASTER_TABLE.name, node.id, draft, hasNormalForm, refusesLong);
  const before = { row, draft: await maybeDraft };
  const deletedRow = obstacle
    ? { row: undefined, movedValues: NO_MOVED_VALUES }
    : await readDeletedRow(context, node.id, row, largeWriter);
  const upRdn = upRdnOf(row);
  const place = { from: node, to: undefined, upRdn, rdn: context.schema.parseDnBytes(upRdn).rdns[0]! };
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

/** Number of deleted entries that `restoreSubtree` works on at a time. */
const CONCURRENCY = 16;
/** The most ancestors of an entry. A longer chain of parents is a cycle. */
const MAX_DEPTH = 1000;

/**
 * Restores a deleted entry with its entryUUID and all values, below its former parent, wherever that is now. Returns
 * the DN. Throws `noSuchObject` if the deleted entry or its parent does not exist, and `entryAlreadyExists` if the name
 * or the entryUUID is taken.
 */
export async function restore(context: WriteContext, id: Buffer, actor: Actor): Promise<string> {
  const largeWriter = new LargeValueWriter(context.store, MASTER_TABLE.name);
  const change = await write(context, {
    lockKey: id,
    request: { op: 'restore', actor, changes: [] },
    largeWriter,
    find: () => findDeletedEntry(context, id),
    change: ({ node, row }) => restorationOf(context, id, node, row, actor, largeWriter),
  });
  await context.references.settle();
  return change.place.to!.dn.toString();
}

/** Reads the row of the deleted entry, and finds its parent. */
async function findDeletedEntry(context: WriteContext, id: Buffer): Promise<Target & { readonly row: Buffer }> {
  const maybeRow = context.store.get(DELETED_TABLE.name, id);
  const row = isPromise(maybeRow) ? await maybeRow : maybeRow;
  if (!row)
    throw new LdapError(
      'noSuchObject',
      'no deleted entry has this entryUUID; it was purged, restored or never deleted',
    );
  return { node: await findParent(context, row), stored: undefined, row };
}

async function restorationOf(
  context: WriteContext,
  id: Buffer,
  parent: Node,
  row: Buffer,
  actor: Actor,
  largeWriter: LargeValueWriter,
): Promise<Change> {
  const upRdn = upRdnOf(row);
  const newNode: Node = { id, parent, normRdn: normRdnOf(row), dn: joinDn(upRdn, parent.dn) };
  const obstacle = await takenError(context, newNode);
  const draft = draftFromRow(context.descriptions, row, largeQualifiers(row));
  const after = await loadLarge(context.store, DELETED_TABLE.name, id, draft, (type) => normRule(type) !== undefined);
  const movedValues = obstacle
    ? NO_MOVED_VALUES
    : await moveLargeValues(context.store, largeWriter, DELETED_TABLE.name, id, row);
  const rdn = context.schema.parseDnBytes(upRdn).rdns[0]!;
  const place = { from: undefined, to: newNode, upRdn, rdn };
  return { op: 'restore', id, actor, before: undefined, after, place, deletedRow: { row, movedValues }, obstacle };
}

/** Finds the parent by its entryUUID. The parent of a suffix is the root, if the suffix is still configured. */
async function findParent(context: WriteContext, row: Buffer): Promise<Node> {
  const parentId = Buffer.from(parentIdOf(row));
  const formerDn = cellValue(row, DELETED.deletion, DELETION.dn)?.toString() ?? '';
  if (parentId.equals(ROOT_ID)) {
    if (context.shared.suffixNormTexts.has(normRdnOf(row).toString('latin1'))) return ROOT;
    throw new LdapError(
      'unwillingToPerform',
      `'${formerDn}' is not a suffix of this directory any more; add the suffix first`,
    );
  }
  const maybeRow = context.store.get(MASTER_TABLE.name, parentId);
  const maybeParent = (isPromise(maybeRow) ? await maybeRow : maybeRow) ? context.nodes.byId(parentId) : undefined;
  const parent = isPromise(maybeParent) ? await maybeParent : maybeParent;
  if (parent) return parent;
  throw new LdapError(
    'noSuchObject',
    `the parent of '${formerDn}' (entryUUID ${uuidText(parentId)}) is gone; restore it first`,
  );
}

/** Returns an error if another entry has the name or the entryUUID. */
async function takenError(context: WriteContext, node: Node): Promise<LdapError | undefined> {
  const maybeTreeRow = context.store.get(TREE_TABLE.name, nodeTreeKey(node));
  if (isPromise(maybeTreeRow) ? await maybeTreeRow : maybeTreeRow)
    return new LdapError(
      'entryAlreadyExists',
      `there is an entry '${node.dn.toString()}' already; rename or delete it first`,
    );
  const maybeMasterRow = context.store.get(MASTER_TABLE.name, node.id);
  if (isPromise(maybeMasterRow) ? await maybeMasterRow : maybeMasterRow)
    return new LdapError('entryAlreadyExists', 'an entry with this entryUUID exists already');
  return undefined;
}

export interface SubtreeRestore {
  /** Entries deleted before this time (ms since 1970) are not restored. */
  readonly since?: number;
  readonly onRestored: (dn: string) => void;
  /** Called for each entry that cannot be restored, with the reason. */
  readonly onNotRestored: (entry: DeletedEntry, error: LdapError) => void;
}

/**
 * Restores the entry `id`, unless it exists, and all deleted entries below it, parents before children. Throws like
 * `restore` if the entry itself cannot be restored. Each pass over the deleted entries restores those whose parents
 * exist, and keeps nothing in memory for the next pass.
 */
export async function restoreSubtree(
  context: WriteContext,
  id: Buffer,
  actor: Actor,
  options: SubtreeRestore,
): Promise<void> {
  if (!(await readHead(context, MASTER_TABLE.name, id))) options.onRestored(await restore(context, id, actor));
  for (;;) {
    const { restoredCount, failedCount } = await runPass(context, id, actor, { ...options, onNotRestored: undefined });
    if (failedCount === 0) return;
    if (restoredCount === 0) break;
  }
  await runPass(context, id, actor, options);
}

interface PassResult {
  restoredCount: number;
  failedCount: number;
}

type PassOptions = Omit<SubtreeRestore, 'onNotRestored'> & {
  readonly onNotRestored: SubtreeRestore['onNotRestored'] | undefined;
};

async function runPass(context: WriteContext, top: Buffer, actor: Actor, options: PassOptions): Promise<PassResult> {
  const result = { restoredCount: 0, failedCount: 0 };
  const { since = 0, onRestored, onNotRestored } = options;
  const restoreEntry = async (entry: DeletedEntry): Promise<void> => {
    if (!(await wasBelow(context, entry, top))) return;
    try {
      onRestored(await restore(context, entry.id, actor));
      result.restoredCount++;
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      result.failedCount++;
      onNotRestored?.(entry, error);
    }
  };
  let batch: DeletedEntry[] = [];
  for await (const entry of deletedEntries(context.store)) {
    if (entry.time < since) continue;
    batch.push(entry);
    if (batch.length < CONCURRENCY) continue;
    await Promise.all(batch.map(restoreEntry));
    batch = [];
  }
  await Promise.all(batch.map(restoreEntry));
  return result;
}

/** Whether the entry was below `top`, perhaps with other deleted entries in between. */
async function wasBelow(context: WriteContext, { parentId }: DeletedEntry, top: Buffer): Promise<boolean> {
  let ancestorId = parentId;
  for (let depth = 0; depth < MAX_DEPTH && !ancestorId.equals(ROOT_ID); depth++) {
    if (ancestorId.equals(top)) return true;
    let node = await context.nodes.byId(ancestorId);
    const row = node ? undefined : await readHead(context, DELETED_TABLE.name, ancestorId);
    // An entry in neither table may have been restored between the two reads.
    if (!row) node ??= await context.nodes.byId(ancestorId);
    if (!row) return node !== undefined && isBelow(node, top);
    ancestorId = Buffer.from(parentIdOf(row));
  }
  return false;
}

function isBelow(node: Node, top: Buffer): boolean {
  for (let n: Node | undefined = node; n; n = n.parent) if (n.id.equals(top)) return true;
  return false;
}

async function readHead({ store }: WriteContext, table: string, id: Buffer): Promise<Buffer | undefined> {
  const row = store.getHead(table, id, true);
  return isPromise(row) ? await row : row;
}
