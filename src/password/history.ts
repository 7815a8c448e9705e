import { hash } from 'node:crypto';
import { BoundedMap } from '../cache/bounded-map.js';
import type { Source } from './source.js';

/** Failures one after another that a source which had succeeded is forgiven. */
const FORGIVEN = 3;
/** How many ranks there are. */
export const RANKS = 4;

/**
 * Which sources have given right passwords before, and which wrong ones. Bounded: of the right ones and of the wrong
 * ones the one that was heard of longest ago is forgotten, so that no number of failures makes it forget a success.
 */
export class History {
  /** Failures since the last success. */
  readonly #right: BoundedMap<string, number>;
  /** Those that never succeeded. */
  readonly #wrong: BoundedMap<string, true>;
  /** Connections of which the last password was wrong. */
  readonly #failing = new WeakSet<object>();

  constructor(size: number) {
    this.#right = new BoundedMap(size, 'oldest');
    this.#wrong = new BoundedMap(size, 'oldest');
  }

  /**
   * 0: it has succeeded before; 3: it has failed and never succeeded. Else 1, or 2 where the last password that came
   * through its connection was wrong, whoever that was for.
   */
  rank(source: Source): 0 | 1 | 2 | 3 {
    const key = keyOf(source);
    const failures = this.#right.get(key);
    if (failures !== undefined && failures < FORGIVEN) return 0;
    if (this.#wrong.has(key)) return 3;
    return source.connection && this.#failing.has(source.connection) ? 2 : 1;
  }

  note(source: Source, success: boolean): void {
    this.#noteIdentity(keyOf(source), success);
    if (!source.connection) return;
    if (success) this.#failing.delete(source.connection);
    else this.#failing.add(source.connection);
  }

  #noteIdentity(key: string, success: boolean): void {
    const failures = this.#right.get(key);
    this.#right.delete(key);
    this.#wrong.delete(key);
    if (success) this.#right.set(key, 0);
    else if (failures !== undefined) this.#right.set(key, failures + 1);
    else this.#wrong.set(key, true);
  }
}

function keyOf({ network, identity }: Source): string {
  return hash('sha256', `${network.length}:${network}${identity}`, 'base64url');
}
