import type { Maybe, Reader } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { CELL_HEADER, cellCounter } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { attributeValues } from '../model/entry-cells.js';
import { type Node, normRdnOf, Q, TREE, TREE_TABLE, treeKey, UUID_BYTES } from '../model/tables.js';
import { joinDnAt } from './nodes.js';
import { specialValue } from './specials.js';
import type { TreeContext } from './tree-context.js';

/** Reads fields of packed master rows by their offsets. */

/** Returns the offset of the 16 bytes of parentId. Only the cells `large` and `normRdn` precede its cell. */
export function parentIdOffset(row: Buffer): number {
  let offset = 0;
  while (row[offset + CELL_HEADER] !== Q.parentId[0]) {
    if (offset + CELL_HEADER >= row.length) throw new StoreError('corrupt', 'a master row has no parentId');
    offset += CELL_HEADER + ((row[offset + 1]! << 8) | row[offset + 2]!) + row.readUInt32BE(offset + 3);
  }
  return offset + CELL_HEADER + Q.parentId.length;
}

export function dnOf(row: Buffer, parent: Node): Buffer {
  const offset = parentIdOffset(row) + UUID_BYTES;
  const start = offset + CELL_HEADER + Q.upRdn.length;
  return joinDnAt(row, start, start + row.readUInt32BE(offset + 3), parent.dn);
}

export function isOfClass(context: TreeContext, row: Buffer, mayBeAlias: boolean, mayBeReferral: boolean): boolean {
  return attributeValues(context, row, 'objectClass').some((value) => {
    const special = specialValue(value);
    return (mayBeAlias && special === 'alias') || (mayBeReferral && special === 'referral');
  });
}

export function childCount(reader: Reader, row: Buffer): Maybe<number> {
  const offset = parentIdOffset(row);
  const parentId = row.subarray(offset, offset + UUID_BYTES);
  const normRdn = normRdnOf(row);
  return chain(reader.getHead(TREE_TABLE.name, treeKey(parentId, normRdn), true), (r) =>
    Number(cellCounter(r, TREE.treeInfo, Q.oneLevelCount)),
  );
}
