import { FairTree } from '../../../fair/fair-tree.js';
import { TimeSlice, waitForFirstSlice } from '../../../fair/time-slice.js';
import type { Batch, KeyRange, Maybe, Scan, Snapshot, Store, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { cellCounter } from '../../../store/row.js';
import { compileFilter, type RowTest } from '../../../store/row-filter.js';
import { keyAfter } from '../../../store/tables.js';
import { MASTER_TABLE, Q, TREE, TREE_TABLE } from '../../model/tables.js';
import { TOGETHER } from './area.js';
import { requireAllRows } from './lost-rows.js';
import type { PlanKind } from './page.js';
import { idOf, lookAt, looksAgain, type Rest, type Rows, scanRange } from './scope-scan.js';
import { AFTER_WAIT, LOOK_ENTRIES, type SearchRun } from './search-run.js';

/**
 * For this share of the time that the one before took, and no longer than so many ms, a pass waits for those who have
 * just been answered: they may ask again, and would have to wait for the whole of it.
 */
const PATIENCE = 1 / 16;
const LONGEST_PATIENCE_MS = 10;
/** Searches of one client in one pass, … */
const RIDERS = 32;
/** … and of all: each row is tested for each of them before the clock is looked at. */
const ALL_RIDERS = 128;
/** The clock is looked at after so much work: a test counts one, an entry that is offered `OFFER`. */
const LOOK_WORK = 256;
const OFFER = 32;

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
  const room = run.params.client?.waitForDrain();
  if (isPromise(room)) return room.then(() => board(run, range, filter, kind));
  return board(run, range, filter, kind);
}

function board(run: SearchRun, range: KeyRange, filter: StoreFilter | undefined, kind: PlanKind): Promise<Ride> {
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
  readonly containers: Buffer[];
  readonly resolve: (ride: Ride) => void;
  readonly reject: (error: unknown) => void;
  /** Rides no more. */
  left: boolean;
}

/** False for one that was abandoned or whose time was over while it waited: it has been told. */
function isWanted({ run, reject }: Rider): boolean {
  try {
    run.checkLimits();
    return true;
  } catch (error) {
    reject(error);
    return false;
  }
}

/** Passes over one range, one after another for as long as somebody waits. */
class Line {
  readonly #store: Store;
  readonly #range: KeyRange;
  readonly #kind: PlanKind;
  readonly #emptied: () => void;
  /** Searches that wait for the next pass, by client. */
  readonly #waiting = new FairTree<Rider>();
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
      const rider = { run, filter, containers: [], resolve, reject, left: false };
      this.#waiting.push([run.params.client ?? run], rider);
      if (this.#complete && this.#waiting.size >= this.#complete.count) this.#complete.go();
      if (this.#running) return;
      this.#running = true;
      void this.#passes();
    });
  }

  async #passes(): Promise<void> {
    while (this.#waiting.size > 0) {
      const pause = waitForFirstSlice();
      if (isPromise(pause)) await pause;
      const riders = this.#boarding();
      if (riders.length === 0) continue;
      const began = performance.now();
      try {
        await new Pass(this.#store, this.#range, this.#kind, riders).go();
      } catch (error) {
        // It could not begin.
        for (const rider of riders) rider.reject(error);
      }
      const together = this.#waiting.size + riders.length;
      const patience = Math.min((performance.now() - began) * PATIENCE, LONGEST_PATIENCE_MS);
      if (together > 1 && patience >= 1) await this.#gather(together, patience);
    }
    this.#running = false;
    this.#emptied();
  }

  /** Takes waiting searches round-robin by client, up to the limits of one pass. */
  #boarding(): Rider[] {
    const riders: Rider[] = [];
    for (let round = 0; round < RIDERS; round++)
      for (let left = this.#waiting.keyCount; left > 0 && riders.length < ALL_RIDERS; left--)
        riders.push(this.#waiting.shift()!);
    return riders.filter(isWanted);
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
  /** Tests of tree rows; made only where several ride, as the scan has applied the filter of one alone. */
  readonly #tests = new Map<Rider, RowTest>();
  /** Rows that the scan has looked at. */
  #met = 0;
  readonly #slice = new TimeSlice();
  /** Done since the clock was looked at. */
  #work = 0;

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
        if (!batch) {
          if (this.#kind === 't') await requireAllRows(this.#riders[0]!.run.context, this.#shared.snapshot, this.#met);
          break;
        }
        this.#met += batch.scanned;
        await this.#look(batch);
        const pause = this.#slice.yieldIfOver();
        if (isPromise(pause)) await pause;
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
      const pause = i % LOOK_ENTRIES === LOOK_ENTRIES - 1 ? this.#slice.yieldIfOver() : undefined;
      if (isPromise(pause)) await pause;
      if (this.#journeys && i % TOGETHER === 0) ahead = await this.#readAhead(batch, i);
      const treeRow = batch.rows[i]!;
      const id = idOf(treeRow);
      let read = ahead ? ahead[i % TOGETHER] : null;
      for (const rider of [...this.#riders]) {
        const others = this.#work > LOOK_WORK ? this.#lookUp() : undefined;
        if (isPromise(others)) await others;
        this.#work++;
        if (rider.left || (!alone && !this.#testOf(rider)(treeRow))) continue;
        if (read === null) read = await this.#shared.snapshot.getHead(MASTER_TABLE.name, id);
        this.#offer(rider, batch, i, id, read);
        this.#work += OFFER;
      }
    }
    for (const rider of [...this.#riders]) this.#check(rider);
  }

  #lookUp(): Maybe<void> {
    this.#work = 0;
    return this.#slice.yieldIfOver();
  }

  #testOf(rider: Rider): RowTest {
    let test = this.#tests.get(rider);
    if (!test) {
      test = rider.filter ? compileFilter(rider.filter) : () => true;
      this.#tests.set(rider, test);
    }
    return test;
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

  #offer(rider: Rider, batch: Batch, i: number, id: Buffer, row: Buffer | undefined): void {
    const key = batch.keys[i]!;
    const treeRow = batch.rows[i]!;
    const room = rider.run.params.client?.waitForDrain();
    if (isPromise(room)) {
      this.#leave(rider, batch, i, room);
      return;
    }
    if (this.#kind === 's' && cellCounter(treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n)
      rider.containers.push(Buffer.from(id));
    try {
      if (!row) {
        rider.run.lacks(id);
        return;
      }
      const done = rider.run.considerHead(id, row, this.#kind, key);
      if (isPromise(done)) this.#leave(rider, batch, i + 1, done);
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

  /**
   * A search that has to wait (its client does not read, something has to be fetched) does not hold up the others: it
   * goes on alone from the row `next` of the batch. Where it is its client that it waits for, it holds no row.
   */
  #leave(rider: Rider, batch: Batch, next: number, waiting: Promise<void>): void {
    this.#drop(rider);
    const { run, filter } = rider;
    // Where the engine tells how far the batch goes, its rows are at hand.
    const held = batch.until && !run.isHeldUp ? rowsBehind(batch, next, filter) : undefined;
    const last = batch.keys[next - 1];
    const from = last ? keyAfter(last) : Buffer.from(batch.keys[next]!);
    const rest = { from, left: batch.keys.length - next, room: run.isHeldUp ? waiting : undefined };
    this.#goOnAlone(rider, rest, batch.until, held, waiting).then(
      () => this.#arrive(rider),
      (error) => this.#fail(rider, error),
    );
  }

  async #goOnAlone(
    { run, filter, containers }: Rider,
    givenUp: Rest,
    until: Batch['until'],
    held: Rows | undefined,
    waiting: Promise<void>,
  ): Promise<void> {
    const kind = this.#kind;
    const { to } = this.#range;
    let met: number | undefined = this.#met;
    await waiting;
    const rest = held ? await lookAt(run, held, kind, containers) : givenUp;
    if (rest) {
      const again = await looksAgain(run, rest, until, to, true);
      met = again === undefined ? undefined : met - again;
      await rest.room;
    }
    const start = rest?.from ?? (until === 'end' ? undefined : until);
    if (start) {
      const found = await scanRange(run, { from: start, to }, filter, kind, rest?.room && AFTER_WAIT);
      containers.push(...found.containers);
      met = met === undefined || found.met === undefined ? undefined : met + found.met;
    }
    if (met !== undefined && kind === 't' && !run.ended) await requireAllRows(run.context, run.reader, met);
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
    rider.left = true;
    this.#riders = this.#riders.filter((other) => other !== rider);
  }
}

/** The rows of a batch from the row `next` on that the filter lets through. */
function rowsBehind(batch: Batch, next: number, filter: StoreFilter | undefined): Rows {
  const keys = batch.keys.slice(next);
  const rows = batch.rows.slice(next);
  if (!filter) return { keys, rows };
  const test = compileFilter(filter);
  const takes = rows.map((row) => test(row!));
  return { keys: keys.filter((_, i) => takes[i]), rows: rows.filter((_, i) => takes[i]) };
}

/** Lets through what any of them lets through. */
function anyOf(riders: readonly Rider[]): StoreFilter | undefined {
  const filters = new Set(riders.map((rider) => rider.filter));
  if (filters.has(undefined)) return undefined;
  const of = [...filters] as StoreFilter[];
  return of.length === 1 ? of[0] : { op: 'or', of };
}
