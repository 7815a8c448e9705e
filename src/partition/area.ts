import type { Maybe, Reader } from '../store/contract.js';
import { chain } from '../store/maybe.js';
import { cellCounter } from '../store/row.js';
import { isWithin, type Node, nodeTreeKey, ROOT } from './nodes.js';
import type { IndexPlan } from './plan.js';
import { Q, TREE, TREE_TABLE } from './tables.js';
import type { SearchParams } from './types.js';

/** Candidates fetched in one go from an index. */
export const BATCH = 512;
/** Entries that are read together where rows are spread over servers: each answer costs a journey. */
export const TOGETHER = 256;
/** The entry a search begins at. */
export interface Base {
  readonly node: Node;
  /** Its packed master row, where finding it brought it along. */
  readonly row?: Buffer | undefined;
}

/** A base entry and a scope to search; aliases that are followed add more of them. */
export interface Area extends Base {
  readonly scope: SearchParams['scope'];
}

/** Where a page ended: number of the area, kind of plan, key. */
export interface Resume {
  readonly area: number;
  readonly kind: PlanKind;
  readonly key: Buffer;
}

/** b: the base entry; i: by index, in the order of entryUUIDs; s: by scope; t: the whole table. */
export type PlanKind = 'b' | 'i' | 's' | 't';

/** A scan reads rows in order, an index one here and one there: so many scanned rows cost as much as one candidate. */
export const SCAN_FACTOR = 4;

/** The smaller of what the index offers and what the scope holds. */
export function choosePlan(reader: Reader, area: Area, plan: IndexPlan | undefined): Maybe<'index' | 'scope'> {
  if (!plan) return 'scope';
  if (plan.count * SCAN_FACTOR <= BATCH) return 'index';
  return chain(scopeSize(reader, area), (size) => (plan.count * SCAN_FACTOR <= size ? 'index' : 'scope'));
}

export function covers(area: Area, id: Buffer, parent: Node): boolean {
  const { node, scope } = area;
  switch (scope) {
    case 'base':
      return id.equals(node.id);
    case 'one':
      return parent === node || parent.id.equals(node.id);
    case 'sub':
      return isWithin(parent, node) || id.equals(node.id);
    case 'subordinate':
      return isWithin(parent, node);
  }
}

/** How many rows a scan of the area would look at. */
export function scopeSize(reader: Reader, { node, scope }: Area): Maybe<number> {
  if (node === ROOT) return Number.MAX_SAFE_INTEGER;
  const row = reader.getHead(TREE_TABLE.name, nodeTreeKey(node), true);
  const qualifier = scope === 'one' ? Q.oneLevelCount : Q.subLevelCount;
  return chain(row, (r) => Number(cellCounter(r, TREE.treeInfo, qualifier)) + 1);
}

/** The tree below a suffix is read in the order of the table: fewer seeks than going down into each parent. */
export function wholeTable({ node, scope }: Area): boolean {
  return scope !== 'one' && (node === ROOT || node.parent === ROOT);
}

export function formatResume({ area, kind, key }: Resume): Buffer {
  const head = Buffer.allocUnsafe(3);
  head.writeUInt16BE(area);
  head[2] = kind.charCodeAt(0);
  return Buffer.concat([head, key]);
}

export function parseResume(bytes: Buffer): Resume {
  return { area: bytes.readUInt16BE(0), kind: String.fromCharCode(bytes[2]!) as PlanKind, key: bytes.subarray(3) };
}
