import type { PlanStep, Store } from '../../store/contract.js';
import { entryTimeMs, LOG_TABLE } from '../../store/log.js';
import { batchesOf, keysOf } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import { isMissing } from '../../store/store-error.js';
import { type Piecework, withFence } from '../model/piecework.js';
import { CHANGES_TABLE } from '../model/tables.js';

const CSN = Buffer.from('csn');
const TIME = Buffer.from('time');

/** Returns the entryCSN of the last change record; undefined if there is none. New entryCSNs have to exceed it. */
export async function latestCsn(store: Store): Promise<string | undefined> {
  const scan = store.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1 });
  try {
    for await (const { rows } of batchesOf(scan)) if (rows[0]) return cellValue(rows[0], 0, CSN)?.toString();
  } catch (error) {
    // A directory whose table is missing is opened, so that it can be repaired.
    if (!isMissing(error)) throw error;
  }
  return undefined;
}

/**
 * Removes the change records from before `beforeMs` (ms since 1970), but not the last: it has the latest entryCSN. With
 * the table of the log its entries, but not the last: its number is the position of the server. Replicas trim their
 * own. Where numbers have gaps, the last old entry stays, too: whoever is at its number lacks nothing.
 */
export async function trimChanges(
  store: Store,
  beforeMs: number,
  piecework?: Piecework,
  table = CHANGES_TABLE.name,
): Promise<number> {
  const unlogged = table === LOG_TABLE.name;
  if (unlogged && !(await store.tables()).some(({ name }) => name === table)) return 0;
  const timeOf = unlogged ? entryTimeMs : recordTimeMs;
  const [lastKey] = await keysOf(store.scan(table, {}, { reverse: true, limit: 1, keysOnly: true }));
  const hasGaps = unlogged && !store.supports.snapshot;
  let heldKeys: Buffer[] = [];
  let trimmedCount = 0;
  if (lastKey === undefined) return trimmedCount;
  for await (const { keys, rows } of batchesOf(store.scan(table, { to: lastKey }))) {
    await piecework?.proceed();
    // Only whole beginnings are removed, so that whoever knows a kept record has all behind it.
    const youngIndex = rows.findIndex((row) => timeOf(row!) >= beforeMs);
    const oldKeys = youngIndex < 0 ? keys : keys.slice(0, youngIndex);
    const keysToRemove = [...heldKeys, ...oldKeys];
    heldKeys = hasGaps ? keysToRemove.splice(-1) : [];
    const steps: PlanStep[] = keysToRemove.map((key) => ({ table, key, deleteRow: true }));
    if (steps.length > 0) await store.commit({ steps: withFence(steps, piecework), decisive: 0, unlogged });
    trimmedCount += keysToRemove.length;
    // Records are ordered by time: the first younger record ends the removal.
    if (oldKeys.length < keys.length) break;
  }
  return trimmedCount;
}

function recordTimeMs(row: Buffer): number {
  const time = cellValue(row, 0, TIME);
  return time?.length === 8 ? Number(time.readBigUInt64BE()) : 0;
}
