import { batchesOf, keysOf } from '../../batches.js';
import type { Guard } from '../../contract.js';
import { cellValue, unpackRow } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { keyAfter } from '../../tables.js';
import { type Cluster, type OpenTable, unlessDropped } from '../cluster.js';
import { applyFound, type Failpoint } from './apply.js';
import type { Clock, Pace, Stop } from './clock.js';
import { type Addition, decodeRecord, ID_BYTES, type PlanRecord, parseLock, sharedLock } from './codec.js';
import { rowId } from './groups.js';
import { DRAINED, FOREVER, FOREVER_ROW, IS_ALIVE, JOURNAL, STATE, SWEPT } from './journal-tables.js';
import { lockIn, removeEverywhere } from './locks.js';
import { counted } from './shared-rows.js';
import { takeBack } from './take-back.js';
import type { Tickets } from './tickets.js';
import { batchTicket, readRecord } from './writer.js';

/** What record `sequence` adds to a row. */
interface Added extends Pick<Addition, 'add' | 'since'> {
  readonly sequence: bigint;
}

/**
 * Who is to clear a writer after its plans were finished: who did it, the `others` who were faster, or nobody yet,
 * because rows of a batch may still arrive and are looked for once more then.
 */
type Drained = 'now' | 'others' | 'later';

interface Watched {
  /** Beat and state. */
  readonly shown: Buffer;
  /** When they were first seen so, monotonic ms. */
  readonly since: number;
  /** When its batches were taken back for the first time. */
  takenBack: number | undefined;
}

/**
 * Looks after the other writers, whose journal rows say how far they are:
 *
 *     alive ──► swept ──► drained ──► no row
 *
 * `swept`: its beat stood still for a lease, and it decides nothing more. `drained`: what it had decided is done and
 * its batches are taken back, so its locks are dead. Then its locks are taken away, and its row. Whoever sees a writer
 * that is swept goes on with it. Batches are taken back twice, `Pace.late` apart: a server that stood still writes rows
 * that it was sent before within that time, or never. The locks, for which all tables are looked at, are left to the
 * one who drained it, and to the others when that has not ended after a lease.
 */
export class Sweeper {
  readonly #cluster: Cluster;
  readonly #tickets: Tickets;
  readonly #clock: Clock;
  readonly #pace: Pick<Pace, 'lease' | 'late'>;
  readonly #failpoint: Failpoint | undefined;
  readonly #isOwn: (id: Buffer) => boolean;
  #watched = new Map<string, Watched>();
  #stopLooks: Stop | undefined;
  #looking: Promise<void> | undefined;

  /** `isOwn`: living writers of this process, which are not looked after. */
  constructor(
    cluster: Cluster,
    tickets: Tickets,
    clock: Clock,
    pace: Pick<Pace, 'lease' | 'late'>,
    isOwn: (id: Buffer) => boolean,
    failpoint?: Failpoint,
  ) {
    this.#cluster = cluster;
    this.#tickets = tickets;
    this.#clock = clock;
    this.#pace = pace;
    this.#isOwn = isOwn;
    this.#failpoint = failpoint;
  }

  start(): void {
    this.#stopLooks = this.#clock.every(this.#pace.lease / 4, () => {
      // A look that failed says nothing about the writers: their time begins anew.
      this.look().catch(() => this.#watched.clear());
    });
  }

  async stop(): Promise<void> {
    this.#stopLooks?.();
    await this.#looking?.catch(() => undefined);
  }

  /** Reads all writers' beats, and sweeps those that stopped. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { client, journal } = this.#cluster;
    const seen = new Map<string, Watched>();
    const drained: Buffer[] = [];
    const scan = client.scan(journal, {}, { families: [JOURNAL.state] });
    for await (const batch of batchesOf(scan))
      for (const [i, id] of batch.keys.entries())
        if (await this.#see(id, batch.rows[i]!, seen)) drained.push(Buffer.from(id));
    this.#watched = seen;
    await unlessFailed(() => this.clear(drained));
  }

  /** Whether its locks are to be taken away now. */
  async #see(id: Buffer, row: Buffer, seen: Map<string, Watched>): Promise<boolean> {
    if (this.#isOwn(id)) return false;
    const name = id.toString('latin1');
    const beat = cellValue(row, JOURNAL.state, STATE.beat);
    const state = cellValue(row, JOURNAL.state, STATE.state);
    if (!beat || !state) return false;
    const now = this.#clock.now();
    const before = this.#watched.get(name);
    const shown = Buffer.concat([beat, state]);
    const same = before?.shown.equals(shown) ? before : { shown, since: now, takenBack: before?.takenBack };
    seen.set(name, same);
    if (same.takenBack !== undefined && now - same.takenBack < this.#pace.late) return false;
    const isStill = now - same.since >= this.#pace.lease;
    if (state.equals(DRAINED)) return isStill;
    if (!state.equals(SWEPT) && !isStill) return false;
    return unlessFailed(async () => {
      if (!state.equals(SWEPT) && !(await this.#fence(id, beat))) return false;
      return (await this.#drain(Buffer.from(id), same)) === 'now';
    });
  }

  /** From here on the writer decides nothing more; false when it has shown that it is alive. */
  #fence(id: Buffer, beat: Buffer): Promise<boolean> {
    return this.#note(id, { op: 'equals', family: JOURNAL.state, qualifier: STATE.beat, value: beat }, SWEPT);
  }

  /** Writes the state of a writer; false where the guard did not hold when it was tried last. */
  #note(id: Buffer, guard: Guard, state: Buffer): Promise<boolean> {
    const put = [{ family: JOURNAL.state, qualifier: STATE.state, value: state }];
    return this.#cluster.swap(this.#cluster.journal, { key: id, guards: [guard], put, timestamp: FOREVER });
  }

  /**
   * Does all that a writer of this process that has ended had decided. True: it is to be cleared now, also where others
   * have done so, as a request of its own may have taken a lock since; false where a look goes on with it.
   */
  async sweep(id: Buffer): Promise<boolean> {
    // False: it was swept already, by others or by an attempt whose answer was lost.
    await this.#note(id, IS_ALIVE, SWEPT);
    return (await this.#drain(id)) !== 'later';
  }

  /** Finishes the plans of a fenced writer and takes back its undecided batches. Several may do it at once. */
  async #drain(id: Buffer, watched?: Watched): Promise<Drained> {
    const { client, journal } = this.#cluster;
    const began = this.#clock.now();
    let hasBatch = false;
    const row = await client.get(journal, id, { families: [JOURNAL.plan] });
    const records: [bigint, PlanRecord][] = [];
    for (const { qualifier, value } of row ? unpackRow(row) : []) {
      const ticket = batchTicket(qualifier);
      if (ticket !== undefined) {
        hasBatch = true;
        await takeBack(this.#cluster, ticket, JSON.parse(value.toString()) as string[]);
        await this.#failpoint?.('sweep taken back');
        continue;
      }
      const bytes = await readRecord(this.#cluster, id, value);
      if (bytes) records.push([qualifier.readBigUInt64BE(0), decodeRecord(bytes)]);
    }
    for (const [, record] of records) {
      await applyFound(this.#cluster, id, record, this.#failpoint);
      await this.#failpoint?.('sweep applied');
    }
    await this.#fold(id, records);
    await this.#failpoint?.('sweep folded');
    if (hasBatch && !this.#isOver(began, watched)) return 'later';
    const isSwept = { op: 'equals', family: JOURNAL.state, qualifier: STATE.state, value: SWEPT } as const;
    // Where an answer was lost a look clears the writer after a lease.
    return (await this.#note(id, isSwept, DRAINED)) ? 'now' : 'others';
  }

  /** Whether no row of a batch can arrive that a scan which began at `began` has not seen. */
  #isOver(began: number, watched: Watched | undefined): boolean {
    if (!watched) return false;
    watched.takenBack ??= this.#clock.now();
    return began - watched.takenBack >= this.#pace.late;
  }

  /** Takes the locks of drained writers away, wherever they are, and their journal rows. True when there were any. */
  async clear(ids: readonly Buffer[]): Promise<boolean> {
    if (ids.length === 0) return false;
    await removeEverywhere(this.#cluster, ids);
    await this.#failpoint?.('sweep cleared');
    for (const id of ids) await this.#remove(id);
    return true;
  }

  /** Adds what the records add to shared rows and the rows do not have yet, and takes the writer's hold off them. */
  async #fold(id: Buffer, records: readonly [bigint, PlanRecord][]): Promise<void> {
    const adds = new Map<string, { table: string; key: Buffer; list: Added[] }>();
    for (const [sequence, record] of records) {
      for (const { table, key, add, since } of record.shared) {
        const name = rowId(table, key);
        const known = adds.get(name) ?? { table, key, list: [] };
        known.list.push({ sequence, add, since });
        adds.set(name, known);
      }
    }
    for (const { table: name, key, list } of adds.values()) {
      await unlessDropped(this.#cluster, name, async (table) => {
        while (!(await this.#foldRow(table, key, id, list)));
      });
    }
  }

  /** False when another changed the row meanwhile. */
  async #foldRow(table: OpenTable, key: Buffer, id: Buffer, list: readonly Added[]): Promise<boolean> {
    const row = await this.#cluster.client.get(table.handle, key, table.rowsAndLocks);
    const found = row && lockIn(table, row);
    const lock = found && parseLock(found);
    const mine = lock?.kind === 'shared' ? lock.holders.find((holder) => holder.writer.equals(id)) : undefined;
    // Folded by another sweeper, which took the hold off.
    if (!row || !found || !mine || lock?.kind !== 'shared') return true;
    const missing = list.filter(({ sequence, since }) => sequence > mine.folded && since <= mine.folded);
    const adds = missing
      .flatMap(({ add }) => unpackRow(add))
      .map((cell) => ({ ...cell, by: cell.value.readBigInt64BE() }));
    const counters = counted(row, adds);
    const ticket = counters.length > 0 ? await this.#tickets.draw(1) : undefined;
    const others = lock.holders.filter((holder) => holder !== mine);
    const rest = sharedLock(others, ticket ?? lock.counted);
    return this.#cluster.swap(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: found }],
      put: rest ? [...counters, { ...table.lock, value: rest }] : counters,
      ...(!rest && { delete: [table.lock] }),
      ...(ticket !== undefined && { timestamp: ticket }),
    });
  }

  async #remove(id: Buffer): Promise<void> {
    const { client, journal } = this.#cluster;
    const to = Buffer.concat([id, Buffer.alloc(ID_BYTES + 5, 0xff)]);
    const pieces = await keysOf(client.scan(journal, { from: keyAfter(id), to }, { keysOnly: true }));
    await client.putMany(
      journal,
      [...pieces, id].map((key) => ({ key, deleteRow: true, timestamp: FOREVER_ROW })),
    );
  }
}

/** Takes away pieces of records that arrived when their writer's row was gone. */
export async function removeOrphans({ client, journal }: Cluster): Promise<void> {
  const scan = client.scan(journal, {}, { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    const pieces = batch.keys.filter((key) => key.length > ID_BYTES);
    // Looked for after its pieces were seen: a writer that is not there then will never be.
    const writers = await client.getMany(
      journal,
      pieces.map((key) => key.subarray(0, ID_BYTES)),
      { families: [JOURNAL.state] },
    );
    const orphans = pieces.filter((_, i) => !writers[i]);
    await client.putMany(
      journal,
      orphans.map((key) => ({ key, deleteRow: true, timestamp: FOREVER_ROW })),
    );
  }
}

/** One writer that cannot be swept is tried again at the next look, and keeps nobody from the others: false. */
async function unlessFailed(work: () => Promise<boolean>): Promise<boolean> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return false;
  }
}
