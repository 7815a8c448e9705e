import type { Maybe, Reader } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { CELL_HEADER, cellCounter } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { attributeValues } from '../model/entry-cells.js';
import type { Node } from '../model/node.js';
import { normRdnOf, Q, TREE, TREE_TABLE, treeKey, UUID_BYTES } from '../model/tables.js';
import { joinDnAt } from './nodes.js';
import { specialValue } from './referrals.js';
import type { TreeContext } from './tree-context.js';

/** Reads from packed master rows by offsets, for the search path. */

/** Returns the offset of the parentId's 16 bytes. In treeInfo only `large` and `normRdn` precede it. */
export function parentIdOffset(row: Buffer): number {
  let at = 0;
  while (row[at + CELL_HEADER] !== Q.parentId[0]) {
    if (at + CELL_HEADER >= row.length) throw new StoreError('corrupt', 'a master row has no parentId');
    at += CELL_HEADER + ((row[at + 1]! << 8) | row[at + 2]!) + row.readUInt32BE(at + 3);
  }
  return at + CELL_HEADER + Q.parentId.length;
}

export function dnOf(row: Buffer, parent: Node): Buffer {
  const at = parentIdOffset(row) + UUID_BYTES;
  const start = at + CELL_HEADER + Q.upRdn.length;
  return joinDnAt(row, start, start + row.readUInt32BE(at + 3), parent.dn);
}

export function isOfClass(context: TreeContext, row: Buffer, mayBeAlias: boolean, mayBeReferral: boolean): boolean {
  return attributeValues(context, row, 'objectClass').some((value) => {
    const special = specialValue(value);
    return (mayBeAlias && special === 'alias') || (mayBeReferral && special === 'referral');
  });
}

export function childCount(reader: Reader, row: Buffer): Maybe<number> {
  const at = parentIdOffset(row);
  const parentId = row.subarray(at, at + UUID_BYTES);
  const normRdn = normRdnOf(row);
  return chain(reader.getHead(TREE_TABLE.name, treeKey(parentId, normRdn), true), (r) =>
    Number(cellCounter(r, TREE.treeInfo, Q.oneLevelCount)),
  );
}
