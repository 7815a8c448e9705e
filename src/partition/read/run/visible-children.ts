import { TimeSlice } from '../../../fair/time-slice.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { batchesOf, chain, isPromise } from '../../../store/maybe.js';
import { cellValue } from '../../../store/row.js';
import { childrenRange, MASTER_TABLE, Q, TREE, TREE_TABLE } from '../../model/tables.js';
import type { Viewer } from '../../model/viewer.js';
import { childCount } from '../../tree/master-row.js';
import type { SearchContext } from './search-context.js';

/** Returns the number of visible children. If some may be hidden, checks each, until `enough` are found. */
export function countVisibleChildren(
  context: SearchContext,
  reader: Reader,
  viewer: Viewer,
  entry: { readonly id: Buffer; readonly row: Buffer },
  enough = Number.POSITIVE_INFINITY,
): Maybe<number> {
  const count = childCount(reader, entry.row);
  if (!viewer.sightOf || count === 0) return count;
  return countByChecking(context, reader, viewer, entry.id, count, enough);
}

async function countByChecking(
  context: SearchContext,
  reader: Reader,
  viewer: Viewer,
  id: Buffer,
  count: Maybe<number>,
  enough: number,
): Promise<number> {
  const childCount = await count;
  const maybeNode = context.nodes.byId(Buffer.from(id));
  const node = isPromise(maybeNode) ? await maybeNode : maybeNode;
  if (childCount === 0 || !node) return 0;
  if (viewer.seesAllBelow?.(node)) return childCount;
  const slice = new TimeSlice();
  const scan = reader.scan(TREE_TABLE.name, childrenRange(node.id));
  let visibleCount = 0;
  for await (const batch of batchesOf(scan)) {
    const ids = batch.rows.map((row) => Buffer.from(cellValue(row!, TREE.treeInfo, Q.id)!));
    const rows = await reader.getMany(MASTER_TABLE.name, ids);
    for (let i = 0; i < ids.length; i++) {
      const row = rows[i];
      if (row && viewer.sightOf!({ id: ids[i]!, parent: node, row }) && ++visibleCount >= enough) return visibleCount;
    }
    await slice.yieldIfOver();
  }
  return visibleCount;
}

export function hasVisibleChild(
  context: SearchContext,
  reader: Reader,
  viewer: Viewer,
  entry: { readonly id: Buffer; readonly row: Buffer },
): Maybe<boolean> {
  return chain(countVisibleChildren(context, reader, viewer, entry, 1), (n) => n > 0);
}
