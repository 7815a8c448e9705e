import { availableParallelism } from 'node:os';
import { RankedQueue } from '../fair/ranked-queue.js';
import { History, RANKS } from './history.js';
import type { Source } from './source.js';

/** Thrown when the queue of slow work is full. */
export class SlowWorkFull extends Error {
  constructor() {
    super('too many passwords wait to be verified');
  }
}

/** Thrown when the result of waiting work is no longer wanted. */
export class SlowWorkAbandoned extends Error {
  constructor() {
    super('nobody waits for this password any more');
  }
}

interface Piece {
  begin(): void;
  reject(error: Error): void;
}

/** The most waiting pieces. A single network has at most half of the capacity. */
const CAPACITY = 4096;
/** The most sources that `History` remembers. */
const HISTORY_SIZE = 10_000;
/** The capacity for expensive pieces is the capacity for usual pieces divided by this number. */
const EXPENSIVE_CAPACITY_DIVISOR = 8;
/** While pieces of both kinds wait, every fourth piece that begins is expensive. */
const EXPENSIVE_INTERVAL = 4;
const LOCAL_SOURCE: Source = { network: '', identity: '' };

/** The queue of usual or of expensive pieces, and how many of them run. */
class PieceQueue {
  readonly queue: RankedQueue<Piece>;
  readonly maxRunning: number;
  running = 0;

  constructor(capacity: number, maxRunning: number) {
    this.queue = new RankedQueue(RANKS, capacity);
    this.maxRunning = maxRunning;
  }
}

/**
 * Runs at most `size` pieces of slow work at a time. Argon2 and PBKDF2 run on libuv's thread pool, which the store also
 * writes through: a storm of binds must not occupy all threads. Waiting pieces are ordered by their source, by rank and
 * then by network, identity and connection (`RankedQueue`). Sources that gave a right password before come first, and a
 * source of wrong passwords delays only itself. A piece whose result is no longer wanted leaves the queue. Expensive
 * pieces wait in a separate queue. If `size` is above 1, expensive pieces leave at least one place to usual pieces.
 */
export class SlowWork {
  readonly #size: number;
  readonly #usual: PieceQueue;
  readonly #expensive: PieceQueue;
  /** Counts the choices between a usual and an expensive piece. */
  #choices = 0;
  readonly #history = new History(HISTORY_SIZE);
  /** The cost of all computations so far, in units of `costOf`. */
  spent = 0;

  constructor(size: number, capacity = CAPACITY) {
    this.#size = size;
    this.#usual = new PieceQueue(capacity, size);
    this.#expensive = new PieceQueue(Math.ceil(capacity / EXPENSIVE_CAPACITY_DIVISOR), Math.max(1, size - 1));
  }

  /** The number of pieces that wait. */
  get waiting(): number {
    return this.#usual.queue.size + this.#expensive.queue.size;
  }

  /**
   * Runs `work` when there is room. Rejects with `SlowWorkFull`, or with `SlowWorkAbandoned` when `source.isGone`.
   */
  async run<T>(work: () => Promise<T>, source: Source = LOCAL_SOURCE, isExpensive = false): Promise<T> {
    if (source.isGone) throw new SlowWorkAbandoned();
    const pieces = isExpensive ? this.#expensive : this.#usual;
    if (this.#mayBegin(pieces)) pieces.running++;
    else await this.#wait(pieces, source);
    try {
      return await work();
    } finally {
      pieces.running--;
      this.#beginWaiting();
    }
  }

  #mayBegin(pieces: PieceQueue): boolean {
    return pieces.running < pieces.maxRunning && this.#usual.running + this.#expensive.running < this.#size;
  }

  #beginWaiting(): void {
    for (;;) {
      const pieces = this.#nextQueue();
      if (!pieces || !this.#mayBegin(pieces)) return;
      pieces.running++;
      pieces.queue.shift()!.begin();
    }
  }

  /** Returns the queue that the next piece is taken from; undefined when nothing waits that may begin. */
  #nextQueue(): PieceQueue | undefined {
    const expensive = this.#expensive.queue.size > 0 && this.#mayBegin(this.#expensive);
    if (this.#usual.queue.size === 0) return expensive ? this.#expensive : undefined;
    return expensive && ++this.#choices % EXPENSIVE_INTERVAL === 0 ? this.#expensive : this.#usual;
  }

  #wait({ queue }: PieceQueue, source: Source): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = source.onGone?.(() => {
        queue.remove(piece);
        reject(new SlowWorkAbandoned());
      });
      const piece: Piece = {
        begin: () => {
          cancel?.();
          resolve();
        },
        reject: (error) => {
          cancel?.();
          reject(error);
        },
      };
      const path = [source.network, source.identity, source.connection];
      queue.push(path, this.#history.rank(source), piece)?.reject(new SlowWorkFull());
    });
  }

  /** Records whether a password of the source was right. */
  recordResult(source: Source, isRight: boolean): void {
    this.#history.record(source, isRight);
  }
}

/** Returns the number of threads in libuv's pool. */
function poolSize(): number {
  const size = Number(process.env.UV_THREADPOOL_SIZE);
  return Number.isInteger(size) && size > 0 ? size : 4;
}

/** All slow work of this process. */
export const slowWork = new SlowWork(Math.max(1, Math.min(availableParallelism(), poolSize() - 1)));
