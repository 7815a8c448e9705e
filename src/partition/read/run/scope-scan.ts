import { FairTree } from '../../../fair/fair-tree.js';
import { waitForFirstSlice } from '../../../fair/time-slice.js';
import { LdapError } from '../../../ldap/ldap-error.js';
import type { KeyRange, Store, StoreFilter } from '../../../store/contract.js';
import { batchesOf, isPromise } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import { keyAfter } from '../../../store/tables.js';
import { childrenRange, type Node, TREE_TABLE, UUID_BYTES } from '../../model/tables.js';
import { isWithin, nodeTreeKey } from '../../tree/nodes.js';
import { HAS_CHILDREN, mayBeTrue, type RowSelection } from '../filter/store-filter.js';
import { type Area, isWholeTable } from './area.js';
import { examineEntry } from './index-search.js';
import { PATH_HASH_BYTES, pathHash } from './page.js';
import { entryIdOf, type ScanTarget, scanRange } from './range-scan.js';
import type { SearchRun } from './search-run.js';
import { type Participant, requireLimits, type ScanShare, SharedScan } from './shared-scan.js';

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

/** The most searches in a scan. Every row is tested for each search. */
const MAX_PARTICIPANTS = 128;
/** The most searches of one identity in a scan. */
const MAX_PER_IDENTITY = MAX_PARTICIPANTS / 2;

/**
 * Between two scans the queue waits for this fraction of the duration of the last scan, but at most `MAX_WAIT_MS`:
 * clients that have just received an answer may search again, and would otherwise miss the next scan.
 */
const WAIT_SHARE = 1 / 16;
const MAX_WAIT_MS = 10;

/** The queues of each store, by kind and start of the range. A queue exists while searches use it. */
const queuesByStore = new WeakMap<Store, Map<string, ScanQueue>>();

/**
 * Scans a range for all searches that have to scan it at this time, since reading a row costs more than evaluating a
 * filter on it. A search that arrives during a scan waits for the next one: it must not return a state older than
 * itself.
 */
async function joinSharedScan(search: SearchRun, target: ScanTarget): Promise<ScanShare> {
  const clientReady = search.params.client?.waitForDrain();
  if (isPromise(clientReady)) await clientReady;
  const { store } = search.context;
  let queues = queuesByStore.get(store);
  if (!queues) {
    queues = new Map();
    queuesByStore.set(store, queues);
  }
  const key = `${target.kind}${target.range.from?.toString('latin1') ?? ''}`;
  let queue = queues.get(key);
  if (!queue) {
    queue = new ScanQueue(store, target, () => queues.delete(key));
    queues.set(key, queue);
  }
  return queue.join(search, target.filter);
}

/** Runs the shared scans of one range, one after another, until no search waits. */
class ScanQueue {
  readonly #store: Store;
  readonly #target: Omit<ScanTarget, 'filter'>;
  readonly #onEmpty: () => void;
  /** Searches that wait for the next scan, by identity and client. */
  readonly #queue = new FairTree<Participant>();
  #isRunning = false;
  /** Set while `#waitForSearches` waits for this number of searches. */
  #expectedSearches: { readonly count: number; readonly proceed: () => void } | undefined;

  constructor(store: Store, { range, kind }: ScanTarget, onEmpty: () => void) {
    this.#store = store;
    this.#target = { range, kind };
    this.#onEmpty = onEmpty;
  }

  join(search: SearchRun, filter: StoreFilter | undefined): Promise<ScanShare> {
    return new Promise((resolve, reject) => {
      const participant = { run: search, filter, containers: [], resolve, reject, hasLeft: false };
      const client = search.params.client ?? search;
      this.#queue.push([search.params.client?.identity?.() ?? client, client], participant);
      if (this.#expectedSearches && this.#queue.size >= this.#expectedSearches.count) this.#expectedSearches.proceed();
      if (!this.#isRunning) void this.#runScans();
    });
  }

  async #runScans(): Promise<void> {
    this.#isRunning = true;
    while (this.#queue.size > 0) {
      const pause = waitForFirstSlice();
      if (isPromise(pause)) await pause;
      const participants = this.#takeParticipants();
      if (participants.length === 0) continue;
      const startMs = performance.now();
      try {
        await new SharedScan(this.#store, this.#target, participants).run();
      } catch (error) {
        // The scan could not begin.
        for (const { reject } of participants) reject(error);
      }
      const searchCount = this.#queue.size + participants.length;
      const waitMs = Math.min((performance.now() - startMs) * WAIT_SHARE, MAX_WAIT_MS);
      if (searchCount > 1 && waitMs >= 1) await this.#waitForSearches(searchCount, waitMs);
    }
    this.#isRunning = false;
    this.#onEmpty();
  }

  /** Takes searches from the queue, by identity and client in turn, up to the limits. Rejects those over their own. */
  #takeParticipants(): Participant[] {
    const participants: Participant[] = [];
    for (let round = 0; round < MAX_PER_IDENTITY; round++)
      for (let n = this.#queue.keyCount; n > 0 && participants.length < MAX_PARTICIPANTS; n--)
        participants.push(this.#queue.shift()!);
    return participants.filter(requireLimits);
  }

  /** Waits until `count` searches are in the queue, at most for some milliseconds. */
  async #waitForSearches(count: number, milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      const proceed = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#expectedSearches = { count, proceed };
    });
    this.#expectedSearches = undefined;
  }
}
