import { hash } from 'node:crypto';
import { BoundedMap } from '../cache/bounded-map.js';
import type { Source } from './fair-queue.js';

/** Failures one after another that a source which had succeeded is forgiven. */
const FORGIVEN = 3;

interface Past {
  succeeded: boolean;
  /** Since the last success. */
  failures: number;
}

/** Which sources have given right passwords before. Bounded: the one that was heard of longest ago is forgotten. */
export class History {
  readonly #past: BoundedMap<string, Past>;

  constructor(size: number) {
    this.#past = new BoundedMap(size, 'oldest');
  }

  /** 0: it has succeeded before; 2: it has failed and never succeeded; 1: else. */
  rank(source: Source): 0 | 1 | 2 {
    const past = this.#past.get(keyOf(source));
    if (!past) return 1;
    if (past.succeeded) return past.failures < FORGIVEN ? 0 : 1;
    return 2;
  }

  note(source: Source, success: boolean): void {
    const key = keyOf(source);
    const past = this.#past.get(key) ?? { succeeded: false, failures: 0 };
    this.#past.delete(key);
    this.#past.set(key, {
      succeeded: past.succeeded || success,
      failures: success ? 0 : past.failures + 1,
    });
  }
}

function keyOf({ network, identity }: Source): string {
  return hash('sha256', `${network.length}:${network}${identity}`, 'base64url');
}
