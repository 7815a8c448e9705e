import { LdapError } from '../../../ldap/ldap-error.js';
import { batchesOf } from '../../../store/batches.js';
import type { Batch, KeyRange, ScanOptions, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { cellCounter, cellValue } from '../../../store/row.js';
import { keyAfter } from '../../../store/tables.js';
import type { Node } from '../../model/node.js';
import { childrenRange, MASTER_TABLE, Q, TREE, TREE_TABLE, UUID_BYTES } from '../../model/tables.js';
import { isWithin, nodeTreeKey } from '../../tree/nodes.js';
import { HAS_CHILDREN, mayBeTrue, type Translated } from '../filter/store-filter.js';
import type { Area } from './area.js';
import { type PlanKind, WAY_BYTES, wayTo } from './page.js';
import { AFTER_WAIT, LOOK_ENTRIES, type SearchRun } from './search-run.js';

/** Looks at the tree rows of a range and gives the ids of those that have children. */
export type RangeScan = (range: KeyRange, filter: StoreFilter | undefined, kind: PlanKind) => Promise<Buffer[]>;

/**
 * Searches an area without an index: the LDAP filter, as far as the store can tell, runs where the tree rows are.
 * `first` scans the first range.
 */
export async function scanArea(run: SearchRun, area: Area, kind: 's' | 't', first: RangeScan): Promise<void> {
  const translated = translatedOf(run);
  if (translated === 'none') return;
  if (kind === 't') {
    await first({}, asFilter(translated), 't');
    return;
  }
  if (area.scope === 'one') {
    await first(childrenRange(area.node.id), asFilter(translated), 's');
    return;
  }
  if (area.scope === 'sub') {
    const done = run.fetch(area.node.id, 's', NO_KEY);
    if (isPromise(done)) await done;
  }
  const wide = orContainer(translated);
  const pending = (await first(childrenRange(area.node.id), wide, 's')).reverse();
  await descend(run, pending, wide);
}

/** Goes on behind the key of the page that ended (`Resume`). */
export async function resumeArea(run: SearchRun, area: Area, kind: 's' | 't', key: Buffer): Promise<void> {
  const translated = translatedOf(run);
  if (translated === 'none') return;
  if (kind === 't') {
    await scanRange(run, { from: keyAfter(key) }, asFilter(translated), 't');
    return;
  }
  const last = key.subarray(WAY_BYTES);
  if (area.scope === 'one') {
    const { to } = childrenRange(area.node.id);
    await scanRange(run, { from: keyAfter(last), to }, asFilter(translated), 's');
    return;
  }
  const wide = orContainer(translated);
  const pending =
    key.length > 0 ? await resumed(run, area.node, wide, key.subarray(0, WAY_BYTES), last) : [area.node.id];
  await descend(run, pending, wide);
}

/**
 * What runs where the rows are. Who does not see all entries is held to `lookLimit` by those that it sees, whether they
 * match or not: each is looked at here.
 */
function translatedOf({ filter, params }: SearchRun): Translated {
  const counts = params.viewer.sightOf !== undefined && params.lookLimit !== Number.POSITIVE_INFINITY;
  return counts ? 'all' : mayBeTrue(filter);
}

/** Rows that have children are looked at too, to go down into them. */
function orContainer(translated: Translated): StoreFilter | undefined {
  const filter = asFilter(translated);
  return filter && { op: 'or', of: [filter, HAS_CHILDREN] };
}

function asFilter(translated: Translated): StoreFilter | undefined {
  return typeof translated === 'string' ? undefined : translated;
}

/**
 * A parent's children first, then below each of them that has children, in key order; `pending` is taken from its end.
 */
async function descend(run: SearchRun, pending: Buffer[], wide: StoreFilter | undefined): Promise<void> {
  while (pending.length > 0 && !run.ended) {
    const { containers } = await scanRange(run, childrenRange(pending.pop()!), wide, 's');
    pending.push(...containers.reverse());
  }
}

/** Stands for the base entry, which comes before everything below it. */
const NO_KEY = Buffer.alloc(0);

/**
 * Goes on behind the tree key `last`: finishes its parent's children and gives what is then still to be descended into.
 * That follows from the path to the parent. Where it is no longer the one marked by `way`, entries would be left out.
 */
async function resumed(
  run: SearchRun,
  base: Node,
  wide: StoreFilter | undefined,
  way: Buffer,
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
  if (!wayTo(parent, base).equals(way)) {
    throw new LdapError(
      'unwillingToPerform',
      'an entry above the place where this paged search would go on was moved or renamed; start the search again',
    );
  }
  const chain: Node[] = [];
  for (let node: Node | undefined = parent; node && !node.id.equals(base.id); node = node.parent) chain.unshift(node);
  const pending: Buffer[] = [];
  for (const node of chain) {
    const { to } = childrenRange(node.parent!.id);
    const after = await containersIn(run, { from: keyAfter(nodeTreeKey(node)), to });
    pending.push(...after.reverse());
  }
  const { from, to } = childrenRange(parent.id);
  const before = await containersIn(run, { from, to: keyAfter(last) });
  const after = await scanRange(run, { from: keyAfter(last), to }, wide, 's');
  pending.push(...[...before, ...after.containers].reverse());
  return pending;
}

/** Ids of the entries in the range that have others below them. */
async function containersIn(run: SearchRun, range: KeyRange): Promise<Buffer[]> {
  const ids: Buffer[] = [];
  const scan = run.reader.scan(TREE_TABLE.name, range, { filter: HAS_CHILDREN });
  for await (const batch of batchesOf(scan)) {
    for (const row of batch.rows) ids.push(Buffer.from(idOf(row!)));
    const pause = run.breathe();
    if (isPromise(pause)) await pause;
  }
  return ids;
}

/** The id of the entry of a tree row. */
export function idOf(treeRow: Buffer): Buffer {
  return cellValue(treeRow, TREE.treeInfo, Q.id)!;
}

/** Some tree rows. */
export type Rows = Pick<Batch, 'keys' | 'rows'>;

/** What a scan of a range has found. */
interface Scanned {
  /** Ids of entries that have children. */
  readonly containers: Buffer[];
  /** Rows looked at; undefined when it had to wait for its client, as some were looked at twice then. */
  readonly met: number | undefined;
}

/** Where a scan goes on that ended before its range. */
export interface Rest {
  /** From this key on … */
  readonly from: Buffer;
  /** … of which so many rows were at hand … */
  readonly left: number;
  /** … when this has resolved. */
  readonly room: Promise<void> | undefined;
}

/**
 * Looks at the tree rows of a range and considers their entries. While the client does not take what was found, the
 * rows behind are given up, and read again when it has: however many searches wait, each holds no more than a key.
 * `limit`: rows that are read at first.
 */
export async function scanRange(
  run: SearchRun,
  { from, to }: KeyRange,
  filter: StoreFilter | undefined,
  kind: PlanKind,
  limit?: number,
): Promise<Scanned> {
  const containers: Buffer[] = [];
  let met: number | undefined = 0;
  let options: ScanOptions = { filter, ...(limit !== undefined && { limit }) };
  for (let start = from; ; ) {
    const part = await scanPart(run, { from: start, to }, options, kind, containers);
    met = met === undefined || part.met === undefined ? undefined : met + part.met;
    const { rest } = part;
    if (!rest) return { containers, met };
    if (rest.room) {
      await rest.room;
      options = { filter, limit: AFTER_WAIT };
    } else options = { filter, limit: 2 * options.limit! };
    start = rest.from;
  }
}

async function scanPart(
  run: SearchRun,
  range: KeyRange,
  options: ScanOptions,
  kind: PlanKind,
  containers: Buffer[],
): Promise<{ met: number | undefined; rest: Rest | undefined }> {
  let met = 0;
  let given = 0;
  let last: Buffer | undefined;
  const scan = run.reader.scan(TREE_TABLE.name, range, options);
  try {
    while (!run.ended) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch) break;
      run.looked += batch.scanned;
      met += batch.scanned;
      const rest = await lookAt(run, batch, kind, containers);
      if (rest) {
        // A scan may be at its end because of its limit.
        const isLast = given + batch.keys.length === options.limit;
        const until = batch.until && isLast ? keyAfter(batch.keys.at(-1)!) : batch.until;
        const again = await looksAgain(run, rest, until, range.to, options.filter !== undefined);
        return { met: again === undefined ? undefined : met - again, rest };
      }
      given += batch.keys.length;
      last = batch.keys.at(-1) ?? last;
      const pause = run.breathe();
      if (isPromise(pause)) await pause;
    }
  } finally {
    scan.close();
  }
  const more = last && !run.ended && given === options.limit;
  return { met, rest: more ? { from: keyAfter(last!), left: 0, room: undefined } : undefined };
}

/**
 * The rows behind are given up: they do not count as looked at. Gives their number, undefined where nobody knows how
 * many the filter has passed over.
 */
export async function looksAgain(
  run: SearchRun,
  { from, left }: Rest,
  until: Batch['until'],
  to: Buffer | undefined,
  isFiltered: boolean,
): Promise<number | undefined> {
  let again: number | undefined = left;
  if (isFiltered && until && !run.context.store.supports.spread) {
    const end = until === 'end' ? to : until;
    again = await run.reader.count(TREE_TABLE.name, { from, to: end }, Number.MAX_SAFE_INTEGER);
  } else if (isFiltered) again = undefined;
  run.looked -= again ?? left;
  return again;
}

/**
 * Considers the entries of tree rows; those that have children join `containers`. Ends where the client takes no more,
 * and tells how to go on.
 */
export async function lookAt(
  run: SearchRun,
  { keys, rows }: Rows,
  kind: PlanKind,
  containers: Buffer[],
): Promise<Rest | undefined> {
  const ids = rows.map((row) => idOf(row!));
  const together = run.context.store.supports.spread ? await run.reader.getMany(MASTER_TABLE.name, ids) : undefined;
  for (let i = 0; i < ids.length && !run.ended; i++) {
    const id = ids[i]!;
    if (kind === 's' && cellCounter(rows[i], TREE.treeInfo, Q.oneLevelCount) > 0n) containers.push(Buffer.from(id));
    const read = together ? together[i] : run.reader.getHead(MASTER_TABLE.name, id);
    const entry = isPromise(read) ? await read : read;
    if (!entry) {
      run.lacks(id);
      continue;
    }
    const done = run.considerHead(id, entry, kind, keys[i]!);
    if (isPromise(done) && run.isHeldUp) return { from: keyAfter(keys[i]!), left: ids.length - 1 - i, room: done };
    const pause = isPromise(done) ? done : i % LOOK_ENTRIES === 0 ? run.lookUp() : undefined;
    if (isPromise(pause)) await pause;
  }
  return undefined;
}
