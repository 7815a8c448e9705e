import type { Cell, CellName } from '../../contract.js';
import { counterBytes, unpackRow } from '../../row.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { type EncodedRecord, ID_BYTES } from './codec.js';
import { ALIVE, IS_ALIVE, JOURNAL, MAX_TIME, STATE } from './journal-tables.js';
import type { RemoteRequest } from './row-queue.js';
import { parseRequestCell } from './row-requests.js';
import { type CancelTimer, type Clock, type Tickets, UnfinishedPlans } from './tickets.js';

/** Thrown when the writer may decide nothing more: its lease ended. Its undecided plans have not happened. */
export class FencedError extends Error {
  constructor() {
    super('this front end was given up by the others and takes a new name');
  }
}

/** A record that waits for the mutation that decides its plan. */
interface QueuedDecision {
  readonly value: Buffer;
  readonly batchQualifier: Buffer | undefined;
  onDecided(sequence: bigint): void;
  resolve(): void;
  reject(error: unknown): void;
}

/** A mutation takes no more records after this many bytes. */
const MAX_MUTATION_BYTES = 2 * 1024 * 1024;
/** A longer record is written in pieces of this size, each in a row of the journal, before its plan is decided. */
const PIECE_BYTES = 1024 * 1024;
/** Number of finished records that one mutation removes. */
const MAX_REMOVALS = 2000;
/** Number of empty request cells that stay in the row. */
const MAX_EMPTY_CELLS = 32;

/** A qualifier in family `plan` is a record's sequence, or this byte and the ticket of a batch. */
const BATCH_PREFIX = 0x62;
const BATCH_QUALIFIER_BYTES = 9;

/** First byte of a cell in family `plan`: the record follows, or the number of its pieces (rows of the journal). */
const WHOLE_RECORD = 0;
const RECORD_IN_PIECES = 1;

/** A writer's row in the journal: its lease, and the plans that it has decided and not finished. */
export class Writer {
  readonly id: Buffer;
  readonly #cluster: Cluster;
  readonly #leaseMs: number;
  #isFenced = false;
  #queuedDecisions: QueuedDecision[] = [];
  #isDeciding = false;
  #finishedSequences: bigint[] = [];
  #finishedPieceKeys: Buffer[] = [];
  #lastSequence = 0n;
  #beatCount = 0n;
  /** Time at which the last successful beat was sent, monotonic ms. */
  #renewedAt = 0;
  #renewal: Promise<void> | undefined;
  #stopBeat: CancelTimer | undefined;

  readonly #clock: Clock;
  readonly #tickets: Tickets;
  /** The lowest ticket of these plans is the `floor` in the journal. It limits `Store.settled` elsewhere. */
  readonly unfinishedPlans = new UnfinishedPlans();

  constructor(cluster: Cluster, tickets: Tickets, clock: Clock, leaseMs: number, id: Buffer) {
    this.id = id;
    this.#cluster = cluster;
    this.#clock = clock;
    this.#tickets = tickets;
    this.#leaseMs = leaseMs;
  }

  #floorCell(): Cell {
    const value = counterBytes(this.unfinishedPlans.floor(this.#tickets.greatestTicket));
    return { family: JOURNAL.state, qualifier: STATE.floor, value };
  }

  get isFenced(): boolean {
    return this.#isFenced;
  }

  /** The last sequence that was used for a record or skipped. */
  get lastSequence(): bigint {
    return this.#lastSequence;
  }

  /** Returns a sequence that no record has. All earlier records have lower sequences, all later ones higher. */
  skipSequence(): bigint {
    return ++this.#lastSequence;
  }

  /**
   * Creates the row. The mutation is sent once, because a repetition that arrives after another front end ended the
   * lease would revive the writer. When the outcome is unknown, the row belongs to nobody and is swept.
   */
  async open(): Promise<void> {
    const { client, journal } = this.#cluster;
    await this.#tickets.readLastTicket();
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
    // `ensureLease` renews before each decision, too, and throws the error.
    this.#stopBeat = this.#clock.runEvery(this.#leaseMs / 5, () => void this.#renewFloor().catch(() => undefined));
  }

  /** Stops deciding and renewing. Queued decisions are rejected with `FencedError`. */
  abandon(): void {
    this.#isFenced = true;
    this.#stopBeat?.();
    for (const { reject } of this.#queuedDecisions.splice(0)) reject(new FencedError());
  }

  /** Resolves if the lease lasts. Rejects with `FencedError`, or `unavailable` when the lease cannot be renewed. */
  async ensureLease(): Promise<void> {
    if (this.#clock.now() - this.#renewedAt < this.#leaseMs / 2) return;
    await this.#renew();
  }

  /** Also reads the ticket counter, so that the floor of an idle writer rises with the tickets of other front ends. */
  async #renewFloor(): Promise<void> {
    const [renewal, ticketRead] = await Promise.allSettled([this.#renew(), this.#tickets.readLastTicket()]);
    if (renewal.status === 'rejected') throw renewal.reason;
    if (ticketRead.status === 'rejected') throw ticketRead.reason;
  }

  #renew(): Promise<void> {
    this.#renewal ??= this.#writeBeat().finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  async #writeBeat(): Promise<void> {
    if (this.#isFenced) throw new FencedError();
    const sentAt = this.#clock.now();
    const value = counterBytes(++this.#beatCount);
    if (!(await this.#mutate([{ family: JOURNAL.state, qualifier: STATE.beat, value }, this.#floorCell()], []))) {
      this.abandon();
      throw new FencedError();
    }
    this.#renewedAt = sentAt;
  }

  /**
   * Records in the journal that rows of a batch are about to be written, all with this ticket. Unless a plan of the
   * batch is decided, the sweeper of this writer deletes these rows. Returns the batch's qualifier. Rejects with
   * `FencedError` or `unavailable`. When the announcement may have been written all the same, the writer is abandoned,
   * and the sweeper rolls back the batch.
   */
  async announceBatch(ticket: bigint, tables: readonly string[]): Promise<Buffer> {
    await this.ensureLease();
    const batchQualifier = Buffer.concat([Buffer.from([BATCH_PREFIX]), counterBytes(ticket)]);
    const value = Buffer.from(JSON.stringify(tables));
    try {
      if (await this.#mutate([{ family: JOURNAL.plan, qualifier: batchQualifier, value }], [])) return batchQualifier;
    } catch (error) {
      if (mayBeApplied(error)) this.abandon();
      throw error;
    }
    this.abandon();
    throw new FencedError();
  }

  /** Removes the announcement of a batch whose rows were deleted. */
  async retractBatch(batchQualifier: Buffer): Promise<void> {
    await this.#deleteCells([{ family: JOURNAL.plan, qualifier: batchQualifier }]);
  }

  /**
   * Decides a plan together with the batch to which it belongs. The plan has happened when `onDecided` is called with
   * the sequence of its record. The calls come in the order of sequences. Rejects with `FencedError` when the plan has
   * not happened, or with `unavailable` and `applied: unknown`. The writer is then abandoned.
   */
  async decide(
    record: EncodedRecord,
    planNumber: bigint,
    batchQualifier: Buffer | undefined,
    onDecided: (sequence: bigint) => void,
  ): Promise<void> {
    const value =
      record.length <= PIECE_BYTES
        ? Buffer.concat([Buffer.from([WHOLE_RECORD]), ...record.parts])
        : await this.#putPieces(record, planNumber);
    if (this.#isFenced) throw new FencedError();
    return new Promise((resolve, reject) => {
      this.#queuedDecisions.push({ value, batchQualifier, onDecided, resolve, reject });
      if (this.#isDeciding) return;
      this.#isDeciding = true;
      this.#clock.defer(() => void this.#decideAll());
    });
  }

  async #putPieces({ parts, length }: EncodedRecord, planNumber: bigint): Promise<Buffer> {
    const count = Math.ceil(length / PIECE_BYTES);
    let i = 0;
    for (const value of splitPieces(parts)) {
      const put = [{ family: JOURNAL.plan, qualifier: Buffer.from('piece'), value }];
      const key = pieceKey(this.id, planNumber, i++);
      await this.#cluster.client.putMany(this.#cluster.journal, [{ key, put, timestamp: MAX_TIME }]);
    }
    const value = Buffer.alloc(13, RECORD_IN_PIECES);
    value.writeBigUInt64BE(planNumber, 1);
    value.writeUInt32BE(count, 9);
    return value;
  }

  /** Writes the records of all queued plans by one mutation, and the next mutation after its answer. */
  async #decideAll(): Promise<void> {
    while (this.#queuedDecisions.length > 0 && !this.#isFenced) {
      const decisions = this.#takeDecisions();
      const put = decisions.map(({ value }) => ({
        family: JOURNAL.plan,
        qualifier: counterBytes(++this.#lastSequence),
        value,
      }));
      const finishedQualifiers = this.#finishedSequences.splice(0, MAX_REMOVALS).map(counterBytes);
      const batchQualifiers = decisions.flatMap(({ batchQualifier }) => batchQualifier ?? []);
      let sequence = this.#lastSequence - BigInt(decisions.length);
      try {
        if (await this.#mutate([...put, this.#floorCell()], [...finishedQualifiers, ...batchQualifiers])) {
          for (const { onDecided, resolve } of decisions) {
            onDecided(++sequence);
            resolve();
          }
        } else {
          this.abandon();
          for (const { reject } of decisions) reject(new FencedError());
        }
      } catch (error) {
        this.abandon();
        const lostAnswer = new StoreError('unavailable', 'the journal did not answer', {
          cause: error,
          applied: 'unknown',
        });
        for (const { reject } of decisions) reject(lostAnswer);
      }
    }
    this.#isDeciding = false;
  }

  #takeDecisions(): QueuedDecision[] {
    let byteCount = 0;
    let count = 0;
    while (count < this.#queuedDecisions.length && (count === 0 || byteCount < MAX_MUTATION_BYTES))
      byteCount += this.#queuedDecisions[count++]!.value.length;
    return this.#queuedDecisions.splice(0, count);
  }

  /** Puts cells into the writer's row, and deletes cells of family `plan`. Returns false when the lease has ended. */
  #mutate(put: Cell[], deletedQualifiers: readonly Buffer[]): Promise<boolean> {
    const { client, journal } = this.#cluster;
    const deletes = deletedQualifiers.map((qualifier) => ({ family: JOURNAL.plan, qualifier }));
    const mutation = { key: this.id, guards: [IS_ALIVE], put, delete: deletes, timestamp: MAX_TIME };
    return client.mutate(journal, { ...mutation, isRepeatable: true });
  }

  /** Marks the record of an applied plan, and its pieces, for removal. */
  finishRecord(sequence: bigint, planNumber: bigint, byteCount: number): void {
    this.#finishedSequences.push(sequence);
    for (let i = 0; byteCount > PIECE_BYTES && i < Math.ceil(byteCount / PIECE_BYTES); i++)
      this.#finishedPieceKeys.push(pieceKey(this.id, planNumber, i));
  }

  /** Removes records of plans that are applied. A record that stays costs nothing but time of a sweeper. */
  async removeFinishedRecords(): Promise<void> {
    if (this.#isFenced) return;
    // While decisions are written, each mutation removes finished records, too.
    const sequences = this.#isDeciding ? [] : this.#finishedSequences.splice(0, MAX_REMOVALS);
    const pieceKeys = this.#finishedPieceKeys.splice(0);
    try {
      if (sequences.length > 0 && !(await this.#mutate([], sequences.map(counterBytes)))) this.abandon();
      if (pieceKeys.length > 0) await this.#cluster.deleteJournalRows(pieceKeys);
    } catch (error) {
      this.#finishedSequences.unshift(...sequences);
      this.#finishedPieceKeys.unshift(...pieceKeys);
      throw error;
    }
  }

  /** Reads the requests of other front ends for rows. */
  async readRequests(): Promise<RemoteRequest[]> {
    const { client, journal } = this.#cluster;
    const row = await client.get(journal, this.id, { families: [JOURNAL.ask] });
    const cells = row ? unpackRow(row) : [];
    const emptyCells = cells.filter(({ value }) => value.length === 0);
    // Most of these cells belong to dead front ends. A living front end sends requests that are lost here again.
    if (emptyCells.length > MAX_EMPTY_CELLS) await this.#deleteCells(emptyCells);
    return cells.flatMap(({ qualifier, value }) => parseRequestCell(qualifier, value));
  }

  /** Removes expired requests, with all other requests in their cells. */
  async removeRequests(requests: readonly RemoteRequest[]): Promise<void> {
    const qualifiers = new Map(requests.map(({ qualifier }) => [qualifier.toString('latin1'), qualifier]));
    await this.#deleteCells([...qualifiers.values()].map((qualifier) => ({ family: JOURNAL.ask, qualifier })));
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
    await this.removeFinishedRecords();
    this.abandon();
    await this.#cluster.deleteJournalRows([this.id]);
  }
}

/** Returns the ticket in a batch's qualifier, or undefined for a record's (both in family `plan`). */
export function batchTicket(qualifier: Buffer): bigint | undefined {
  return qualifier.length === BATCH_QUALIFIER_BYTES && qualifier[0] === BATCH_PREFIX
    ? qualifier.readBigUInt64BE(1)
    : undefined;
}

export function pieceKey(writerId: Buffer, planNumber: bigint, pieceIndex: number): Buffer {
  const key = Buffer.allocUnsafe(ID_BYTES + 12);
  key.set(writerId, 0);
  key.writeBigUInt64BE(planNumber, ID_BYTES);
  key.writeUInt32BE(pieceIndex, ID_BYTES + 8);
  return key;
}

/** Reads the record in a cell of family `plan`. Returns undefined for a finished record, whose pieces are gone. */
export async function readRecord(cluster: Cluster, id: Buffer, value: Buffer): Promise<Buffer | undefined> {
  if (value[0] === WHOLE_RECORD) return value.subarray(1);
  const planNumber = value.readBigUInt64BE(1);
  const keys = Array.from({ length: value.readUInt32BE(9) }, (_, i) => pieceKey(id, planNumber, i));
  const pieces: Buffer[] = [];
  for (const key of keys) {
    const row = await cluster.client.get(cluster.journal, key, { families: [JOURNAL.plan] });
    if (!row) return undefined;
    pieces.push(unpackRow(row)[0]!.value);
  }
  return Buffer.concat(pieces);
}

/** Splits the bytes of a record into pieces of `PIECE_BYTES`. */
function* splitPieces(buffers: readonly Buffer[]): Generator<Buffer> {
  let pieceSlices: Buffer[] = [];
  let byteCount = 0;
  for (const buffer of buffers) {
    for (let offset = 0; offset < buffer.length; ) {
      const slice = buffer.subarray(offset, offset + PIECE_BYTES - byteCount);
      pieceSlices.push(slice);
      byteCount += slice.length;
      offset += slice.length;
      if (byteCount < PIECE_BYTES) continue;
      yield Buffer.concat(pieceSlices, byteCount);
      pieceSlices = [];
      byteCount = 0;
    }
  }
  if (byteCount > 0) yield Buffer.concat(pieceSlices, byteCount);
}
