import { deserialize, serialize } from 'node:v8';
import { type Client, TimeSlice } from '../../../fair/time-slice.js';
import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import type { SearchSink } from '../sink.js';
import type { Order, OrderStage } from './order.js';
import type { SortOrder } from './sort-order.js';
import { Spill, type SpillRoom } from './spill.js';

/** Records that are sorted at once, which takes some milliseconds, and are a run. */
const RUN_RECORDS = 4096;
/** Records that are read from a run at once. */
const BLOCK_RECORDS = 128;
/** Records that are merged between two looks at the clock. */
const MERGED_RECORDS = 1024;
/** Up to this number, the first entries of an order are kept in memory, and no others. */
const FEW_ENTRIES = 2048;

export interface SorterOptions {
  /** How many entries of the order are wanted; Infinity: all. */
  readonly limit: number;
  /** Whether an entry is left out, given its record. */
  readonly leavesOut: (record: string, id: Buffer) => boolean;
  readonly client: Client | undefined;
}

/** Sorted records: a block of them, the next one in it, and the blocks that follow. */
interface Run {
  block: readonly string[];
  next: number;
  readonly blocks: AsyncIterator<readonly string[]>;
}

/** Collects the entries that a search finds and sorts them, in bounded memory and a temporary file. */
export class Sorter implements Order {
  readonly #order: SortOrder;
  readonly #room: SpillRoom;
  readonly #options: SorterOptions;
  #records: string[] = [];
  readonly #file: Spill;
  /** Of each run the offsets of its blocks in the file, and its end. */
  readonly #runs: number[][] = [];

  constructor(order: SortOrder, room: SpillRoom, options: SorterOptions) {
    this.#order = order;
    this.#room = room;
    this.#options = options;
    this.#file = new Spill(room);
  }

  stage(sink: SearchSink): OrderStage {
    return {
      entry: ({ row, sight, id }) => this.#add(this.#order.record(row, sight, id), id),
      reference: (urls) => sink.reference(urls),
      end: () => undefined,
    };
  }

  #add(record: string, id: Buffer): Maybe<void> {
    const { limit, leavesOut } = this.#options;
    if (leavesOut(record, id)) return;
    this.#records.push(record);
    if (limit > FEW_ENTRIES) return this.#records.length === RUN_RECORDS ? this.#endRun() : undefined;
    if (this.#records.length === limit + RUN_RECORDS) this.#records = this.#records.sort().slice(0, limit);
  }

  async #endRun(): Promise<void> {
    const records = this.#records.sort();
    this.#records = [];
    const offsets = [this.#file.length];
    const blocks: Buffer[] = [];
    for (let i = 0; i < records.length; i += BLOCK_RECORDS) {
      blocks.push(serialize(records.slice(i, i + BLOCK_RECORDS)));
      offsets.push(offsets.at(-1)! + blocks.at(-1)!.length);
    }
    this.#runs.push(offsets);
    await this.#file.append(Buffer.concat(blocks));
  }

  async *#readRun(offsets: readonly number[]): AsyncGenerator<readonly string[], undefined> {
    for (let i = 1; i < offsets.length; i++) yield deserialize(await this.#file.read(offsets[i - 1]!, offsets[i]!));
  }

  /** Returns the ids of the entries in their order, concatenated. Called once, after the last entry. */
  async finish(): Promise<Spill> {
    const ids = new Spill(this.#room);
    try {
      await this.#merge(ids);
      return ids;
    } catch (error) {
      await ids.close();
      throw error;
    } finally {
      await this.close();
    }
  }

  async #merge(ids: Spill): Promise<void> {
    const lastRun = this.#records.sort();
    const runs: Run[] = [];
    for (const offsets of this.#runs) await readBlock({ block: [], next: 0, blocks: this.#readRun(offsets) }, runs);
    const slice = new TimeSlice(this.#options.client);
    let batch: string[] = [];
    if (lastRun.length > 0) insert({ block: lastRun, next: 0, blocks: this.#readRun([]) }, runs);
    for (let count = 1; runs.length > 0 && count <= this.#options.limit; count++) {
      const run = runs.shift()!;
      batch.push(run.block[run.next++]!.slice(-UUID_BYTES));
      if (run.next < run.block.length) insert(run, runs);
      else await readBlock(run, runs);
      if (batch.length < MERGED_RECORDS) continue;
      await ids.append(Buffer.from(batch.join(''), 'latin1'));
      batch = [];
      const pause = slice.yieldIfOver();
      if (isPromise(pause)) await pause;
    }
    await ids.append(Buffer.from(batch.join(''), 'latin1'));
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** Reads the next block of a run, if there is one, and inserts the run. */
async function readBlock(run: Run, runs: Run[]): Promise<void> {
  const { value } = await run.blocks.next();
  if (!value) return;
  run.block = value;
  run.next = 0;
  insert(run, runs);
}

/** Inserts a run into a list that is sorted by the next records. */
function insert(run: Run, runs: Run[]): void {
  const record = run.block[run.next]!;
  let low = 0;
  let high = runs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (runs[middle]!.block[runs[middle]!.next]! < record) low = middle + 1;
    else high = middle;
  }
  runs.splice(low, 0, run);
}
