import { batchesOf, keysOf } from '../../store/batches.js';
import type { Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { type ChangeRecord, changeRecord } from '../model/change-record.js';
import { CHANGES_TABLE, numberKey } from '../model/tables.js';

export interface NumberedChange extends ChangeRecord {
  readonly number: bigint;
}

/**
 * Reads change records in the order of their numbers, each once and none left out, whichever process wrote them. Where
 * records may appear out of order it goes no further than `Store.settled`: what stands above that waits for what may
 * still come below.
 */
export class ChangeReader {
  readonly #store: Store;
  #position: bigint;

  /** `after`: number of the last record that is known; 0: none. */
  constructor(store: Store, after = 0n) {
    this.#store = store;
    this.#position = after;
  }

  /** Everything up to this number was given: another reader goes on from here. */
  get position(): bigint {
    return this.#position;
  }

  /**
   * The records that are settled by now, batch by batch. Ends when they were given; a later call gives what came since.
   */
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

/**
 * Number of the oldest record that is kept; undefined when there is none. Who has read up to a smaller number than the
 * one before it may have missed records that were trimmed.
 */
export async function oldestChange(store: Store): Promise<bigint | undefined> {
  const [oldest] = await keysOf(store.scan(CHANGES_TABLE.name, {}, { limit: 1, keysOnly: true }));
  return oldest?.readBigUInt64BE();
}
