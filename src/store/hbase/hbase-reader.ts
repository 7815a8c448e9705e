import type { ColumnRange, KeyRange, Maybe, Reader, Scan, ScanOptions } from '../contract.js';
import { isPromise, keysOf } from '../maybe.js';
import { selectColumns, unpackRow } from '../row.js';
import { afterPrefix, checkRanges, checkSeparate, isKey, keyAfter, suffixOf } from '../tables.js';
import { type Cluster, hbaseRange, type OpenTable } from './cluster.js';
import { EngineScan, type Overlay } from './engine-scan.js';
import { logicalClock } from './journal/tickets.js';
import { columnPrefixFilter, KEY_ONLY } from './rpc/filters.js';
import { MAX_KEY } from './rpc/mutations.js';

/** Maximum number of keys that a look-up reads. The client combines the look-ups of callers. A scan reads more keys. */
const MAX_LOOKUP_KEYS = 1000;
/** Maximum number of keys per request when a range is read in several requests. */
const KEYS_PER_READ = 5000;

/** Reads rows without a snapshot. Gets and look-ups of an iteration of the event loop share requests. */
export class HBaseReader implements Reader {
  protected readonly cluster: Cluster;
  readonly #overlay: Overlay;

  constructor(cluster: Cluster, overlay: Overlay) {
    this.cluster = cluster;
    this.#overlay = overlay;
  }

  get(name: string, key: Buffer): Maybe<Buffer | undefined> {
    return this.getHead(name, key);
  }

  getHead(name: string, key: Buffer, isHeadOnly = false): Maybe<Buffer | undefined> {
    return this.#withTable(name, async (table) => {
      if (!isKey(key, MAX_KEY)) return undefined;
      const options = isHeadOnly ? table.headReads : table.rowReads;
      const since = logicalClock.now();
      const row = await this.cluster.client.get(table.handle, key, options);
      return this.#overlay.withPending(this.cluster, table, key, options, row, since);
    });
  }

  getColumns(name: string, key: Buffer, ranges: readonly ColumnRange[]): Maybe<Buffer | undefined> {
    return this.#withTable(name, async (table) => {
      checkRanges(ranges, table.spec);
      const row = await this.get(name, key);
      return row && selectColumns(row, row.length, ranges);
    });
  }

  getMany(name: string, keys: readonly Buffer[]): Maybe<(Buffer | undefined)[]> {
    return this.#withTable(name, async (table) => {
      if (!keys.every((key) => isKey(key, MAX_KEY))) return Promise.all(keys.map((key) => this.get(name, key)));
      const since = logicalClock.now();
      const rows = await this.cluster.client.getMany(table.handle, keys, table.rowReads);
      return this.#overlay.withPendingRows(this.cluster, table, keys, rows, since);
    });
  }

  getCells(name: string, key: Buffer, family: number, prefix: Buffer): Maybe<Buffer | undefined> {
    return this.#withTable(name, async (table) => {
      checkSeparate(table.spec, family);
      if (!isKey(key, MAX_KEY)) return undefined;
      const filter = prefix.length > 0 ? columnPrefixFilter(prefix) : undefined;
      return this.cluster.client.get(table.handle, key, { families: [family], filter });
    });
  }

  namesOfCells(name: string, key: Buffer, family: number): Maybe<Buffer[]> {
    return this.#withTable(name, async (table) => {
      checkSeparate(table.spec, family);
      if (!isKey(key, MAX_KEY)) return [];
      const row = await this.cluster.client.get(table.handle, key, { families: [family], filter: KEY_ONLY });
      return row ? unpackRow(row).map(({ qualifier }) => qualifier) : [];
    });
  }

  keysOfCells(name: string, family: number, limit: number, after?: Buffer): Maybe<Buffer[]> {
    return this.#withTable(name, async (table) => {
      checkSeparate(table.spec, family);
      const range = { from: after && keyAfter(after) };
      return keysOf(this.cluster.client.scan(table.handle, range, { families: [family], keysOnly: true, limit }));
    });
  }

  scan(name: string, range: KeyRange, options: ScanOptions = {}): Scan {
    return new EngineScan(this.cluster, name, range, options, this.#overlay);
  }

  postings(name: string, prefix: Buffer, limit: number, after?: Buffer): Maybe<Buffer> {
    return this.#withTable(name, async (table) => {
      const suffixBytes = suffixOf(table.spec, after);
      const suffixes: Buffer[] = [];
      await this.#forEachPostingKey(table, prefix, limit, after, (key) => suffixes.push(key.subarray(prefix.length)));
      return Buffer.concat(suffixes, suffixes.length * suffixBytes);
    });
  }

  async postingsMany(name: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Promise<Buffer[]> {
    return Promise.all(prefixes.map((prefix) => this.postings(name, prefix, limit, after)));
  }

  postingCount(name: string, prefix: Buffer, cap: number): Maybe<number> {
    return this.#withTable(name, async (table) => {
      suffixOf(table.spec);
      let count = 0;
      await this.#forEachPostingKey(table, prefix, cap, undefined, () => count++);
      return count;
    });
  }

  /** Calls `onKey` with the keys that consist of `prefix` and a suffix. Skips the rows of longer prefixes by length. */
  async #forEachPostingKey(
    table: OpenTable,
    prefix: Buffer,
    limit: number,
    after: Buffer | undefined,
    onKey: (key: Buffer) => unknown,
  ): Promise<void> {
    const keyLength = prefix.length + suffixOf(table.spec);
    const from = after ? keyAfter(Buffer.concat([prefix, after])) : prefix;
    const range = { from, to: afterPrefix(prefix) };
    await this.#visitKeys(table, range, limit, (key) => key.length === keyLength && onKey(key));
  }

  rangePostings(name: string, range: KeyRange, limit: number): Maybe<Buffer> {
    return this.#withTable(name, async (table) => {
      const suffixBytes = suffixOf(table.spec);
      const suffixes: Buffer[] = [];
      await this.#visitKeys(table, range, limit, (key) => suffixes.push(key.subarray(key.length - suffixBytes)));
      return Buffer.concat(suffixes, suffixes.length * suffixBytes);
    });
  }

  count(name: string, range: KeyRange, cap: number): Maybe<number> {
    return this.#withTable(name, async (table) => {
      let count = 0;
      await this.#visitKeys(table, range, cap, () => count++);
      return count;
    });
  }

  /** Calls `visit` with the keys of the range. A key counts against the limit unless `visit` returns false. */
  async #visitKeys(table: OpenTable, range: KeyRange, limit: number, visit: (key: Buffer) => unknown): Promise<void> {
    let { from } = range;
    for (let remaining = limit; remaining > 0; ) {
      const keyLimit = Math.min(remaining, KEYS_PER_READ);
      const keys = await this.#readKeys(table, { from, to: range.to }, keyLimit);
      for (const key of keys) if (visit(key) !== false) remaining--;
      if (keys.length < keyLimit) return;
      from = keyAfter(keys.at(-1)!);
    }
  }

  async #readKeys(table: OpenTable, range: KeyRange, limit: number): Promise<Buffer[]> {
    const bounds = hbaseRange(range);
    if (!bounds || limit <= 0) return [];
    const { client } = this.cluster;
    if (limit <= MAX_LOOKUP_KEYS && table.spec.suffixBytes !== undefined)
      return client.lookup(table.handle, bounds, limit, table.rowReads);
    return keysOf(client.scan(table.handle, bounds, { ...table.rowReads, keysOnly: true, limit }));
  }

  async #withTable<T>(name: string, work: (table: OpenTable) => Promise<T>): Promise<T> {
    try {
      const table = this.cluster.table(name);
      return await work(isPromise(table) ? await table : table);
    } catch (error) {
      return this.cluster.rethrow(error, name);
    }
  }
}
