import { LdapError } from '../../ldap/ldap-error.js';
import { isPromise } from '../../store/maybe.js';
import type { Actor, DeletedEntry } from '../model/directory-types.js';
import type { Node } from '../model/node.js';
import { DELETED_TABLE, MASTER_TABLE, parentIdOf, ROOT_ID } from '../model/tables.js';
import type { WriteContext } from './context.js';
import { deletedEntries } from './purge.js';
import { restore } from './restore.js';

const CONCURRENCY = 16;
/** The most ancestors of an entry. A longer chain of parents is a cycle. */
const MAX_DEPTH = 1000;

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
