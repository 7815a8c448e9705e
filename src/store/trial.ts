import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  Batch,
  KeyRange,
  LoadTable,
  Maybe,
  Plan,
  Reader,
  RowStep,
  Scan,
  ScanOptions,
  Snapshot,
  Store,
} from './contract.js';
import { openLmdbStore } from './lmdb/index.js';
import { keysOf } from './maybe.js';
import { StoreError } from './store-error.js';

/**
 * A store for dry runs: reads a base store, which stays unchanged, and writes to an overlay store. Reads see the
 * writes, except appended rows, and the cells of separate families that a row has lost.
 */
export class TrialStore implements Store {
  readonly supports: Store['supports'];
  readonly #base: Store;
  readonly #overlay: Store;
  /** Lengths of the suffixes of the index tables. */
  readonly #suffixBytes: ReadonlyMap<string, number>;
  /** Rows that are read from the overlay: rows that a plan has named, including those that it has deleted. */
  readonly #overlayRows = new Set<string>();
  /** Called with each plan that was committed, as the writer has made it. */
  onCommitted: ((plan: Plan) => void) | undefined;
  /** Tables with rows in the overlay, each with its number of rows in `#overlayRows`. */
  readonly #changedTables = new Map<string, number>();

  private constructor(base: Store, overlay: Store, suffixBytes: ReadonlyMap<string, number>) {
    this.supports = { ...base.supports, snapshot: false, durable: false };
    this.#base = base;
    this.#overlay = overlay;
    this.#suffixBytes = suffixBytes;
  }

  /** `overlay` must be empty; `close` closes the overlay, but not `base`. */
  static async over(base: Store, overlay: Store): Promise<TrialStore> {
    const suffixBytes = new Map<string, number>();
    for (const spec of await base.tables()) {
      await overlay.createTable(spec);
      if (spec.suffixBytes !== undefined) suffixBytes.set(spec.name, spec.suffixBytes);
    }
    return new TrialStore(base, overlay, suffixBytes);
  }

  async #storeFor(table: string, key: Buffer): Promise<Reader> {
    const isInOverlay =
      this.#overlayRows.has(rowId(table, key)) || (await this.#overlay.getHead(table, key, true)) !== undefined;
    return isInOverlay ? this.#overlay : this.#base;
  }

  async get(table: string, key: Buffer): Promise<Buffer | undefined> {
    return (await this.#storeFor(table, key)).get(table, key);
  }

  async getHead(table: string, key: Buffer, headOnly?: boolean): Promise<Buffer | undefined> {
    return (await this.#storeFor(table, key)).getHead(table, key, headOnly);
  }

  async getColumns(...args: Parameters<Reader['getColumns']>): Promise<Buffer | undefined> {
    return (await this.#storeFor(args[0], args[1])).getColumns(...args);
  }

  getMany(table: string, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return Promise.all(keys.map((key) => this.get(table, key)));
  }

  async getCells(...args: Parameters<Reader['getCells']>): Promise<Buffer | undefined> {
    return (await this.#overlay.getCells(...args)) ?? this.#base.getCells(...args);
  }

  keysOfCells = (...args: Parameters<Reader['keysOfCells']>): Maybe<Buffer[]> => this.#base.keysOfCells(...args);
  namesOfCells = (...args: Parameters<Reader['namesOfCells']>): Maybe<Buffer[]> => this.#base.namesOfCells(...args);

  scan(table: string, range: KeyRange, options: ScanOptions = {}): Scan {
    if (!this.#changedTables.has(table)) return this.#base.scan(table, range, options);
    const { limit = Infinity, ...others } = options;
    const scans = [this.#base, this.#overlay].map((store) => store.scan(table, range, others));
    const order = this.#suffixBytes.has(table) ? 0 : options.reverse ? -1 : 1;
    return new MergedScan(scans, (key) => this.#overlayRows.has(rowId(table, key)), order, limit);
  }

  async postings(table: string, prefix: Buffer, limit: number, after?: Buffer): Promise<Buffer> {
    const hiddenCount = this.#changedTables.get(table);
    if (hiddenCount === undefined) return this.#base.postings(table, prefix, limit, after);
    const cut = (suffixes: Buffer) => splitBytes(suffixes, this.#suffixBytes.get(table)!);
    const base = cut(await this.#base.postings(table, prefix, limit + hiddenCount, after));
    const visible = base.filter((suffix) => !this.#overlayRows.has(rowId(table, Buffer.concat([prefix, suffix]))));
    const written = cut(await this.#overlay.postings(table, prefix, limit, after));
    return Buffer.concat([...visible, ...written].sort(Buffer.compare).slice(0, limit));
  }

  postingsMany(table: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Promise<Buffer[]> {
    return Promise.all(prefixes.map((prefix) => this.postings(table, prefix, limit, after)));
  }

  async rangePostings(table: string, range: KeyRange, limit: number): Promise<Buffer> {
    const keys = await keysOf(this.scan(table, range, { keysOnly: true, limit }));
    return Buffer.concat(keys.map((key) => key.subarray(key.length - this.#suffixBytes.get(table)!)));
  }

  async postingCount(table: string, prefix: Buffer, cap: number): Promise<number> {
    return (await this.postings(table, prefix, cap)).length / this.#suffixBytes.get(table)!;
  }

  async count(table: string, range: KeyRange, cap: number): Promise<number> {
    return (await keysOf(this.scan(table, range, { keysOnly: true, limit: cap }))).length;
  }

  /** Returns a reader of the present state. */
  snapshot(): Snapshot {
    return new Proxy(this, {
      get(target, name) {
        const member: unknown = name === 'close' ? () => undefined : Reflect.get(target, name);
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
  }

  tables = () => this.#base.tables();
  settled = (table: string): Maybe<bigint> => this.#base.settled(table);

  async createTable(): Promise<void> {}

  async dropTable(): Promise<void> {}

  async commit(plan: Plan): Promise<void> {
    const { steps } = await this.#copyRows(plan);
    if (steps.length > 0) await this.#overlay.commit({ steps, decisive: 0 });
    this.onCommitted?.(plan);
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const loadedTables = tables.filter(({ append }) => !append);
    for (const { table } of loadedTables) this.#changedTables.set(table, this.#changedTables.get(table) ?? 0);
    for (const { table, rows, absent } of loadedTables) {
      if (!absent) continue;
      // The overlay itself checks the rows that it holds.
      const keys = Array.from(rows, ({ key }) => Buffer.from(key)).filter(
        (key) => !this.#overlayRows.has(rowId(table, key)),
      );
      const oldRows = await this.#base.getMany(table, keys);
      if (oldRows.some((row) => row !== undefined)) throw new StoreError('guard', 'a row is there already', { table });
    }
    await this.#overlay.ingest(loadedTables, await this.#copyRows(plan));
  }

  /** Copies the rows of the plan to the overlay. Returns the steps that the overlay can apply. */
  async #copyRows({ steps }: Plan): Promise<Plan> {
    const applicable = steps.filter((step): step is RowStep => 'key' in step);
    for (const { table, key } of applicable) {
      const id = rowId(table, key);
      if (this.#overlayRows.has(id)) continue;
      // A row of an index table is a mark without content.
      const store = this.#suffixBytes.has(table) ? undefined : await this.#storeFor(table, key);
      const row = store === this.#base ? await store.get(table, key) : undefined;
      if (row) await this.#overlay.ingest([{ table, rows: [{ key, row }] }], { steps: [], decisive: 0 });
      this.#overlayRows.add(id);
      this.#changedTables.set(table, (this.#changedTables.get(table) ?? 0) + 1);
    }
    return { steps: applicable, decisive: 0 };
  }

  close(): Promise<void> {
    return this.#overlay.close();
  }
}

/**
 * Runs `work` on a trial store over `base`, which `work` closes. Its writes go to a temporary folder. `guard` is called
 * with a function that removes the folder, for signals that end the process; the function that it returns, at the end.
 */
export async function withTrialStore<T>(
  base: Store,
  work: (trial: Store) => Promise<T>,
  guard: (removeFolder: () => void) => () => void = () => () => undefined,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-dry-run-'));
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  const endGuard = guard(removeFolder);
  try {
    return await work(await TrialStore.over(base, await openLmdbStore(folder, { create: true })));
  } finally {
    endGuard();
    removeFolder();
  }
}

function rowId(table: string, key: Buffer): string {
  return `${table}\0${key.toString('latin1')}`;
}

function splitBytes(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

interface ScannedRow {
  readonly key: Buffer;
  readonly row: Buffer | undefined;
}

/** Yields the rows of a scan of the base that are not hidden, and those of a scan of the overlay. */
class MergedScan implements Scan {
  readonly #scans: readonly Scan[];
  readonly #isHidden: (key: Buffer) => boolean;
  /** 1 or -1: rows are merged in rising or falling order. 0: the rows of the base come first. */
  readonly #order: number;
  /** Rows that were read and not returned, of each scan. Undefined at its end. */
  readonly #queues: (ScannedRow[] | undefined)[] = [[], []];
  #left: number;

  constructor(scans: readonly Scan[], isHidden: (key: Buffer) => boolean, order: number, limit: number) {
    this.#scans = scans;
    this.#isHidden = isHidden;
    this.#order = order;
    this.#left = limit;
  }

  async next(): Promise<Batch | undefined> {
    let scannedCount = 0;
    for (const [i, scan] of this.#scans.entries()) {
      if (this.#queues[i]?.length !== 0) continue;
      const batch = await scan.next();
      const rows = batch?.keys.map((key, n) => ({ key, row: batch.rows[n] }));
      this.#queues[i] = i === 0 ? rows?.filter(({ key }) => !this.#isHidden(key)) : rows;
      scannedCount += batch?.scannedCount ?? 0;
    }
    const [base, overlay] = this.#queues;
    if (this.#left <= 0 || (!base && !overlay)) return undefined;
    const merged: ScannedRow[] = [];
    while (merged.length < this.#left && base?.length !== 0 && overlay?.length !== 0) {
      const isBaseNext = base && (!overlay || Buffer.compare(base[0]!.key, overlay[0]!.key) * this.#order <= 0);
      merged.push((isBaseNext ? base : overlay)!.shift()!);
    }
    this.#left -= merged.length;
    return { keys: merged.map(({ key }) => key), rows: merged.map(({ row }) => row), scannedCount };
  }

  close(): void {
    for (const scan of this.#scans) scan.close();
  }
}
