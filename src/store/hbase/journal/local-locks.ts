import type { Maybe } from '../../contract.js';
import { isPromise } from '../../maybe.js';
import type { Want } from './turns.js';

interface Waiting {
  readonly exclusive: boolean;
  go(): void;
}

class Gate {
  readers = 0;
  writer = false;
  readonly queue: Waiting[] = [];

  free(exclusive: boolean): boolean {
    return this.queue.length === 0 && !this.writer && !(exclusive && this.readers > 0);
  }

  enter(exclusive: boolean): void {
    if (exclusive) this.writer = true;
    else this.readers++;
  }

  leave(exclusive: boolean): void {
    if (exclusive) this.writer = false;
    else this.readers--;
    while (this.queue.length > 0) {
      const first = this.queue[0]!;
      if (this.writer || (first.exclusive && this.readers > 0)) return;
      this.queue.shift();
      this.enter(first.exclusive);
      first.go();
    }
  }
}

/**
 * Who of this process uses which rows: many share a row, or one has it alone, in the order of asking. All rows of a
 * plan are taken in the order of their ids, so that plans cannot wait for each other in a circle.
 */
export class LocalLocks {
  readonly #gates = new Map<string, Gate>();

  /** Ids must differ. Resolves, or returns at once, with what gives them back. */
  acquire(wanted: readonly Want[]): Maybe<() => void> {
    const sorted = [...wanted].sort((a, b) => (a.id < b.id ? -1 : 1));
    const release = (): void => {
      for (const { id, exclusive } of sorted) this.#leave(id, exclusive);
    };
    for (let i = 0; i < sorted.length; i++) {
      const entered = this.#enter(sorted[i]!);
      if (isPromise(entered)) return this.#rest(sorted, i, entered).then(() => release);
    }
    return release;
  }

  async #rest(sorted: readonly Want[], from: number, first: Promise<void>): Promise<void> {
    await first;
    for (let i = from + 1; i < sorted.length; i++) {
      const entered = this.#enter(sorted[i]!);
      if (isPromise(entered)) await entered;
    }
  }

  #enter({ id, exclusive }: Want): Maybe<void> {
    let gate = this.#gates.get(id);
    if (!gate) {
      gate = new Gate();
      this.#gates.set(id, gate);
    }
    if (gate.free(exclusive)) {
      gate.enter(exclusive);
      return;
    }
    const { queue } = gate;
    return new Promise((resolve) => queue.push({ exclusive, go: resolve }));
  }

  #leave(id: string, exclusive: boolean): void {
    const gate = this.#gates.get(id)!;
    gate.leave(exclusive);
    if (!gate.writer && gate.readers === 0 && gate.queue.length === 0) this.#gates.delete(id);
  }
}
