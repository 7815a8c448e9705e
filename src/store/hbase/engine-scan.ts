import type { Batch, KeyRange, Scan, ScanOptions } from '../contract.js';
import { isPromise } from '../maybe.js';
import { compileFilter, type RowTest } from '../row-filter.js';
import { checkScan, keyAfter, noTable } from '../tables.js';
import { type Cluster, hbaseRange, type OpenTable } from './cluster.js';
import { type ServerFilter, translate } from './filter/translate.js';
import { rowId } from './journal/plan-rows.js';
import type { Session } from './journal/session.js';
import { logicalClock } from './journal/tickets.js';
import type { HBaseScan, ReadOptions, RowBatch } from './rpc/rpc-types.js';

/** Number of rows after which a scan opens a new scanner. A scanner does not see changes made after it was opened. */
const SCANNER_ROWS = 1000;

/** A scan with a filter evaluated by the region servers, and here as far as HBase cannot express it. */
export class EngineScan implements Scan {
  readonly #cluster: Cluster;
  readonly #tableName: string;
  readonly #range: KeyRange;
  readonly #options: ScanOptions;
  readonly #overlay: Overlay;
  readonly #initialTable: OpenTable | undefined;
  #table: OpenTable | undefined;
  #scan: HBaseScan | undefined;
  #serverFilter: ServerFilter | undefined;
  #rowTest: RowTest | undefined;
  #rowsLeft: number;
  /** Number of rows received from the current scanner. */
  #receivedCount = 0;
  /** Maximum number of rows of the current scanner. */
  #requestedCount = 0;
  /** Logical time before the scanner was opened. The rows may be as old. */
  #openedAt = 0;
  /** The last key received, after which the scan continues. */
  #lastKey: Buffer | undefined;
  #isClosed = false;

  constructor(cluster: Cluster, name: string, range: KeyRange, options: ScanOptions, overlay: Overlay) {
    this.#cluster = cluster;
    this.#tableName = name;
    this.#range = range;
    this.#options = options;
    this.#overlay = overlay;
    this.#lastKey = options.after;
    this.#rowsLeft = options.limit ?? Number.POSITIVE_INFINITY;
    const table = cluster.table(name);
    // `#next` compares the table with this one, to detect that the table was dropped and created again. After a failure
    // `#next` looks the table up again, and reports the error.
    if (isPromise(table)) table.catch(() => undefined);
    else this.#initialTable = table;
  }

  async next(): Promise<Batch | undefined> {
    if (this.#isClosed) return undefined;
    try {
      const batch = this.#rowsLeft > 0 ? await this.#next() : undefined;
      if (!batch) this.close();
      return batch;
    } catch (error) {
      this.close();
      return this.#cluster.rethrow(error, this.#tableName);
    }
  }

  async #next(): Promise<Batch | undefined> {
    const lookup = this.#cluster.table(this.#tableName);
    const table = isPromise(lookup) ? await lookup : lookup;
    this.#table ??= this.#initialTable ?? table;
    if (table !== this.#table) throw noTable(this.#tableName);
    checkScan(table.spec, this.#options);
    for (;;) {
      const scan = this.#scan ?? this.#openScanner(table);
      const batch = await scan?.next();
      if (this.#isClosed || !scan) return undefined;
      if (batch?.keys.length === 0 && batch.scanned === 0) continue;
      if (batch) {
        this.#receivedCount += batch.keys.length;
        this.#lastKey = batch.keys.at(-1) ?? this.#lastKey;
        return this.#toBatch(table, batch);
      }
      if (this.#receivedCount < this.#requestedCount) return undefined;
      this.#scan = undefined;
      this.#receivedCount = 0;
    }
  }

  #remainingRange(): KeyRange {
    const lastKey = this.#lastKey;
    if (!lastKey) return this.#range;
    if (this.#options.reverse) return { from: this.#range.from, to: lastKey };
    return { from: keyAfter(lastKey), to: this.#range.to };
  }

  #openScanner(table: OpenTable): HBaseScan | undefined {
    const { filter, reverse, keysOnly } = this.#options;
    const bounds = hbaseRange(this.#remainingRange());
    if (!bounds) return undefined;
    const serverFilter =
      filter && translate(filter, { familyNames: table.handle.families, rowFamilies: table.rowFamilies });
    if (serverFilter?.matchesNone) return undefined;
    // A filter tests only whether a counter exists. Increments that are not in the row yet do not matter to it, because
    // the first increment of a counter is written at once.
    if (filter && !serverFilter?.isExact) this.#rowTest = compileFilter(filter);
    this.#serverFilter = serverFilter;
    const { families, filter: encodedFilter, columns } = serverFilter ?? {};
    const reads = families ? { families, filter: encodedFilter, ...(columns && { columns }) } : table.rowReads;
    this.#openedAt = logicalClock.now();
    this.#requestedCount = this.#rowTest ? SCANNER_ROWS : Math.min(SCANNER_ROWS, this.#rowsLeft);
    this.#scan = this.#cluster.client.scan(table.handle, bounds, {
      ...reads,
      isReverse: reverse ?? false,
      limit: this.#requestedCount,
      keysOnly: keysOnly === true && !filter,
    });
    return this.#scan;
  }

  async #toBatch(table: OpenTable, batch: RowBatch): Promise<Batch> {
    const keysOnly = this.#options.keysOnly ?? false;
    const needsRows = !keysOnly || this.#rowTest !== undefined;
    const keys: Buffer[] = [];
    const rows: (Buffer | undefined)[] = [];
    const completeRows = needsRows ? await this.#completeRows(table, batch) : undefined;
    for (let i = 0; i < batch.keys.length && this.#rowsLeft > 0; i++) {
      const row = completeRows?.[i];
      if (completeRows && (!row || (this.#rowTest && !this.#rowTest(row)))) continue;
      keys.push(batch.keys[i]!);
      rows.push(keysOnly ? undefined : row);
      this.#rowsLeft--;
    }
    // The caller of a batch that was cut at the limit needs no progress.
    const { scanned, until } = batch;
    return { keys, rows, scannedCount: scanned, ...(until && this.#rowsLeft > 0 && { until }) };
  }

  async #completeRows(table: OpenTable, batch: RowBatch): Promise<(Buffer | undefined)[]> {
    const { keys } = batch;
    const isWhole = this.#serverFilter?.hasWholeRows ?? true;
    const since = isWhole ? this.#openedAt : logicalClock.now();
    const rows = isWhole ? batch.rows : await this.#cluster.client.getMany(table.handle, keys, table.rowReads);
    return this.#overlay.withPendingRows(this.#cluster, table, keys, rows, since);
  }

  close(): void {
    this.#isClosed = true;
    this.#scan?.close();
    this.#scan = undefined;
  }
}

/**
 * Adds the increments of counters that are not written to their rows yet to rows that are read. A row is read again if
 * increments were written to it during the read.
 */
export class Overlay {
  /** The last session is the current one. The others have ended and are being swept. */
  #sessions: readonly Session[] = [];
  #removedAt = 0;

  addSession(session: Session): void {
    this.#sessions = [...this.#sessions, session];
  }

  /** Removes an ended session whose decided plans are applied, or left to other front ends. */
  removeSession(session: Session): void {
    this.#sessions = this.#sessions.filter((openSession) => openSession !== session);
    this.#removedAt = logicalClock.tick();
  }

  /** Applies the pending increments to a row that was read with `options` after `since` (`logicalClock`). */
  async withPending(
    { client }: Cluster,
    { spec, handle }: OpenTable,
    key: Buffer,
    options: ReadOptions,
    row: Buffer | undefined,
    since: number,
  ): Promise<Buffer | undefined> {
    if (!this.#mayLackIncrements(spec.name, since)) return row;
    const id = rowId(spec.name, key);
    let currentRow = row;
    for (let moment = since; this.#wasFolding(id, moment); currentRow = await client.get(handle, key, options)) {
      await Promise.all(this.#sessions.map((session) => session.waitForFold(id)));
      moment = logicalClock.now();
    }
    const sharedRow = this.#sessions.at(-1)?.sharedRows.get(id);
    return sharedRow ? sharedRow.withPendingIncrements(currentRow) : currentRow;
  }

  /** As `withPending`, for whole rows that were read together. */
  async withPendingRows(
    cluster: Cluster,
    table: OpenTable,
    keys: readonly Buffer[],
    rows: (Buffer | undefined)[],
    since: number,
  ): Promise<(Buffer | undefined)[]> {
    if (!this.#mayLackIncrements(table.spec.name, since)) return rows;
    return Promise.all(rows.map((row, i) => this.withPending(cluster, table, keys[i]!, table.rowReads, row, since)));
  }

  /** Whether rows of the table that were read at `since` or later may lack increments. */
  #mayLackIncrements(table: string, since: number): boolean {
    return (
      this.#removedAt > since || this.#sessions.some(({ sharedRows }) => sharedRows.mayLackIncrements(table, since))
    );
  }

  #wasFolding(id: string, since: number): boolean {
    return this.#removedAt > since || this.#sessions.some(({ sharedRows }) => sharedRows.wasFolding(id, since));
  }
}
