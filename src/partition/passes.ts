import type { Batch, KeyRange, Scan, Snapshot, Store, StoreFilter } from '../store/contract.js';
import { compileFilter } from '../store/filter.js';
import { isPromise } from '../store/maybe.js';
import { cellCounter } from '../store/row.js';
import { type PlanKind, TOGETHER } from './area.js';
import { idOf, scanRange } from './scan.js';
import type { SearchRun } from './search-run.js';
import { keyAfter, MASTER_TABLE, Q, TREE, TREE_TABLE } from './tables.js';
import { firstTurn, Turns } from './turns.js';

/** Rows that match between two looks at the clock. */
const LOOK_ROWS = 32;
/**
 * For this share of the time that the one before took, and no longer than so many ms, a pass waits for those who have just been
 * answered: they may ask again, and would have to wait for the whole of it.
 */
const PATIENCE = 1 / 16;
const LONGEST_PATIENCE_MS = 10;

/** What a search has of a pass: the containers it met, and the pass's state of the store until it lets go of it. */
export interface Ride {
  readonly containers: Buffer[];
  release(): void;
}

/**
 * Searches without an index that have to look at the same range of tree rows do so together: reading a row costs more
 * than evaluating a filter on it. Those that come while a pass is under way wait for the next one, so that none reads a
 * state from before it began.
 */
export function rideAlong(
  run: SearchRun,
  range: KeyRange,
  filter: StoreFilter | undefined,
  kind: PlanKind,
): Promise<Ride> {
  const { store } = run.context;
  const lines = linesOf(store);
  const name = `${kind}${range.from?.toString('latin1') ?? ''}`;
  let line = lines.get(name);
  if (!line) {
    line = new Line(store, range, kind, () => lines.delete(name));
    lines.set(name, line);
  }
  return line.board(run, filter);
}

const allLines = new WeakMap<Store, Map<string, Line>>();

function linesOf(store: Store): Map<string, Line> {
  let lines = allLines.get(store);
  if (!lines) {
    lines = new Map();
    allLines.set(store, lines);
  }
  return lines;
}

/** A snapshot that several searches read; it is closed when the last lets go. */
class SharedSnapshot {
  readonly snapshot: Snapshot;
  #holders: number;

  constructor(snapshot: Snapshot, holders: number) {
    this.snapshot = snapshot;
    this.#holders = holders;
  }

  release(): void {
    if (--this.#holders === 0) this.snapshot.close();
  }
}

interface Rider {
  readonly run: SearchRun;
  readonly filter: StoreFilter | undefined;
  readonly test: (row: Buffer) => boolean;
  readonly containers: Buffer[];
  readonly resolve: (ride: Ride) => void;
  readonly reject: (error: unknown) => void;
}

/** Passes over one range, one after another for as long as somebody waits. */
class Line {
  readonly #store: Store;
  readonly #range: KeyRange;
  readonly #kind: PlanKind;
  readonly #emptied: () => void;
  #waiting: Rider[] = [];
  #running = false;
  /** Called when as many wait as are expected. */
  #complete: { readonly count: number; readonly go: () => void } | undefined;

  constructor(store: Store, range: KeyRange, kind: PlanKind, emptied: () => void) {
    this.#store = store;
    this.#range = range;
    this.#kind = kind;
    this.#emptied = emptied;
  }

  board(run: SearchRun, filter: StoreFilter | undefined): Promise<Ride> {
    return new Promise((resolve, reject) => {
      const test = filter ? compileFilter(filter) : () => true;
      this.#waiting.push({ run, filter, test, containers: [], resolve, reject });
      if (this.#complete && this.#waiting.length >= this.#complete.count) this.#complete.go();
      if (this.#running) return;
      this.#running = true;
      void this.#passes();
    });
  }

  async #passes(): Promise<void> {
    while (this.#waiting.length > 0) {
      const turn = firstTurn();
      if (isPromise(turn)) await turn;
      const riders = this.#waiting;
      this.#waiting = [];
      const began = performance.now();
      try {
        await new Pass(this.#store, this.#range, this.#kind, riders).go();
      } catch (error) {
        // It could not begin.
        for (const rider of riders) rider.reject(error);
      }
      const together = this.#waiting.length + riders.length;
      const patience = Math.min((performance.now() - began) * PATIENCE, LONGEST_PATIENCE_MS);
      if (together > 1 && patience >= 1) await this.#gather(together, patience);
    }
    this.#running = false;
    this.#emptied();
  }

  /** Waits until so many wait, or for a time, ms. */
  async #gather(count: number, patience: number): Promise<void> {
    await new Promise<void>((go) => {
      const timer = setTimeout(go, patience);
      this.#complete = {
        count,
        go: () => {
          clearTimeout(timer);
          go();
        },
      };
    });
    this.#complete = undefined;
  }
}

/** One pass: rows are read once, and each search looks at those that its filter lets through. */
class Pass {
  readonly #range: KeyRange;
  readonly #kind: PlanKind;
  readonly #shared: SharedSnapshot;
  /** Each answer costs a journey. */
  readonly #journeys: boolean;
  #riders: Rider[];
  readonly #turns = new Turns();

  constructor(store: Store, range: KeyRange, kind: PlanKind, riders: Rider[]) {
    this.#range = range;
    this.#kind = kind;
    this.#riders = riders;
    this.#journeys = store.supports.spread === true;
    this.#shared = new SharedSnapshot(store.snapshot(), riders.length);
    for (const { run } of riders) run.readFrom(this.#shared.snapshot);
  }

  /** Every rider is settled when it resolves, but for those that go on alone. */
  async go(): Promise<void> {
    let scan: Scan | undefined;
    try {
      scan = this.#shared.snapshot.scan(TREE_TABLE.name, this.#range, { filter: anyOf(this.#riders) });
      while (this.#riders.length > 0) {
        const next = scan.next();
        const batch = isPromise(next) ? await next : next;
        if (!batch) break;
        await this.#look(batch);
        await this.#turns.pass();
      }
      for (const rider of this.#riders) this.#arrive(rider);
    } catch (error) {
      for (const rider of this.#riders) this.#fail(rider, error);
    } finally {
      scan?.close();
    }
  }

  async #look(batch: Batch): Promise<void> {
    const alone = this.#riders.length === 1;
    for (const { run } of this.#riders) run.looked += batch.scanned;
    let ahead: readonly (Buffer | undefined)[] | undefined;
    for (let i = 0; i < batch.keys.length; i++) {
      if (i % LOOK_ROWS === LOOK_ROWS - 1) await this.#turns.pass();
      if (this.#journeys && i % TOGETHER === 0) ahead = await this.#readAhead(batch, i);
      const treeRow = batch.rows[i]!;
      const id = idOf(treeRow);
      let read = ahead ? ahead[i % TOGETHER] : null;
      for (const rider of [...this.#riders]) {
        if (!alone && !rider.test(treeRow)) continue;
        if (read === null) read = await this.#shared.snapshot.get(MASTER_TABLE.name, id);
        this.#offer(rider, batch.keys[i]!, treeRow, id, read);
      }
    }
    for (const rider of [...this.#riders]) this.#check(rider);
  }

  /** The entries of the next rows; nobody rides any more where there are none. */
  async #readAhead(batch: Batch, from: number): Promise<readonly (Buffer | undefined)[]> {
    if (this.#riders.length === 0) return [];
    const rows = batch.rows.slice(from, from + TOGETHER);
    return this.#shared.snapshot.getMany(
      MASTER_TABLE.name,
      rows.map((row) => idOf(row!)),
    );
  }

  #offer(rider: Rider, key: Buffer, treeRow: Buffer, id: Buffer, row: Buffer | undefined): void {
    if (this.#kind === 's' && cellCounter(treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n) rider.containers.push(id);
    if (!row) return;
    try {
      const done = rider.run.consider(id, row, this.#kind, key);
      if (isPromise(done)) this.#leave(rider, key, done);
      else if (rider.run.ended) this.#arrive(rider);
    } catch (error) {
      this.#fail(rider, error);
    }
  }

  #check(rider: Rider): void {
    try {
      rider.run.checkLimits();
    } catch (error) {
      this.#fail(rider, error);
    }
  }

  /** A search that has to wait (its client does not read, something has to be fetched) does not hold up the others: it goes on alone from here. */
  #leave(rider: Rider, key: Buffer, waiting: Promise<void>): void {
    this.#drop(rider);
    const rest = async (): Promise<void> => {
      await waiting;
      const range = { from: keyAfter(key), to: this.#range.to };
      rider.containers.push(...(await scanRange(rider.run, range, rider.filter, this.#kind)));
    };
    rest().then(
      () => this.#arrive(rider),
      (error) => this.#fail(rider, error),
    );
  }

  #arrive(rider: Rider): void {
    this.#drop(rider);
    rider.resolve({ containers: rider.containers, release: () => this.#shared.release() });
  }

  #fail(rider: Rider, error: unknown): void {
    this.#drop(rider);
    this.#shared.release();
    rider.reject(error);
  }

  #drop(rider: Rider): void {
    this.#riders = this.#riders.filter((other) => other !== rider);
  }
}

/** Lets through what any of them lets through. */
function anyOf(riders: readonly Rider[]): StoreFilter | undefined {
  const filters = new Set(riders.map((rider) => rider.filter));
  if (filters.has(undefined)) return undefined;
  const of = [...filters] as StoreFilter[];
  return of.length === 1 ? of[0] : { op: 'or', of };
}
