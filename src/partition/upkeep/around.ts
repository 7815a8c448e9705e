import { batchesOf } from '../../store/batches.js';
import type { KeyRange, Reader } from '../../store/contract.js';
import type { StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import { isDamage } from '../model/store-errors.js';

export interface Rows {
  readonly keys: readonly Buffer[];
  /** Undefined for a scan of keys only. */
  readonly rows: readonly (Buffer | undefined)[];
}

/** A part of a range that holds at least one unreadable row. The damage may have changed the key of the row. */
export interface Gap {
  readonly error: StoreError;
  readonly key: Buffer | undefined;
  /** Start of the gap: behind the last row that was read before. Undefined: start of the table. */
  readonly from: Buffer | undefined;
  /** End of the gap: the first row that was read after. Undefined: end of the table. */
  readonly to: Buffer | undefined;
}

/** Number of rows that are read singly around damage, before batches are tried again. */
const SINGLE_READS = 4096;

/**
 * Yields the rows of a range in key order, and gaps. The table has no `suffixBytes`. Around a damaged row, rows are
 * read singly, so that intact rows next to the damage are found. If the read cannot go on, the rest of the range is a
 * gap.
 */
export async function* readAround(
  reader: Reader,
  table: string,
  range: KeyRange,
  keysOnly = false,
): AsyncGenerator<Rows | Gap, void, undefined> {
  const { to } = range;
  let start = range.from;
  let damagedKey: Buffer | undefined;
  const gaps = new GapCollector();
  for (;;) {
    const scan = reader.scan(table, { from: start, to }, { keysOnly, skipBoundaryCheck: true });
    try {
      for await (const batch of batchesOf(scan)) {
        if (batch.keys.length === 0) continue;
        yield* gaps.endGaps(batch.keys[0]);
        yield batch;
        start = keyAfter(batch.keys.at(-1)!);
      }
      yield* gaps.endGaps(to);
      return;
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    for (let n = 0; n < SINGLE_READS; n++) {
      const nextRow = await readNext(reader, table, { from: start, to }, keysOnly, damagedKey, start !== range.from);
      if (nextRow === 'end') {
        yield* gaps.endGaps(to);
        return;
      }
      const { key, row, error } = nextRow;
      if (error) {
        gaps.addDamage(start, key, error);
        damagedKey = key;
      } else {
        yield* gaps.endGaps(key);
        // The row may have been deleted since its key was read.
        if (row || keysOnly) yield { keys: [key!], rows: [row] };
      }
      if (!key) {
        yield* gaps.endGaps(to);
        return;
      }
      start = keyAfter(key);
    }
  }
}

/** Collects gaps until the next row that can be read. */
class GapCollector {
  #gaps: { readonly error: StoreError; readonly key: Buffer | undefined }[] = [];
  #gapStart: Buffer | undefined;

  addDamage(gapStart: Buffer | undefined, key: Buffer | undefined, error: StoreError): void {
    if (this.#gaps.length === 0) this.#gapStart = gapStart;
    this.#gaps.push({ error, key });
  }

  endGaps(gapEnd: Buffer | undefined): Gap[] {
    const gaps = this.#gaps.map((gap) => ({ ...gap, from: this.#gapStart, to: gapEnd }));
    this.#gaps = [];
    return gaps;
  }
}

/** The next row, or the damage. Without a key the rest of the range cannot be read. */
interface NextRow {
  readonly key: Buffer | undefined;
  readonly row?: Buffer | undefined;
  readonly error?: StoreError;
}

/**
 * Reads the next row of a range. `damagedKey`: key of the last damaged row. `isOn`: whether the range begins behind a
 * row that has been read or skipped.
 */
async function readNext(
  reader: Reader,
  table: string,
  range: KeyRange,
  keysOnly: boolean,
  damagedKey: Buffer | undefined,
  isOn: boolean,
): Promise<NextRow | 'end'> {
  let key: Buffer | undefined;
  const scan = reader.scan(table, range, { keysOnly: true, limit: 1, skipBoundaryCheck: true });
  try {
    // Read no further than the first key, as following rows may be damaged as well.
    for await (const { keys } of batchesOf(scan)) {
      [key] = keys;
      if (key) break;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    const errorKey = error.key;
    // To find the end of a range, an engine also reads the row behind the range, or the last row again.
    if (errorKey && range.to && errorKey.compare(range.to) >= 0) return 'end';
    const order = errorKey && range.from ? errorKey.compare(range.from) : 1;
    if (order < 0 && damagedKey?.equals(errorKey!)) return 'end';
    // Otherwise the key is not in the range: the following rows are lost, or the key is not of this table.
    return { key: order < 0 || (order === 0 && isOn) ? undefined : errorKey, error };
  }
  if (!key) return 'end';
  if (keysOnly) return { key };
  try {
    return { key, row: await reader.get(table, key) };
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { key, error };
  }
}
