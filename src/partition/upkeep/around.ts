import type { KeyRange, Reader } from '../../store/contract.js';
import { batchesOf } from '../../store/maybe.js';
import type { StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import { isDamage } from '../model/store-errors.js';

export interface Rows {
  readonly keys: readonly Buffer[];
  /** Undefined if only keys are scanned. */
  readonly rows: readonly (Buffer | undefined)[];
}

/** A key range with at least one unreadable row. The damage may also have changed the key of the row. */
export interface Gap {
  readonly error: StoreError;
  readonly key: Buffer | undefined;
  /** Key after the last row that was read before the gap. Undefined: start of the table. */
  readonly from: Buffer | undefined;
  /** First row that was read after the gap. Undefined: end of the table. */
  readonly to: Buffer | undefined;
}

/** Number of rows that are read one by one around damage before batches are tried again. */
const SINGLE_READS = 4096;

/**
 * Yields the rows of a range in key order, and gaps. The table must not have `suffixBytes`. Around a damaged row, rows
 * are read one by one, so that intact neighbours are found. If reading cannot continue, the rest of the range is a gap.
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

/** Collects the errors of unreadable rows up to the next readable row. */
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

/** The next row, or the error of a damaged one. Without key the rest of the range cannot be read. */
interface NextRow {
  readonly key: Buffer | undefined;
  readonly row?: Buffer | undefined;
  readonly error?: StoreError;
}

/**
 * Reads the next row of a range. `damagedKey`: key of the last damaged row. `isOn`: whether the range begins after a
 * row that was read or skipped.
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
    // Read only the first key: the rows after it may be damaged, too.
    for await (const { keys } of batchesOf(scan)) {
      [key] = keys;
      if (key) break;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    const errorKey = error.key;
    // To find the end of a range, an engine also reads the row after it, or the last row again.
    if (errorKey && range.to && errorKey.compare(range.to) >= 0) return 'end';
    const order = errorKey && range.from ? errorKey.compare(range.from) : 1;
    if (order < 0 && damagedKey?.equals(errorKey!)) return 'end';
    // Otherwise the key is not in the range: rows after the damage are lost, or the key is that of another table.
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
