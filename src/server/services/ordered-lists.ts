import type { Spill, SpillRoom } from '../../partition/read/order/spill.js';
import type { Config } from '../settings/index.js';

/** The order of a search's entries, for its further pages or windows. */
export interface OrderedList {
  /** The identity that searches. */
  readonly owner: string;
  /** What the list was made of: a window needs a list of the same state. */
  readonly state?: readonly unknown[];
  /** Returns the ids of the entries, concatenated, without those that were sent before. Called when they are needed. */
  collect(): Promise<Spill>;
  ids?: Promise<Spill> | undefined;
  /** Number of requests that read the ids. */
  readers?: number;
  /** Whether the ids are closed once nobody reads them. */
  isDropped?: boolean;
}

const MAX_LISTS = 64;
const MAX_LISTS_OF_OWNER = 8;

/** The lists of sorted searches that were used last, in this process. */
export class OrderedLists {
  readonly room: SpillRoom;
  readonly #lists = new Map<string, OrderedList>();

  constructor(limits: Config['limits']) {
    this.room = {
      usedBytes: 0,
      get maxBytes() {
        return limits.sortBytes;
      },
    };
  }

  find(key: string): OrderedList | undefined {
    return this.#lists.get(key);
  }

  /** Keeps a list, or keeps it for longer. Drops others that were not used for longest. */
  keep(key: string, list: OrderedList): void {
    if (this.#lists.get(key) === list) this.#lists.delete(key);
    else this.drop(key);
    this.#lists.set(key, list);
    const own = [...this.#lists].filter(([, { owner }]) => owner === list.owner);
    if (own.length > MAX_LISTS_OF_OWNER) this.drop(own[0]![0]);
    if (this.#lists.size > MAX_LISTS) this.drop(this.#lists.keys().next().value!);
  }

  /** Calls `work` with the ids of a list, which several requests may wait for. They stay open until it ends. */
  async read<T>(list: OrderedList, work: (ids: Spill) => Promise<T>): Promise<T> {
    list.readers = (list.readers ?? 0) + 1;
    try {
      list.ids ??= list.collect().catch((error) => {
        list.ids = undefined;
        throw error;
      });
      return await work(await list.ids);
    } finally {
      list.readers--;
      if (list.isDropped) this.discard(list);
    }
  }

  drop(key: string): void {
    const list = this.#lists.get(key);
    this.#lists.delete(key);
    if (list) this.discard(list);
  }

  /** Closes the ids of a list when nobody reads them any more. */
  discard(list: OrderedList): void {
    list.isDropped = true;
    if (!list.readers) list.ids?.then((found) => found.close()).catch(() => undefined);
  }

  close(): void {
    for (const key of [...this.#lists.keys()]) this.drop(key);
  }
}
