import { FairTree } from '../../fair/fair-tree.js';

/**
 * Long changes are made one after another, as each takes much memory. Users take turns, and so do the connections of
 * one user: who sends many keeps nobody waiting for all of them.
 */
export class WriteTurns {
  /** How many wait is bounded by `Occupancy`. */
  readonly #waiting = new FairTree<() => void>();
  #busy = false;

  /** Runs `work` when it is its turn. */
  async run<T>(user: string, connection: number, work: () => Promise<T>): Promise<T> {
    if (this.#busy) await this.#turn(user, connection);
    this.#busy = true;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#busy = false;
    }
  }

  #turn(user: string, connection: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push([user, connection], resolve);
    });
  }
}
