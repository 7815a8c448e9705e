import { batchesOf } from '../../store/batches.js';
import type { Reader } from '../../store/contract.js';
import { cellCounter } from '../../store/row.js';
import { childrenRange, Q, ROOT_ID, TREE, TREE_TABLE } from './tables.js';

/** Returns the number of entries by the counters: of each suffix, the entry and the entries below. */
export async function countEntries(reader: Reader): Promise<number> {
  let count = 0;
  for await (const { rows } of batchesOf(reader.scan(TREE_TABLE.name, childrenRange(ROOT_ID))))
    for (const row of rows) count += 1 + Number(cellCounter(row, TREE.treeInfo, Q.subLevelCount));
  return count;
}
