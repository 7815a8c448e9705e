import type { KeyRange, LoadTable, Maybe, Plan, Reader, RowStep, ScanOptions, Store } from './contract.js';
import { StoreError } from './store-error.js';

/**
 * A store for dry runs: reads a base store, which stays unchanged, and writes to an overlay store. Reads by key see the
 * writes. Scans, counts, index tables and appended rows show the base only, which suffices because writes are decided
 * by rows that are read by key.
 */
export class TrialStore implements Store {
  readonly supports: Store['supports'];
  readonly #base: Store;
  readonly #overlay: Store;
  /** Tables whose rows are copied to the overlay before a change. */
  readonly #copiedTables: ReadonlySet<string>;
  /** Rows that are read from the overlay: copied rows, including rows that a plan has deleted since. */
  readonly #overlayRows = new Set<string>();

  private constructor(base: Store, overlay: Store, copied: ReadonlySet<string>) {
    this.supports = { ...base.supports, snapshot: false };
    this.#base = base;
    this.#overlay = overlay;
    this.#copiedTables = copied;
  }

  /** `overlay` must be empty; `close` closes the overlay, but not `base`. */
  static async over(base: Store, overlay: Store): Promise<TrialStore> {
    const specs = (await base.tables()).filter(({ suffixBytes }) => suffixBytes === undefined);
    for (const spec of specs) await overlay.createTable(spec);
    return new TrialStore(base, overlay, new Set(specs.map(({ name }) => name)));
  }

  async #storeFor(table: string, key: Buffer): Promise<Reader> {
    if (!this.#copiedTables.has(table)) return this.#base;
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
  scan = (table: string, range: KeyRange, options?: ScanOptions) => this.#base.scan(table, range, options);
  postings = (...args: Parameters<Reader['postings']>): Maybe<Buffer> => this.#base.postings(...args);
  postingsMany = (...args: Parameters<Reader['postingsMany']>): Maybe<Buffer[]> => this.#base.postingsMany(...args);
  rangePostings = (...args: Parameters<Reader['rangePostings']>): Maybe<Buffer> => this.#base.rangePostings(...args);
  postingCount = (...args: Parameters<Reader['postingCount']>): Maybe<number> => this.#base.postingCount(...args);
  count = (table: string, range: KeyRange, cap: number): Maybe<number> => this.#base.count(table, range, cap);
  tables = () => this.#base.tables();
  snapshot = () => this.#base.snapshot();
  settled = (table: string): Maybe<bigint> => this.#base.settled(table);

  async createTable(): Promise<void> {}

  async dropTable(): Promise<void> {}

  async commit(plan: Plan): Promise<void> {
    const { steps } = await this.#copyRows(plan);
    if (steps.length > 0) await this.#overlay.commit({ steps, decisive: 0 });
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const loadedTables = tables.filter(({ table, append }) => !append && this.#copiedTables.has(table));
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
    const applicable = steps.filter((step): step is RowStep => 'key' in step && this.#copiedTables.has(step.table));
    for (const { table, key } of applicable) {
      const store = await this.#storeFor(table, key);
      const row = store === this.#base ? await store.get(table, key) : undefined;
      if (row) await this.#overlay.ingest([{ table, rows: [{ key, row }] }], { steps: [], decisive: 0 });
      this.#overlayRows.add(rowId(table, key));
    }
    return { steps: applicable, decisive: 0 };
  }

  close(): Promise<void> {
    return this.#overlay.close();
  }
}

function rowId(table: string, key: Buffer): string {
  return `${table}\0${key.toString('latin1')}`;
}
