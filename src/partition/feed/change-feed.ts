import { BoundedMap } from '../../cache/bounded-map.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe, Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { toLdapError } from '../model/store-errors.js';
import {
  type ChangePosition,
  ChangeReader,
  findPosition,
  laterCsn,
  latestPosition,
  type NumberedChange,
} from './change-reader.js';

/** How often the records of other processes are looked for while somebody follows, in milliseconds. */
const POLL_MS = 250;
/** Time after a commit of this process in which further commits are awaited, in milliseconds. */
const COLLECT_MS = 10;
/** The most records that are kept for followers. A follower that is further behind is refused. */
const MAX_RECENT = 10_000;
/** The most entries of which a read is kept for other followers. */
const MAX_READS = 1000;
/** The most records in a group. */
const MAX_GROUP = 500;

/** Changes in order, and the position behind them. */
export interface ChangeGroup {
  readonly changes: readonly NumberedChange[];
  readonly end: ChangePosition;
}

/** A follower. `wake`, which the feed sets, lets it go on when it waits, with or without changes. */
export interface Waiter {
  wake(): void;
}

/**
 * The change records as they appear, for all followers of this process: each record is read once, whatever the number
 * of followers, and kept for a while in one place that all read from. Reads nothing while nobody follows.
 */
export class ChangeFeed {
  readonly #store: Store;
  readonly #renewReads: () => void;
  /** Records behind `#start` up to `#end.number`, in order, with the before-images of renames only. */
  #recent: NumberedChange[] = [];
  #start = 0n;
  #end: ChangePosition = { number: 0n, csn: undefined };
  /** What followers have read of entries, and the number of the last change that was known before the read. */
  readonly #reads = new BoundedMap<string, { readonly number: bigint; readonly value: unknown }>(MAX_READS, 'oldest');
  #followerCount = 0;
  /** Followers that wait for records. */
  readonly #waiters = new Set<Waiter>();
  #pollTimer: NodeJS.Timeout | undefined;
  #collectTimer: NodeJS.Timeout | undefined;
  #pendingRead: Promise<void> | undefined;

  /** `renewReads` makes later reads of entries as new as the change records that are read after it. */
  constructor(store: Store, renewReads: () => void) {
    this.#store = store;
    this.#renewReads = renewReads;
  }

  /** Returns the position behind all records that can be read now. Its `csn` is `contextCSN`. */
  async latest(): Promise<ChangePosition> {
    this.#renewReads();
    const latest = await latestPosition(this.#store, this.#end).catch(rethrow);
    if (this.#followerCount === 0 && latest.number > this.#end.number) this.#restartAt(latest);
    return latest;
  }

  #restartAt(position: ChangePosition): void {
    this.#recent = [];
    this.#start = position.number;
    this.#end = position;
  }

  /** See `findPosition`. */
  find(csn: string): Promise<ChangePosition | undefined> {
    this.#renewReads();
    return findPosition(this.#store, csn).catch(rethrow);
  }

  /**
   * Yields the changes behind a position, first those that exist. A group without changes follows whenever there are
   * none for now, and after `waiter.wake`. Throws `syncRefreshRequired` if the caller is too slow.
   */
  async *follow(
    position: ChangePosition,
    waiter: Waiter = { wake: () => undefined },
  ): AsyncGenerator<ChangeGroup, void, undefined> {
    await this.latest();
    this.#followerCount++;
    this.#pollTimer ??= setInterval(() => this.#read(), POLL_MS).unref();
    let { number, csn } = position;
    try {
      for (let isCaughtUp = false; ; ) {
        // Until it has all there are, the follower reads for itself, so that it misses nothing that is acknowledged.
        const group: ChangeGroup | undefined = isCaughtUp
          ? this.#recentAfter({ number, csn })
          : await this.#storedAfter({ number, csn });
        if (!group) throw new LdapError('syncRefreshRequired', 'changes came faster than the client read them');
        ({ number, csn } = group.end);
        yield group;
        isCaughtUp ||= group.changes.length === 0;
        if (!isCaughtUp || this.#end.number > number) continue;
        this.#waiters.add(waiter);
        await new Promise<void>((resolve) => (waiter.wake = resolve));
      }
    } finally {
      this.#waiters.delete(waiter);
      if (--this.#followerCount === 0) this.close();
    }
  }

  /** Returns undefined if not all records behind the position are kept. */
  #recentAfter({ number, csn }: ChangePosition): ChangeGroup | undefined {
    if (number < this.#start) return undefined;
    const first = this.#recent.findLastIndex((record) => record.number <= number) + 1;
    return groupOf(this.#recent.slice(first, first + MAX_GROUP), { number, csn });
  }

  async #storedAfter({ number, csn }: ChangePosition): Promise<ChangeGroup> {
    const reader = new ChangeReader(this.#store, number);
    try {
      for await (const changes of reader.read()) return groupOf(changes, { number, csn });
      return groupOf([], { number: reader.position, csn });
    } catch (error) {
      return rethrow(error);
    }
  }

  /**
   * Returns what `read` returns, or what it has returned to another follower since the change `number`. `key`: of an
   * entry, the same for all followers. Followers that learn of a change together read the entry once.
   */
  share<T>(key: string, number: bigint, read: () => Maybe<T>): Maybe<T> {
    const known = this.#reads.get(key);
    if (known && known.number >= number) return known.value as Maybe<T>;
    const knownEnd = this.#end.number;
    const value = read();
    this.#reads.set(key, { number: knownEnd, value });
    if (isPromise(value)) value.catch(() => this.#reads.delete(key));
    return value;
  }

  /** Called after a commit of this process. */
  noteCommit(): void {
    if (this.#followerCount > 0) this.#collectTimer ??= setTimeout(() => this.#read(), COLLECT_MS).unref();
  }

  #read(): void {
    this.#collectTimer = undefined;
    // After a failure, such as that of a store that does not answer, the next poll reads again.
    this.#pendingRead ??= this.#readNew()
      .catch(() => undefined)
      .finally(() => {
        this.#pendingRead = undefined;
      });
  }

  async #readNew(): Promise<void> {
    this.#renewReads();
    const recent = this.#recent;
    for await (const records of new ChangeReader(this.#store, this.#end.number).read()) {
      // All followers have gone meanwhile, and others may have come.
      if (this.#recent !== recent) return;
      let { csn } = this.#end;
      for (const record of records) {
        csn = laterCsn(csn, record);
        this.#recent.push(copyOf(record));
      }
      this.#end = { number: records.at(-1)!.number, csn };
      const extraCount = this.#recent.length - MAX_RECENT;
      if (extraCount > 0) this.#start = this.#recent.splice(0, extraCount).at(-1)!.number;
      for (const waiter of this.#waiters) waiter.wake();
      this.#waiters.clear();
    }
  }

  close(): void {
    clearInterval(this.#pollTimer);
    this.#pollTimer = undefined;
    this.#reads.clear();
    this.#restartAt(this.#end);
  }
}

/** `start`: the position before the changes. */
function groupOf(changes: readonly NumberedChange[], start: ChangePosition): ChangeGroup {
  let { number, csn } = start;
  for (const change of changes) {
    number = change.number;
    csn = laterCsn(csn, change);
  }
  return { changes, end: { number, csn } };
}

function rethrow(error: unknown): never {
  throw toLdapError(error);
}

/** Returns a copy, which does not keep the batch of the record in memory, with the before-image of a rename only. */
function copyOf(record: NumberedChange): NumberedChange {
  const { op, id, dn, newDn, time, beforeImage } = record;
  const copies = {
    id: Buffer.from(id),
    dn: Buffer.from(dn),
    newDn: newDn && Buffer.from(newDn),
    time: Buffer.from(time),
  };
  return { ...record, ...copies, beforeImage: op === 'rename' && beforeImage ? Buffer.from(beforeImage) : undefined };
}
