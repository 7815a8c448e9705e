import { awaitedLater, isPromise } from '../../maybe.js';
import type { Cluster } from '../cluster.js';
import type { Failpoint } from './apply.js';
import { askName, type LockedRow, Patience, parseAsk, readLock } from './blockers.js';
import { exclusiveLock, parseLock, sharedLock } from './codec.js';
import { rowId } from './groups.js';
import { FOREVER } from './journal-tables.js';
import { LocalLocks } from './local-locks.js';
import { type SharedRow, SharedRows } from './shared.js';
import type { Tickets } from './tickets.js';
import { Fenced, Writer } from './writer.js';

export interface SessionOptions {
  /** A writer that did not renew its beat for so long is given up, ms. */
  readonly leaseMs: number;
  /** How long a plan waits for rows that others hold, ms. */
  readonly waitMs: number;
  readonly failpoint?: Failpoint | undefined;
}

/** How often a front end looks whether others ask for its rows: while it holds any, and otherwise, ms. */
const ASK_MS = 25;
const QUIET_MS = 250;
const TIDY_MS = 200;
/** Rows unused for so long are given back, ms; so many at a time. */
const IDLE_MS = 10_000;
const IDLE_EVERY_MS = 2_000;
const IDLE_ROWS = 200;

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
  readonly locals = new LocalLocks();
  /** Numbers of the plans that may have locked rows. */
  readonly active = new Set<bigint>();
  /** When it has ended: resolves when everything that it had decided is done. */
  swept: Promise<void> | undefined;
  #plans = 0n;
  #unfolded: Unfolded[] = [];
  readonly #answering = new Set<string>();
  readonly #onEnd: (session: Session) => void;
  #timers: NodeJS.Timeout[] = [];
  #lastLook = 0;
  #over = false;

  constructor(cluster: Cluster, tickets: Tickets, options: SessionOptions, onEnd: (session: Session) => void) {
    this.cluster = cluster;
    this.tickets = tickets;
    this.options = options;
    this.#onEnd = onEnd;
    this.writer = new Writer(cluster, tickets, options.leaseMs);
    this.shared = new SharedRows(
      cluster,
      this.writer,
      tickets,
      () => this.abandon(),
      () => this.#settle(),
    );
  }

  async open(): Promise<void> {
    await this.writer.open();
    this.#every(ASK_MS, () => this.#look());
    this.#every(TIDY_MS, () => this.writer.tidy());
    this.#every(IDLE_EVERY_MS, () => this.#releaseIdle());
  }

  #every(ms: number, work: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      // What does not come through is tried again next time; the lease tells when it went on too long.
      work()
        .catch((error: unknown) => this.#failed(error))
        .finally(() => {
          busy = false;
        });
    }, ms);
    timer.unref();
    this.#timers.push(timer);
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
    this.#stop();
    if (this.#over) return;
    this.#over = true;
    this.#onEnd(this);
    this.swept?.catch(() => undefined);
  }

  #stop(): void {
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
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

  patience(): Patience {
    return new Patience(this.cluster, this.writer, this.options.waitMs);
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

  /** Gives others what they ask for. */
  async #look(): Promise<void> {
    const now = performance.now();
    if (this.shared.size === 0 && now - this.#lastLook < QUIET_MS) return;
    this.#lastLook = now;
    for (const name of await this.writer.asked()) {
      const text = name.toString('latin1');
      if (this.#answering.has(text)) continue;
      this.#answering.add(text);
      this.#answer(name)
        .catch((error: unknown) => this.#failed(error))
        .finally(() => this.#answering.delete(text));
    }
  }

  async #answer(name: Buffer): Promise<void> {
    const { table: tableName, key } = parseAsk(name);
    const found = this.cluster.table(tableName);
    const row = { table: isPromise(found) ? await found : found, key };
    const id = rowId(tableName, key);
    const held = this.shared.held(id);
    if (held) await this.#giveBack(held, true);
    else await this.#forgotten(row);
    await this.writer.answered([askName(row)]);
  }

  async #giveBack(row: SharedRow, cool: boolean): Promise<void> {
    const release = await this.locals.acquire([{ id: row.id, exclusive: true }]);
    try {
      if (this.shared.held(row.id) !== row) return;
      await this.shared.release(row);
      if (cool) this.shared.cool(row.id);
    } finally {
      release();
    }
  }

  /** A lock of this writer that it does not know: put by a mutation whose answer was lost. */
  async #forgotten(row: LockedRow): Promise<void> {
    const found = await readLock(this.cluster, row);
    if (!found) return;
    const lock = parseLock(found);
    const { table, key } = row;
    const guards = [{ op: 'equals', ...table.lock, value: found } as const];
    if (lock.kind === 'exclusive') {
      if (!lock.writer.equals(this.writer.id) || this.active.has(lock.plan)) return;
      await this.unlock(row, lock.plan);
      return;
    }
    const others = lock.holders.filter((holder) => !holder.writer.equals(this.writer.id));
    if (others.length === lock.holders.length || this.shared.held(rowId(table.spec.name, key))) return;
    const rest = sharedLock(others, lock.counted);
    await this.cluster.swap(table, {
      key,
      guards,
      ...(rest ? { put: [{ ...table.lock, value: rest }] } : { delete: [table.lock], timestamp: FOREVER }),
    });
  }

  /** Takes a plan's lock off a row that it does not change. */
  async unlock({ table, key }: LockedRow, plan: bigint): Promise<void> {
    await this.cluster.swap(table, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: exclusiveLock(this.writer.id, plan) }],
      delete: [table.lock],
      timestamp: FOREVER,
    });
  }

  async #releaseIdle(): Promise<void> {
    const before = performance.now() - IDLE_MS;
    const idle: SharedRow[] = [];
    for (const row of this.shared.rows()) {
      if (idle.length === IDLE_ROWS) break;
      if (row.usedAt < before && row.clean) idle.push(row);
    }
    await Promise.all(idle.map((row) => this.#giveBack(row, false)));
  }

  /** Gives everything back. No plan is running. */
  async close(): Promise<void> {
    this.#stop();
    if (this.ended) return;
    await Promise.all([...this.shared.rows()].map((row) => this.#giveBack(row, false)));
    await this.writer.close();
  }
}
