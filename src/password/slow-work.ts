import { availableParallelism } from 'node:os';

/**
 * Runs at most `size` pieces of slow work at a time, the others in order of arrival. Argon2 and PBKDF2 run on libuv's
 * thread pool, which the store writes through too: a storm of binds must not fill it.
 */
export class SlowWork {
  readonly #size: number;
  #running = 0;
  readonly #queue: (() => void)[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  /** Pieces that wait for their turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#size) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#queue.shift();
      if (next) next();
      else this.#running--;
    }
  }
}

function poolSize(): number {
  const asked = Number(process.env.UV_THREADPOOL_SIZE);
  return Number.isInteger(asked) && asked > 0 ? asked : 4;
}

/** The one limit of this process. */
export const slowWork = new SlowWork(Math.max(1, Math.min(availableParallelism(), poolSize() - 1)));
