import type { Maybe, Reader } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { cellCounter } from '../../../store/row.js';
import { type Node, Q, TREE, TREE_TABLE } from '../../model/tables.js';
import { isWithin, nodeTreeKey, ROOT } from '../../tree/nodes.js';
import type { IndexPlan } from '../plan/index-plan.js';
import type { SearchParams } from '../search-params.js';

/** Number of candidates that are taken from an index at a time. */
export const INDEX_BATCH = 512;

/** Number of entries that one request reads if rows are spread over servers. */
export const READ_BATCH = 256;

/** Entries examined between two checks of the clock. A filter of thousands of terms takes 1 ms per entry. */
export const CLOCK_INTERVAL = 4;

/** Number of rows in the first batch after a search has waited for its client, which may soon be slow again. */
export const ROWS_AFTER_WAIT = 16;

export interface Base {
  readonly node: Node;
  /** The packed master row, or the head of a split row, if it was read to find the base. */
  readonly row?: Buffer | undefined;
}

/** A base and a scope to search. A search has several areas when it follows aliases. */
export interface Area extends Base {
  readonly scope: SearchParams['scope'];
}

/** This number of scanned rows costs as much as one index candidate: a scan reads in order, an index at random. */
const SCAN_FACTOR = 4;

/** Whether an index plan with this number of candidates is used without estimating the cost of a scan. */
export function isCheap(candidates: number): boolean {
  return candidates * SCAN_FACTOR <= INDEX_BATCH;
}

/** Chooses between the index plan and a scan of the scope, by cost. */
export function choosePlan(reader: Reader, area: Area, plan: IndexPlan | undefined): Maybe<'index' | 'scope'> {
  if (!plan) return 'scope';
  if (isCheap(plan.count)) return 'index';
  return chain(scopeSize(reader, area), (size) => (plan.count * SCAN_FACTOR <= size ? 'index' : 'scope'));
}

/** Whether the area contains the entry with the given id and parent. */
function contains(area: Area, id: Buffer, parent: Node): boolean {
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

/** Indexes of the areas that aliases have added, by the id of their base. */
interface AddedAreas {
  readonly entryPositions: Map<string, number>;
  readonly subtreePositions: Map<string, number>;
}

/**
 * The areas of a search, in the order in which they are searched: the requested area, then the entries and subtrees
 * that aliases add. The time of each method depends on the depth of the entry, not on the number of areas.
 */
export class Areas {
  readonly #areas: Area[];
  /** Undefined while no alias has added an area. */
  #addedAreas: AddedAreas | undefined;

  constructor(requestedArea: Area) {
    this.#areas = [requestedArea];
  }

  get length(): number {
    return this.#areas.length;
  }

  areaAt(index: number): Area {
    return this.#areas[index]!;
  }

  add(area: Area): void {
    this.#addedAreas ??= { entryPositions: new Map(), subtreePositions: new Map() };
    const positions = area.scope === 'base' ? this.#addedAreas.entryPositions : this.#addedAreas.subtreePositions;
    positions.set(area.node.id.toString('latin1'), this.#areas.push(area) - 1);
  }

  /** Whether the areas contain all entries of this base and scope. */
  includes(node: Node, scope: 'base' | 'sub'): boolean {
    const requestedArea = this.#areas[0]!;
    if (requestedArea.scope === 'sub' && isWithin(node, requestedArea.node)) return true;
    if (!this.#addedAreas) return false;
    const { entryPositions, subtreePositions } = this.#addedAreas;
    if (scope === 'base' && entryPositions.has(node.id.toString('latin1'))) return true;
    for (let n: Node | undefined = node; n && subtreePositions.size > 0; n = n.parent)
      if (subtreePositions.has(n.id.toString('latin1'))) return true;
    return false;
  }

  /** Whether the area at `index` contains the entry, and no earlier area does. */
  isFirstToContain(index: number, id: Buffer, parent: Node): boolean {
    return contains(this.#areas[index]!, id, parent) && !this.hasEarlier(index, id, parent);
  }

  hasEarlier(index: number, id: Buffer, parent: Node): boolean {
    if (index === 0) return false;
    if (contains(this.#areas[0]!, id, parent)) return true;
    const { entryPositions, subtreePositions } = this.#addedAreas!;
    const isBefore = (other: number | undefined): boolean => other !== undefined && other < index;
    const key = id.toString('latin1');
    if (isBefore(entryPositions.get(key)) || isBefore(subtreePositions.get(key))) return true;
    for (let node: Node | undefined = parent; node && subtreePositions.size > 0; node = node.parent)
      if (isBefore(subtreePositions.get(node.id.toString('latin1')))) return true;
    return false;
  }
}

/** Returns the number of rows that a scan of the area would read. */
function scopeSize(reader: Reader, { node, scope }: Area): Maybe<number> {
  if (node === ROOT) return Number.MAX_SAFE_INTEGER;
  const row = reader.getHead(TREE_TABLE.name, nodeTreeKey(node), true);
  const qualifier = scope === 'one' ? Q.oneLevelCount : Q.subLevelCount;
  return chain(row, (r) => Number(cellCounter(r, TREE.treeInfo, qualifier)) + 1);
}

/**
 * Whether an area is scanned in the order of the whole tree table. True for a subtree of a suffix: this takes fewer
 * seeks than a scan of the children of each parent.
 */
export function isWholeTable({ node, scope }: Area): boolean {
  return scope !== 'one' && (node === ROOT || node.parent === ROOT);
}
