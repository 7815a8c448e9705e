import { type ChangeRecord, changeRecord } from '../../src/partition/model/change-record.js';
import { CHANGES_TABLE, numberKey } from '../../src/partition/model/tables.js';
import { batchesOf, keysOf } from '../../src/store/batches.js';
import type { Store } from '../../src/store/contract.js';
import { isPromise } from '../../src/store/maybe.js';

export interface NumberedChange extends ChangeRecord {
  readonly number: bigint;
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
    const asked = this.#store.settled(CHANGES_TABLE.name);
    const settled = isPromise(asked) ? await asked : asked;
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

/** Number of the oldest record, if any. A reader more than one below it may have missed trimmed records. */
export async function oldestChange(store: Store): Promise<bigint | undefined> {
  const [oldest] = await keysOf(store.scan(CHANGES_TABLE.name, {}, { limit: 1, keysOnly: true }));
  return oldest?.readBigUInt64BE();
}
