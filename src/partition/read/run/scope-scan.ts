import { LdapError } from '../../../ldap/ldap-error.js';
import { batchesOf } from '../../../store/batches.js';
import type { KeyRange, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import { keyAfter } from '../../../store/tables.js';
import type { Node } from '../../model/node.js';
import { childrenRange, TREE_TABLE, UUID_BYTES } from '../../model/tables.js';
import { isWithin, nodeTreeKey } from '../../tree/nodes.js';
import { HAS_CHILDREN, mayBeTrue, type RowSelection } from '../filter/store-filter.js';
import { type Area, isWholeTable } from './area.js';
import { examineEntry } from './entry-fetch.js';
import { PATH_HASH_BYTES, pathHash } from './page.js';
import { entryIdOf, scanRange } from './range-scan.js';
import { joinSharedScan } from './scan-queue.js';
import type { SearchRun } from './search-run.js';
import type { ScanShare } from './shared-scan.js';

/**
 * Searches an area without an index. The first range is scanned together with other searches, further ranges on the
 * same snapshot. The store evaluates as much of the filter as it can, next to the tree rows.
 */
export async function scanArea(search: SearchRun, area: Area): Promise<void> {
  const kind = isWholeTable(area) ? 't' : 's';
  search.plan = kind === 't' ? 'table' : 'scope';
  const rowSelection = rowSelectionOf(search);
  if (rowSelection === 'none') return;
  const isRecursive = kind === 's' && area.scope !== 'one';
  let share: ScanShare | undefined;
  try {
    if (isRecursive && area.scope === 'sub') {
      const completion = examineEntry(search, area.node.id, 's', EMPTY);
      if (isPromise(completion)) await completion;
    }
    const filter = isRecursive ? orHasChildren(rowSelection) : asFilter(rowSelection);
    const range = kind === 't' ? {} : childrenRange(area.node.id);
    share = await joinSharedScan(search, { range, filter, kind });
    if (isRecursive) await descend(search, share.containers.reverse(), filter);
  } finally {
    search.reader = search.context.store;
    share?.release();
  }
}

/** Resumes a scan after the key at which the previous page ended (`Resume`). */
export async function resumeArea(search: SearchRun, area: Area, kind: 's' | 't', key: Buffer): Promise<void> {
  const rowSelection = rowSelectionOf(search);
  if (rowSelection === 'none') return;
  if (kind === 't') {
    await scanRange(search, { range: { from: keyAfter(key) }, filter: asFilter(rowSelection), kind });
    return;
  }
  const lastTreeKey = key.subarray(PATH_HASH_BYTES);
  if (area.scope === 'one') {
    const { to } = childrenRange(area.node.id);
    await scanRange(search, { range: { from: keyAfter(lastTreeKey), to }, filter: asFilter(rowSelection), kind });
    return;
  }
  const filter = orHasChildren(rowSelection);
  const parentIds =
    key.length > 0
      ? await resumeChildren(search, area.node, filter, key.subarray(0, PATH_HASH_BYTES), lastTreeKey)
      : [area.node.id];
  await descend(search, parentIds, filter);
}

/**
 * Returns the filter for the store. If entries may be hidden from the viewer, `lookLimit` limits the number of visible
 * entries, matching or not. The store then passes all entries, because visibility is checked here.
 */
function rowSelectionOf({ filter, params }: SearchRun): RowSelection {
  const hasLookLimit = params.viewer.sightOf !== undefined && params.lookLimit !== Number.POSITIVE_INFINITY;
  return hasLookLimit ? 'all' : mayBeTrue(filter);
}

/** Extends the filter to rows of entries with children, below which the search continues. */
function orHasChildren(rowSelection: RowSelection): StoreFilter | undefined {
  const filter = asFilter(rowSelection);
  return filter && { op: 'or', of: [filter, HAS_CHILDREN] };
}

function asFilter(rowSelection: RowSelection): StoreFilter | undefined {
  return typeof rowSelection === 'string' ? undefined : rowSelection;
}

/** Scans the children of the entries in `parentIds`, last parent first; after each parent the entries below. */
async function descend(search: SearchRun, parentIds: Buffer[], filter: StoreFilter | undefined): Promise<void> {
  while (parentIds.length > 0 && !search.isPageFull) {
    const { containers } = await scanRange(search, { range: childrenRange(parentIds.pop()!), filter, kind: 's' });
    parentIds.push(...containers.reverse());
  }
}

/**
 * Scans the children of a parent after the tree key `lastTreeKey`. Returns the ids of entries whose children remain to
 * be scanned; the path to the parent determines these. Throws if `hash` is not the hash of the path, because entries
 * would be missed.
 */
async function resumeChildren(
  search: SearchRun,
  base: Node,
  filter: StoreFilter | undefined,
  hash: Buffer,
  lastTreeKey: Buffer,
): Promise<Buffer[]> {
  const maybeNode = search.context.nodes.byId(Buffer.from(lastTreeKey.subarray(0, UUID_BYTES)));
  const parent = isPromise(maybeNode) ? await maybeNode : maybeNode;
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
  const parentIds: Buffer[] = [];
  for (const node of path) {
    const { to } = childrenRange(node.parent!.id);
    const laterIds = await containersIn(search, { from: keyAfter(nodeTreeKey(node)), to });
    parentIds.push(...laterIds.reverse());
  }
  const { from, to } = childrenRange(parent.id);
  const earlierIds = await containersIn(search, { from, to: keyAfter(lastTreeKey) });
  const laterScan = await scanRange(search, { range: { from: keyAfter(lastTreeKey), to }, filter, kind: 's' });
  parentIds.push(...[...earlierIds, ...laterScan.containers].reverse());
  return parentIds;
}

/** Returns the ids of the entries in the range that have children. */
async function containersIn(search: SearchRun, range: KeyRange): Promise<Buffer[]> {
  const ids: Buffer[] = [];
  const scan = search.reader.scan(TREE_TABLE.name, range, { filter: HAS_CHILDREN });
  for await (const batch of batchesOf(scan)) {
    for (const row of batch.rows) ids.push(Buffer.from(entryIdOf(row!)));
    const pause = search.checkAndYield();
    if (isPromise(pause)) await pause;
  }
  return ids;
}
