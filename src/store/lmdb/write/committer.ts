import type { Plan } from '../../contract.js';
import { LOG_TABLE, LogWriter } from '../../log.js';
import { Stage, type StagedRow, type StageSink, type StageSource } from '../../stage.js';
import { StoreError } from '../../store-error.js';
import { afterPrefix, MARK_ROW } from '../../tables.js';
import type { Environment } from '../file/environment.js';
import { toStoreError } from '../file/lmdb-errors.js';
import { getVerified, type LmdbTable } from '../file/lmdb-table.js';
import { copyValue, plainView } from '../file/records.js';
import { ListWriter } from '../lists/list-writer.js';
import { Lists } from '../lists/lists.js';
import type { Failpoint } from '../lmdb-options.js';
import { withChecksum } from '../record/checksum.js';
import { isSplitRowHead, needsSplit, Segments, splitRowHead, splitRowLength } from '../rows/segments.js';
import { removeSegments, StagedSplitRow, splitRow, writeSplitRow } from '../rows/split-row.js';

/** A batch takes no more plans after this many steps. */
const BATCH_STEPS = 2048;
/** A batch takes no more plans after this many milliseconds, because staging blocks the event loop. */
const BATCH_MS = 15;
/** Time for which a batch waits for more plans, in ms. Clients that just got a result often send the next write. */
const GATHER_MS = 1;
/** A batch waits for more plans only if the previous batch took at least `GATHER_FACTOR` * `GATHER_MS`. */
const GATHER_FACTOR = 4;

/** A plan that was passed to `commit`, and the functions that settle its promise. */
interface Job {
  readonly plan: Plan;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The result of a job, to be delivered when the batch is durable. */
interface Outcome {
  readonly job: Job;
  readonly error: unknown;
}

/**
 * Group commit. Plans that arrive while a batch is written and flushed form the next batch; each batch is one LMDB
 * transaction and one flush. Each plan sees the earlier plans of its batch. A plan whose guard fails is left out alone.
 */
export class Committer {
  /** Number of transactions and plans so far, and the time of the transactions with their flushes. */
  readonly stats = { batches: 0, plans: 0, ms: 0 };
  readonly #env: Environment;
  readonly #exclusive: <R>(task: () => Promise<R>) => Promise<R>;
  readonly #checkPlan: (plan: Plan) => void;
  readonly #failpoint: Failpoint | undefined;
  #queue: Job[] = [];
  #runPromise: Promise<void> | undefined;
  /** Expected size of the next batch: the plans written or waiting at the end of the last; 0 after a short batch. */
  #expectedSize = 0;
  #endedAt = 0;
  /** Ends the wait for more plans. */
  #stopGathering: (() => void) | undefined;

  /** `checkPlan` is called inside the transaction, and throws why the plan is refused. */
  constructor(
    env: Environment,
    exclusive: <R>(task: () => Promise<R>) => Promise<R>,
    checkPlan: (plan: Plan) => void,
    failpoint?: Failpoint,
  ) {
    this.#env = env;
    this.#exclusive = exclusive;
    this.#checkPlan = checkPlan;
    this.#failpoint = failpoint;
  }

  commit(plan: Plan): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ plan, resolve, reject });
      this.#runPromise ??= this.#run();
      if (this.#queue.length >= this.#expectedSize) this.#stopGathering?.();
    });
  }

  get waitingCount(): number {
    return this.#queue.length;
  }

  /** Resolves when no plan is waiting or being written. */
  async idle(): Promise<void> {
    while (this.#runPromise) await this.#runPromise;
  }

  async #run(): Promise<void> {
    try {
      while (this.#queue.length) {
        if (this.#queue.length < this.#expectedSize && performance.now() - this.#endedAt < GATHER_MS)
          await this.#gather();
        await this.#exclusive(() => this.#commitBatch());
      }
    } finally {
      this.#runPromise = undefined;
    }
  }

  #gather(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#stopGathering!(), GATHER_MS);
      this.#stopGathering = () => {
        clearTimeout(timer);
        this.#stopGathering = undefined;
        resolve();
      };
    });
  }

  async #commitBatch(): Promise<void> {
    const outcomes: Outcome[] = [];
    const beganAt = performance.now();
    try {
      this.#failpoint?.('commit begin');
      await this.#env.transact(() => this.#writeBatch(outcomes));
      this.#failpoint?.('commit durable');
    } catch (error) {
      // If the transaction could not begin, it took no plan: reject the first plan, or the loop would never end.
      const jobs = outcomes.length ? outcomes.map((outcome) => outcome.job) : this.#queue.splice(0, 1);
      for (const job of jobs) job.reject(error);
      return;
    }
    this.stats.batches++;
    this.stats.plans += outcomes.length;
    this.#endedAt = performance.now();
    this.stats.ms += this.#endedAt - beganAt;
    this.#expectedSize = this.#endedAt - beganAt < GATHER_FACTOR * GATHER_MS ? 0 : outcomes.length + this.#queue.length;
    for (const { job, error } of outcomes) {
      if (error === undefined) job.resolve();
      else job.reject(error);
    }
    this.#reloadTables();
  }

  /**
   * Reloads the tables if the catalog has changed. A failure rejects the first waiting plan; the next plan tries again.
   */
  #reloadTables(): void {
    try {
      if (this.#env.isCurrent()) return;
      this.#failpoint?.('tables changed');
      this.#env.reloadTables();
    } catch (error) {
      this.#queue.shift()?.reject(toStoreError(error, this.#env.folder));
    }
  }

  /** Runs inside the write transaction. Takes no plans if the catalog has changed: tables are reloaded first. */
  #writeBatch(outcomes: Outcome[]): void {
    if (!this.#env.isCurrent()) return;
    const stage = new Stage(new EnvironmentSource(this.#env));
    const deadline = performance.now() + BATCH_MS;
    let stepCount = 0;
    let takenCount = 0;
    for (const job of this.#queue) {
      if (takenCount > 0 && (stepCount >= BATCH_STEPS || performance.now() > deadline)) break;
      takenCount++;
      stepCount += job.plan.steps.length;
      outcomes.push({ job, error: this.#stagePlan(stage, job.plan) });
    }
    this.#queue.splice(0, takenCount);
    this.#failpoint?.('commit staged');
    drainInto(this.#env, stage);
    this.#failpoint?.('commit written');
  }

  #stagePlan(stage: Stage<LmdbTable>, plan: Plan): unknown {
    try {
      this.#checkPlan(plan);
      stage.apply(plan, logOf(this.#env, plan));
      return undefined;
    } catch (error) {
      return toStoreError(error, this.#env.folder);
    }
  }
}

/** Returns the log for a plan, inside the write transaction; undefined if the store has none. */
export function logOf(env: Environment, plan: Plan): LogWriter | undefined {
  return plan.unlogged || !env.tables.has(LOG_TABLE.name) ? undefined : new LogWriter();
}

/** Reads rows for a stage, inside the write transaction. */
export class EnvironmentSource implements StageSource<LmdbTable> {
  readonly maxKey: number;
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
    this.maxKey = env.maxKey;
  }

  table(name: string): LmdbTable {
    const table = this.#env.tables.get(name);
    if (!table) throw new StoreError('noTable', `table ${name} does not exist`);
    return table;
  }

  readRow(table: LmdbTable, key: Buffer): StagedRow | undefined {
    const suffixBytes = table.spec.suffixBytes;
    if (suffixBytes !== undefined) {
      const prefixLength = key.length - suffixBytes;
      return new Lists(table, undefined).hasSuffix(key.subarray(0, prefixLength), key.subarray(prefixLength))
        ? MARK_ROW
        : undefined;
    }
    const { records } = table;
    const { writer } = records;
    const bytes = getVerified(table, table.rows, key);
    if (!bytes) return undefined;
    if (isSplitRowHead(bytes)) return new StagedSplitRow(new Segments(table, key, this.maxKey), splitRowLength(bytes));
    return writer.decode(records.view(key, 0, key.length, plainView(bytes), bytes.length));
  }

  readCell(table: LmdbTable, family: number, key: Buffer): Buffer | undefined {
    const bytes = getVerified(table, table.separateFamilies.get(family)!, key);
    return bytes && copyValue(bytes, bytes.length);
  }

  listCellKeys(table: LmdbTable, family: number, prefix: Buffer): Buffer[] {
    return [...table.separateFamilies.get(family)!.getKeys({ start: prefix, end: afterPrefix(prefix)! })];
  }

  lastRowNumber(table: LmdbTable): bigint {
    return this.#env.catalog.lastRowNumber(table.id);
  }
}

/** Writes the staged changes, inside the write transaction. */
export function drainInto(env: Environment, stage: Stage<LmdbTable>): void {
  const sink = new EnvironmentSink(env);
  stage.drain(sink);
  sink.writeLists();
}

/** Suffixes to add to a list and to remove from it. */
interface ListChange {
  readonly prefix: Buffer;
  readonly additions: Buffer[];
  readonly removals: Buffer[];
}

/** Writes staged changes to LMDB. All lengths were checked before, so only LMDB can fail, which fails the batch. */
class EnvironmentSink implements StageSink<LmdbTable> {
  readonly #env: Environment;
  /** Changes by prefix as Latin-1 text, collected so that each list is written once. */
  readonly #listChanges = new Map<LmdbTable, Map<string, ListChange>>();

  constructor(env: Environment) {
    this.#env = env;
  }

  writeRow(
    table: LmdbTable,
    key: Buffer,
    row: StagedRow | undefined,
    original: StagedRow | undefined | 'unread',
  ): void {
    const suffixBytes = table.spec.suffixBytes;
    if (suffixBytes !== undefined) {
      const { additions, removals } = this.#listChange(table, key.subarray(0, key.length - suffixBytes));
      (row ? additions : removals).push(key.subarray(key.length - suffixBytes));
    } else if (row instanceof StagedSplitRow) {
      writeSplitRow(table, key, row, this.#env.maxKey);
    } else {
      this.#putRow(table, key, row as Buffer | undefined, original);
    }
  }

  #listChange(table: LmdbTable, prefix: Buffer): ListChange {
    let changesByPrefix = this.#listChanges.get(table);
    if (!changesByPrefix) {
      changesByPrefix = new Map();
      this.#listChanges.set(table, changesByPrefix);
    }
    const name = prefix.toString('latin1');
    let listChange = changesByPrefix.get(name);
    if (!listChange) {
      listChange = { prefix, additions: [], removals: [] };
      changesByPrefix.set(name, listChange);
    }
    return listChange;
  }

  writeLists(): void {
    for (const [table, lists] of this.#listChanges) {
      const writer = new ListWriter(table, this.#env.maxKey);
      for (const { prefix, additions, removals } of lists.values())
        writer.changeList(prefix, concatSorted(additions), concatSorted(removals));
    }
  }

  /** Writes or deletes a row that is not staged as a split row. */
  #putRow(table: LmdbTable, key: Buffer, row: Buffer | undefined, original: StagedRow | undefined | 'unread'): void {
    const { maxKey } = this.#env;
    if (original === 'unread' ? isStoredSplit(table, key) : original instanceof StagedSplitRow)
      removeSegments(table, key, maxKey);
    if (!row) {
      table.rows.removeSync(key);
    } else if (needsSplit(key.length, row.length, maxKey)) {
      splitRow(table, key, row, maxKey);
      table.rows.putSync(key, splitRowHead(key, row.length));
    } else {
      table.rows.putSync(key, table.records.writer.encodeValue(key, row));
    }
  }

  writeCell(table: LmdbTable, family: number, key: Buffer, value: Buffer | undefined): void {
    const db = table.separateFamilies.get(family)!;
    if (value) db.putSync(key, withChecksum(key, value));
    else db.removeSync(key);
  }

  writeLastRowNumber(table: LmdbTable, rowNumber: bigint): void {
    this.#env.catalog.putRowNumber(table.id, rowNumber);
  }
}

/** Whether the stored row is split. Does not verify the record, so that a damaged record can be replaced or deleted. */
function isStoredSplit(table: LmdbTable, key: Buffer): boolean {
  const record = table.rows.getBinaryFast(key);
  return record !== undefined && isSplitRowHead(record);
}

function concatSorted(suffixes: Buffer[]): Buffer {
  return suffixes.length === 1 ? suffixes[0]! : Buffer.concat(suffixes.sort(Buffer.compare));
}
