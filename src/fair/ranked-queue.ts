import { FairTree, largestTree } from './fair-tree.js';

/** One in this many calls of `shift` serves a rank above the lowest rank that has items. */
const HIGHER_RANK_INTERVAL = 8;

/** The rank and the path under which an item was pushed. */
interface QueuePosition {
  readonly rank: number;
  readonly path: readonly unknown[];
}

/**
 * A bounded queue with ranks. Items of a lower rank come first. Every eighth `shift` serves the other ranks, in
 * rotation, which keeps them from starving. Within a rank the keys of the paths are served round-robin (`FairTree`). In
 * all ranks but rank 0 every second `shift` serves the newest key that was never served. A new key thus waits neither
 * for all older keys nor for all newer ones.
 *
 * The first key of a path is a group. No group holds more than half of the capacity. A new item of a full group
 * replaces an item of a higher rank in its group, if there is one. Otherwise the item replaces the newest item under
 * the largest key of a level below, if that key holds more items than the new item's own key then does. When the queue
 * is full but the group is not, the new item replaces an item of the largest group under the same condition.
 */
export class RankedQueue<T> {
  readonly #capacity: number;
  readonly #ranks: FairTree<T>[];
  readonly #placesByItem = new Map<T, QueuePosition>();
  readonly #groupSizes = new Map<unknown, number>();
  #shiftCount = 0;

  constructor(ranks: number, capacity: number) {
    this.#capacity = capacity;
    this.#ranks = Array.from({ length: ranks }, () => new FairTree<T>());
  }

  get size(): number {
    return this.#placesByItem.size;
  }

  /** Adds an item. Returns the item dropped for lack of room, which may be the new item, or undefined if none was. */
  push(path: readonly unknown[], rank: number, item: T): T | undefined {
    const position = { rank, path };
    const groupSize = this.#groupSizes.get(path[0]) ?? 0;
    let droppedItem: T | undefined;
    if (groupSize * 2 >= this.#capacity) droppedItem = this.#replaceableInGroup(position);
    else if (this.size >= this.#capacity) droppedItem = this.#replaceableInLargestGroup(groupSize);
    else {
      this.#add(position, item);
      return undefined;
    }
    if (droppedItem === undefined) return item;
    this.remove(droppedItem);
    this.#add(position, item);
    return droppedItem;
  }

  #add(position: QueuePosition, item: T): void {
    const { rank, path } = position;
    this.#ranks[rank]!.push(path, item);
    this.#placesByItem.set(item, position);
    this.#groupSizes.set(path[0], (this.#groupSizes.get(path[0]) ?? 0) + 1);
  }

  /** Returns the item of the same group (first key of the path) that the new item replaces. */
  #replaceableInGroup({ rank, path: [group, ...keys] }: QueuePosition): T | undefined {
    let groupTrees: FairTree<T>[] = [];
    for (let otherRank = this.#ranks.length - 1; otherRank >= 0; otherRank--) {
      const tree = this.#ranks[otherRank]!.subtree(group);
      if (tree && otherRank > rank) return tree.newestOfLargest();
      if (tree) groupTrees.push(tree);
    }
    for (const key of keys) {
      const largest = largestTree(groupTrees.flatMap((tree) => tree.largestChild() ?? []));
      groupTrees = groupTrees.flatMap((tree) => tree.subtree(key) ?? []);
      if (largest && largest.size > totalSize(groupTrees) + 1) return largest.newestOfLargest();
    }
    return undefined;
  }

  /** Returns an item of the largest group, if that group has more than `groupSize` + 1 items. */
  #replaceableInLargestGroup(groupSize: number): T | undefined {
    let largestGroup: unknown;
    let size = groupSize + 1;
    for (const [group, count] of this.#groupSizes) if (count > size) [largestGroup, size] = [group, count];
    if (size === groupSize + 1) return undefined;
    const rank = this.#ranks.findLast((tree) => tree.subtree(largestGroup));
    return rank?.subtree(largestGroup)?.newestOfLargest();
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const shift = ++this.#shiftCount;
    const [lowestRank, ...higherRanks] = this.#ranks.filter((tree) => tree.size > 0);
    const isHigherRankDue = shift % HIGHER_RANK_INTERVAL === 0;
    const rank = (isHigherRankDue && higherRanks[(shift / HIGHER_RANK_INTERVAL) % higherRanks.length]) || lowestRank!;
    const item = rank.shift(shift % 2 === 1 && rank !== this.#ranks[0])!;
    this.#forget(item, this.#placesByItem.get(item)!);
    return item;
  }

  remove(item: T): void {
    const position = this.#placesByItem.get(item);
    if (position && this.#ranks[position.rank]!.remove(position.path, item)) this.#forget(item, position);
  }

  #forget(item: T, { path: [group] }: QueuePosition): void {
    this.#placesByItem.delete(item);
    const size = this.#groupSizes.get(group)! - 1;
    if (size === 0) this.#groupSizes.delete(group);
    else this.#groupSizes.set(group, size);
  }
}

function totalSize<T>(trees: readonly FairTree<T>[]): number {
  return trees.reduce((size, tree) => size + tree.size, 0);
}
