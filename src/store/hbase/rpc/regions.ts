import { EMPTY } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { CellCursor } from './cells.js';
import { Failure } from './failure.js';
import type { Masters } from './masters.js';
import { MessageReader, MessageWriter } from './protobuf.js';
import { type Attempts, failureOrThrow, withDeadline } from './retry.js';
import { readScanResponse } from './scan-response.js';
import type { Servers } from './server.js';

/** A region as read from hbase:meta. Compared by identity: looking up a region again returns another object. */
export interface Region {
  readonly table: string;
  readonly start: Buffer;
  /** First key after the region; empty for the last region. */
  readonly end: Buffer;
  /** `host:port`. */
  readonly server: string;
  /** The encoded RegionSpecifier. */
  readonly specifier: Buffer;
}

const META_TABLE = 'hbase:meta';
const INFO_FAMILY = Buffer.from('info');
/** Greater than every region id, which consists of decimal digits. */
const AFTER_IDS = ':';
/** Number of rows of hbase:meta per request that reads a table. */
const META_ROWS = 500;
/** Number of rows per request that reads backwards from a key. Parents of split regions may precede the region. */
const META_ROWS_BACKWARDS = 4;
/** When a lost server had more regions of a table than this, the whole table is read again, which is faster. */
const MAX_SINGLE_LOOKUPS = 4;

/** Cache of region locations, by table and key. Entries are read from hbase:meta and kept until a request fails. */
export class Regions {
  readonly #servers: Servers;
  readonly #masters: Masters;
  /** Regions by table, sorted by start key, without overlap, possibly with gaps. */
  readonly #regionsByTable = new Map<string, Region[]>();
  /** Running look-ups by table. Callers of a moved region share the look-up of its table. */
  readonly #runningLookups = new Map<string, Promise<void>>();
  #metaRegion: Promise<Region> | undefined;

  constructor(servers: Servers, masters: Masters) {
    this.#servers = servers;
    this.#masters = masters;
  }

  cachedRegion(table: string, key: Buffer): Region | undefined {
    const regions = this.#regionsByTable.get(table);
    if (!regions) return undefined;
    const region = regions[findByStart(regions, key)];
    return region && (region.end.length === 0 || Buffer.compare(key, region.end) < 0) ? region : undefined;
  }

  /** Returns the region of the key. Rejects with `StoreError` `noTable`, or `Failure` when it is not known now. */
  async locate(table: string, key: Buffer, attempts: Attempts): Promise<Region> {
    if (table === META_TABLE) return this.#locateMeta(attempts);
    for (;;) {
      const cachedRegion = this.cachedRegion(table, key);
      if (cachedRegion) return cachedRegion;
      await withDeadline(this.#lookup(table, key, attempts), attempts.expiresAt);
    }
  }

  /** Returns the region of the greatest keys below `key`, or the last region of the table if `key` is undefined. */
  async locateBefore(table: string, key: Buffer | undefined, attempts: Attempts): Promise<Region> {
    if (table === META_TABLE) return this.#locateMeta(attempts);
    const cachedRegion = this.#cachedBefore(table, key);
    if (cachedRegion) return cachedRegion;
    // hbase:meta cannot be searched by end key, so the table is read again.
    await this.#reloadTable(table, attempts);
    const region = this.#cachedBefore(table, key);
    if (region) return region;
    throw new Failure(`table ${table} has no region before the key now`, { isNotApplied: true });
  }

  async readAll(table: string, attempts: Attempts): Promise<readonly Region[]> {
    await this.#reloadTable(table, attempts);
    return this.#regionsByTable.get(table) ?? [];
  }

  /** Removes the region from the cache, unless it has been looked up again since. */
  drop(region: Region): void {
    if (region.table === META_TABLE) this.#metaRegion = undefined;
    const regions = this.#regionsByTable.get(region.table);
    const index = regions?.indexOf(region) ?? -1;
    if (index >= 0) regions!.splice(index, 1);
  }

  dropServer(server: string): void {
    for (const [table, list] of this.#regionsByTable) {
      const remainingRegions = list.filter((region) => region.server !== server);
      if (list.length - remainingRegions.length > MAX_SINGLE_LOOKUPS) this.#regionsByTable.delete(table);
      else this.#regionsByTable.set(table, remainingRegions);
    }
  }

  #cachedBefore(table: string, key: Buffer | undefined): Region | undefined {
    const regions = this.#regionsByTable.get(table);
    if (!regions) return undefined;
    if (key === undefined) {
      const lastRegion = regions[regions.length - 1];
      return lastRegion && lastRegion.end.length === 0 ? lastRegion : undefined;
    }
    let index = findByStart(regions, key);
    if (index >= 0 && regions[index]!.start.equals(key)) index--;
    const region = regions[index];
    return region && (region.end.length === 0 || Buffer.compare(key, region.end) <= 0) ? region : undefined;
  }

  #reloadTable(table: string, attempts: Attempts): Promise<void> {
    const reload = this.#serialize(table, () => this.#readTable(table, attempts));
    return withDeadline(reload, attempts.expiresAt);
  }

  async #lookup(table: string, key: Buffer, attempts: Attempts): Promise<void> {
    const runningLookup = this.#runningLookups.get(table);
    if (runningLookup) {
      return runningLookup.catch((error) => {
        // When the other look-up found its region not open, another region may be open all the same.
        if (!(error instanceof RegionNotOpen) || error.contains(key)) throw error;
      });
    }
    const isFirstLookup = !this.#regionsByTable.has(table);
    return this.#serialize(table, () =>
      isFirstLookup ? this.#readTable(table, attempts) : this.#readRegion(table, key, attempts),
    );
  }

  #serialize(table: string, run: () => Promise<void>): Promise<void> {
    const previousLookup = this.#runningLookups.get(table) ?? Promise.resolve();
    // The callers of the previous lookup get its error.
    const nextLookup = previousLookup
      .catch(() => undefined)
      .then(run)
      .finally(() => {
        if (this.#runningLookups.get(table) === nextLookup) this.#runningLookups.delete(table);
      });
    this.#runningLookups.set(table, nextLookup);
    return nextLookup;
  }

  /** Reads hbase:meta backwards from the key to the first region that is no split parent. */
  async #readRegion(table: string, key: Buffer, attempts: Attempts): Promise<void> {
    const stop = Buffer.from(`${table},,`);
    let exists = false;
    let from: Buffer | undefined = Buffer.concat([Buffer.from(`${table},`), key, Buffer.from(`,${AFTER_IDS}`)]);
    while (from) {
      const rows: MetaRows = await this.#scanMeta(table, { from, stop, reversed: true }, META_ROWS_BACKWARDS, attempts);
      exists ||= rows.rowCount > 0;
      const nearestRegion = rows.regions[0];
      if (nearestRegion && endsAfter(nearestRegion, key)) {
        if (!isOpen(nearestRegion)) throw new RegionNotOpen(table, nearestRegion);
        this.#insert(nearestRegion);
        return;
      }
      from = nearestRegion ? undefined : rows.lastKey;
    }
    if (exists) throw new RegionNotOpen(table);
    this.#regionsByTable.delete(table);
    throw new StoreError('noTable', `no table ${table}`);
  }

  async #readTable(table: string, attempts: Attempts): Promise<void> {
    const openRegions: Region[] = [];
    let rowCount = 0;
    const stop = Buffer.from(`${table} ,,`);
    let from: Buffer | undefined = Buffer.from(`${table},,`);
    while (from) {
      const rows: MetaRows = await this.#scanMeta(table, { from, stop, reversed: false }, META_ROWS, attempts);
      openRegions.push(...rows.regions.filter(isOpen));
      rowCount += rows.rowCount;
      from = rows.lastKey;
    }
    if (rowCount === 0) {
      this.#regionsByTable.delete(table);
      throw new StoreError('noTable', `no table ${table}`);
    }
    // Rows of hbase:meta are in key order. Regions overlap only during a split or merge.
    const regions: Region[] = [];
    for (const region of openRegions) {
      while (regions.length > 0 && overlaps(regions[regions.length - 1]!, region)) regions.pop();
      regions.push(region);
    }
    this.#regionsByTable.set(table, regions);
    if (openRegions.length === 0)
      throw new Failure(`table ${table} has no open region`, { isNotApplied: true, isRegionMoved: true });
  }

  #insert(region: Region): void {
    const regions = this.#regionsByTable.get(region.table) ?? [];
    const newRegions = regions.filter((oldRegion) => !overlaps(oldRegion, region));
    newRegions.splice(findByStart(newRegions, region.start) + 1, 0, region);
    this.#regionsByTable.set(region.table, newRegions);
  }

  /** Reads up to `limit` rows of hbase:meta from `from` to `stop`, and returns their regions. */
  async #scanMeta(
    table: string,
    { from, stop, reversed }: { from: Buffer; stop: Buffer; reversed: boolean },
    limit: number,
    attempts: Attempts,
  ): Promise<MetaRows> {
    const scan = new MessageWriter()
      .message(1, new MessageWriter().bytes(1, INFO_FAMILY))
      .bytes(3, from)
      .bytes(4, stop)
      .uint(7, 1)
      .bool(15, reversed)
      .bool(21, false)
      .bool(22, reversed);
    const metaRegion = await this.#locateMeta(attempts);
    // The reader supports neither partial rows nor heartbeats. The request leaves out both flags, so none are sent.
    const request = new MessageWriter()
      .bytes(1, metaRegion.specifier)
      .message(2, scan)
      .uint(4, limit)
      .uint(11, limit)
      .finish();
    try {
      const answer = await this.#servers.get(metaRegion.server).call('Scan', request, [], attempts.expiresAt);
      return readMetaRows(table, answer.message, new CellCursor(answer.cells), limit);
    } catch (error) {
      const failure = failureOrThrow(error);
      if (failure.traits.isRegionMoved || !failure.exceptionName) this.#metaRegion = undefined;
      throw Failure.ofLookup(META_TABLE, failure);
    }
  }

  #locateMeta(attempts: Attempts): Promise<Region> {
    const metaLookup = this.#metaRegion ?? this.#findMeta(attempts);
    this.#metaRegion = metaLookup;
    // The callers get the error, and the next caller looks again.
    metaLookup.catch(() => {
      if (this.#metaRegion === metaLookup) this.#metaRegion = undefined;
    });
    return metaLookup;
  }

  async #findMeta(attempts: Attempts): Promise<Region> {
    const server = await this.#masters.metaServer(attempts);
    const specifier = new MessageWriter().uint(1, 1).bytes(2, Buffer.from('hbase:meta,,1')).finish();
    return { table: META_TABLE, start: EMPTY, end: EMPTY, server, specifier };
  }
}

/** A region that hbase:meta assigns to no server. */
type UnassignedRegion = Omit<Region, 'server'>;

function isOpen(region: Region | UnassignedRegion): region is Region {
  return 'server' in region;
}

function endsAfter({ end }: UnassignedRegion, key: Buffer): boolean {
  return end.length === 0 || Buffer.compare(key, end) < 0;
}

/** The failure for a region that is not open. `region` is undefined when hbase:meta has no region for the key. */
class RegionNotOpen extends Failure {
  readonly #region: UnassignedRegion | undefined;

  constructor(table: string, region?: UnassignedRegion) {
    super(`table ${table} has a region that is not open`, { isNotApplied: true, isRegionMoved: true });
    this.#region = region;
  }

  contains(key: Buffer): boolean {
    const region = this.#region;
    return region !== undefined && Buffer.compare(region.start, key) <= 0 && endsAfter(region, key);
  }
}

function overlaps(a: Region, b: Region): boolean {
  const isABelow = a.end.length > 0 && Buffer.compare(a.end, b.start) <= 0;
  const isBBelow = b.end.length > 0 && Buffer.compare(b.end, a.start) <= 0;
  return !isABelow && !isBBelow;
}

/** Returns the index of the last region with a start at or below the key, or -1. */
function findByStart(regions: readonly Region[], key: Buffer): number {
  let low = 0;
  let high = regions.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (Buffer.compare(regions[middle]!.start, key) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

interface MetaRows {
  readonly rowCount: number;
  /** Regions without the parents of split ones. */
  readonly regions: readonly (Region | UnassignedRegion)[];
  /** Key of the last row, if more rows may follow. */
  readonly lastKey: Buffer | undefined;
}

function readMetaRows(table: string, message: MessageReader, cells: CellCursor, limit: number): MetaRows {
  const { cellCounts, hasMoreInRegion } = readScanResponse(message);
  const regions: (Region | UnassignedRegion)[] = [];
  let lastKey: Buffer | undefined;
  for (const count of cellCounts) {
    let regionInfo: Buffer | undefined;
    let server = '';
    for (let i = 0; i < count; i++) {
      cells.parse();
      if (i === 0) lastKey = cells.row();
      const qualifierText = cells.qualifier().toString('latin1');
      if (qualifierText === 'regioninfo') regionInfo = cells.value();
      else if (qualifierText === 'server') server = cells.value().toString();
      cells.advance();
    }
    const region = regionInfo && lastKey && readRegion(table, lastKey, regionInfo, server);
    if (region) regions.push(region);
  }
  const rowCount = cellCounts.length;
  return { rowCount, regions, lastKey: hasMoreInRegion && rowCount >= limit ? lastKey : undefined };
}

/** Returns undefined for a split parent, which waits for removal by the master, and for a replica. */
function readRegion(table: string, key: Buffer, value: Buffer, server: string): Region | UnassignedRegion | undefined {
  if (value.toString('latin1', 0, 4) !== 'PBUF') throw new StoreError('corrupt', `hbase:meta row of table ${table}`);
  const reader = new MessageReader(value, 4);
  let start = EMPTY;
  let end = EMPTY;
  let replica = 0;
  let isParentOrOffline = false;
  while (reader.next()) {
    if (reader.field === 3) start = Buffer.from(reader.bytes());
    else if (reader.field === 4) end = Buffer.from(reader.bytes());
    else if (reader.field === 5 || reader.field === 6) isParentOrOffline = reader.bool() || isParentOrOffline;
    else if (reader.field === 7) replica = reader.uint();
    else reader.skip();
  }
  if (isParentOrOffline || replica !== 0) return undefined;
  const specifier = new MessageWriter().uint(1, 1).bytes(2, key).finish();
  return server ? { table, start, end, server, specifier } : { table, start, end, specifier };
}
