import type { Maybe, Reader } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { chain } from '../store/maybe.js';
import { CELL_HEADER, cellCounter } from '../store/row.js';
import { type Context, specialValue } from './locate.js';
import { joinDnAt, type Node } from './nodes.js';
import { MASTER, normRdnOf, Q, TREE, TREE_TABLE, treeKey, UUID_BYTES } from './tables.js';

/** What the search path reads out of a packed master row, by offsets. */

/** Offset of the parentId's 16 bytes: treeInfo's cells come first, `normRdn` (after `large`, if any) right before it. */
export function parentIdOffset(row: Buffer): number {
  let at = 0;
  while (row[at + CELL_HEADER] !== Q.parentId[0]) {
    if (at + CELL_HEADER >= row.length)
      throw new StoreError('corrupt', 'a master row has no parentId; run `rowan check`');
    at += CELL_HEADER + ((row[at + 1]! << 8) | row[at + 2]!) + row.readUInt32BE(at + 3);
  }
  return at + CELL_HEADER + Q.parentId.length;
}

export function dnOf(row: Buffer, parent: Node): Buffer {
  const at = parentIdOffset(row) + UUID_BYTES;
  const start = at + CELL_HEADER + Q.upRdn.length;
  return joinDnAt(row, start, start + row.readUInt32BE(at + 3), parent.dn);
}

export function isOfClass(context: Context, row: Buffer, alias: boolean, referral: boolean): boolean {
  const type = context.schema.attribute('objectClass');
  for (let at = 0; at < row.length; ) {
    const q = (row[at + 1]! << 8) | row[at + 2]!;
    const v = row.readUInt32BE(at + 3);
    const start = at + CELL_HEADER + q;
    if (row[at] === MASTER.upAttributes && context.descriptions.ofCell(row, at).description.type === type) {
      const special = specialValue(row.subarray(start, start + v));
      if ((alias && special === 'alias') || (referral && special === 'referral')) return true;
    }
    at = start + v;
  }
  return false;
}

export function childCount(reader: Reader, row: Buffer): Maybe<number> {
  const at = parentIdOffset(row);
  const parentId = row.subarray(at, at + UUID_BYTES);
  const normRdn = normRdnOf(row);
  return chain(reader.getHead(TREE_TABLE.name, treeKey(parentId, normRdn), true), (r) =>
    Number(cellCounter(r, TREE.treeInfo, Q.oneLevelCount)),
  );
}
