import { awaitedLater } from '../../maybe.js';
import type { Cluster } from '../cluster.js';
import type { Failpoint } from './apply.js';
import { Asks, askedRow, type WantedRow } from './asks.js';
import type { Clock, Pace, Stop } from './clock.js';
import { exclusiveLock, parseLock } from './codec.js';
import { rowId } from './groups.js';
import { LocalLocks } from './local-locks.js';
import {
  type Conflict,
  freeing,
  holdersOf,
  type LockedRow,
  readLock,
  removeDead,
  removeHolders,
  TOGETHER,
} from './locks.js';
import { type SharedRow, SharedRows } from './shared-rows.js';
import type { Tickets } from './tickets.js';
import { Turn, Turns } from './turns.js';
import { VacantLocks } from './vacant-locks.js';
import { Fenced, Writer } from './writer.js';

export interface SessionOptions {
  readonly clock: Clock;
  readonly pace: Pace;
  /** Of a writer: 8 bytes that nobody had or will have. */
  readonly newId: () => Buffer;
  readonly failpoint?: Failpoint | undefined;
}

/** Shared rows that are held at the most, about: each is in memory, with its lock in HBase. */
const MOST_SHARED = 10_000;

/** A decided plan whose counters are not all folded yet. */
interface Unfolded {
  readonly sequence: bigint;
  readonly plan: bigint;
  readonly bytes: number;
  readonly rows: readonly SharedRow[];
}

/** A writer and all that hangs on its being alive: the rows it holds and the plans it is about. */
export class Session {
  readonly cluster: Cluster;
  readonly tickets: Tickets;
  readonly options: SessionOptions;
  readonly writer: Writer;
  readonly shared: SharedRows;
  readonly vacant: VacantLocks;
  readonly locals = new LocalLocks();
  readonly turns: Turns;
  readonly asks: Asks;
  /** Numbers of the plans that may have locked rows. */
  readonly active = new Set<bigint>();
  /** When it has ended: resolves when everything that it had decided is done. */
  swept: Promise<void> | undefined;
  #plans = 0n;
  #unfolded: Unfolded[] = [];
  /** Rows that are being given back. */
  readonly #giving = new Set<string>();
  readonly #onEnd: (session: Session) => void;
  #timers: Stop[] = [];
  #lastLook = Number.NEGATIVE_INFINITY;
  #over = false;

  constructor(cluster: Cluster, tickets: Tickets, options: SessionOptions, onEnd: (session: Session) => void) {
    this.cluster = cluster;
    this.tickets = tickets;
    this.options = options;
    this.#onEnd = onEnd;
    const { clock, pace } = options;
    this.writer = new Writer(cluster, tickets, clock, pace.lease, options.newId());
    this.vacant = new VacantLocks(cluster, clock, pace.vacant);
    this.shared = new SharedRows(
      cluster,
      this.writer,
      this.vacant,
      tickets,
      clock,
      pace,
      () => this.abandon(),
      () => this.#settle(),
    );
    this.turns = new Turns(clock, pace.heed);
    this.asks = new Asks(cluster, clock, pace.ask, this.writer.id);
  }

  get pace(): Pace {
    return this.options.pace;
  }

  get #clock(): Clock {
    return this.options.clock;
  }

  /** Of a plan that begins now. `gated`: this front end holds gates of tables for it. */
  turn(gated = false): Turn {
    return new Turn(this.#clock, this.pace.plan, gated);
  }

  async open(): Promise<void> {
    await this.writer.open();
    const { look, tidy, idleLook } = this.pace;
    this.#every(look, () => this.#look());
    this.#every(tidy, () => this.writer.tidy());
    this.#every(idleLook, () => this.#releaseIdle());
    this.#every(idleLook, () => this.vacant.tidy());
  }

  #every(ms: number, work: () => Promise<void>): void {
    let busy = false;
    const stop = this.#clock.every(ms, () => {
      // A beat may have heard that others gave the writer up, and nobody else.
      if (this.ended) return this.abandon();
      if (busy) return;
      busy = true;
      // What does not come through is tried again next time; the lease tells when it went on too long.
      work()
        .catch((error: unknown) => this.#failed(error))
        .finally(() => {
          busy = false;
        });
    });
    this.#timers.push(stop);
  }

  #failed(error: unknown): void {
    if (error instanceof Fenced) this.abandon();
  }

  /** Resolves when what is being folded into the row is: by a sweeper where the session has ended. */
  async folded(id: string): Promise<void> {
    const work = this.ended ? this.swept : this.shared.held(id)?.work;
    // A fold that fails ends the session.
    await work?.catch(() => undefined);
  }

  get ended(): boolean {
    return this.writer.fenced;
  }

  /** Ends it: what was decided is finished by a sweeper, the rest did not happen. */
  abandon(): void {
    this.writer.abandon();
    this.vacant.end();
    this.#stop();
    if (this.#over) return;
    this.#over = true;
    this.#onEnd(this);
    this.swept?.catch(() => undefined);
  }

  #stop(): void {
    for (const stop of this.#timers.splice(0)) stop();
  }

  /** Draws tickets for the work, whose appended rows count as unfinished until it has ended. */
  async withTickets<T>(count: number, work: (first: Promise<bigint>) => Promise<T>): Promise<T> {
    const { unfinished } = this.writer;
    const plan = unfinished.begin(this.tickets.given);
    const first = awaitedLater(this.tickets.draw(count));
    void first.then(
      (ticket) => unfinished.drawn(plan, ticket),
      () => undefined,
    );
    try {
      return await work(first);
    } finally {
      // Of a session that has ended the journal row bounds it, until everything that was decided is done.
      if (!this.ended) unfinished.end(plan);
    }
  }

  nextPlan(): bigint {
    this.#plans++;
    this.active.add(this.#plans);
    return this.#plans;
  }

  /** The rows of a decided plan are as they shall be; its record goes when its counters are folded. */
  applied(sequence: bigint, plan: bigint, bytes: number, rows: readonly SharedRow[]): void {
    if (rows.every((row) => row.folded >= sequence)) this.writer.finished(sequence, plan, bytes);
    else this.#unfolded.push({ sequence, plan, bytes, rows });
  }

  #settle(): void {
    const left: Unfolded[] = [];
    for (const one of this.#unfolded) {
      if (one.rows.every((row) => row.folded >= one.sequence)) this.writer.finished(one.sequence, one.plan, one.bytes);
      else left.push(one);
    }
    this.#unfolded = left;
  }

  /** Hears what others ask for, and gives it. */
  async #look(): Promise<void> {
    const now = this.#clock.now();
    const mayRest = this.shared.size === 0 && !this.turns.busy;
    if (mayRest && now - this.#lastLook < this.pace.quiet) return;
    this.#lastLook = now;
    const { fresh, old } = this.turns.heard(await this.writer.asked());
    if (old.length > 0) await this.writer.forget(old);
    for (const id of this.turns.owed()) {
      const held = this.shared.held(id);
      if (held) this.#once(id, () => this.#giveBack(held));
    }
    for (const { id, name } of fresh) if (!this.shared.held(id)) this.#once(id, () => this.#freeForgotten(name));
  }

  /** Not while it is done already. */
  #once(id: string, work: () => Promise<void>): void {
    if (this.#giving.has(id)) return;
    this.#giving.add(id);
    work()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => this.#giving.delete(id));
  }

  async #freeForgotten(name: Buffer): Promise<void> {
    const { table: tableName, key } = askedRow(name);
    const table = await this.cluster.find(tableName);
    if (table) await this.#forgotten({ table, key });
  }

  async #giveBack(row: SharedRow): Promise<void> {
    if (this.shared.held(row.id) !== row) return;
    const release = await this.locals.acquire([{ id: row.id, exclusive: true }]);
    try {
      if (this.shared.held(row.id) === row) await this.shared.release(row);
    } finally {
      release();
    }
  }

  /** A lock of this writer that it does not know goes: put by a mutation whose answer was lost. */
  async #forgotten(row: LockedRow): Promise<void> {
    const id = rowId(row.table.spec.name, row.key);
    const release = await this.locals.acquire([{ id, exclusive: true }]);
    try {
      const found = await readLock(this.cluster, row);
      if (found && this.#isForgotten(id, found))
        await removeHolders(this.cluster, row, found, (writer) => writer.equals(this.writer.id));
    } finally {
      release();
    }
  }

  #isForgotten(id: string, found: Buffer): boolean {
    const lock = parseLock(found);
    if (!holdersOf(lock).some((writer) => writer.equals(this.writer.id))) return false;
    return lock.kind === 'exclusive' ? !this.active.has(lock.plan) : !this.shared.held(id);
  }

  /**
   * Does what can be done about what stands in the way of a plan: takes away what the dead hold, and asks the living,
   * for all rows that the plan wants.
   */
  async clear(conflicts: readonly Conflict[], wanted: readonly WantedRow[], turn: Turn): Promise<void> {
    await Promise.all(conflicts.map((conflict) => this.#clear(conflict, wanted, turn)));
  }

  async #clear({ row, found }: Conflict, wanted: readonly WantedRow[], turn: Turn): Promise<void> {
    const others = holdersOf(parseLock(found)).filter((writer) => !writer.equals(this.writer.id));
    if (others.length === 0) return this.#forgotten(row);
    const alive = await Promise.all(others.map((writer) => this.asks.ask(writer, wanted, turn)));
    if (alive.includes(false)) await removeDead(this.cluster, row, found);
  }

  /** Takes a plan's lock off a row that it does not change. */
  async unlock(row: LockedRow, plan: bigint): Promise<void> {
    const { table, key } = row;
    await this.cluster.swap(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: exclusiveLock(this.writer.id, plan) }],
      ...freeing(row, this.vacant.stays(row)),
    });
  }

  /** Rows that nobody here has used for a while, and of too many those that were left alone longest. */
  async #releaseIdle(): Promise<void> {
    const before = this.#clock.now() - this.pace.idle;
    let excess = this.shared.size - MOST_SHARED;
    const left: SharedRow[] = [];
    for (const row of this.shared.rows()) {
      if (excess-- <= 0 && row.usedAt >= before) break;
      if (row.clean && row.state === 'held') left.push(row);
    }
    await this.#giveBackAll(left);
  }

  async #giveBackAll(rows: readonly SharedRow[]): Promise<void> {
    for (let at = 0; at < rows.length; at += TOGETHER)
      await Promise.all(rows.slice(at, at + TOGETHER).map((row) => this.#giveBack(row)));
  }

  /** Gives everything back. No plan is running. */
  async close(): Promise<void> {
    this.#stop();
    if (this.ended) return;
    await this.#giveBackAll([...this.shared.rows()]);
    await this.vacant.close();
    await this.writer.close();
  }
}
