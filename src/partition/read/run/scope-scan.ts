import { LdapError } from '../../../ldap/ldap-error.js';
import { batchesOf } from '../../../store/batches.js';
import type { KeyRange, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import { keyAfter } from '../../../store/tables.js';
import type { Node } from '../../model/node.js';
import { childrenRange, TREE_TABLE, UUID_BYTES } from '../../model/tables.js';
import { isWithin, nodeTreeKey } from '../../tree/nodes.js';
import { HAS_CHILDREN, mayBeTrue, type Translated } from '../filter/store-filter.js';
import { type Area, isWholeTable } from './area.js';
import { examineEntry } from './entry-fetch.js';
import { PATH_HASH_BYTES, pathHash } from './page.js';
import { idOf, scanRange } from './range-scan.js';
import { joinSharedScan } from './scan-queue.js';
import type { SearchRun } from './search-run.js';
import type { ScanShare } from './shared-scan.js';

/**
 * Searches an area without an index. The first range is scanned together with other searches, further ranges on the
 * same snapshot. The LDAP filter, as far as the store can evaluate it, runs where the tree rows are.
 */
export async function scanArea(run: SearchRun, area: Area): Promise<void> {
  const kind = isWholeTable(area) ? 't' : 's';
  run.plan = kind === 't' ? 'table' : 'scope';
  const translated = storeFilterOf(run);
  if (translated === 'none') return;
  const isRecursive = kind === 's' && area.scope !== 'one';
  let share: ScanShare | undefined;
  try {
    if (isRecursive && area.scope === 'sub') {
      const done = examineEntry(run, area.node.id, 's', EMPTY);
      if (isPromise(done)) await done;
    }
    const filter = isRecursive ? orHasChildren(translated) : asFilter(translated);
    const range = kind === 't' ? {} : childrenRange(area.node.id);
    share = await joinSharedScan(run, { range, filter, kind });
    if (isRecursive) await descend(run, share.containers.reverse(), filter);
  } finally {
    run.reader = run.context.store;
    share?.release();
  }
}

/** Goes on behind the key at which the previous page ended (`Resume`). */
export async function resumeArea(run: SearchRun, area: Area, kind: 's' | 't', key: Buffer): Promise<void> {
  const translated = storeFilterOf(run);
  if (translated === 'none') return;
  if (kind === 't') {
    await scanRange(run, { range: { from: keyAfter(key) }, filter: asFilter(translated), kind });
    return;
  }
  const last = key.subarray(PATH_HASH_BYTES);
  if (area.scope === 'one') {
    const { to } = childrenRange(area.node.id);
    await scanRange(run, { range: { from: keyAfter(last), to }, filter: asFilter(translated), kind });
    return;
  }
  const filter = orHasChildren(translated);
  const pending =
    key.length > 0
      ? await resumeChildren(run, area.node, filter, key.subarray(0, PATH_HASH_BYTES), last)
      : [area.node.id];
  await descend(run, pending, filter);
}

/**
 * Returns the filter that the store evaluates. For a viewer from whom entries are hidden, `lookLimit` bounds the number
 * of visible entries, matching or not. The store then passes all entries, as visibility is checked here.
 */
function storeFilterOf({ filter, params }: SearchRun): Translated {
  const isLimited = params.viewer.sightOf !== undefined && params.lookLimit !== Number.POSITIVE_INFINITY;
  return isLimited ? 'all' : mayBeTrue(filter);
}

/** Adds the rows of entries with children, below which the search goes on. */
function orHasChildren(translated: Translated): StoreFilter | undefined {
  const filter = asFilter(translated);
  return filter && { op: 'or', of: [filter, HAS_CHILDREN] };
}

function asFilter(translated: Translated): StoreFilter | undefined {
  return typeof translated === 'string' ? undefined : translated;
}

/** Scans the children of the entries in `pending`, last entry first, and after each the entries below its children. */
async function descend(run: SearchRun, pending: Buffer[], filter: StoreFilter | undefined): Promise<void> {
  while (pending.length > 0 && !run.isPageFull) {
    const { containers } = await scanRange(run, { range: childrenRange(pending.pop()!), filter, kind: 's' });
    pending.push(...containers.reverse());
  }
}

/**
 * Scans the children of a parent that follow the tree key `last`. Returns the ids of the entries whose children remain
 * to be scanned, which follow from the path to the parent. Throws where the path no longer has the hash `hash`: entries
 * would be left out.
 */
async function resumeChildren(
  run: SearchRun,
  base: Node,
  filter: StoreFilter | undefined,
  hash: Buffer,
  last: Buffer,
): Promise<Buffer[]> {
  const found = run.context.nodes.byId(Buffer.from(last.subarray(0, UUID_BYTES)));
  const parent = isPromise(found) ? await found : found;
  if (!parent || !isWithin(parent, base)) {
    throw new LdapError(
      'unwillingToPerform',
      'the entry below which this paged search would go on is gone; start the search again',
    );
  }
  if (!pathHash(parent, base).equals(hash)) {
    throw new LdapError(
      'unwillingToPerform',
      'an entry above the place where this paged search would go on was moved or renamed; start the search again',
    );
  }
  const path: Node[] = [];
  for (let node: Node | undefined = parent; node && !node.id.equals(base.id); node = node.parent) path.unshift(node);
  const pending: Buffer[] = [];
  for (const node of path) {
    const { to } = childrenRange(node.parent!.id);
    const after = await containersIn(run, { from: keyAfter(nodeTreeKey(node)), to });
    pending.push(...after.reverse());
  }
  const { from, to } = childrenRange(parent.id);
  const before = await containersIn(run, { from, to: keyAfter(last) });
  const after = await scanRange(run, { range: { from: keyAfter(last), to }, filter, kind: 's' });
  pending.push(...[...before, ...after.containers].reverse());
  return pending;
}

/** Returns the ids of the entries in the range that have children. */
async function containersIn(run: SearchRun, range: KeyRange): Promise<Buffer[]> {
  const ids: Buffer[] = [];
  const scan = run.reader.scan(TREE_TABLE.name, range, { filter: HAS_CHILDREN });
  for await (const batch of batchesOf(scan)) {
    for (const row of batch.rows) ids.push(Buffer.from(idOf(row!)));
    const pause = run.checkAndYield();
    if (isPromise(pause)) await pause;
  }
  return ids;
}
