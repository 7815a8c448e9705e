import type { CellName, Plan } from '../../contract.js';
import { awaitedLater } from '../../maybe.js';
import { cellValue } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { cellKey } from '../../tables.js';
import { GATES } from '../cluster.js';
import type { ReadOptions } from '../rpc/rpc-types.js';
import { applyRecord, changeRow } from './apply.js';
import type { WantedRow } from './asks.js';
import { encodeRecord, exclusiveLock, type PlanRecord } from './codec.js';
import { additions, cellId, evaluate, type Seen } from './evaluate.js';
import { appendCount, type Group, gate, groupSteps } from './groups.js';
import { type Conflict, type LockedRow, readLock } from './locks.js';
import type { Session } from './session.js';
import { SharedRow } from './shared-rows.js';
import type { Turn } from './turns.js';
import { Fenced } from './writer.js';

/**
 * Applies a plan; rejects with `Fenced` when the session ended before anything was decided. `open`: tables whose gates
 * the caller holds; `batch`: decided with the plan.
 */
export async function runPlan(
  session: Session,
  plan: Plan,
  turn: Turn,
  open: readonly string[] = [],
  batch?: Buffer,
): Promise<void> {
  const groups = await groupSteps(session.cluster, plan, open);
  await persist(session, plan, groups, turn, (run) => run.finish(batch));
}

/** Does the work while the gates of tables are held: nobody else changes their rows. */
export async function withGates(session: Session, tables: readonly string[], work: () => Promise<void>): Promise<void> {
  const groups = tables.map((name) => gate(session.cluster, name, 'exclusive'));
  await persist(session, { steps: [], decisive: 0 }, groups, session.turn(), (run) => run.hold(work));
}

/**
 * Tries until nobody stands in the way. Nothing is held while it waits, here or there, and who goes first is told by
 * turns: docs/adr/0015-hbase-journal.md, "Why waiting ends".
 */
async function persist(
  session: Session,
  plan: Plan,
  groups: readonly Group[],
  turn: Turn,
  work: (run: PlanRun) => Promise<void>,
): Promise<void> {
  const { turns, asks, pace } = session;
  const wanted = wantedRows(groups);
  let waits = false;
  try {
    for (;;) {
      const obstacle = await new PlanRun(session, plan, groups, turn).attempt(wanted, work);
      if (!obstacle) return;
      turn.check();
      await turn.take(session.tickets);
      if (!waits) turns.begin(turn, wanted);
      waits = true;
      if (obstacle === 'reserved') await asks.again(turn);
      else await session.clear(obstacle, wanted, turn);
      await turn.pause(pace.pause, pace.longest);
    }
  } finally {
    if (waits) {
      turns.end(turn, wanted);
      asks.withdraw(turn);
    }
  }
}

/** The rows that plans hold, alone or with others. */
function wantedRows(groups: readonly Group[]): WantedRow[] {
  const rows: WantedRow[] = [];
  for (const { table, key, id, kind } of groups)
    if (kind === 'exclusive' || kind === 'shared') rows.push({ table, key, id, exclusive: kind === 'exclusive' });
  return rows;
}

/** What a plan cannot go on for: rows that others hold, or rows that are theirs next. */
type Obstacle = readonly Conflict[] | 'reserved';

/**
 * One try of a plan. Its states, in order, are the methods of `attempt` and of `finish`:
 *
 *     holding   its rows, here (`LocalLocks`), then shared rows, then locks; an obstacle gives all of it back
 *     reading   what guards and counters look at, and drawing its ticket; a failed guard gives all of it back
 *     deciding  one mutation: from its arrival on the plan happens, whoever dies
 *     applying  what was decided; the rows are unlocked by it
 *     done      its record waits for the folds of its counters, and goes
 */
class PlanRun {
  readonly #session: Session;
  readonly #plan: Plan;
  readonly #groups: readonly Group[];
  readonly #exclusive: readonly Group[];
  readonly #shared = new Map<string, SharedRow>();
  readonly #turn: Turn;
  readonly #number: bigint;
  readonly #lock: Buffer;

  constructor(session: Session, plan: Plan, groups: readonly Group[], turn: Turn) {
    this.#session = session;
    this.#plan = plan;
    this.#groups = groups;
    this.#turn = turn;
    this.#exclusive = groups.filter((group) => group.kind === 'exclusive');
    this.#number = session.nextPlan();
    this.#lock = exclusiveLock(session.writer.id, this.#number);
  }

  async attempt(wanted: readonly WantedRow[], work: (run: PlanRun) => Promise<void>): Promise<Obstacle | undefined> {
    const { locals, active, turns } = this.#session;
    const release = await locals.acquire(wanted);
    try {
      if (this.#session.ended) throw new Fenced();
      this.#turn.check();
      if (wanted.some((want) => !turns.mayTake(want, this.#turn.number))) return 'reserved';
      let conflicts = await this.#holdShared();
      if (conflicts.length === 0) conflicts = await this.#lockRows();
      if (conflicts.length > 0) return conflicts;
      await work(this);
      return undefined;
    } finally {
      active.delete(this.#number);
      release();
    }
  }

  #at(point: string): unknown {
    return this.#session.options.failpoint?.(point);
  }

  /** What stands in the way of shared rows. Gates come first: what a batch has put is not looked at before it ended. */
  async #holdShared(): Promise<readonly Conflict[]> {
    const isGate = ({ table }: Group) => table.spec.name === GATES;
    const conflicts = await this.#hold(this.#groups.filter(isGate));
    return conflicts.length > 0 ? conflicts : this.#hold(this.#groups.filter((group) => !isGate(group)));
  }

  async #hold(groups: readonly Group[]): Promise<readonly Conflict[]> {
    const { shared } = this.#session;
    const conflicts: Conflict[] = [];
    const work: Promise<unknown>[] = [];
    for (const { id, table, key, kind } of groups) {
      const held = shared.held(id);
      if (kind === 'shared') {
        const holding = shared.hold(table, key, id);
        work.push(holding.then((row) => (row instanceof SharedRow ? this.#shared.set(id, row) : conflicts.push(row))));
      } else if (kind === 'exclusive' && held) work.push(shared.release(held));
    }
    await settled(work);
    return conflicts;
  }

  /** All of them, or none and what stands in the way. */
  async #lockRows(): Promise<readonly Conflict[]> {
    if (this.#exclusive.length === 0) return [];
    await this.#at('lock before');
    const tries = await Promise.allSettled(this.#exclusive.map((row) => this.#lockRow(row)));
    const failed = tries.find((one) => one.status === 'rejected');
    const conflicts = tries.flatMap((one) => (one.status === 'fulfilled' && one.value) || []);
    if (!failed && conflicts.length === 0) {
      await this.#at('lock after');
      return conflicts;
    }
    const locked = this.#exclusive.filter((_, i) => {
      const one = tries[i]!;
      return one.status === 'fulfilled' && !one.value;
    });
    await this.#unlock(locked).catch(unlessStoreError);
    if (failed) throw failed.reason;
    return conflicts;
  }

  async #lockRow(row: LockedRow): Promise<Conflict | undefined> {
    const { cluster } = this.#session;
    const { table, key } = row;
    for (;;) {
      const put = [{ ...table.lock, value: this.#lock }];
      if (await cluster.swap(table.handle, { key, guards: [{ op: 'absent', ...table.lock }], put })) return;
      const found = await readLock(cluster, row);
      if (found) return found.equals(this.#lock) ? undefined : { row, found };
    }
  }

  async #unlock(rows: readonly Group[]): Promise<void> {
    await Promise.all(rows.map((row) => this.#session.unlock(row, this.#number)));
  }

  /**
   * Does something else while the rows are held, and lets go of them. A session that ended leaves them to who sweeps
   * it. A lock that could not be taken off does not say how the work ended: `Session` takes it off when the row is
   * wanted.
   */
  async hold(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } finally {
      if (!this.#session.ended) await this.#unlock(this.#exclusive).catch(unlessStoreError);
    }
  }

  /** Everything is held. */
  finish(batch: Buffer | undefined): Promise<void> {
    const count = 1 + appendCount(this.#plan.steps);
    return this.#session.withTickets(count, (first) => this.#finish(batch, first));
  }

  async #finish(batch: Buffer | undefined, first: Promise<bigint>): Promise<void> {
    let record: PlanRecord;
    try {
      const [seen, ticket] = await Promise.all([this.#read(), first]);
      await this.#at('read after');
      record = evaluate(this.#session.cluster, this.#plan, this.#groups, seen, this.#number, ticket);
      this.#turn.begin();
    } catch (error) {
      await this.#unlock(this.#exclusive).catch(unlessStoreError);
      throw error;
    }
    const { rows, shared, blind, appends, followers } = record;
    const others = blind.length + appends.length + followers.length;
    if (!batch && shared.length === 0 && rows.length + others <= 1) await this.#alone(record);
    else await this.#decide(record, batch);
  }

  async #read(): Promise<Seen> {
    const rows = new Map<string, Buffer | undefined>();
    const cells = new Map<string, Buffer | undefined>();
    const since = new Map<string, bigint>();
    for (const [id, row] of this.#shared) {
      rows.set(id, row.view(row.row));
      since.set(id, row.since);
    }
    const work: Promise<void>[] = [];
    for (const group of this.#exclusive) {
      const options = group.table.familyReads.of(lookedAt(group));
      if (options) work.push(this.#readRow(group, options, rows));
      const names = guardedCells(group);
      if (names.length > 0) work.push(this.#readCells(group, names, cells));
    }
    await settled(work);
    return { rows, cells, since };
  }

  async #readRow(
    { table, key, id }: Group,
    options: ReadOptions,
    rows: Map<string, Buffer | undefined>,
  ): Promise<void> {
    rows.set(id, await this.#session.cluster.client.get(table.handle, key, options));
  }

  async #readCells(
    { table, key }: Group,
    names: readonly CellName[],
    cells: Map<string, Buffer | undefined>,
  ): Promise<void> {
    const row = await this.#session.cluster.client.get(table.handle, key, { columns: names });
    for (const { family, qualifier } of names) {
      const value = row && cellValue(row, family, qualifier);
      cells.set(cellId(table.spec.name, family, cellKey(key, qualifier)), value);
    }
  }

  /** One row, which is changed and unlocked at once, or one key that is written: that decides it. */
  async #alone(record: PlanRecord): Promise<void> {
    const { cluster, writer, options, vacant } = this.#session;
    const only = record.rows[0];
    if (!only) return applyRecord(cluster, writer.id, record, options.failpoint, vacant);
    await this.#at('row 0 before');
    try {
      // Not under this lock any more: done by an earlier try, unless others gave this writer up.
      if (!(await changeRow(cluster, only, this.#lock, record.ticket, vacant))) await writer.alive();
    } catch (error) {
      this.#session.abandon();
      throw unknownOutcome(error);
    }
    await this.#at('row 0 after');
  }

  async #decide(record: PlanRecord, batch: Buffer | undefined): Promise<void> {
    const session = this.#session;
    const bytes = encodeRecord(record);
    const rows: SharedRow[] = [];
    const folds: Promise<void>[] = [];
    let sequence = 0n;
    await this.#at('decide before');
    const decided = session.writer.decide(bytes, this.#number, batch, (given) => {
      sequence = given;
      for (const group of this.#groups) {
        const row = this.#shared.get(group.id);
        const adds = row && additions(group);
        if (!row || !adds || adds.length === 0) continue;
        rows.push(row);
        const fold = session.shared.add(row, adds, given);
        if (fold) folds.push(awaitedLater(fold));
      }
    });
    try {
      await decided;
    } catch (error) {
      session.abandon();
      throw error;
    }
    await this.#at('decide after');
    try {
      await session.writer.alive();
      const { cluster, writer, options, vacant } = session;
      await settled([applyRecord(cluster, writer.id, record, options.failpoint, vacant), ...folds]);
      session.applied(sequence, this.#number, bytes.length, rows);
    } catch (error) {
      // Decided: the sweeper finishes it.
      session.abandon();
      if (!(await isSwept(session))) throw unknownOutcome(error);
    }
    await this.#at('done');
  }
}

/** Families of the row that the steps look at: the others are written as the steps say, whatever is there. */
function lookedAt({ table, steps }: Group): Set<number> {
  const families = new Set<number>();
  for (const { guards = [], add = [] } of steps) {
    for (const { family } of guards) if (!table.spec.families[family]?.separate) families.add(family);
    for (const { family } of add) families.add(family);
  }
  return families;
}

/** Guarded cells of separate families, which do not come with the row. */
function guardedCells({ table, steps }: Group): CellName[] {
  const guards = steps.flatMap((step) => step.guards ?? []);
  return guards.filter(({ family }) => table.spec.families[family]?.separate);
}

async function isSwept(session: Session): Promise<boolean> {
  const results = await Promise.allSettled([session.swept]);
  return session.swept !== undefined && results[0].status === 'fulfilled';
}

function unknownOutcome(error: unknown): StoreError {
  return new StoreError('unavailable', 'the store did not answer while a plan was applied', {
    cause: error,
    applied: 'unknown',
  });
}

/** Throws on what is no failure of the store's. */
export function unlessStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error;
}

/** Waits for all before the first failure is passed on: nothing goes on behind the caller's back. */
export async function settled(work: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
