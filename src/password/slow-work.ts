import { availableParallelism } from 'node:os';
import { FairQueue, type Source } from './fair-queue.js';
import { History, RANKS } from './history.js';

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
/** Of the room for pieces that cost no more than usual, what there is beside for those that do. */
const DEAR_ROOM = 8;
/** Where both wait, so many turns go by until the dear ones have one. */
const DEAR_TURN = 4;
const HERE: Source = { network: '', identity: '' };

/** Work of one kind: what waits, and how much of it is done at a time. */
class Lane {
  readonly queue: FairQueue<Piece>;
  readonly most: number;
  running = 0;

  constructor(room: number, most: number) {
    this.queue = new FairQueue(RANKS, room);
    this.most = most;
  }
}

/**
 * Runs at most `size` pieces of slow work at a time. Argon2 and PBKDF2 run on libuv's thread pool, which the store
 * writes through too: a storm of binds must not fill it. The others wait by their source: those that gave a right
 * password before go first, and whoever sends wrong ones is in nobody's way but its own. Whoever goes away leaves the
 * queue. Dear pieces wait for themselves, and leave one turn to the others where there are several.
 */
export class SlowWork {
  readonly #size: number;
  readonly #usual: Lane;
  readonly #dear: Lane;
  #turns = 0;
  readonly #history = new History(REMEMBERED);
  /** What has been done so far, in units of `costOf`. */
  spent = 0;

  constructor(size: number, room = ROOM) {
    this.#size = size;
    this.#usual = new Lane(room, size);
    this.#dear = new Lane(Math.ceil(room / DEAR_ROOM), Math.max(1, size - 1));
  }

  /** Pieces that wait for their turn. */
  get waiting(): number {
    return this.#usual.queue.size + this.#dear.queue.size;
  }

  /** Rejects with `SlowWorkFull` where too many wait, and with `SlowWorkLeft` where nobody waits for it. */
  async run<T>(work: () => Promise<T>, source: Source = HERE, dear = false): Promise<T> {
    if (source.gone) throw new SlowWorkLeft();
    const lane = dear ? this.#dear : this.#usual;
    if (this.#hasTurn(lane)) lane.running++;
    else await this.#turn(lane, source);
    try {
      return await work();
    } finally {
      lane.running--;
      this.#goOn();
    }
  }

  #hasTurn(lane: Lane): boolean {
    return lane.running < lane.most && this.#usual.running + this.#dear.running < this.#size;
  }

  /** Begins what has a turn now. */
  #goOn(): void {
    for (;;) {
      const lane = this.#next();
      if (!lane || !this.#hasTurn(lane)) return;
      lane.running++;
      lane.queue.shift()!.begin();
    }
  }

  /** Whose turn it is. */
  #next(): Lane | undefined {
    const dear = this.#dear.queue.size > 0 && this.#hasTurn(this.#dear);
    if (this.#usual.queue.size === 0) return dear ? this.#dear : undefined;
    return dear && ++this.#turns % DEAR_TURN === 0 ? this.#dear : this.#usual;
  }

  #turn({ queue }: Lane, source: Source): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        queue.remove(piece);
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
      queue.push(source, this.#history.rank(source), piece)?.refuse(new SlowWorkFull());
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
