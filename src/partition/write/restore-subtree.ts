import { LdapError } from '../../ldap/ldap-error.js';
import { isPromise } from '../../store/maybe.js';
import type { Actor, DeletedEntry } from '../model/directory-types.js';
import type { Node } from '../model/node.js';
import { DELETED_TABLE, MASTER_TABLE, parentIdOf, ROOT_ID } from '../model/tables.js';
import type { WriteContext } from './context.js';
import { deletedEntries } from './purge.js';
import { restore } from './restore.js';

/** Entries brought back at once. */
const TOGETHER = 16;
/** A longer way up goes in a circle. */
const MAX_DEPTH = 1000;

export interface SubtreeRestore {
  /** Entries deleted before (ms since 1970) are left alone. */
  readonly since?: number;
  readonly onRestored: (dn: string) => void;
  /** An entry that stays deleted, and why. */
  readonly onLeft: (entry: DeletedEntry, error: LdapError) => void;
}

/**
 * Brings back the entry `id`, unless it is there, and what was deleted below it, parents before their children.
 * Rejects as `restore` does where the entry itself does not come back. Each pass over the deleted entries brings back
 * those whose parents are there by then: nothing is kept from one to the next.
 */
export async function restoreSubtree(
  context: WriteContext,
  id: Buffer,
  actor: Actor,
  options: SubtreeRestore,
): Promise<void> {
  if (!(await rowOf(context, MASTER_TABLE.name, id))) options.onRestored(await restore(context, id, actor));
  for (;;) {
    const { restored, left } = await pass(context, id, actor, { ...options, onLeft: undefined });
    if (left === 0) return;
    if (restored === 0) break;
  }
  await pass(context, id, actor, options);
}

interface Passed {
  restored: number;
  left: number;
}

type PassOptions = Omit<SubtreeRestore, 'onLeft'> & { readonly onLeft: SubtreeRestore['onLeft'] | undefined };

async function pass(context: WriteContext, top: Buffer, actor: Actor, options: PassOptions): Promise<Passed> {
  const passed = { restored: 0, left: 0 };
  const { since = 0, onRestored, onLeft } = options;
  const bringBack = async (entry: DeletedEntry): Promise<void> => {
    if (!(await wasBelow(context, entry, top))) return;
    try {
      onRestored(await restore(context, entry.id, actor));
      passed.restored++;
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      passed.left++;
      onLeft?.(entry, error);
    }
  };
  let some: DeletedEntry[] = [];
  for await (const entry of deletedEntries(context.store)) {
    if (entry.time < since) continue;
    some.push(entry);
    if (some.length < TOGETHER) continue;
    await Promise.all(some.map(bringBack));
    some = [];
  }
  await Promise.all(some.map(bringBack));
  return passed;
}

/** Whether the entry was deleted below `top`; other deleted entries may stand between them. */
async function wasBelow(context: WriteContext, { parentId }: DeletedEntry, top: Buffer): Promise<boolean> {
  let at = parentId;
  for (let depth = 0; depth < MAX_DEPTH && !at.equals(ROOT_ID); depth++) {
    if (at.equals(top)) return true;
    let node = await context.nodes.byId(at);
    const row = node ? undefined : await rowOf(context, DELETED_TABLE.name, at);
    // One that is in neither table may have come back between the two looks.
    if (!row) node ??= await context.nodes.byId(at);
    if (!row) return node !== undefined && isBelow(node, top);
    at = Buffer.from(parentIdOf(row));
  }
  return false;
}

function isBelow(node: Node, top: Buffer): boolean {
  for (let n: Node | undefined = node; n; n = n.parent) if (n.id.equals(top)) return true;
  return false;
}

async function rowOf({ store }: WriteContext, table: string, id: Buffer): Promise<Buffer | undefined> {
  const row = store.getHead(table, id, true);
  return isPromise(row) ? await row : row;
}
