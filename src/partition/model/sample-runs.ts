import { randomBytes } from 'node:crypto';
import type { Reader } from '../../store/contract.js';
import { batchesOf, keysOf } from '../../store/maybe.js';
import { cellCounter } from '../../store/row.js';
import { childrenRange, MASTER_TABLE, Q, ROOT_ID, TREE, TREE_TABLE, UUID_BYTES } from './tables.js';

/** Number of neighbouring entries that are read together. */
const RUN_LENGTH = 50;
const DRAWN_BYTES = 8;

/** The runs of a sample: their first keys, and the number of entries in each. */
export interface SampleRuns {
  readonly keys: readonly Buffer[];
  readonly runLength: number;
}

/** Draws runs for the number of entries. A directory with fewer entries is one run. */
export async function drawRuns(store: Reader, entries: number): Promise<SampleRuns> {
  const entryCount = await store.count(MASTER_TABLE.name, {}, entries);
  if (entryCount < entries) return { keys: entryCount > 0 ? [Buffer.alloc(UUID_BYTES)] : [], runLength: entryCount };
  const runLength = Math.min(RUN_LENGTH, entries);
  const endKeys = (reverse: boolean) =>
    keysOf(store.scan(MASTER_TABLE.name, {}, { reverse, limit: 1, keysOnly: true }));
  const [firstKey] = await endKeys(false);
  const [lastKey] = await endKeys(true);
  if (!firstKey || !lastKey) return { keys: [], runLength };
  const firstNumber = firstKey.readBigUInt64BE(0);
  const width = lastKey.readBigUInt64BE(0) - firstNumber + 1n;
  const keys = Array.from({ length: Math.ceil(entries / runLength) }, () => {
    const key = Buffer.alloc(UUID_BYTES);
    key.writeBigUInt64BE(firstNumber + (randomBytes(DRAWN_BYTES).readBigUInt64BE(0) % width));
    return key;
  });
  return { keys, runLength };
}

/** Returns the number of entries by the counters: of each suffix, the entry and the entries below. */
export async function countEntries(reader: Reader): Promise<number> {
  let count = 0;
  for await (const { rows } of batchesOf(reader.scan(TREE_TABLE.name, childrenRange(ROOT_ID))))
    for (const row of rows) count += 1 + Number(cellCounter(row, TREE.treeInfo, Q.subLevelCount));
  return count;
}
