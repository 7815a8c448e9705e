import { setTimeout as delay } from 'node:timers/promises';
import type { Transaction } from 'lmdb';
import { lastRowNumber } from '../append.js';
import type { CommitStats, LoadTable, Maybe, Plan, RowLayout, Snapshot, Store, TableSpec } from '../contract.js';
import { StoreError } from '../store-error.js';
import { checkSpec, sameSpec } from '../tables.js';
import type { Environment } from './file/environment.js';
import { copyMarker } from './file/folder.js';
import { toStoreError } from './file/lmdb-errors.js';
import type { LmdbTable } from './file/lmdb-table.js';
import { Ingester } from './ingest/ingester.js';
import type { Failpoint, LmdbOptions } from './lmdb-options.js';
import { LmdbReader } from './read/lmdb-reader.js';
import { Committer } from './write/committer.js';
import { WriteHold } from './write/hold.js';

/** Time between two looks whether a momentary refusal is over, in ms. */
const MOMENT_MS = 20;

/** The LMDB engine. Reads are synchronous. Writers are serialized here, and across processes by LMDB's lock. */
export class LmdbStore extends LmdbReader implements Store {
  readonly supports = { atomicPlan: true, snapshot: true, processes: true, durable: true } as const;
  readonly #readOnly: boolean;
  readonly #writeRefusal: LmdbOptions['writeRefusal'];
  readonly #follows: boolean;
  readonly #failpoint: Failpoint | undefined;
  readonly #hold: WriteHold;
  readonly #evenIfDamaged: boolean;
  readonly #committer: Committer;
  readonly #ingester: Ingester;
  readonly #snapshots = new Set<LmdbSnapshot>();
  #lastTask: Promise<unknown> = Promise.resolve();
  #closePromise: Promise<void> | undefined;

  constructor(env: Environment, options: LmdbOptions) {
    super(env);
    const { readOnly = false, writeRefusal, follows = false, evenIfDamaged = false, failpoint } = options;
    this.#readOnly = readOnly;
    this.#writeRefusal = writeRefusal;
    this.#follows = follows;
    this.#evenIfDamaged = evenIfDamaged;
    this.#failpoint = failpoint;
    this.#hold = new WriteHold(env.folder);
    const checkPlan = (plan: Plan): void => this.#checkPrimary(plan);
    this.#committer = new Committer(env, (task) => this.#exclusive(task), checkPlan, failpoint);
    this.#ingester = new Ingester(env.folder, failpoint);
  }

  get folder(): string {
    return this.env.folder;
  }

  get rowLayout(): RowLayout {
    return this.env.rowLayout;
  }

  set onRoomChange(listener: Store['onRoomChange']) {
    this.env.onRoomChange = listener;
  }

  get stats(): CommitStats {
    return { ...this.#committer.stats, waiting: this.#committer.waitingCount };
  }

  async createTable(spec: TableSpec): Promise<void> {
    this.#checkWritable({ unlogged: this.#follows });
    const checkedSpec = checkSpec(spec);
    const { name } = checkedSpec;
    await this.#exclusive(async () => {
      const { env } = this;
      let createdTable: LmdbTable | undefined;
      await env.transact(() => {
        const entry = env.catalog.entries().get(name);
        if (!entry) {
          env.root.resetReadTxn();
          createdTable = env.openTable(checkedSpec, env.catalog.addEntry(checkedSpec));
          this.#failpoint?.('table created');
        } else if (!sameSpec(entry.spec, checkedSpec)) {
          throw new StoreError('conflict', `table ${name} exists with another spec`);
        }
      });
      if (createdTable) env.tables.set(name, createdTable);
      env.reloadTables();
    });
  }

  async dropTable(name: string): Promise<void> {
    this.#checkWritable({ unlogged: this.#follows });
    await this.#exclusive(async () => {
      const { env } = this;
      if (!env.isCurrent()) env.reloadTables();
      const table = env.tables.get(name);
      if (!table) return;
      await env.transact(() => {
        if (env.catalog.entries().get(name)?.id !== table.id) return;
        table.rows.clearSync();
        for (const cells of table.separateFamilies.values()) cells.clearSync();
        table.segments?.clearSync();
        table.blocks?.rows.clearSync();
        env.dictionary.removeWords(table.id);
        env.catalog.removeEntry(name, table.id);
        this.#failpoint?.('table dropped');
      });
      env.reloadTables();
    });
  }

  async tables(): Promise<TableSpec[]> {
    this.checkOpen();
    const entries = [...this.env.catalog.entries().values()];
    return entries.map((entry) => entry.spec).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  renewReads(): void {
    this.env.root.resetReadTxn();
  }

  snapshot(): Snapshot {
    this.checkOpen();
    const snapshot = new LmdbSnapshot(this.env, this.env.beginSnapshot(), () => {
      this.#snapshots.delete(snapshot);
    });
    this.#snapshots.add(snapshot);
    return snapshot;
  }

  async copyTo(folder: string): Promise<void> {
    this.checkOpen();
    try {
      await this.env.root.backup(folder, true);
      await copyMarker(this.folder, folder);
    } catch (error) {
      throw toStoreError(error, folder);
    }
  }

  async commit(plan: Plan): Promise<void> {
    await this.#untilWritable(plan);
    try {
      await this.#committer.commit(plan);
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'notPrimary') throw error;
      // Writes were refused while the plan waited for its transaction.
      await this.commit(plan);
    }
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    await this.#untilWritable(plan);
    // The ingest thread takes LMDB's write lock like another process.
    await this.#ingester.ingest(tables, plan);
    // The present read transaction may have begun before the batch was written.
    this.renewReads();
  }

  holdWrites(why: string): void {
    this.#hold.hold(why);
  }

  releaseWrites(): Promise<boolean> {
    return this.#hold.release();
  }

  settled(table: string): Maybe<bigint> {
    return lastRowNumber(this, table);
  }

  close(): Promise<void> {
    this.#closePromise ??= this.#close();
    return this.#closePromise;
  }

  async #close(): Promise<void> {
    this.env.isClosed = true;
    await this.#committer.idle();
    await this.#lastTask;
    this.env.tables.clear();
    await this.#ingester.close();
    for (const snapshot of this.#snapshots) snapshot.close();
    await this.env.close();
  }

  #exclusive<R>(task: () => Promise<R>): Promise<R> {
    const result = this.#lastTask.then(task);
    // The caller gets the error of its task, after which the next task runs all the same.
    this.#lastTask = result.catch(() => undefined);
    return result;
  }

  async #untilWritable(plan: Plan): Promise<void> {
    while (!plan.unlogged && this.#writeRefusal?.()?.isMomentary) await delay(MOMENT_MS);
    this.#checkWritable(plan);
  }

  #checkPrimary(plan?: Pick<Plan, 'unlogged'>): void {
    const refusal = plan?.unlogged ? undefined : this.#writeRefusal?.();
    if (refusal) throw new StoreError('notPrimary', refusal.text);
  }

  #checkWritable(plan: Pick<Plan, 'unlogged'>): void {
    this.checkOpen();
    this.#checkPrimary(plan);
    if (this.#readOnly) throw new StoreError('permission', `store in ${this.env.folder} was opened to read only`);
    if (!this.#evenIfDamaged) this.#hold.check();
  }
}

class LmdbSnapshot extends LmdbReader implements Snapshot {
  readonly #readTransaction: Transaction;
  readonly #onRelease: () => void;
  #isClosed = false;

  constructor(env: Environment, transaction: Transaction, onRelease: () => void) {
    super(env, transaction);
    this.#readTransaction = transaction;
    this.#onRelease = onRelease;
  }

  protected override checkOpen(): void {
    super.checkOpen();
    if (this.#isClosed) throw new StoreError('closed', 'snapshot is closed');
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#readTransaction.done();
    this.#onRelease();
  }
}
