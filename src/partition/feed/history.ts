import type { PlanStep, Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import { CHANGES_TABLE } from '../model/tables.js';

const CSN = Buffer.from('csn');
const TIME = Buffer.from('time');

/** entryCSN of the last change record, above which new ones start; undefined when there is none. */
export async function latestCsn(store: Store): Promise<string | undefined> {
  const scan = store.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1 });
  try {
    const batch = await scan.next();
    const row = batch?.rows[0];
    return row && cellValue(row, 0, CSN)?.toString();
  } finally {
    scan.close();
  }
}

/**
 * Removes the change records from before `before` (ms since 1970), but for the last one, which tells the latest
 * entryCSN. Resolves with their number.
 */
export async function trimChanges(store: Store, before: number): Promise<number> {
  const last = await lastKey(store);
  const scan = store.scan(CHANGES_TABLE.name, { to: last });
  let trimmed = 0;
  try {
    for (;;) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch || last === undefined) return trimmed;
      const old = batch.keys.filter((_, i) => timeOf(batch.rows[i]!) < before);
      const steps: PlanStep[] = old.map((key) => ({ table: CHANGES_TABLE.name, key, deleteRow: true }));
      if (steps.length > 0) await store.commit({ steps, decisive: 0 });
      trimmed += old.length;
      // Records stand in the order of their making: the first young one ends it.
      if (old.length < batch.keys.length) return trimmed;
    }
  } finally {
    scan.close();
  }
}

async function lastKey(store: Store): Promise<Buffer | undefined> {
  const scan = store.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1, keysOnly: true });
  try {
    return (await scan.next())?.keys[0];
  } finally {
    scan.close();
  }
}

function timeOf(row: Buffer): number {
  const time = cellValue(row, 0, TIME);
  return time?.length === 8 ? Number(time.readBigUInt64BE()) : 0;
}
