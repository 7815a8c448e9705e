import type {
  Batch,
  ColumnRange,
  KeyRange,
  LoadTable,
  Maybe,
  Plan,
  Reader,
  Scan,
  ScanOptions,
  Snapshot,
  Store,
  TableSpec,
} from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';

/** A moment at which a fault may strike. */
export type FaultPoint =
  | {
      readonly at:
        | 'get'
        | 'getHead'
        | 'getColumns'
        | 'getMany'
        | 'getCells'
        | 'keysOfCells'
        | 'namesOfCells'
        | 'scan'
        | 'postings'
        | 'postingsMany'
        | 'rangePostings'
        | 'postingCount'
        | 'count';
      readonly table: string;
    }
  /** Before the inner store sees the plan: nothing was done. */
  | { readonly at: 'beforeCommit'; readonly plan: Plan }
  /** After it was applied, before the caller hears of it. */
  | { readonly at: 'afterCommit'; readonly plan: Plan }
  /** Between the steps of a plan, where the inner store applies them one by one; `step` is the one that comes next. */
  | { readonly at: 'step'; readonly plan: Plan; readonly step: number }
  | { readonly at: 'ingest' };

/**
 * `fail`: `StoreError` `unavailable`, or the error given. `delay`: the call waits so many milliseconds, with 0 one
 * round of the event loop, and goes on; `late`: what a read has found waits too before it is given, and is so much
 * older then. `cut`: like fail, but the caller cannot know what took effect (`applied` 'unknown').
 */
export type Fault =
  | { readonly do: 'fail'; readonly error?: Error }
  | { readonly do: 'delay'; readonly ms: number; readonly late?: number }
  | { readonly do: 'cut' };

/** Decides at every point; undefined lets it pass. */
export type FaultScript = (point: FaultPoint) => Fault | undefined;

/** Wraps a store so that calls fail, wait or are cut where the script says. Without faults it is the inner store. */
export function faulty(inner: Store, script: FaultScript): Store {
  return new FaultyStore(inner, script);
}

class FaultyReader implements Reader {
  readonly #reader: Reader;
  protected readonly script: FaultScript;

  constructor(reader: Reader, script: FaultScript) {
    this.#reader = reader;
    this.script = script;
  }

  get(table: string, key: Buffer): Maybe<Buffer | undefined> {
    return this.#pass({ at: 'get', table }, () => this.#reader.get(table, key));
  }

  getHead(table: string, key: Buffer, only?: boolean): Maybe<Buffer | undefined> {
    return this.#pass({ at: 'getHead', table }, () => this.#reader.getHead(table, key, only));
  }

  getColumns(table: string, key: Buffer, ranges: readonly ColumnRange[]): Maybe<Buffer | undefined> {
    return this.#pass({ at: 'getColumns', table }, () => this.#reader.getColumns(table, key, ranges));
  }

  getMany(table: string, keys: readonly Buffer[]): Maybe<(Buffer | undefined)[]> {
    return this.#pass({ at: 'getMany', table }, () => this.#reader.getMany(table, keys));
  }

  getCells(table: string, key: Buffer, family: number, prefix: Buffer): Maybe<Buffer | undefined> {
    return this.#pass({ at: 'getCells', table }, () => this.#reader.getCells(table, key, family, prefix));
  }

  keysOfCells(table: string, family: number, limit: number, after?: Buffer): Maybe<Buffer[]> {
    return this.#pass({ at: 'keysOfCells', table }, () => this.#reader.keysOfCells(table, family, limit, after));
  }

  namesOfCells(table: string, key: Buffer, family: number): Maybe<Buffer[]> {
    return this.#pass({ at: 'namesOfCells', table }, () => this.#reader.namesOfCells(table, key, family));
  }

  scan(table: string, range: KeyRange, options?: ScanOptions): Scan {
    const scan = this.#reader.scan(table, range, options);
    return {
      next: (): Maybe<Batch | undefined> => this.#pass({ at: 'scan', table }, () => scan.next()),
      close: () => scan.close(),
    };
  }

  postings(table: string, prefix: Buffer, limit: number, after?: Buffer): Maybe<Buffer> {
    return this.#pass({ at: 'postings', table }, () => this.#reader.postings(table, prefix, limit, after));
  }

  postingsMany(table: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Maybe<Buffer[]> {
    return this.#pass({ at: 'postingsMany', table }, () => this.#reader.postingsMany(table, prefixes, limit, after));
  }

  rangePostings(table: string, range: KeyRange, limit: number): Maybe<Buffer> {
    return this.#pass({ at: 'rangePostings', table }, () => this.#reader.rangePostings(table, range, limit));
  }

  postingCount(table: string, prefix: Buffer, cap: number): Maybe<number> {
    return this.#pass({ at: 'postingCount', table }, () => this.#reader.postingCount(table, prefix, cap));
  }

  count(table: string, range: KeyRange, cap: number): Maybe<number> {
    return this.#pass({ at: 'count', table }, () => this.#reader.count(table, range, cap));
  }

  /** Answers at once when the inner store does and nothing strikes. */
  #pass<T>(point: FaultPoint, call: () => Maybe<T>): Maybe<T> {
    const fault = this.script(point);
    if (!fault) return call();
    if (fault.do === 'delay') return delayed(fault, call);
    throw errorOf(fault, point);
  }
}

class FaultyStore extends FaultyReader implements Store {
  readonly supports: Store['supports'];
  readonly #store: Store;

  constructor(store: Store, script: FaultScript) {
    super(store, script);
    this.#store = store;
    this.supports = store.supports;
  }

  createTable(spec: TableSpec): Promise<void> {
    return this.#store.createTable(spec);
  }

  dropTable(name: string): Promise<void> {
    return this.#store.dropTable(name);
  }

  tables(): Promise<TableSpec[]> {
    return this.#store.tables();
  }

  snapshot(): Snapshot {
    const snapshot = this.#store.snapshot();
    return Object.assign(new FaultyReader(snapshot, this.script), { close: () => snapshot.close() });
  }

  async commit(plan: Plan): Promise<void> {
    await this.#strike({ at: 'beforeCommit', plan });
    if (this.supports.atomicPlan) await this.#commitWhole(plan);
    else await this.#commitSteps(plan);
    await this.#strike({ at: 'afterCommit', plan }, 'unknown');
  }

  /** An atomic plan that is cut at a step has not happened. */
  async #commitWhole(plan: Plan): Promise<void> {
    for (let step = 0; step < plan.steps.length; step++) await this.#strike({ at: 'step', plan, step });
    await this.#store.commit(plan);
  }

  async #commitSteps(plan: Plan): Promise<void> {
    for (const [step, one] of plan.steps.entries()) {
      await this.#strike({ at: 'step', plan, step }, 'unknown');
      await this.#store.commit({ steps: [one], decisive: 0 });
    }
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    await this.#strike({ at: 'ingest' });
    await this.#store.ingest(tables, plan);
  }

  settled(table: string): Maybe<bigint> {
    return this.#store.settled(table);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #strike(point: FaultPoint, applied: 'no' | 'unknown' = 'no'): Promise<void> {
    const fault = this.script(point);
    if (!fault) return;
    if (fault.do === 'delay') await wait(fault.ms);
    else throw errorOf(fault, point, applied);
  }
}

function errorOf(fault: Exclude<Fault, { do: 'delay' }>, point: FaultPoint, applied: 'no' | 'unknown' = 'no'): Error {
  if (fault.do === 'fail' && fault.error) return fault.error;
  return new StoreError('unavailable', `fault at ${point.at}`, { applied: fault.do === 'cut' ? 'unknown' : applied });
}

async function delayed<T>({ ms, late }: Extract<Fault, { do: 'delay' }>, call: () => Maybe<T>): Promise<T> {
  await wait(ms);
  const answer = await call();
  if (late !== undefined) await wait(late);
  return answer;
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => (ms === 0 ? setImmediate(resolve) : setTimeout(resolve, ms)));
}
