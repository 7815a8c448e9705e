import type { Plan } from '../../contract.js';
import { Stage, type StagedRow, type StageSink, type StageSource } from '../../stage.js';
import { StoreError } from '../../store-error.js';
import { afterPrefix, MARK_ROW } from '../../tables.js';
import type { Failpoint } from '../failpoint.js';
import type { Environment } from '../file/environment.js';
import { toStoreError } from '../file/lmdb-errors.js';
import { getSound, type LmdbTable } from '../file/lmdb-table.js';
import { copyOf, viewOf } from '../file/read-buffer.js';
import { ListWriter } from '../lists/list-writer.js';
import { Lists } from '../lists/lists.js';
import { sealed } from '../record/check.js';
import { headOf, isHead, isSplit, lengthIn, Segments } from '../rows/segments.js';
import { removeSegments, StagedSplitRow, splitRow, writeSplitRow } from '../rows/split-row.js';

/** A batch takes no more plans after so many steps, … */
const BATCH_STEPS = 2048;
/** … or so many milliseconds of staging: the event loop stands still meanwhile. */
const BATCH_MS = 15;
/** Those who were answered just now mostly ask again at once: a batch waits so long for them, … */
const GATHER_MS = 1;
/** … if the one before took so many times as long. */
const WORTH = 4;

interface Job {
  readonly plan: Plan;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What became of a job once its batch is durable. */
interface Outcome {
  readonly job: Job;
  readonly error: unknown;
}

/**
 * Group commit. Plans that arrive while one batch is written and flushed make up the next; each batch is one LMDB
 * transaction and one flush. Within it, each plan sees those before it, and one whose guard fails is left out alone.
 */
export class Committer {
  /** Transactions written and plans decided so far. */
  readonly stats = { batches: 0, plans: 0 };
  readonly #env: Environment;
  readonly #exclusive: <R>(task: () => Promise<R>) => Promise<R>;
  readonly #failpoint: Failpoint | undefined;
  #queue: Job[] = [];
  #running: Promise<void> | undefined;
  /** Plans that were in work when the last batch ended, its own and those that waited; 0 when it was short. */
  #expected = 0;
  #endedAt = 0;
  /** Begins the batch that waits for more plans. */
  #begin: (() => void) | undefined;

  constructor(env: Environment, exclusive: <R>(task: () => Promise<R>) => Promise<R>, failpoint?: Failpoint) {
    this.#env = env;
    this.#exclusive = exclusive;
    this.#failpoint = failpoint;
  }

  commit(plan: Plan): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ plan, resolve, reject });
      this.#running ??= this.#run();
      if (this.#queue.length >= this.#expected) this.#begin?.();
    });
  }

  /** Resolves when nothing is waiting and nothing is being written. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    try {
      while (this.#queue.length) {
        if (this.#queue.length < this.#expected && performance.now() - this.#endedAt < GATHER_MS)
          await this.#gathered();
        await this.#exclusive(() => this.#batch());
      }
    } finally {
      this.#running = undefined;
    }
  }

  #gathered(): Promise<void> {
    return new Promise((resolve) => {
      const late = setTimeout(() => this.#begin!(), GATHER_MS);
      this.#begin = () => {
        clearTimeout(late);
        this.#begin = undefined;
        resolve();
      };
    });
  }

  async #batch(): Promise<void> {
    const outcomes: Outcome[] = [];
    const began = performance.now();
    try {
      this.#failpoint?.('commit begin');
      await this.#env.transact(() => this.#writeBatch(outcomes));
      this.#failpoint?.('commit durable');
    } catch (error) {
      // A transaction that could not begin has taken no plan: then the first one hears of it, or it would never end.
      const jobs = outcomes.length ? outcomes.map((outcome) => outcome.job) : this.#queue.splice(0, 1);
      for (const job of jobs) job.reject(error);
      return;
    }
    this.stats.batches++;
    this.stats.plans += outcomes.length;
    this.#endedAt = performance.now();
    this.#expected = this.#endedAt - began < WORTH * GATHER_MS ? 0 : outcomes.length + this.#queue.length;
    for (const { job, error } of outcomes) {
      if (error === undefined) job.resolve();
      else job.reject(error);
    }
    this.#reopen();
  }

  /**
   * Where the tables have changed. When that cannot be done, who waits first hears so, and the next one has it tried
   * again.
   */
  #reopen(): void {
    try {
      if (this.#env.isCurrent()) return;
      this.#failpoint?.('tables changed');
      this.#env.refresh();
    } catch (error) {
      this.#queue.shift()?.reject(toStoreError(error, this.#env.folder));
    }
  }

  /** Inside the write transaction. Leaves the queue alone when the tables have changed: they are reopened first. */
  #writeBatch(outcomes: Outcome[]): void {
    if (!this.#env.isCurrent()) return;
    const stage = new Stage(new EnvironmentSource(this.#env));
    const deadline = performance.now() + BATCH_MS;
    let steps = 0;
    let taken = 0;
    for (const job of this.#queue) {
      if (taken > 0 && (steps >= BATCH_STEPS || performance.now() > deadline)) break;
      taken++;
      steps += job.plan.steps.length;
      outcomes.push({ job, error: this.#stage(stage, job.plan) });
    }
    this.#queue.splice(0, taken);
    this.#failpoint?.('commit staged');
    drainInto(this.#env, stage);
    this.#failpoint?.('commit written');
  }

  #stage(stage: Stage<LmdbTable>, plan: Plan): unknown {
    try {
      stage.apply(plan);
      return undefined;
    } catch (error) {
      return toStoreError(error, this.#env.folder);
    }
  }
}

/** Reads inside the write transaction. */
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

  row(table: LmdbTable, key: Buffer): StagedRow | undefined {
    const suffix = table.spec.suffixBytes;
    if (suffix !== undefined) {
      const cut = key.length - suffix;
      return new Lists(table, undefined).has(key.subarray(0, cut), key.subarray(cut)) ? MARK_ROW : undefined;
    }
    const { records } = table;
    const { writer } = records;
    const bytes = getSound(table, table.rows, key);
    if (!bytes) return undefined;
    if (isHead(bytes)) return new StagedSplitRow(new Segments(table, key, this.maxKey), lengthIn(bytes));
    return writer.row(records.at(key, 0, key.length, viewOf(bytes), bytes.length));
  }

  cell(table: LmdbTable, family: number, key: Buffer): Buffer | undefined {
    const bytes = getSound(table, table.cells.get(family)!, key);
    return bytes && copyOf(bytes, bytes.length);
  }

  cellKeys(table: LmdbTable, family: number, prefix: Buffer): Buffer[] {
    return [...table.cells.get(family)!.getKeys({ start: prefix, end: afterPrefix(prefix)! })];
  }

  lastAppended(table: LmdbTable): bigint {
    return this.#env.catalog.lastAppended(table.id);
  }
}

/** Writes what was staged, inside the write transaction. */
export function drainInto(env: Environment, stage: Stage<LmdbTable>): void {
  const sink = new EnvironmentSink(env);
  stage.drain(sink);
  sink.writeLists();
}

/** Suffixes that are to be in a list, and not. */
interface ListChange {
  readonly prefix: Buffer;
  readonly added: Buffer[];
  readonly removed: Buffer[];
}

/** Every length was checked before: what fails here is LMDB, and fails the batch. */
class EnvironmentSink implements StageSink<LmdbTable> {
  readonly #env: Environment;
  /** By prefix as Latin-1 text: a list is written once, however many of its rows change. */
  readonly #lists = new Map<LmdbTable, Map<string, ListChange>>();

  constructor(env: Environment) {
    this.#env = env;
  }

  row(table: LmdbTable, key: Buffer, row: StagedRow | undefined, before: StagedRow | undefined | 'unread'): void {
    const suffix = table.spec.suffixBytes;
    if (suffix !== undefined) {
      const { added, removed } = this.#listOf(table, key.subarray(0, key.length - suffix));
      (row ? added : removed).push(key.subarray(key.length - suffix));
    } else if (row instanceof StagedSplitRow) {
      writeSplitRow(table, key, row, this.#env.maxKey);
    } else {
      this.#whole(table, key, row as Buffer | undefined, before);
    }
  }

  #listOf(table: LmdbTable, prefix: Buffer): ListChange {
    let lists = this.#lists.get(table);
    if (!lists) {
      lists = new Map();
      this.#lists.set(table, lists);
    }
    const name = prefix.toString('latin1');
    let list = lists.get(name);
    if (!list) {
      list = { prefix, added: [], removed: [] };
      lists.set(name, list);
    }
    return list;
  }

  writeLists(): void {
    for (const [table, lists] of this.#lists) {
      const writer = new ListWriter(table, this.#env.maxKey);
      for (const { prefix, added, removed } of lists.values()) writer.change(prefix, risen(added), risen(removed));
    }
  }

  /** A row that was read as one record, or is new, or goes. */
  #whole(table: LmdbTable, key: Buffer, row: Buffer | undefined, before: StagedRow | undefined | 'unread'): void {
    const { maxKey } = this.#env;
    if (before === 'unread' ? isSplitAt(table, key) : before instanceof StagedSplitRow) {
      removeSegments(table, key, maxKey);
    }
    if (!row) {
      table.rows.removeSync(key);
    } else if (isSplit(key.length, row.length, maxKey)) {
      splitRow(table, key, row, maxKey);
      table.rows.putSync(key, headOf(key, row.length));
    } else {
      table.rows.putSync(key, table.records.writer.value(key, row));
    }
  }

  cell(table: LmdbTable, family: number, key: Buffer, value: Buffer | undefined): void {
    const db = table.cells.get(family)!;
    if (value) db.putSync(key, sealed(key, value));
    else db.removeSync(key);
  }

  appended(table: LmdbTable, last: bigint): void {
    this.#env.catalog.putAppended(table.id, last);
  }
}

/** Unverified: a record that is damaged can be replaced and deleted. */
function isSplitAt(table: LmdbTable, key: Buffer): boolean {
  const record = table.rows.getBinaryFast(key);
  return record !== undefined && isHead(record);
}

function risen(suffixes: Buffer[]): Buffer {
  return suffixes.length === 1 ? suffixes[0]! : Buffer.concat(suffixes.sort(Buffer.compare));
}
