import { batchesOf } from '../../store/batches.js';
import type { KeyRange, Reader } from '../../store/contract.js';
import type { StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import { isDamage } from '../model/store-errors.js';

/** Rows that could be read. */
export interface Rows {
  readonly keys: readonly Buffer[];
  /** Undefined where keys alone were asked for. */
  readonly rows: readonly (Buffer | undefined)[];
}

/** A place where rows could not be read: one at least, whose key the damage may have changed. */
export interface Gap {
  readonly error: StoreError;
  /** Key of the row that is damaged, where it is known. */
  readonly key: Buffer | undefined;
  /** Between the last row that was read before and the first one behind; what had such a key was not read. */
  readonly from: Buffer | undefined;
  readonly to: Buffer | undefined;
}

/** Rows read one by one before batches are tried again. */
const SINGLY = 4096;

/**
 * The rows of a range in key order, of a table without `suffixBytes`. Around a damaged row they are read one by one, so
 * that those beside it come all the same. Where nothing tells how to go on, the rest of the range is a gap.
 */
export async function* readAround(
  reader: Reader,
  table: string,
  range: KeyRange,
  keysOnly = false,
): AsyncGenerator<Rows | Gap, void, undefined> {
  const { to } = range;
  let at = range.from;
  let hopped: Buffer | undefined;
  const gaps = new OpenGaps();
  for (;;) {
    const scan = reader.scan(table, { from: at, to }, { keysOnly, besideDamage: true });
    try {
      for await (const batch of batchesOf(scan)) {
        if (batch.keys.length === 0) continue;
        yield* gaps.close(batch.keys[0]);
        yield batch;
        at = keyAfter(batch.keys.at(-1)!);
      }
      yield* gaps.close(to);
      return;
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    for (let n = 0; n < SINGLY; n++) {
      const next = await readNext(reader, table, { from: at, to }, keysOnly, hopped, at !== range.from);
      if (next === 'end') {
        yield* gaps.close(to);
        return;
      }
      const { key, row, error } = next;
      if (error) {
        gaps.open(at, key, error);
        hopped = key;
      } else {
        yield* gaps.close(key);
        // It may be gone since its key was read.
        if (row || keysOnly) yield { keys: [key!], rows: [row] };
      }
      if (!key) {
        yield* gaps.close(to);
        return;
      }
      at = keyAfter(key);
    }
  }
}

/** Gaps whose end is not known yet. */
class OpenGaps {
  #gaps: { readonly error: StoreError; readonly key: Buffer | undefined }[] = [];
  #from: Buffer | undefined;

  open(from: Buffer | undefined, key: Buffer | undefined, error: StoreError): void {
    if (this.#gaps.length === 0) this.#from = from;
    this.#gaps.push({ error, key });
  }

  close(to: Buffer | undefined): Gap[] {
    const gaps = this.#gaps.map((gap) => ({ ...gap, from: this.#from, to }));
    this.#gaps = [];
    return gaps;
  }
}

/** A row that was read, or that was not; without a key nothing behind it can be. */
interface Next {
  readonly key: Buffer | undefined;
  readonly row?: Buffer | undefined;
  readonly error?: StoreError;
}

/** `hopped`: the damaged row that was met last; `isOn`: the range begins behind a row that was met. */
async function readNext(
  reader: Reader,
  table: string,
  range: KeyRange,
  keysOnly: boolean,
  hopped: Buffer | undefined,
  isOn: boolean,
): Promise<Next | 'end'> {
  let key: Buffer | undefined;
  const scan = reader.scan(table, range, { keysOnly: true, limit: 1, besideDamage: true });
  try {
    // No further than to a key: what lies behind it may be damaged, too.
    for await (const { keys } of batchesOf(scan)) {
      [key] = keys;
      if (key) break;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    const met = error.key;
    // An engine looks at a row behind the range or at the last one, too, to be sure that there are no more.
    if (met && range.to && met.compare(range.to) >= 0) return 'end';
    const order = met && range.from ? met.compare(range.from) : 1;
    if (order < 0 && hopped?.equals(met!)) return 'end';
    // Rows behind the one that was read last are lost, or this is no key of the table.
    return { key: order < 0 || (order === 0 && isOn) ? undefined : met, error };
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
