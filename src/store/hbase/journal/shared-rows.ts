import type { Increment } from '../../contract.js';
import { cellCounter, cellValue, compareCells, counterBytes } from '../../row.js';
import { editRow } from '../../row-edit.js';
import { mayBeDone, StoreError } from '../../store-error.js';
import type { Cluster, OpenTable } from '../cluster.js';
import type { Clock, Pace, Stop } from './clock.js';
import { type Holder, parseLock, type SharedLock, sharedLock } from './codec.js';
import { type Conflict, freeing, type LockedRow, lockIn } from './locks.js';
import { moments } from './moments.js';
import type { Tickets } from './tickets.js';
import type { VacantLocks } from './vacant-locks.js';
import { Fenced, type Writer } from './writer.js';

const MOST_FOLDED = 1000;

/**
 * A row that this front end holds shared: nobody changes it but for counters.
 *
 *     taking ──► held ──► leaving ──► gone      (an exclusive lock in the way: taking ──► gone)
 *
 * While it is held, plans add to `pending`; a fold moves that to `folding`, writes it, and has then `folded` up to its
 * sequence. Who takes the row or lets go of it has the local lock of it; folds need none, and go one after another.
 */
export class SharedRow implements LockedRow {
  readonly table: OpenTable;
  readonly key: Buffer;
  readonly id: string;
  /** Value of the lock cell when it was last seen. */
  lock: Buffer = Buffer.alloc(0);
  /** The row when it was last seen. */
  row: Buffer | undefined;
  state: 'taking' | 'held' | 'leaving' | 'gone' = 'taking';
  /** The taking of it; resolves with the lock that stands in the way. */
  taken: Promise<Buffer | undefined> | undefined;
  /** Added and not yet folded, and the last record of those; `folding` is being written. */
  pending: Increment[] = [];
  folding: Increment[] = [];
  sequence = 0n;
  /** Additions of records up to this one are in the row; `since`: when it was taken. */
  folded = 0n;
  since = 0n;
  foldedAt = Number.NEGATIVE_INFINITY;
  usedAt = 0;
  work: Promise<void> = Promise.resolve();
  /** Of the next fold, where something is pending. */
  stopFold: Stop | undefined;

  constructor(table: OpenTable, key: Buffer, id: string) {
    this.table = table;
    this.key = key;
    this.id = id;
  }

  get clean(): boolean {
    return this.pending.length === 0 && this.folding.length === 0;
  }

  /** `row`, this one as it is stored, with what is pending. */
  view(row: Buffer | undefined): Buffer | undefined {
    return this.clean ? row : added(row, [...this.folding, ...this.pending]);
  }
}

/** Sums by name, in order. */
export function sums(adds: readonly Increment[]): Increment[] {
  const list: { family: number; qualifier: Buffer; by: bigint }[] = [];
  for (const add of adds) {
    const known = list.find((one) => compareCells(one, add) === 0);
    if (known) known.by += add.by;
    else list.push({ ...add });
  }
  return list.sort(compareCells);
}

/** The counter cells with the additions in them. */
export function counted(
  row: Buffer | undefined,
  adds: readonly Increment[],
): { family: number; qualifier: Buffer; value: Buffer }[] {
  return sums(adds).map(({ family, qualifier, by }) => {
    const value = counterBytes(BigInt.asIntN(64, cellCounter(row, family, qualifier) + by));
    return { family, qualifier, value };
  });
}

function added(row: Buffer | undefined, adds: readonly Increment[]): Buffer | undefined {
  return editRow(row, counted(row, adds));
}

/** The rows that a writer holds shared, and what it has still to add to their counters. */
export class SharedRows {
  readonly #cluster: Cluster;
  readonly #writer: Writer;
  readonly #vacant: VacantLocks;
  readonly #tickets: Tickets;
  readonly #clock: Clock;
  readonly #pace: Pace;
  readonly #rows = new Map<string, SharedRow>();
  /** By table: the number of rows with something pending, and when the last fold ended. */
  readonly #pending = new Map<string, { rows: number; folded: number }>();
  /** When the last fold of a row ended, the oldest first; which ended up to `#foldedUnknown` is forgotten. */
  readonly #folded = new Map<string, number>();
  #foldedUnknown = moments.now();
  #joins = 0;
  /** Called when folding failed for good. */
  readonly #onFailure: (error: unknown) => void;
  /** Called when more of the additions are folded. */
  readonly #onFold: () => void;

  constructor(
    cluster: Cluster,
    writer: Writer,
    vacant: VacantLocks,
    tickets: Tickets,
    clock: Clock,
    pace: Pace,
    onFailure: (error: unknown) => void,
    onFold: () => void,
  ) {
    this.#cluster = cluster;
    this.#writer = writer;
    this.#vacant = vacant;
    this.#tickets = tickets;
    this.#clock = clock;
    this.#pace = pace;
    this.#onFailure = onFailure;
    this.#onFold = onFold;
  }

  get size(): number {
    return this.#rows.size;
  }

  held(id: string): SharedRow | undefined {
    return this.#rows.get(id);
  }

  /** Whether rows of the table that were read since then may lack something, or are not known to. */
  touches(table: string, since: number): boolean {
    const pending = this.#pending.get(table);
    return pending !== undefined && (pending.rows > 0 || pending.folded > since);
  }

  /** Whether additions to the row were being written at any time since then. */
  isFolding(id: string, since: number): boolean {
    const row = this.#rows.get(id);
    // What an ended front end had pending is folded by its sweeper.
    if (this.#writer.fenced) return row !== undefined && !row.clean;
    return (row !== undefined && row.folding.length > 0) || (this.#folded.get(id) ?? this.#foldedUnknown) > since;
  }

  /** The one that was left alone longest in front. */
  rows(): Iterable<SharedRow> {
    return this.#rows.values();
  }

  /** The row, held, or what stands in the way. The caller has its local lock. */
  async hold(table: OpenTable, key: Buffer, id: string): Promise<SharedRow | Conflict> {
    const row = this.#rows.get(id) ?? new SharedRow(table, key, id);
    this.#rows.delete(id);
    this.#rows.set(id, row);
    row.usedAt = this.#clock.now();
    row.taken ??= this.#take(row);
    const found = await row.taken;
    return found ? { row: { table, key }, found } : row;
  }

  /** Resolves with the lock that stands in the way. */
  async #take(row: SharedRow): Promise<Buffer | undefined> {
    try {
      const found = await this.#join(row);
      if (found) this.#gone(row);
      else row.state = 'held';
      return found;
    } catch (error) {
      this.#gone(row);
      throw error;
    }
  }

  #gone(row: SharedRow): void {
    row.state = 'gone';
    if (this.#rows.get(row.id) === row) this.#rows.delete(row.id);
  }

  /**
   * Puts this writer among the row's holders. Every try is sent once, and each after a lost answer has a sequence of
   * its own: one that arrives when the row was given back is a hold that no record was decided under.
   */
  async #join(row: SharedRow): Promise<Buffer | undefined> {
    const end = this.#clock.now() + this.#pace.plan;
    let me: Holder = { writer: this.#writer.id, folded: this.#writer.sequence };
    let found: Buffer | undefined;
    for (;;) {
      const value = withHolder(found, me, joinMark(me.writer, ++this.#joins));
      const joined = await this.#try(row, found, value, end);
      if (joined) break;
      if (joined === undefined) me = { ...me, folded: this.#writer.skip() };
      found = (await this.#read(row)).lock;
      if (found && parseLock(found).kind === 'exclusive') return found;
      if (found?.equals(value)) break;
    }
    // Only now it stands still.
    const seen = await this.#read(row);
    const mine = seen.lock && holderIn(seen.lock, me.writer);
    if (!seen.lock || !mine) throw new Fenced();
    row.lock = seen.lock;
    row.row = seen.row;
    row.sequence = mine.folded;
    row.folded = mine.folded;
    row.since = mine.folded;
    return undefined;
  }

  /** One try, which is not repeated; undefined where its answer was lost and there is time for others. */
  async #try(row: SharedRow, found: Buffer | undefined, value: Buffer, end: number): Promise<boolean | undefined> {
    const { table, key } = row;
    const guard = found
      ? ({ op: 'equals', ...table.lock, value: found } as const)
      : ({ op: 'absent', ...table.lock } as const);
    try {
      return await this.#cluster.client.mutate(table.handle, { key, guards: [guard], put: [{ ...table.lock, value }] });
    } catch (error) {
      if (!mayBeDone(error) || this.#clock.now() >= end) throw error;
      await this.#clock.sleep(this.#pace.look);
      return undefined;
    }
  }

  /** Lock cell and row in one read. */
  async #read({ table, key }: SharedRow): Promise<{ lock: Buffer | undefined; row: Buffer | undefined }> {
    const both = await this.#cluster.client.get(table.handle, key, table.rowsAndLocks);
    if (!both) return { lock: undefined, row: undefined };
    const lock = lockIn(table, both);
    const cell = cellValue(both, table.lock.family, table.lock.qualifier);
    const bytes = cell ? 7 + table.lock.qualifier.length + cell.length : 0;
    // The lock's family is the last.
    const row = both.length > bytes ? both.subarray(0, both.length - bytes) : undefined;
    return { lock: lock && Buffer.from(lock), row: row && Buffer.from(row) };
  }

  /**
   * A decided plan, record `sequence`, adds to the row. Resolves when the caller may be answered: at once, or folded
   * when nothing was for a while or a counter is new.
   */
  add(row: SharedRow, adds: readonly Increment[], sequence: bigint): Promise<void> | undefined {
    if (row.clean) this.#pendingIn(row).rows++;
    row.pending.push(...adds);
    row.sequence = sequence;
    const since = this.#clock.now() - row.foldedAt;
    const known = adds.every((add) => row.row && cellValue(row.row, add.family, add.qualifier));
    if (since >= this.#pace.fold || !known) return this.fold(row);
    row.stopFold ??= this.#clock.after(this.#pace.fold - since, () => void this.fold(row).catch(this.#onFailure));
    return undefined;
  }

  /** Writes what is pending; one after another. */
  fold(row: SharedRow): Promise<void> {
    row.stopFold?.();
    row.stopFold = undefined;
    row.foldedAt = this.#clock.now();
    row.work = row.work.then(() => this.#write(row, false));
    return row.work;
  }

  /** Folds and lets go of the row; the caller has it locally alone. */
  async release(row: SharedRow): Promise<void> {
    row.stopFold?.();
    row.state = 'leaving';
    try {
      await row.work;
      await this.#write(row, true);
    } catch (error) {
      // What was to be folded is in the journal alone.
      this.#onFailure(error);
      throw error;
    }
    this.#gone(row);
  }

  async #write(row: SharedRow, leave: boolean): Promise<void> {
    if (row.pending.length === 0 && !leave) return;
    if (this.#writer.fenced) throw new Fenced();
    const { sequence } = row;
    row.folding = sums(row.pending);
    row.pending = [];
    const me = { writer: this.#writer.id, folded: sequence };
    while (!(await this.#writeOnce(row, me, leave)) && !(await this.#look(row, me, leave)));
    row.folded = sequence;
    this.#onFold();
  }

  /** False where the lock cell is not what it was. */
  async #writeOnce(row: SharedRow, me: Holder, leave: boolean): Promise<boolean> {
    const { table, key } = row;
    const counters = counted(row.row, row.folding);
    // Drawn after the row was last seen, so it is greater than what is there.
    const ticket = counters.length > 0 ? await this.#tickets.draw(1) : undefined;
    const value = leave ? withoutHolder(row.lock, me.writer, ticket) : withHolder(row.lock, me, ticket);
    const change = value ? { put: [{ ...table.lock, value }], delete: [] } : freeing(row, this.#vacant.stays(row));
    const done = await this.#cluster.swap(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: row.lock }],
      put: [...counters, ...change.put],
      delete: change.delete,
      ...(ticket !== undefined && { timestamp: ticket }),
    });
    if (!done) return false;
    row.row = editRow(row.row, counters);
    this.#written(row);
    if (value) row.lock = value;
    return true;
  }

  /** The additions are in the row. */
  #written(row: SharedRow): void {
    if (row.folding.length === 0) return;
    row.folding = [];
    const moment = moments.next();
    const pending = this.#pendingIn(row);
    pending.folded = moment;
    if (row.clean) pending.rows--;
    this.#folded.delete(row.id);
    this.#folded.set(row.id, moment);
    if (this.#folded.size <= MOST_FOLDED) return;
    const [oldest] = this.#folded;
    this.#folded.delete(oldest![0]);
    this.#foldedUnknown = oldest![1];
  }

  #pendingIn({ table: { spec } }: SharedRow): { rows: number; folded: number } {
    let pending = this.#pending.get(spec.name);
    if (!pending) {
      pending = { rows: 0, folded: 0 };
      this.#pending.set(spec.name, pending);
    }
    return pending;
  }

  /** The lock cell was not as expected: it was written after all (true), or another front end has folded. */
  async #look(row: SharedRow, me: Holder, leave: boolean): Promise<boolean> {
    const seen = await this.#read(row);
    const mine = seen.lock && holderIn(seen.lock, me.writer);
    if (!mine) {
      // Gone as it should, or swept: then the sweeper has folded what was pending.
      if (!leave) throw new Fenced();
      this.#written(row);
      return true;
    }
    row.lock = seen.lock!;
    row.row = seen.row;
    if (leave || row.folding.length === 0 || mine.folded !== me.folded) return false;
    this.#written(row);
    return true;
  }
}

function holderIn(lock: Buffer, writer: Buffer): Holder | undefined {
  const parsed = parseLock(lock);
  return parsed.kind === 'shared' ? parsed.holders.find((holder) => holder.writer.equals(writer)) : undefined;
}

const NOBODY: SharedLock = { kind: 'shared', holders: [], counted: 0n };

function shared(lock: Buffer | undefined): SharedLock {
  if (!lock) return NOBODY;
  const parsed = parseLock(lock);
  if (parsed.kind === 'exclusive') throw new StoreError('corrupt', 'a shared row has an exclusive lock');
  return parsed;
}

/**
 * What nobody has put into a lock before, and no ticket: a release of an earlier hold that arrives late finds another
 * lock, although no counter has changed since.
 */
function joinMark(writer: Buffer, joins: number): bigint {
  const name = (writer.readUInt32BE(0) ^ writer.readUInt32BE(4)) >>> 0;
  return (1n << 63n) | (BigInt(name & 0x7fffffff) << 32n) | BigInt(joins >>> 0);
}

/** `ticket`: the counters change with it, or the mark of who joins. */
function withHolder(lock: Buffer | undefined, me: Holder, ticket?: bigint): Buffer {
  const { holders, counted } = shared(lock);
  const others = holders.filter((holder) => !holder.writer.equals(me.writer));
  return sharedLock([...others, me], ticket ?? counted)!;
}

function withoutHolder(lock: Buffer, writer: Buffer, ticket: bigint | undefined): Buffer | undefined {
  const { holders, counted } = shared(lock);
  return sharedLock(
    holders.filter((holder) => !holder.writer.equals(writer)),
    ticket ?? counted,
  );
}
