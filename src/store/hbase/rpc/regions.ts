import { StoreError } from '../../store-error.js';
import { CellCursor } from './cells.js';
import { withinTime } from './deadlines.js';
import { Failure } from './failure.js';
import type { Masters } from './masters.js';
import { Reader, Writer } from './protobuf.js';
import { type Attempts, asFailure } from './retry.js';
import type { Servers } from './server.js';

/** A region as hbase:meta had it. Objects are compared by identity: a region looked up again is another object. */
export interface Region {
  readonly table: string;
  /** First key. */
  readonly start: Buffer;
  /** First key after it; empty: open. */
  readonly end: Buffer;
  /** `host:port`. */
  readonly server: string;
  /** The message RegionSpecifier. */
  readonly specifier: Buffer;
}

const EMPTY = Buffer.alloc(0);
const META_NAME = 'hbase:meta';
const INFO = Buffer.from('info');
/** After every region id, which is decimal digits. */
const AFTER_IDS = ':';
/** Rows of meta asked for at once: of a whole table, and backwards from a key, where parents that were split lie. */
const META_ROWS = 500;
const NEAREST_ROWS = 4;
/** When more regions of a table are lost at once, all are read anew: one after another they would take their time. */
const SOUGHT_ALONE = 4;

/** Where the rows are: regions by table and key, from hbase:meta, kept until they prove wrong. */
export class Regions {
  readonly #servers: Servers;
  readonly #masters: Masters;
  /** By table: rising, without overlap, perhaps with gaps. */
  readonly #tables = new Map<string, Region[]>();
  /** Look-ups under way, by table: one at a time, so that a thousand callers of a moved region ask once. */
  readonly #lookups = new Map<string, Promise<void>>();
  #meta: Promise<Region> | undefined;

  constructor(servers: Servers, masters: Masters) {
    this.#servers = servers;
    this.#masters = masters;
  }

  /** The region of the key, if it is known. */
  cached(table: string, key: Buffer): Region | undefined {
    const list = this.#tables.get(table);
    if (!list) return undefined;
    const region = list[lastStartingAt(list, key)];
    return region && (region.end.length === 0 || Buffer.compare(key, region.end) < 0) ? region : undefined;
  }

  /**
   * The region of the key. `StoreError` `noTable` when meta knows no such table; `Failure` when it cannot be told now.
   */
  async locate(table: string, key: Buffer, attempts: Attempts): Promise<Region> {
    if (table === META_NAME) return this.#locateMeta(attempts);
    for (;;) {
      const known = this.cached(table, key);
      if (known) return known;
      await withinTime(this.#lookup(table, key, attempts), attempts.expires);
    }
  }

  /** The region that holds the greatest keys below `key`; the table's last one for an `undefined` key. */
  async locateBefore(table: string, key: Buffer | undefined, attempts: Attempts): Promise<Region> {
    if (table === META_NAME) return this.#locateMeta(attempts);
    const known = this.#cachedBefore(table, key);
    if (known) return known;
    // Which region ends there is not said by any key: the table is read anew.
    await this.#readWhole(table, attempts);
    const found = this.#cachedBefore(table, key);
    if (found) return found;
    throw new Failure(`table ${table} has no region before the key now`, { undone: true });
  }

  async all(table: string, attempts: Attempts): Promise<readonly Region[]> {
    await this.#readWhole(table, attempts);
    return this.#tables.get(table) ?? [];
  }

  /** Forgets the region, unless it was looked up again since. */
  drop(region: Region): void {
    if (region.table === META_NAME) this.#meta = undefined;
    const list = this.#tables.get(region.table);
    const at = list?.indexOf(region) ?? -1;
    if (at >= 0) list!.splice(at, 1);
  }

  /** Forgets what was thought to be on the server. */
  dropServer(server: string): void {
    for (const [table, list] of this.#tables) {
      const left = list.filter((region) => region.server !== server);
      if (list.length - left.length > SOUGHT_ALONE) this.#tables.delete(table);
      else this.#tables.set(table, left);
    }
  }

  #cachedBefore(table: string, key: Buffer | undefined): Region | undefined {
    const list = this.#tables.get(table);
    if (!list) return undefined;
    if (key === undefined) {
      const last = list[list.length - 1];
      return last && last.end.length === 0 ? last : undefined;
    }
    let at = lastStartingAt(list, key);
    if (at >= 0 && list[at]!.start.equals(key)) at--;
    const region = list[at];
    return region && (region.end.length === 0 || Buffer.compare(key, region.end) <= 0) ? region : undefined;
  }

  #readWhole(table: string, attempts: Attempts): Promise<void> {
    const read = this.#exclusive(table, () => this.#readTable(table, attempts));
    return withinTime(read, attempts.expires);
  }

  async #lookup(table: string, key: Buffer, attempts: Attempts): Promise<void> {
    const running = this.#lookups.get(table);
    if (running) {
      return running.catch((error) => {
        // It says nothing of a region that nobody has looked up yet.
        if (!(error instanceof NotOpen) || error.holds(key)) throw error;
      });
    }
    const first = !this.#tables.has(table);
    return this.#exclusive(table, () =>
      first ? this.#readTable(table, attempts) : this.#readRegion(table, key, attempts),
    );
  }

  #exclusive(table: string, run: () => Promise<void>): Promise<void> {
    const running = this.#lookups.get(table) ?? Promise.resolve();
    const next = running
      .catch(() => undefined)
      .then(run)
      .finally(() => {
        if (this.#lookups.get(table) === next) this.#lookups.delete(table);
      });
    this.#lookups.set(table, next);
    return next;
  }

  /** Goes backwards from the key to the first region that was not split: it has the key, or none has it now. */
  async #readRegion(table: string, key: Buffer, attempts: Attempts): Promise<void> {
    const stop = Buffer.from(`${table},,`);
    let isThere = false;
    let from: Buffer | undefined = Buffer.concat([Buffer.from(`${table},`), key, Buffer.from(`,${AFTER_IDS}`)]);
    while (from) {
      const part: MetaRows = await this.#scanMeta(table, { from, stop, reversed: true }, NEAREST_ROWS, attempts);
      isThere ||= part.count > 0;
      const nearest = part.regions[0];
      if (nearest && isWithin(nearest, key)) {
        if (!isOpen(nearest)) throw new NotOpen(table, nearest);
        this.#insert(nearest);
        return;
      }
      from = nearest ? undefined : part.last;
    }
    if (isThere) throw new NotOpen(table);
    this.#tables.delete(table);
    throw new StoreError('noTable', `no table ${table}`);
  }

  async #readTable(table: string, attempts: Attempts): Promise<void> {
    const found: Region[] = [];
    let rows = 0;
    const stop = Buffer.from(`${table} ,,`);
    let from: Buffer | undefined = Buffer.from(`${table},,`);
    while (from) {
      const part: MetaRows = await this.#scanMeta(table, { from, stop, reversed: false }, META_ROWS, attempts);
      found.push(...part.regions.filter(isOpen));
      rows += part.count;
      from = part.last;
    }
    if (rows === 0) {
      this.#tables.delete(table);
      throw new StoreError('noTable', `no table ${table}`);
    }
    // Rows of meta come in key order; only a split or merge under way gives regions that overlap.
    const list: Region[] = [];
    for (const region of found) {
      while (list.length > 0 && overlap(list[list.length - 1]!, region)) list.pop();
      list.push(region);
    }
    this.#tables.set(table, list);
    if (found.length === 0) throw new Failure(`table ${table} has no open region`, { undone: true, moved: true });
  }

  #insert(region: Region): void {
    const list = this.#tables.get(region.table) ?? [];
    const rest = list.filter((other) => !overlap(other, region));
    rest.splice(lastStartingAt(rest, region.start) + 1, 0, region);
    this.#tables.set(region.table, rest);
  }

  /** The regions of up to `limit` rows of meta after `from`, or before it, down to `stop`. */
  async #scanMeta(
    table: string,
    { from, stop, reversed }: { from: Buffer; stop: Buffer; reversed: boolean },
    limit: number,
    attempts: Attempts,
  ): Promise<MetaRows> {
    const scan = new Writer()
      .message(1, new Writer().bytes(1, INFO))
      .bytes(3, from)
      .bytes(4, stop)
      .uint(7, 1)
      .bool(15, reversed)
      .bool(21, false)
      .bool(22, reversed);
    const meta = await this.#locateMeta(attempts);
    // It handles no partial rows and no heartbeats: then none are sent.
    const request = new Writer().bytes(1, meta.specifier).message(2, scan).uint(4, limit).uint(11, limit).finish();
    try {
      const answer = await this.#servers.get(meta.server).call('Scan', request, [], attempts.expires);
      return metaRows(table, answer.message, new CellCursor(answer.cells), limit);
    } catch (e) {
      const failure = asFailure(e);
      if (failure.traits.moved || !failure.exception) this.#meta = undefined;
      throw Failure.before(META_NAME, failure);
    }
  }

  #locateMeta(attempts: Attempts): Promise<Region> {
    const locating = this.#meta ?? this.#askForMeta(attempts);
    this.#meta = locating;
    locating.catch(() => {
      if (this.#meta === locating) this.#meta = undefined;
    });
    return locating;
  }

  async #askForMeta(attempts: Attempts): Promise<Region> {
    const server = await this.#masters.metaServer(attempts);
    const specifier = new Writer().uint(1, 1).bytes(2, Buffer.from('hbase:meta,,1')).finish();
    return { table: META_NAME, start: EMPTY, end: EMPTY, server, specifier };
  }
}

/** A region of which meta says that no server has it. */
type Unassigned = Omit<Region, 'server'>;

function isOpen(region: Region | Unassigned): region is Region {
  return 'server' in region;
}

function isWithin({ end }: Unassigned, key: Buffer): boolean {
  return end.length === 0 || Buffer.compare(key, end) < 0;
}

/** A region that nobody can reach now; undefined where hbase:meta has none of the key. */
class NotOpen extends Failure {
  readonly #region: Unassigned | undefined;

  constructor(table: string, region?: Unassigned) {
    super(`table ${table} has a region that is not open`, { undone: true, moved: true });
    this.#region = region;
  }

  holds(key: Buffer): boolean {
    const region = this.#region;
    return region !== undefined && Buffer.compare(region.start, key) <= 0 && isWithin(region, key);
  }
}

function overlap(a: Region, b: Region): boolean {
  const aBelow = a.end.length > 0 && Buffer.compare(a.end, b.start) <= 0;
  const bBelow = b.end.length > 0 && Buffer.compare(b.end, a.start) <= 0;
  return !aBelow && !bBelow;
}

/** Index of the last region whose start is not above the key, or -1. */
function lastStartingAt(list: readonly Region[], key: Buffer): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (Buffer.compare(list[middle]!.start, key) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Rows of meta. */
interface MetaRows {
  readonly count: number;
  /** Those that were not split. */
  readonly regions: readonly (Region | Unassigned)[];
  /** The last row's key when there may be more. */
  readonly last: Buffer | undefined;
}

function metaRows(table: string, message: Reader, cells: CellCursor, limit: number): MetaRows {
  const counts: number[] = [];
  let more = true;
  while (message.next()) {
    if (message.field === 1) counts.push(message.uint());
    else if (message.field === 8) more = message.bool();
    else message.skip();
  }
  const regions: (Region | Unassigned)[] = [];
  let last: Buffer | undefined;
  for (const count of counts) {
    let info: Buffer | undefined;
    let server = '';
    for (let i = 0; i < count; i++) {
      cells.enter();
      if (i === 0) last = cells.row();
      const name = cells.qualifier().toString('latin1');
      if (name === 'regioninfo') info = cells.value();
      else if (name === 'server') server = cells.value().toString();
      cells.leave();
    }
    const region = info && last && regionOf(table, last, info, server);
    if (region) regions.push(region);
  }
  return { count: counts.length, regions, last: more && counts.length >= limit ? last : undefined };
}

/** Undefined for a parent that was split and waits for the master's janitor, and for a replica. */
function regionOf(table: string, name: Buffer, value: Buffer, server: string): Region | Unassigned | undefined {
  if (value.toString('latin1', 0, 4) !== 'PBUF') throw new StoreError('corrupt', `hbase:meta row of table ${table}`);
  const info = new Reader(value, 4);
  let start = EMPTY;
  let end = EMPTY;
  let replica = 0;
  let gone = false;
  while (info.next()) {
    if (info.field === 3) start = Buffer.from(info.bytes());
    else if (info.field === 4) end = Buffer.from(info.bytes());
    else if (info.field === 5 || info.field === 6) gone = info.bool() || gone;
    else if (info.field === 7) replica = info.uint();
    else info.skip();
  }
  if (gone || replica !== 0) return undefined;
  const specifier = new Writer().uint(1, 1).bytes(2, name).finish();
  return server ? { table, start, end, server, specifier } : { table, start, end, specifier };
}
