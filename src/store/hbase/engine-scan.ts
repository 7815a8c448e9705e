import { checkScan } from '../checks.js';
import type { Batch, KeyRange, Scan, ScanOptions } from '../contract.js';
import { isPromise } from '../maybe.js';
import { compileFilter, type RowTest } from '../row-filter.js';
import { keyAfter, noTable } from '../tables.js';
import type { Cluster, OpenTable } from './cluster.js';
import { type ServerFilter, translate } from './filter/index.js';
import { hbaseRange } from './hbase-bounds.js';
import type { Overlay } from './overlay.js';
import type { HBaseScan, RowBatch } from './rpc/rpc-types.js';

/**
 * Number of rows read by a scanner. A scanner reads its region as of its opening, so the next scanner sees later
 * changes.
 */
const PIECE = 1000;

/**
 * A scan with a filter that the region servers evaluate. If they return only the matching cells, the rows are read by
 * key. Conditions that HBase cannot express are evaluated here.
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
  /** Number of rows received from the current scanner. */
  #came = 0;
  /** Maximum number of rows of the current scanner. */
  #asked = 0;
  /** Logical time before the scanner was opened. The rows may be as old. */
  #opened = 0;
  /** The last key received, after which the scan continues. */
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
    // A table that is dropped and created again during the scan is another table.
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
      return this.#cluster.rethrow(this.#name, error);
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

  /** Returns the remaining range. */
  #rest(): KeyRange {
    const last = this.#last;
    if (!last) return this.#range;
    if (this.#options.reverse) return { from: this.#range.from, to: last };
    return { from: keyAfter(last), to: this.#range.to };
  }

  #open(table: OpenTable): HBaseScan | undefined {
    const { filter, reverse, keysOnly } = this.#options;
    const bounds = hbaseRange(this.#rest());
    if (!bounds) return undefined;
    const server = filter && translate(filter, { names: table.handle.families, data: table.rowFamilies });
    if (server?.none) return undefined;
    // Counters that are not folded yet influence a filter only by their presence, and new counters are folded at once.
    if (filter && !server?.exact) this.#test = compileFilter(filter);
    this.#server = server;
    const asked = server
      ? { families: server.families, filter: server.filter, ...(server.columns && { columns: server.columns }) }
      : table.rowReads;
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
    // After a batch was cut at the limit, the progress of the servers is of no use.
    const { scanned, until } = batch;
    return { keys, rows, scanned, ...(until && this.#left > 0 && { until }) };
  }

  async #rows(table: OpenTable, batch: RowBatch): Promise<(Buffer | undefined)[]> {
    const { keys } = batch;
    const whole = this.#server?.whole ?? true;
    const since = whole ? this.#opened : this.#overlay.now();
    const rows = whole ? batch.rows : await this.#cluster.client.getMany(table.handle, keys, table.rowReads);
    return this.#overlay.withPendingRows(this.#cluster, table, keys, rows, since);
  }

  close(): void {
    this.#done = true;
    this.#scan?.close();
    this.#scan = undefined;
  }
}
