import type { Maybe, Reader } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { cellCounter } from '../../../store/row.js';
import type { Node } from '../../model/node.js';
import { Q, TREE, TREE_TABLE } from '../../model/tables.js';
import { isWithin, nodeTreeKey, ROOT } from '../../tree/nodes.js';
import type { IndexPlan } from '../plan/index-plan.js';
import type { SearchParams } from '../search-params.js';

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

/** A scan reads rows in order, an index one here and one there: so many scanned rows cost as much as one candidate. */
export const SCAN_FACTOR = 4;

/** Whether an index plan of so many candidates is taken whatever the scope holds. */
export function isFew(candidates: number): boolean {
  return candidates * SCAN_FACTOR <= BATCH;
}

/** The smaller of what the index offers and what the scope holds. */
export function choosePlan(reader: Reader, area: Area, plan: IndexPlan | undefined): Maybe<'index' | 'scope'> {
  if (!plan) return 'scope';
  if (isFew(plan.count)) return 'index';
  return chain(scopeSize(reader, area), (size) => (plan.count * SCAN_FACTOR <= size ? 'index' : 'scope'));
}

/** Whether an entry, known by its id and its parent, lies in the area. */
function covers(area: Area, id: Buffer, parent: Node): boolean {
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

/** Numbers of areas by the id of their entry: those that are this entry alone, and those that are its whole subtree. */
interface AddedAreas {
  readonly bases: Map<string, number>;
  readonly subtrees: Map<string, number>;
}

/**
 * The areas of a search, in the order in which they are searched: the first, which is what was asked for, and those
 * that aliases add, each an entry or a subtree. What is asked of them costs the depth of an entry, not their number.
 */
export class Areas {
  readonly #list: Area[];
  /** Made when an alias adds the first of them. */
  #added: AddedAreas | undefined;

  constructor(first: Area) {
    this.#list = [first];
  }

  get length(): number {
    return this.#list.length;
  }

  at(n: number): Area {
    return this.#list[n]!;
  }

  add(area: Area): void {
    this.#added ??= { bases: new Map(), subtrees: new Map() };
    const map = area.scope === 'base' ? this.#added.bases : this.#added.subtrees;
    map.set(area.node.id.toString('latin1'), this.#list.push(area) - 1);
  }

  /** Whether one of them holds all that an area of this scope at the node would. */
  hold(node: Node, scope: 'base' | 'sub'): boolean {
    const first = this.#list[0]!;
    if (first.scope === 'sub' && isWithin(node, first.node)) return true;
    if (!this.#added) return false;
    const { bases, subtrees } = this.#added;
    if (scope === 'base' && bases.has(node.id.toString('latin1'))) return true;
    for (let n: Node | undefined = node; n && subtrees.size > 0; n = n.parent)
      if (subtrees.has(n.id.toString('latin1'))) return true;
    return false;
  }

  /** Whether the entry lies in area `n` and in none before it. */
  isOf(n: number, id: Buffer, parent: Node): boolean {
    return covers(this.#list[n]!, id, parent) && (n === 0 || !this.coverBefore(n, id, parent));
  }

  /** Whether the entry lies in an area before `n`. */
  coverBefore(n: number, id: Buffer, parent: Node): boolean {
    if (n === 0) return false;
    if (covers(this.#list[0]!, id, parent)) return true;
    const { bases, subtrees } = this.#added!;
    const isBefore = (area: number | undefined): boolean => area !== undefined && area < n;
    const key = id.toString('latin1');
    if (isBefore(bases.get(key)) || isBefore(subtrees.get(key))) return true;
    for (let above: Node | undefined = parent; above && subtrees.size > 0; above = above.parent)
      if (isBefore(subtrees.get(above.id.toString('latin1')))) return true;
    return false;
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
