import { availableParallelism } from 'node:os';
import { FairQueue, type Source } from './fair-queue.js';
import { History } from './history.js';

/** No room in the queue of slow work. */
export class SlowWorkFull extends Error {
  constructor() {
    super('too many passwords wait to be verified');
  }
}

/** Nobody waits any more for what the work was for. */
export class SlowWorkLeft extends Error {
  constructor() {
    super('nobody waits for this password any more');
  }
}

interface Piece {
  begin(): void;
  refuse(error: Error): void;
}

/** Pieces that wait at most; one network has at most half of them. */
const ROOM = 4096;
const REMEMBERED = 10_000;
const HERE: Source = { network: '', identity: '' };

/**
 * Runs at most `size` pieces of slow work at a time. Argon2 and PBKDF2 run on libuv's thread pool, which the store
 * writes through too: a storm of binds must not fill it. The others wait by their source: those that gave a right
 * password before go first, and whoever sends wrong ones is in nobody's way but its own.
 * Whoever goes away leaves the queue.
 */
export class SlowWork {
  readonly #size: number;
  #running = 0;
  readonly #queue: FairQueue<Piece>;
  readonly #history = new History(REMEMBERED);
  /** What has been done so far, in units of `costOf`. */
  spent = 0;

  constructor(size: number, room = ROOM) {
    this.#size = size;
    this.#queue = new FairQueue(3, room);
  }

  /** Pieces that wait for their turn. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Rejects with `SlowWorkFull` where too many wait, and with `SlowWorkLeft` where nobody waits for it. */
  async run<T>(work: () => Promise<T>, source: Source = HERE): Promise<T> {
    if (source.gone) throw new SlowWorkLeft();
    if (this.#running >= this.#size) await this.#turn(source);
    else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#queue.shift();
      if (next) next.begin();
      else this.#running--;
    }
  }

  #turn(source: Source): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#queue.remove(piece);
        reject(new SlowWorkLeft());
      };
      const stay = source.onceGone?.(leave);
      const piece: Piece = {
        begin: () => {
          stay?.();
          resolve();
        },
        refuse: (error) => {
          stay?.();
          reject(error);
        },
      };
      this.#queue.push(source, this.#history.rank(source), piece)?.refuse(new SlowWorkFull());
    });
  }

  /** Whether the source's password was right. */
  note(source: Source, success: boolean): void {
    this.#history.note(source, success);
  }
}

function poolSize(): number {
  const asked = Number(process.env.UV_THREADPOOL_SIZE);
  return Number.isInteger(asked) && asked > 0 ? asked : 4;
}

/** The one limit of this process. */
export const slowWork = new SlowWork(Math.max(1, Math.min(availableParallelism(), poolSize() - 1)));
