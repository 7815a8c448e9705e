import { FairTree, largestOf } from './fair-tree.js';

/** Number of `shift` calls of which one serves a rank other than the lowest with items. */
const OTHER_RANK_INTERVAL = 8;

interface Place {
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
  readonly #places = new Map<T, Place>();
  /** The number of items of each group. */
  readonly #groupSizes = new Map<unknown, number>();
  #shifts = 0;

  constructor(ranks: number, capacity: number) {
    this.#capacity = capacity;
    this.#ranks = Array.from({ length: ranks }, () => new FairTree<T>());
  }

  get size(): number {
    return this.#places.size;
  }

  /** Adds an item. Returns the item dropped for want of room, perhaps the new item itself. Undefined: none. */
  push(path: readonly unknown[], rank: number, item: T): T | undefined {
    const place = { rank, path };
    const ownSize = this.#groupSizes.get(path[0]) ?? 0;
    let dropped: T | undefined;
    if (ownSize * 2 >= this.#capacity) dropped = this.#replaceableInGroup(place);
    else if (this.size >= this.#capacity) dropped = this.#replaceableInLargestGroup(ownSize);
    else {
      this.#add(place, item);
      return undefined;
    }
    if (dropped === undefined) return item;
    this.remove(dropped);
    this.#add(place, item);
    return dropped;
  }

  #add(place: Place, item: T): void {
    const { rank, path } = place;
    this.#ranks[rank]!.push(path, item);
    this.#places.set(item, place);
    this.#groupSizes.set(path[0], (this.#groupSizes.get(path[0]) ?? 0) + 1);
  }

  /** Returns the item of the same group that the new item replaces. */
  #replaceableInGroup({ rank, path: [group, ...keys] }: Place): T | undefined {
    let own: FairTree<T>[] = [];
    for (let other = this.#ranks.length - 1; other >= 0; other--) {
      const tree = this.#ranks[other]!.at(group);
      if (tree && other > rank) return tree.newestOfLargest();
      if (tree) own.push(tree);
    }
    for (const key of keys) {
      const largest = largestOf(own.flatMap((tree) => tree.largestChild() ?? []));
      own = own.flatMap((tree) => tree.at(key) ?? []);
      if (largest && largest.size > totalSize(own) + 1) return largest.newestOfLargest();
    }
    return undefined;
  }

  /** Returns an item of the largest group, if that group has more than `ownSize` + 1 items. */
  #replaceableInLargestGroup(ownSize: number): T | undefined {
    let largest: unknown;
    let size = ownSize + 1;
    for (const [group, count] of this.#groupSizes) if (count > size) [largest, size] = [group, count];
    if (size === ownSize + 1) return undefined;
    const rank = this.#ranks.findLast((tree) => tree.at(largest));
    return rank?.at(largest)?.newestOfLargest();
  }

  /** Removes and returns the next item. */
  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const count = ++this.#shifts;
    const [first, ...others] = this.#ranks.filter((tree) => tree.size > 0);
    const other = count % OTHER_RANK_INTERVAL === 0 ? others[(count / OTHER_RANK_INTERVAL) % others.length] : undefined;
    const rank = other ?? first!;
    const item = rank.shift(count % 2 === 1 && rank !== this.#ranks[0])!;
    this.#forget(item, this.#places.get(item)!);
    return item;
  }

  remove(item: T): void {
    const place = this.#places.get(item);
    if (place && this.#ranks[place.rank]!.remove(place.path, item)) this.#forget(item, place);
  }

  #forget(item: T, { path: [group] }: Place): void {
    this.#places.delete(item);
    const size = this.#groupSizes.get(group)! - 1;
    if (size === 0) this.#groupSizes.delete(group);
    else this.#groupSizes.set(group, size);
  }
}

function totalSize<T>(trees: readonly FairTree<T>[]): number {
  return trees.reduce((size, tree) => size + tree.size, 0);
}
