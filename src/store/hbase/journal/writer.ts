import type { Cell, CellName } from '../../contract.js';
import { counterBytes, unpackRow } from '../../row.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import type { Clock, Stop } from './clock.js';
import { type EncodedRecord, ID_BYTES } from './codec.js';
import { ALIVE, IS_ALIVE, JOURNAL, MAX_TIME, STATE } from './journal-tables.js';
import type { RemoteRequest } from './row-queue.js';
import { parseRequestCell } from './row-requests.js';
import type { Tickets } from './tickets.js';
import { UnfinishedPlans } from './unfinished-plans.js';

/** The writer was given up, by other front ends or by itself. Its undecided plans have not happened. */
export class Fenced extends Error {
  constructor() {
    super('this front end was given up by the others and takes a new name');
  }
}

interface QueuedDecision {
  readonly value: Buffer;
  readonly batch: Buffer | undefined;
  onDecided(sequence: bigint): void;
  resolve(): void;
  reject(error: unknown): void;
}

/** Maximum size of the records in one mutation. A record above `PIECE_BYTES` is written in pieces beforehand. */
const GROUP_BYTES = 2 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;
/** Number of finished records that one mutation removes. */
const GROUP_REMOVALS = 2000;
/** Number of empty request cells that stay in the row. */
const MAX_EMPTY_CELLS = 32;

/** A qualifier in family `plan` is a record's sequence, or this byte and the ticket of a batch. */
const BATCH_PREFIX = 0x62;
const BATCH_NAME_BYTES = 9;

/** First byte of a record in family `plan`. */
const WHOLE = 0;
const PIECES = 1;

/** A writer's row in the journal: its lease, and the plans that it has decided and not finished. */
export class Writer {
  readonly id: Buffer;
  readonly #cluster: Cluster;
  readonly #leaseMs: number;
  #isFenced = false;
  #queue: QueuedDecision[] = [];
  #isDeciding = false;
  #finished: bigint[] = [];
  #finishedPieces: Buffer[] = [];
  #sequence = 0n;
  #beat = 0n;
  /** Time at which the last successful beat was sent, monotonic ms. */
  #renewedAt = 0;
  #renewing: Promise<void> | undefined;
  #stopBeat: Stop | undefined;

  readonly #clock: Clock;
  readonly #tickets: Tickets;
  /** The lowest ticket of these plans is the `floor` in the journal. It limits `Store.settled` elsewhere. */
  readonly unfinished = new UnfinishedPlans();

  constructor(cluster: Cluster, tickets: Tickets, clock: Clock, leaseMs: number, id: Buffer) {
    this.id = id;
    this.#cluster = cluster;
    this.#clock = clock;
    this.#tickets = tickets;
    this.#leaseMs = leaseMs;
  }

  #floorCell(): Cell {
    const value = counterBytes(this.unfinished.floor(this.#tickets.greatest));
    return { family: JOURNAL.state, qualifier: STATE.floor, value };
  }

  get isFenced(): boolean {
    return this.#isFenced;
  }

  /** The last sequence that was used for a record or skipped. */
  get sequence(): bigint {
    return this.#sequence;
  }

  /** Returns a sequence that no record has. All earlier records have lower sequences, all later ones higher. */
  skipSequence(): bigint {
    return ++this.#sequence;
  }

  /**
   * Creates the row. The mutation is sent once, because a repetition that arrives after the writer was given up would
   * bring it back to life. When the outcome is unknown, the row belongs to nobody and is swept.
   */
  async open(): Promise<void> {
    const { client, journal } = this.#cluster;
    await this.#tickets.read();
    const sentAt = this.#clock.now();
    await client.mutate(journal, {
      key: this.id,
      put: [
        { family: JOURNAL.state, qualifier: STATE.state, value: ALIVE },
        { family: JOURNAL.state, qualifier: STATE.beat, value: counterBytes(0n) },
        this.#floorCell(),
      ],
      timestamp: MAX_TIME,
    });
    this.#renewedAt = sentAt;
    this.#stopBeat = this.#clock.every(this.#leaseMs / 5, () => void this.#renewFloor().catch(() => undefined));
  }

  /** Stops deciding and renewing. Queued decisions are rejected with `Fenced`. */
  abandon(): void {
    this.#isFenced = true;
    this.#stopBeat?.();
    for (const { reject } of this.#queue.splice(0)) reject(new Fenced());
  }

  /** Resolves if the lease lasts. Rejects with `Fenced`, or `unavailable` when the lease cannot be renewed. */
  async ensureLease(): Promise<void> {
    if (this.#clock.now() - this.#renewedAt < this.#leaseMs / 2) return;
    await this.#renew();
  }

  /** Also reads the ticket counter, so that the floor of an idle writer rises with the tickets of other front ends. */
  async #renewFloor(): Promise<void> {
    const [beat, read] = await Promise.allSettled([this.#renew(), this.#tickets.read()]);
    if (beat.status === 'rejected') throw beat.reason;
    if (read.status === 'rejected') throw read.reason;
  }

  #renew(): Promise<void> {
    this.#renewing ??= this.#writeBeat().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #writeBeat(): Promise<void> {
    if (this.#isFenced) throw new Fenced();
    const sentAt = this.#clock.now();
    const value = counterBytes(++this.#beat);
    if (!(await this.#mutate([{ family: JOURNAL.state, qualifier: STATE.beat, value }, this.#floorCell()], []))) {
      this.abandon();
      throw new Fenced();
    }
    this.#renewedAt = sentAt;
  }

  /**
   * Records in the journal that rows of a batch are about to be written, all with this ticket. Unless a plan of the
   * batch is decided, the sweeper of this writer deletes these rows. Returns the batch's name. Rejects with `Fenced` or
   * `unavailable`. When the announcement may have been written all the same, the writer is abandoned, and the sweeper
   * rolls back the batch.
   */
  async announceBatch(ticket: bigint, tables: readonly string[]): Promise<Buffer> {
    await this.ensureLease();
    const batch = Buffer.concat([Buffer.from([BATCH_PREFIX]), counterBytes(ticket)]);
    const value = Buffer.from(JSON.stringify(tables));
    try {
      if (await this.#mutate([{ family: JOURNAL.plan, qualifier: batch, value }], [])) return batch;
    } catch (error) {
      if (mayBeApplied(error)) this.abandon();
      throw error;
    }
    this.abandon();
    throw new Fenced();
  }

  /** Removes the announcement after the batch was rolled back. */
  async retractBatch(batch: Buffer): Promise<void> {
    await this.#deleteCells([{ family: JOURNAL.plan, qualifier: batch }]);
  }

  /**
   * Decides a plan together with the batch to which it belongs. The plan has happened when `onDecided` is called with
   * the sequence of its record. The calls come in the order of sequences. Rejects with `Fenced` when the plan has not
   * happened, or with `unavailable` and `applied: unknown`. The writer is abandoned then, and its sweeper finds out.
   */
  async decide(
    record: EncodedRecord,
    plan: bigint,
    batch: Buffer | undefined,
    onDecided: (sequence: bigint) => void,
  ): Promise<void> {
    const value =
      record.length <= PIECE_BYTES
        ? Buffer.concat([Buffer.from([WHOLE]), ...record.parts])
        : await this.#putPieces(record, plan);
    if (this.#isFenced) throw new Fenced();
    return new Promise((resolve, reject) => {
      this.#queue.push({ value, batch, onDecided, resolve, reject });
      if (this.#isDeciding) return;
      this.#isDeciding = true;
      this.#clock.defer(() => void this.#decideAll());
    });
  }

  async #putPieces({ parts, length }: EncodedRecord, plan: bigint): Promise<Buffer> {
    const count = Math.ceil(length / PIECE_BYTES);
    let i = 0;
    for (const value of splitPieces(parts)) {
      const put = [{ family: JOURNAL.plan, qualifier: Buffer.from('piece'), value }];
      const key = pieceKey(this.id, plan, i++);
      await this.#cluster.client.putMany(this.#cluster.journal, [{ key, put, timestamp: MAX_TIME }]);
    }
    const value = Buffer.alloc(13, PIECES);
    value.writeBigUInt64BE(plan, 1);
    value.writeUInt32BE(count, 9);
    return value;
  }

  /** Writes the records of all queued plans by one mutation, and the next mutation after its answer. */
  async #decideAll(): Promise<void> {
    while (this.#queue.length > 0 && !this.#isFenced) {
      const group = this.#takeGroup();
      const put = group.map(({ value }) => ({
        family: JOURNAL.plan,
        qualifier: counterBytes(++this.#sequence),
        value,
      }));
      const done = this.#finished.splice(0, GROUP_REMOVALS).map(counterBytes);
      const batches = group.flatMap(({ batch }) => batch ?? []);
      let sequence = this.#sequence - BigInt(group.length);
      try {
        if (await this.#mutate([...put, this.#floorCell()], [...done, ...batches])) {
          for (const { onDecided, resolve } of group) {
            onDecided(++sequence);
            resolve();
          }
        } else {
          this.abandon();
          for (const { reject } of group) reject(new Fenced());
        }
      } catch (error) {
        this.abandon();
        const lost = new StoreError('unavailable', 'the journal did not answer', {
          cause: error,
          applied: 'unknown',
        });
        for (const { reject } of group) reject(lost);
      }
    }
    this.#isDeciding = false;
  }

  #takeGroup(): QueuedDecision[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && (count === 0 || bytes < GROUP_BYTES))
      bytes += this.#queue[count++]!.value.length;
    return this.#queue.splice(0, count);
  }

  /** Puts cells, and deletes records and batches. Returns false when the writer was given up. */
  #mutate(put: Cell[], names: readonly Buffer[]): Promise<boolean> {
    const { client, journal } = this.#cluster;
    const deletes = names.map((qualifier) => ({ family: JOURNAL.plan, qualifier }));
    const mutation = { key: this.id, guards: [IS_ALIVE], put, delete: deletes, timestamp: MAX_TIME };
    return client.mutate(journal, { ...mutation, repeatable: true });
  }

  /** Marks the record and its pieces for removal. */
  finishRecord(sequence: bigint, plan: bigint, bytes: number): void {
    this.#finished.push(sequence);
    for (let i = 0; bytes > PIECE_BYTES && i < Math.ceil(bytes / PIECE_BYTES); i++)
      this.#finishedPieces.push(pieceKey(this.id, plan, i));
  }

  /** Removes finished records. Records that stay cost nothing but time of a sweeper. */
  async removeFinished(): Promise<void> {
    if (this.#isFenced) return;
    // The next decision removes the other ones.
    const done = this.#isDeciding ? [] : this.#finished.splice(0, GROUP_REMOVALS);
    const pieces = this.#finishedPieces.splice(0);
    try {
      if (done.length > 0 && !(await this.#mutate([], done.map(counterBytes)))) this.abandon();
      if (pieces.length > 0) await this.#cluster.deleteJournalRows(pieces);
    } catch (error) {
      this.#finished.unshift(...done);
      this.#finishedPieces.unshift(...pieces);
      throw error;
    }
  }

  /** Reads the requests of other front ends for rows. */
  async readRequests(): Promise<RemoteRequest[]> {
    const { client, journal } = this.#cluster;
    const row = await client.get(journal, this.id, { families: [JOURNAL.ask] });
    const cells = row ? unpackRow(row) : [];
    const empty = cells.filter(({ value }) => value.length === 0);
    // Most of them belong to front ends that are gone. A cell that was filled meanwhile is sent again by its front end.
    if (empty.length > MAX_EMPTY_CELLS) await this.#deleteCells(empty);
    return cells.flatMap(({ qualifier, value }) => parseRequestCell(qualifier, value));
  }

  /** Removes expired requests, with all other requests in their cells. */
  async removeRequests(requests: readonly RemoteRequest[]): Promise<void> {
    const cells = new Map(requests.map(({ cell }) => [cell.toString('latin1'), cell]));
    await this.#deleteCells([...cells.values()].map((qualifier) => ({ family: JOURNAL.ask, qualifier })));
  }

  #deleteCells(cells: readonly CellName[]): Promise<void> {
    const { client, journal } = this.#cluster;
    const deletes = cells.map(({ family, qualifier }) => ({ family, qualifier }));
    return client.putMany(journal, [{ key: this.id, delete: deletes, timestamp: MAX_TIME }]);
  }

  /** Deletes the journal row when every plan is finished. Locks of this writer are dead from then on. */
  async close(): Promise<void> {
    if (this.#isFenced) return;
    this.#stopBeat?.();
    await this.removeFinished();
    this.abandon();
    await this.#cluster.deleteJournalRows([this.id]);
  }
}

/** Returns the ticket of the batch named by a qualifier of family `plan`, or undefined for a record. */
export function batchTicket(qualifier: Buffer): bigint | undefined {
  return qualifier.length === BATCH_NAME_BYTES && qualifier[0] === BATCH_PREFIX
    ? qualifier.readBigUInt64BE(1)
    : undefined;
}

export function pieceKey(id: Buffer, plan: bigint, piece: number): Buffer {
  const key = Buffer.allocUnsafe(ID_BYTES + 12);
  key.set(id, 0);
  key.writeBigUInt64BE(plan, ID_BYTES);
  key.writeUInt32BE(piece, ID_BYTES + 8);
  return key;
}

/** Reads the record in a cell of family `plan`. Returns undefined for a finished record, whose pieces are gone. */
export async function readRecord(cluster: Cluster, id: Buffer, value: Buffer): Promise<Buffer | undefined> {
  if (value[0] === WHOLE) return value.subarray(1);
  const plan = value.readBigUInt64BE(1);
  const keys = Array.from({ length: value.readUInt32BE(9) }, (_, i) => pieceKey(id, plan, i));
  const parts: Buffer[] = [];
  for (const key of keys) {
    const row = await cluster.client.get(cluster.journal, key, { families: [JOURNAL.plan] });
    if (!row) return undefined;
    parts.push(unpackRow(row)[0]!.value);
  }
  return Buffer.concat(parts);
}

/** Splits the concatenated parts into pieces of `PIECE_BYTES`. */
function* splitPieces(parts: readonly Buffer[]): Generator<Buffer> {
  let chunk: Buffer[] = [];
  let bytes = 0;
  for (const part of parts) {
    for (let at = 0; at < part.length; ) {
      const next = part.subarray(at, at + PIECE_BYTES - bytes);
      chunk.push(next);
      bytes += next.length;
      at += next.length;
      if (bytes < PIECE_BYTES) continue;
      yield Buffer.concat(chunk, bytes);
      chunk = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield Buffer.concat(chunk, bytes);
}
