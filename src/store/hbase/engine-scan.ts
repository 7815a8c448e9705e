import { checkScan } from '../checks.js';
import type { Batch, KeyRange, Scan, ScanOptions } from '../contract.js';
import { isPromise } from '../maybe.js';
import { compileFilter, type RowTest } from '../row-filter.js';
import { keyAfter, noTable } from '../tables.js';
import type { Cluster, OpenTable } from './cluster.js';
import { type ServerFilter, translate } from './filter/index.js';
import { boundsOf } from './hbase-bounds.js';
import type { Overlay } from './overlay.js';
import type { HBaseScan, RowBatch } from './rpc/rpc-types.js';

/**
 * Rows of one scanner at a region server, which sees its region as it was when it was opened; then another goes on, so
 * that what others changed meanwhile is seen.
 */
const PIECE = 1000;

/**
 * A scan whose filter the region servers evaluate. Where they give back only the cells that made a row match, the rows
 * are fetched by their keys; what they cannot express is evaluated here.
 */
export class EngineScan implements Scan {
  readonly #cluster: Cluster;
  readonly #name: string;
  readonly #range: KeyRange;
  readonly #options: ScanOptions;
  readonly #overlay: Overlay;
  readonly #known: OpenTable | undefined;
  #table: OpenTable | undefined;
  #scan: HBaseScan | undefined;
  #server: ServerFilter | undefined;
  #test: RowTest | undefined;
  #left: number;
  /** Rows that came from the scanner. */
  #came = 0;
  /** Rows that the running scan of the servers may give. */
  #asked = 0;
  /** When the scanner was opened: it gives rows as they were then or later. */
  #opened = 0;
  /** Where the scan goes on: behind the key that came last. */
  #last: Buffer | undefined;
  #done = false;

  constructor(cluster: Cluster, name: string, range: KeyRange, options: ScanOptions, overlay: Overlay) {
    this.#cluster = cluster;
    this.#name = name;
    this.#range = range;
    this.#options = options;
    this.#overlay = overlay;
    this.#last = options.after;
    this.#left = options.limit ?? Number.POSITIVE_INFINITY;
    const table = cluster.table(name);
    // A scan belongs to the table that was there when it was begun.
    if (isPromise(table)) table.catch(() => undefined);
    else this.#known = table;
  }

  async next(): Promise<Batch | undefined> {
    if (this.#done) return undefined;
    try {
      const batch = this.#left > 0 ? await this.#next() : undefined;
      if (!batch) this.close();
      return batch;
    } catch (error) {
      this.close();
      return this.#cluster.failed(this.#name, error);
    }
  }

  async #next(): Promise<Batch | undefined> {
    const found = this.#cluster.table(this.#name);
    const table = isPromise(found) ? await found : found;
    this.#table ??= this.#known ?? table;
    if (table !== this.#table) throw noTable(this.#name);
    checkScan(table.spec, this.#options);
    for (;;) {
      const scan = this.#scan ?? this.#open(table);
      const batch = await scan?.next();
      if (this.#done || !scan) return undefined;
      if (batch?.keys.length === 0 && batch.scanned === 0) continue;
      if (batch) {
        this.#came += batch.keys.length;
        this.#last = batch.keys.at(-1) ?? this.#last;
        return this.#give(table, batch);
      }
      if (this.#came < this.#asked) return undefined;
      this.#scan = undefined;
      this.#came = 0;
    }
  }

  /** What is left of the range. */
  #rest(): KeyRange {
    const last = this.#last;
    if (!last) return this.#range;
    if (this.#options.reverse) return { from: this.#range.from, to: last };
    return { from: keyAfter(last), to: this.#range.to };
  }

  #open(table: OpenTable): HBaseScan | undefined {
    const { filter, reverse, keysOnly } = this.#options;
    const bounds = boundsOf(this.#rest());
    if (!bounds) return undefined;
    const server = filter && translate(filter, { names: table.handle.families, data: table.stored });
    if (server?.none) return undefined;
    // Counters that are not folded yet can make a row match or not only by their presence, and new ones are folded at
    // once.
    if (filter && !server?.exact) this.#test = compileFilter(filter);
    this.#server = server;
    const asked = server
      ? { families: server.families, filter: server.filter, ...(server.columns && { columns: server.columns }) }
      : table.rows;
    this.#opened = this.#overlay.now();
    this.#asked = this.#test ? PIECE : Math.min(PIECE, this.#left);
    this.#scan = this.#cluster.client.scan(table.handle, bounds, {
      ...asked,
      reverse: reverse ?? false,
      limit: this.#asked,
      keysOnly: keysOnly === true && !filter,
    });
    return this.#scan;
  }

  async #give(table: OpenTable, batch: RowBatch): Promise<Batch> {
    const keysOnly = this.#options.keysOnly ?? false;
    const needed = !keysOnly || this.#test !== undefined;
    const keys: Buffer[] = [];
    const rows: (Buffer | undefined)[] = [];
    const got = needed ? await this.#rows(table, batch) : undefined;
    for (let i = 0; i < batch.keys.length && this.#left > 0; i++) {
      const row = got?.[i];
      if (got && (!row || (this.#test && !this.#test(row)))) continue;
      keys.push(batch.keys[i]!);
      rows.push(keysOnly ? undefined : row);
      this.#left--;
    }
    // Of a batch that was cut nobody needs to know how far the servers came.
    const { scanned, until } = batch;
    return { keys, rows, scanned, ...(until && this.#left > 0 && { until }) };
  }

  async #rows(table: OpenTable, batch: RowBatch): Promise<(Buffer | undefined)[]> {
    const { keys } = batch;
    const whole = this.#server?.whole ?? true;
    const since = whole ? this.#opened : this.#overlay.now();
    const rows = whole ? batch.rows : await this.#cluster.client.getMany(table.handle, keys, table.rows);
    return this.#overlay.withPendingRows(this.#cluster, table, keys, rows, since);
  }

  close(): void {
    this.#done = true;
    this.#scan?.close();
    this.#scan = undefined;
  }
}
