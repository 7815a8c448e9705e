import { LdapError } from '../ldap/error.js';
import type { Cell, CellName, PlanStep, Store } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { cellValue, counterBytes, MARK, nextCell, qualifierStart, unpackRow, valueStart } from '../store/row.js';
import { implyingDraft } from './delete.js';
import type { Draft } from './draft.js';
import { draftFromRow, entryCells } from './entry.js';
import { chunkNames, LARGE_VALUE, largeCells } from './large.js';
import { type Carried, carriedCells, carryLarge, LargeAhead } from './large-ahead.js';
import { joinDn, type Node, nodeTreeKey, ROOT } from './nodes.js';
import {
  DELETED,
  DELETED_TABLE,
  largeQualifiers,
  MASTER,
  MASTER_TABLE,
  normRdnOf,
  PURGE_TABLE,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  UUID_BYTES,
  upRdnOf,
} from './tables.js';
import type { Actor, DeletedEntry } from './types.js';
import { uuidText } from './uuid.js';
import {
  changeStep,
  commitSteps,
  countSteps,
  impliedOf,
  indexSteps,
  retrying,
  stampModified,
  type WriteContext,
} from './write.js';

/** Qualifiers of family `deletion`. */
export const DELETION = { dn: Buffer.from('dn'), time: Buffer.from('time'), by: Buffer.from('by') } as const;

/** Key of table `purge`. */
export function purgeKey(time: Buffer, id: Buffer): Buffer {
  return Buffer.concat([time, id]);
}

/** What can be restored, in the order of entryUUIDs. */
export async function* deletedEntries(store: Store): AsyncGenerator<DeletedEntry> {
  const scan = store.scan(DELETED_TABLE.name, {});
  try {
    for (;;) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch) return;
      for (const [i, id] of batch.keys.entries()) yield toDeleted(id, batch.rows[i]!);
    }
  } finally {
    scan.close();
  }
}

function toDeleted(id: Buffer, row: Buffer): DeletedEntry {
  const about = (qualifier: Buffer) => cellValue(row, DELETED.deletion, qualifier);
  const time = about(DELETION.time);
  if (time?.length !== 8)
    throw new StoreError('corrupt', `deleted entry ${uuidText(id)} has no time; run \`rowan check\``);
  return {
    id,
    dn: about(DELETION.dn)?.toString() ?? '',
    time: Number(time.readBigUInt64BE()),
    by: about(DELETION.by)?.toString() ?? '',
  };
}

/**
 * Brings a deleted entry back with its entryUUID and all its values, under the parent it had, wherever that is now;
 * resolves with its DN. Refused with `noSuchObject` when it or its parent is not there, `entryAlreadyExists` when its
 * name or its entryUUID is taken.
 */
export async function restore(context: WriteContext, id: Buffer, actor: Actor): Promise<string> {
  const ahead = new LargeAhead(context.store, MASTER_TABLE.name);
  const attempt = async (): Promise<string> => {
    const read = context.store.get(DELETED_TABLE.name, id);
    const row = isPromise(read) ? await read : read;
    if (!row)
      throw new LdapError(
        'noSuchObject',
        'no deleted entry has this entryUUID; it was purged, restored or never deleted',
      );
    const parent = await parentFor(context, row);
    const node: Node = { id, parent, normRdn: normRdnOf(row), dn: joinDn(upRdnOf(row), parent.dn) };
    await refuseTaken(context, node);
    const implying = await implyingDraft(context, DELETED_TABLE.name, id, row);
    const carried = await carryLarge(context.store, ahead, DELETED_TABLE.name, id, row);
    await commitSteps(context, restoreSteps(context, node, row, implying, carried, actor), 0);
    return node.dn.toString();
  };
  return retrying(context, attempt, ahead);
}

/** The parent by its entryUUID; a suffix stands at the root while it is one. */
async function parentFor(context: WriteContext, row: Buffer): Promise<Node> {
  const parentId = Buffer.from(parentIdOf(row));
  const was = cellValue(row, DELETED.deletion, DELETION.dn)?.toString() ?? '';
  if (parentId.equals(ROOT_ID)) {
    if (context.shared.suffixNorms.has(normRdnOf(row).toString('latin1'))) return ROOT;
    throw new LdapError(
      'unwillingToPerform',
      `'${was}' is not a suffix of this directory any more; add the suffix first`,
    );
  }
  const read = context.store.get(MASTER_TABLE.name, parentId);
  const found = (isPromise(read) ? await read : read) ? context.nodes.byId(parentId) : undefined;
  const parent = isPromise(found) ? await found : found;
  if (parent) return parent;
  throw new LdapError(
    'noSuchObject',
    `the parent of '${was}' (entryUUID ${uuidText(parentId)}) is gone; restore it first`,
  );
}

async function refuseTaken(context: WriteContext, node: Node): Promise<void> {
  const tree = context.store.get(TREE_TABLE.name, nodeTreeKey(node));
  if (isPromise(tree) ? await tree : tree)
    throw new LdapError(
      'entryAlreadyExists',
      `there is an entry '${node.dn.toString()}' already; rename or delete it first`,
    );
  const master = context.store.get(MASTER_TABLE.name, node.id);
  if (isPromise(master) ? await master : master)
    throw new LdapError('entryAlreadyExists', 'an entry with this entryUUID exists already');
}

/** `implying` has the values that imply something. */
function restoreSteps(
  context: WriteContext,
  node: Node,
  row: Buffer,
  implying: Draft,
  { separate, ahead }: Carried,
  actor: Actor,
): PlanStep[] {
  const draft = draftFromRow(context.descriptions, row, largeQualifiers(row));
  const csn = stampModified(context, draft, actor);
  for (const attribute of draft.attributes)
    if (!attribute.values.some((value) => value.stored)) implying.set(attribute);
  const implied = impliedOf(context, implying);
  // Above the version it had: whoever remembers that one sees that the entry has changed.
  const version = counterBytes((cellValue(row, MASTER.treeInfo, Q.version)?.readBigInt64BE() ?? 0n) + 1n);
  const info = { parentId: node.parent!.id, normRdn: node.normRdn, upRdn: upRdnOf(row), version };
  const { cells } = entryCells(draft, info, LARGE_VALUE, ahead?.pointers);
  const absent = { op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId } as const;
  const time = cellValue(row, DELETED.deletion, DELETION.time)!;
  return [
    {
      table: TREE_TABLE.name,
      key: nodeTreeKey(node),
      guards: [{ op: 'absent', family: TREE.treeInfo, qualifier: Q.id }],
      put: [{ family: TREE.treeInfo, qualifier: Q.id, value: node.id }, ...implied.cells],
    },
    {
      table: DELETED_TABLE.name,
      key: node.id,
      guards: [{ op: 'equals', family: DELETED.deletion, qualifier: DELETION.time, value: time }],
      deleteRow: true,
    },
    // Moved: other front ends may remember the entry where it stood.
    context.shared.guardStep(true),
    ...countSteps(node.parent!, 1n, 1n),
    {
      table: MASTER_TABLE.name,
      key: node.id,
      guards: ahead ? [absent, ahead.guard] : [absent],
      ...(ahead && { delete: [ahead.mark] }),
      put: [...cells, ...separate],
    },
    ...indexSteps(node.id, [], implied.rows),
    { table: PURGE_TABLE.name, key: purgeKey(time, node.id), deleteRow: true },
    changeStep({ op: 'restore', id: node.id, dn: node.dn, by: actor.dn, csn }),
  ];
}

/** Steps that keep a deleted entry's rows; one of the same entryUUID that was deleted earlier makes room. */
export async function keepSteps(
  context: WriteContext,
  node: Node,
  row: Buffer,
  carried: Carried,
  actor: Actor,
): Promise<PlanStep[]> {
  const { separate, ahead } = carried;
  const time = Buffer.allocUnsafe(8);
  time.writeBigUInt64BE(BigInt(Date.now()));
  const about = (qualifier: Buffer, value: Buffer): Cell => ({ family: DELETED.deletion, qualifier, value });
  const read = context.store.get(DELETED_TABLE.name, node.id);
  const earlier = isPromise(read) ? await read : read;
  const earlierTime = earlier && cellValue(earlier, DELETED.deletion, DELETION.time);
  const put = [...carriedCells(row, carried), ...separate];
  return [
    ...(earlierTime ? [{ table: PURGE_TABLE.name, key: purgeKey(earlierTime, node.id), deleteRow: true }] : []),
    {
      table: DELETED_TABLE.name,
      key: node.id,
      guards: [
        earlierTime
          ? { op: 'equals', family: DELETED.deletion, qualifier: DELETION.time, value: earlierTime }
          : { op: 'absent', family: DELETED.deletion, qualifier: DELETION.time },
        ...(ahead ? [ahead.guard] : []),
      ],
      // Not the whole row: what was written ahead is in it.
      delete: [...(earlier ? cellsWithChunks(earlier) : []), ...(ahead ? [ahead.mark] : [])],
      put: [...put, about(DELETION.dn, node.dn), about(DELETION.time, time), about(DELETION.by, Buffer.from(actor.dn))],
    },
    { table: PURGE_TABLE.name, key: purgeKey(time, node.id), put: [MARK] },
  ];
}

/** Names of all cells of a row and of the chunks of its large values. */
function cellsWithChunks(row: Buffer): CellName[] {
  const chunks = largeCells(row).flatMap((at) => {
    const start = valueStart(row, at);
    return chunkNames(row.subarray(qualifierStart(at), start), row.subarray(start, nextCell(row, at)));
  });
  return [...unpackRow(row), ...chunks.map((qualifier) => ({ family: DELETED.largeValues, qualifier }))];
}

/** Deleted entries forgotten in one plan. */
const PURGED_TOGETHER = 128;

/** Forgets the entries deleted before `before` (ms since 1970) for good; resolves with their number. */
export async function purge(context: WriteContext, before: number): Promise<number> {
  const to = Buffer.allocUnsafe(8);
  to.writeBigUInt64BE(BigInt(Math.max(0, Math.ceil(before))));
  const scan = context.store.scan(PURGE_TABLE.name, { to }, { keysOnly: true });
  let purged = 0;
  try {
    for (;;) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch) return purged;
      for (let at = 0; at < batch.keys.length; at += PURGED_TOGETHER)
        purged += await purgeKeys(context, batch.keys.slice(at, at + PURGED_TOGETHER));
    }
  } finally {
    scan.close();
  }
}

/** All in one plan, or one by one when an entry of them was restored meanwhile. */
async function purgeKeys(context: WriteContext, keys: readonly Buffer[]): Promise<number> {
  try {
    await context.store.commit({ steps: keys.flatMap(purgeSteps), decisive: 0 });
    return keys.length;
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'guard')) throw error;
    if (keys.length === 1) return 0;
    let purged = 0;
    for (const key of keys) purged += await purgeKeys(context, [key]);
    return purged;
  }
}

function purgeSteps(key: Buffer): PlanStep[] {
  const time = key.subarray(0, key.length - UUID_BYTES);
  const id = key.subarray(key.length - UUID_BYTES);
  return [
    {
      table: DELETED_TABLE.name,
      key: id,
      guards: [{ op: 'equals', family: DELETED.deletion, qualifier: DELETION.time, value: time }],
      deleteRow: true,
    },
    { table: PURGE_TABLE.name, key, deleteRow: true },
  ];
}
