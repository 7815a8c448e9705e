import { TimeSlice } from '../../fair/time-slice.js';
import type { Store } from '../../store/contract.js';
import { batchesOf } from '../../store/maybe.js';
import { type ChangeRecord, changeRecord } from '../model/change-record.js';
import { csnMicros } from '../model/csn.js';
import { CHANGES_TABLE, numberKey } from '../model/tables.js';

export interface NumberedChange extends ChangeRecord {
  readonly number: bigint;
}

/**
 * A position in the change records: behind all records up to `number`. `csn` is the greatest entryCSN of these, as far
 * as known, and always that of one of them; undefined if there are none.
 */
export interface ChangePosition {
  readonly number: bigint;
  readonly csn: string | undefined;
}

/**
 * Reads change records of all processes in the order of their numbers, each exactly once. If records may appear out of
 * order, the reader stops at `Store.settled`, because records with lower numbers may still appear below the later ones.
 */
export class ChangeReader {
  readonly #store: Store;
  #position: bigint;

  /** `after`: number of the last record already read; 0: none. */
  constructor(store: Store, after = 0n) {
    this.#store = store;
    this.#position = after;
  }

  /** Number up to which all records have been returned. A new reader can continue from here. */
  get position(): bigint {
    return this.#position;
  }

  /** Yields the settled records in batches and ends. A later call yields the records since then. */
  async *read(): AsyncGenerator<readonly NumberedChange[], void, undefined> {
    const settled = await this.#store.settled(CHANGES_TABLE.name);
    if (settled <= this.#position) return;
    const range = { from: numberKey(this.#position + 1n), to: numberKey(settled + 1n) };
    const scan = this.#store.scan(CHANGES_TABLE.name, range);
    for await (const { keys, rows } of batchesOf(scan)) {
      const records = keys.map((key, i) => ({ ...changeRecord(rows[i]!), number: key.readBigUInt64BE() }));
      if (records.length === 0) continue;
      this.#position = records.at(-1)!.number;
      yield records;
    }
    this.#position = settled;
  }
}

/**
 * By how much, in milliseconds, the order of entryCSNs, of times and of numbers of change records may differ: writers
 * stamp a change before its commit, each by its own clock.
 */
export const DISORDER_MS = 10_000;

/** Yields the settled change records from the newest back to a number, within time slices. */
export async function* recordsBack(store: Store, settled: bigint, after: bigint): AsyncGenerator<NumberedChange> {
  const slice = new TimeSlice();
  const range = { from: numberKey(after + 1n), to: numberKey(settled + 1n) };
  for await (const { keys, rows } of batchesOf(store.scan(CHANGES_TABLE.name, range, { reverse: true }))) {
    for (const [i, key] of keys.entries()) yield { ...changeRecord(rows[i]!), number: key.readBigUInt64BE() };
    await slice.yieldIfOver();
  }
}

/** Returns the position behind all settled records. `known`: an earlier position, which saves reading so far back. */
export async function latestPosition(store: Store, known: ChangePosition): Promise<ChangePosition> {
  const settled = await store.settled(CHANGES_TABLE.name);
  let { csn } = known;
  let oldestMs = 0;
  if (settled <= known.number) return known;
  for await (const record of recordsBack(store, settled, known.number)) {
    oldestMs ||= timeMs(record) - DISORDER_MS;
    if (timeMs(record) < oldestMs) break;
    csn = laterCsn(csn, record);
  }
  return { number: settled, csn };
}

/**
 * Returns the position of the record that brought the greatest entryCSN to `csn`; undefined if no kept record has this
 * entryCSN. Records behind it have been missed or are repeated, none that was missed is left out.
 */
export async function findPosition(store: Store, csn: string): Promise<ChangePosition | undefined> {
  const settled = await store.settled(CHANGES_TABLE.name);
  const oldestMs = csnMicros(csn) / 1000 - DISORDER_MS;
  let number: bigint | undefined;
  for await (const record of recordsBack(store, settled, 0n)) {
    // The first of several records with one entryCSN counts.
    if (record.csn === csn) number = record.number;
    if (timeMs(record) < oldestMs) break;
  }
  return number === undefined ? undefined : { number, csn };
}

/** Returns the greater one of a CSN and that of a record. */
export function laterCsn(csn: string | undefined, record: NumberedChange): string {
  return csn === undefined || record.csn > csn ? String(record.csn) : csn;
}

export function timeMs({ time }: NumberedChange): number {
  return time.length === 8 ? Number(time.readBigUInt64BE()) : 0;
}
