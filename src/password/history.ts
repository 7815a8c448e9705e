import { hash } from 'node:crypto';
import { BoundedMap } from '../cache/bounded-map.js';
import type { Source } from './source.js';

/** Number of consecutive failures after which a source that has succeeded is no longer trusted. */
const DISTRUST_FAILURES = 3;
/** Number of different results of `rank`. */
export const RANKS = 4;

/**
 * Remembers which sources (a network and a user) gave right passwords and which gave wrong ones. The memory is bounded:
 * sources that succeeded and sources that only failed are in separate maps, and a full map evicts the source that was
 * seen longest ago. So failures, however many, cannot evict a success.
 */
export class History {
  /** Sources that succeeded, with their failures since the last success. */
  readonly #failuresBySource: BoundedMap<string, number>;
  /** Sources that failed and never succeeded. */
  readonly #failedSources: BoundedMap<string, true>;
  /** Connections whose last password was wrong. */
  readonly #failingConnections = new WeakSet<object>();

  constructor(size: number) {
    this.#failuresBySource = new BoundedMap(size, 'oldest');
    this.#failedSources = new BoundedMap(size, 'oldest');
  }

  /**
   * Returns the rank of the source in the queue of slow work; lower ranks go first. 0: the source has succeeded before
   * and has not failed too often since. 2: the last password on the connection was wrong, for whichever user. 3: the
   * source has failed and never succeeded. 1: none of these.
   */
  rank(source: Source): 0 | 1 | 2 | 3 {
    const key = sourceKey(source);
    const failures = this.#failuresBySource.get(key);
    if (failures !== undefined && failures < DISTRUST_FAILURES) return 0;
    if (this.#failedSources.has(key)) return 3;
    return source.connection && this.#failingConnections.has(source.connection) ? 2 : 1;
  }

  record(source: Source, isRight: boolean): void {
    this.#recordSource(sourceKey(source), isRight);
    if (!source.connection) return;
    if (isRight) this.#failingConnections.delete(source.connection);
    else this.#failingConnections.add(source.connection);
  }

  #recordSource(key: string, isRight: boolean): void {
    const failures = this.#failuresBySource.get(key);
    // Delete the key first: a bounded map evicts in the order of insertion.
    this.#failuresBySource.delete(key);
    this.#failedSources.delete(key);
    if (isRight) this.#failuresBySource.set(key, 0);
    else if (failures !== undefined) this.#failuresBySource.set(key, failures + 1);
    else this.#failedSources.set(key, true);
  }
}

function sourceKey({ network, identity }: Source): string {
  return hash('sha256', `${network.length}:${network}${identity}`, 'base64url');
}
