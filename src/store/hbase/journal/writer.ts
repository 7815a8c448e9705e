import type { Cell, CellName } from '../../contract.js';
import { counterBytes, unpackRow } from '../../row.js';
import { mayBeDone, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { parsePage } from './asks.js';
import type { Clock, Stop } from './clock.js';
import { type EncodedRecord, ID_BYTES } from './codec.js';
import { ALIVE, FOREVER, FOREVER_ROW, IS_ALIVE, JOURNAL, STATE } from './journal-tables.js';
import type { Tickets } from './tickets.js';
import type { Ask } from './turns.js';
import { Unfinished } from './unfinished.js';

/** The writer was given up by others, or gave itself up: what it had not decided did not happen. */
export class Fenced extends Error {
  constructor() {
    super('this front end was given up by the others and takes a new name');
  }
}

interface Deciding {
  readonly record: Buffer;
  /** The batch that the plan belongs to. */
  readonly batch: Buffer | undefined;
  decided(sequence: bigint): void;
  resolve(): void;
  reject(error: unknown): void;
}

/** Bytes of records that go into one mutation; a longer one is put in pieces beforehand. */
const GROUP_BYTES = 2 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;
/** Sequences of finished records that one mutation takes out. */
const GROUP_DONE = 2000;
/** Pages of asks with nothing in them that stay in the row. */
const MOST_EMPTY = 32;

/** A qualifier of family `plan` is a record's sequence, or that of a batch: this byte and its ticket. */
const BATCH = 0x62;
const BATCH_BYTES = 9;

/** First byte of a record in family `plan`. */
const WHOLE = 0;
const PIECES = 1;

export function sequenceBytes(sequence: bigint): Buffer {
  const out = Buffer.allocUnsafe(8);
  out.writeBigUInt64BE(sequence);
  return out;
}

/** One writer's row in the journal: its lease, and the plans that it has decided and not finished. */
export class Writer {
  readonly id: Buffer;
  readonly #cluster: Cluster;
  readonly #leaseMs: number;
  #fenced = false;
  #queue: Deciding[] = [];
  #deciding = false;
  #done: bigint[] = [];
  #pieces: Buffer[] = [];
  #sequence = 0n;
  #beat = 0n;
  /** When the last beat that came through was sent, monotonic ms. */
  #renewed = 0;
  #renewing: Promise<void> | undefined;
  #stopBeat: Stop | undefined;

  readonly #clock: Clock;
  readonly #tickets: Tickets;
  /** What is said of it in the journal is what bounds `Store.settled` of others. */
  readonly unfinished = new Unfinished();

  constructor(cluster: Cluster, tickets: Tickets, clock: Clock, leaseMs: number, id: Buffer) {
    this.id = id;
    this.#cluster = cluster;
    this.#clock = clock;
    this.#tickets = tickets;
    this.#leaseMs = leaseMs;
  }

  #floor(): Cell {
    const value = counterBytes(this.unfinished.floor(this.#tickets.given));
    return { family: JOURNAL.state, qualifier: STATE.floor, value };
  }

  get fenced(): boolean {
    return this.#fenced;
  }

  /** Sequence of the last record that was sent to the journal, or the last that was skipped. */
  get sequence(): bigint {
    return this.#sequence;
  }

  /** A sequence that no record has: greater than those of all records before, less than those of all after. */
  skip(): bigint {
    return ++this.#sequence;
  }

  /**
   * Makes the row, once: a try that arrives after the writer was given up would make it alive again. Where nobody knows
   * whether it was made it is nobody's, and is swept.
   */
  async open(): Promise<void> {
    const { client, journal } = this.#cluster;
    await this.#tickets.read();
    const began = this.#clock.now();
    await client.mutate(journal, {
      key: this.id,
      put: [
        { family: JOURNAL.state, qualifier: STATE.state, value: ALIVE },
        { family: JOURNAL.state, qualifier: STATE.beat, value: counterBytes(0n) },
        this.#floor(),
      ],
      timestamp: FOREVER,
    });
    this.#renewed = began;
    this.#stopBeat = this.#clock.every(this.#leaseMs / 5, () => void this.#beatAndFloor().catch(() => undefined));
  }

  /** Nothing more is decided or renewed. */
  abandon(): void {
    this.#fenced = true;
    this.#stopBeat?.();
    for (const { reject } of this.#queue.splice(0)) reject(new Fenced());
  }

  /**
   * Resolves when others cannot have given the writer up yet; rejects with `Fenced`, or `unavailable` when the lease
   * cannot be renewed.
   */
  async alive(): Promise<void> {
    if (this.#clock.now() - this.#renewed < this.#leaseMs / 2) return;
    await this.#renew();
  }

  /** The floor of a writer that does nothing rises with the tickets of the others. */
  async #beatAndFloor(): Promise<void> {
    const [beat, read] = await Promise.allSettled([this.#renew(), this.#tickets.read()]);
    if (beat.status === 'rejected') throw beat.reason;
    if (read.status === 'rejected') throw read.reason;
  }

  #renew(): Promise<void> {
    this.#renewing ??= this.#beatOnce().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #beatOnce(): Promise<void> {
    if (this.#fenced) throw new Fenced();
    const { client, journal } = this.#cluster;
    const began = this.#clock.now();
    const value = counterBytes(++this.#beat);
    const put = [{ family: JOURNAL.state, qualifier: STATE.beat, value }, this.#floor()];
    if (
      !(await client.mutate(journal, { key: this.id, guards: [IS_ALIVE], put, timestamp: FOREVER, repeatable: true }))
    ) {
      this.abandon();
      throw new Fenced();
    }
    this.#renewed = began;
  }

  /**
   * Says that rows of a batch are about to be written into the tables, all with this ticket. Unless a plan of the batch
   * is decided, whoever sweeps this writer takes them away. Gives the batch's name; rejects with `Fenced`, or with
   * `unavailable`: where it may have been written, the writer is abandoned, and goes with the batch.
   */
  async announce(ticket: bigint, tables: readonly string[]): Promise<Buffer> {
    await this.alive();
    const batch = batchName(ticket);
    const value = Buffer.from(JSON.stringify(tables));
    try {
      if (await this.#write([{ family: JOURNAL.plan, qualifier: batch, value }], [])) return batch;
    } catch (error) {
      if (mayBeDone(error)) this.abandon();
      throw error;
    }
    this.abandon();
    throw new Fenced();
  }

  /** The batch was taken back. */
  async retract(batch: Buffer): Promise<void> {
    const gone = [{ family: JOURNAL.plan, qualifier: batch }];
    await this.#cluster.client.putMany(this.#cluster.journal, [{ key: this.id, delete: gone, timestamp: FOREVER }]);
  }

  /**
   * Decides a plan, and with it the batch it belongs to: from the moment `decided` is called, with the record's
   * sequence and in the order of sequences, it happens. Rejects with `Fenced` (it did not), or with `unavailable`,
   * `applied` unknown; the writer is abandoned then, and whoever sweeps it finds out.
   */
  async decide(
    record: EncodedRecord,
    plan: bigint,
    batch: Buffer | undefined,
    decided: (sequence: bigint) => void,
  ): Promise<void> {
    const value =
      record.length <= PIECE_BYTES
        ? Buffer.concat([Buffer.from([WHOLE]), ...record.parts])
        : await this.#putPieces(record, plan);
    if (this.#fenced) throw new Fenced();
    return new Promise((resolve, reject) => {
      this.#queue.push({ record: value, batch, decided, resolve, reject });
      if (this.#deciding) return;
      this.#deciding = true;
      this.#clock.soon(() => void this.#decideAll());
    });
  }

  async #putPieces({ parts, length }: EncodedRecord, plan: bigint): Promise<Buffer> {
    const count = Math.ceil(length / PIECE_BYTES);
    let i = 0;
    for (const value of pieces(parts)) {
      const put = [{ family: JOURNAL.plan, qualifier: Buffer.from('piece'), value }];
      const key = pieceKey(this.id, plan, i++);
      await this.#cluster.client.putMany(this.#cluster.journal, [{ key, put, timestamp: FOREVER }]);
    }
    const value = Buffer.alloc(13, PIECES);
    value.writeBigUInt64BE(plan, 1);
    value.writeUInt32BE(count, 9);
    return value;
  }

  /** The records of all plans that wait go into one mutation; the next one when that is known to be there. */
  async #decideAll(): Promise<void> {
    while (this.#queue.length > 0 && !this.#fenced) {
      const group = this.#takeGroup();
      const put = group.map(({ record }) => ({
        family: JOURNAL.plan,
        qualifier: sequenceBytes(++this.#sequence),
        value: record,
      }));
      const done = this.#done.splice(0, GROUP_DONE).map(sequenceBytes);
      const batches = group.flatMap(({ batch }) => batch ?? []);
      let sequence = this.#sequence - BigInt(group.length);
      try {
        if (await this.#write([...put, this.#floor()], [...done, ...batches])) {
          for (const { decided, resolve } of group) {
            decided(++sequence);
            resolve();
          }
        } else {
          this.abandon();
          for (const { reject } of group) reject(new Fenced());
        }
      } catch (error) {
        this.abandon();
        const unknown = new StoreError('unavailable', 'the journal did not answer', {
          cause: error,
          applied: 'unknown',
        });
        for (const { reject } of group) reject(unknown);
      }
    }
    this.#deciding = false;
  }

  #takeGroup(): Deciding[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && (count === 0 || bytes < GROUP_BYTES))
      bytes += this.#queue[count++]!.record.length;
    return this.#queue.splice(0, count);
  }

  /** Puts cells of family `plan` and takes others out; false when the writer was given up. */
  #write(put: { family: number; qualifier: Buffer; value: Buffer }[], names: readonly Buffer[]): Promise<boolean> {
    const { client, journal } = this.#cluster;
    const gone = names.map((qualifier) => ({ family: JOURNAL.plan, qualifier }));
    return client.mutate(journal, {
      key: this.id,
      guards: [IS_ALIVE],
      put,
      delete: gone,
      timestamp: FOREVER,
      repeatable: true,
    });
  }

  /** The record is finished and may go, with its pieces. */
  finished(sequence: bigint, plan: bigint, bytes: number): void {
    this.#done.push(sequence);
    for (let i = 0; bytes > PIECE_BYTES && i < Math.ceil(bytes / PIECE_BYTES); i++)
      this.#pieces.push(pieceKey(this.id, plan, i));
  }

  /** Takes finished records out; those that stay in cost nothing but the sweeper's time. */
  async tidy(): Promise<void> {
    if (this.#fenced) return;
    const { client, journal } = this.#cluster;
    // The next decisions take those out.
    const done = this.#deciding ? [] : this.#done.splice(0, GROUP_DONE);
    const pieces = this.#pieces.splice(0);
    try {
      if (done.length > 0 && !(await this.#write([], done.map(sequenceBytes)))) this.abandon();
      if (pieces.length > 0)
        await client.putMany(
          journal,
          pieces.map((key) => ({ key, deleteRow: true, timestamp: FOREVER_ROW })),
        );
    } catch (error) {
      this.#done.unshift(...done);
      this.#pieces.unshift(...pieces);
      throw error;
    }
  }

  /** What others ask for. */
  async asked(): Promise<Ask[]> {
    const { client, journal } = this.#cluster;
    const row = await client.get(journal, this.id, { families: [JOURNAL.ask] });
    const pages = row ? unpackRow(row) : [];
    const empty = pages.filter(({ value }) => value.length === 0);
    // Of front ends that are gone, most of them. A page that is written meanwhile is written again.
    if (empty.length > MOST_EMPTY) await this.#takeOut(empty);
    return pages.flatMap(({ qualifier, value }) => parsePage(qualifier, value));
  }

  /** Takes asks out that nobody stands by any more, and all that was asked with them. */
  async forget(asks: readonly Ask[]): Promise<void> {
    const pages = new Map(asks.map(({ page }) => [page.toString('latin1'), page]));
    await this.#takeOut([...pages.values()].map((qualifier) => ({ family: JOURNAL.ask, qualifier })));
  }

  #takeOut(cells: readonly CellName[]): Promise<void> {
    const gone = cells.map(({ family, qualifier }) => ({ family, qualifier }));
    return this.#cluster.client.putMany(this.#cluster.journal, [{ key: this.id, delete: gone, timestamp: FOREVER }]);
  }

  /** Takes the row out: every plan is finished. Locks of this writer are dead from now on. */
  async close(): Promise<void> {
    if (this.#fenced) return;
    this.#stopBeat?.();
    await this.tidy();
    this.abandon();
    const { client, journal } = this.#cluster;
    await client.putMany(journal, [{ key: this.id, deleteRow: true, timestamp: FOREVER_ROW }]);
  }
}

function batchName(ticket: bigint): Buffer {
  return Buffer.concat([Buffer.from([BATCH]), sequenceBytes(ticket)]);
}

/** The ticket of the batch that a qualifier of family `plan` names; undefined for a record's. */
export function batchTicket(qualifier: Buffer): bigint | undefined {
  return qualifier.length === BATCH_BYTES && qualifier[0] === BATCH ? qualifier.readBigUInt64BE(1) : undefined;
}

export function pieceKey(id: Buffer, plan: bigint, piece: number): Buffer {
  const key = Buffer.allocUnsafe(ID_BYTES + 12);
  key.set(id, 0);
  key.writeBigUInt64BE(plan, ID_BYTES);
  key.writeUInt32BE(piece, ID_BYTES + 8);
  return key;
}

/**
 * The record in a cell of family `plan` of `id`'s row; undefined when its pieces are gone, which means that it was
 * finished.
 */
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

/** The bytes of the parts, cut anew. */
function* pieces(parts: readonly Buffer[]): Generator<Buffer> {
  let held: Buffer[] = [];
  let bytes = 0;
  for (const part of parts) {
    for (let at = 0; at < part.length; ) {
      const next = part.subarray(at, at + PIECE_BYTES - bytes);
      held.push(next);
      bytes += next.length;
      at += next.length;
      if (bytes < PIECE_BYTES) continue;
      yield Buffer.concat(held, bytes);
      held = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield Buffer.concat(held, bytes);
}
