import type { KeyRange, LoadTable, Maybe, Plan, Reader, RowStep, ScanOptions, Store } from './contract.js';
import { StoreError } from './store-error.js';

/**
 * A store as another would be after what is written here, while that other is only read. Rows that are written go to a
 * third one. Index tables and appended rows stay as they are, and scans and counts give what the other has: writes are
 * decided by rows that are read by their keys.
 */
export class TrialStore implements Store {
  readonly supports: Store['supports'];
  readonly #base: Store;
  readonly #top: Store;
  /** Tables that are copied by rows as they are needed. */
  readonly #kept: ReadonlySet<string>;
  /** Rows that stand in `#top`, or nowhere, where a plan took them away. */
  readonly #lifted = new Set<string>();

  private constructor(base: Store, top: Store, kept: ReadonlySet<string>) {
    this.supports = { ...base.supports, snapshot: false };
    this.#base = base;
    this.#top = top;
    this.#kept = kept;
  }

  /** `top` is empty, and closed with this one; `base` is not. */
  static async over(base: Store, top: Store): Promise<TrialStore> {
    const specs = (await base.tables()).filter(({ suffixBytes }) => suffixBytes === undefined);
    for (const spec of specs) await top.createTable(spec);
    return new TrialStore(base, top, new Set(specs.map(({ name }) => name)));
  }

  async #from(table: string, key: Buffer): Promise<Reader> {
    if (!this.#kept.has(table)) return this.#base;
    const isThere = this.#lifted.has(nameOf(table, key)) || (await this.#top.getHead(table, key, true)) !== undefined;
    return isThere ? this.#top : this.#base;
  }

  async get(table: string, key: Buffer): Promise<Buffer | undefined> {
    return (await this.#from(table, key)).get(table, key);
  }

  async getHead(table: string, key: Buffer, only?: boolean): Promise<Buffer | undefined> {
    return (await this.#from(table, key)).getHead(table, key, only);
  }

  async getColumns(...args: Parameters<Reader['getColumns']>): Promise<Buffer | undefined> {
    return (await this.#from(args[0], args[1])).getColumns(...args);
  }

  getMany(table: string, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return Promise.all(keys.map((key) => this.get(table, key)));
  }

  async getCells(...args: Parameters<Reader['getCells']>): Promise<Buffer | undefined> {
    return (await this.#top.getCells(...args)) ?? this.#base.getCells(...args);
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
    const { steps } = await this.#lift(plan);
    if (steps.length > 0) await this.#top.commit({ steps, decisive: 0 });
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const kept = tables.filter(({ table, append }) => !append && this.#kept.has(table));
    for (const { table, rows, absent } of kept) {
      if (!absent) continue;
      // What stands in `#top`, or was taken away there, is its own to judge.
      const keys = Array.from(rows, ({ key }) => Buffer.from(key)).filter(
        (key) => !this.#lifted.has(nameOf(table, key)),
      );
      const there = await this.#base.getMany(table, keys);
      if (there.some((row) => row !== undefined)) throw new StoreError('guard', 'a row is there already', { table });
    }
    await this.#top.ingest(kept, await this.#lift(plan));
  }

  /** The steps of the plan that are tried, all rows of which stand in `#top` then. */
  async #lift({ steps }: Plan): Promise<Plan> {
    const tried = steps.filter((step): step is RowStep => 'key' in step && this.#kept.has(step.table));
    for (const { table, key } of tried) {
      const from = await this.#from(table, key);
      const row = from === this.#base ? await from.get(table, key) : undefined;
      if (row) await this.#top.ingest([{ table, rows: [{ key, row }] }], { steps: [], decisive: 0 });
      this.#lifted.add(nameOf(table, key));
    }
    return { steps: tried, decisive: 0 };
  }

  close(): Promise<void> {
    return this.#top.close();
  }
}

function nameOf(table: string, key: Buffer): string {
  return `${table}\0${key.toString('latin1')}`;
}
