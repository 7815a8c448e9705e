import { hash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { BoundedMap } from '../cache/bounded-map.js';
import { RankedQueue } from '../fair/ranked-queue.js';

/** The origin of a task of `SlowWork`. Sources share the computing time fairly. */
export interface Source {
  /** The network that the request came from. */
  readonly network: string;
  /** The user whose password is verified or hashed. */
  readonly identity: string;
  /** An object that is unique to the connection of the request. */
  readonly connection?: object | undefined;
  /** Whether the result is no longer needed: the connection is closed or the operation abandoned. */
  readonly isGone?: boolean;
  /** Registers a callback for when `isGone` becomes true. Returns a function that removes the callback. */
  onGone?(callback: () => void): () => void;
}

/** Number of consecutive failures after which a source that has succeeded is no longer trusted. */
const DISTRUST_FAILURES = 3;
/** Number of different results of `rank`. */
const RANKS = 4;

/**
 * Remembers which sources (a network and a user) gave right passwords and which gave wrong ones. The memory is bounded:
 * sources that succeeded and sources that only failed are in separate maps, and a full map evicts the source that was
 * seen longest ago. So failures, however many, cannot evict a success.
 */
class History {
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

/** Thrown when the queue of slow work is full. */
export class SlowWorkFull extends Error {
  constructor() {
    super('too many passwords wait to be verified');
  }
}

/** Thrown when the client of a waiting task has closed its connection or abandoned the operation. */
export class SlowWorkAbandoned extends Error {
  constructor() {
    super('nobody waits for this password any more');
  }
}

/** Work that waits in the queue. */
interface Task {
  start(): void;
  reject(error: Error): void;
}

/** The most waiting tasks. The tasks of a single network can take half of these places. */
const CAPACITY = 4096;
/** The most sources that `History` remembers. */
const HISTORY_SIZE = 10_000;
/** The queue of expensive tasks has this fraction (one eighth) of the capacity. */
const EXPENSIVE_CAPACITY_DIVISOR = 8;
/** While tasks of both kinds wait, every fourth task that starts is an expensive one. */
const EXPENSIVE_INTERVAL = 4;
const LOCAL_SOURCE: Source = { network: '', identity: '' };

/** The queue of usual or of expensive tasks, and how many of them run. */
class TaskQueue {
  readonly queue: RankedQueue<Task>;
  readonly maxRunningCount: number;
  runningCount = 0;

  constructor(capacity: number, maxRunningCount: number) {
    this.queue = new RankedQueue(RANKS, capacity);
    this.maxRunningCount = maxRunningCount;
  }
}

/**
 * Runs tasks that hash or verify passwords, at most `size` at a time. Argon2 and PBKDF2 run on libuv's thread pool,
 * which the store also writes through: a storm of binds must not occupy all threads. Waiting tasks are ordered by their
 * source: by rank (`History.rank`) and then fairly by network, identity and connection (`RankedQueue`). Sources that
 * gave a right password before come first, and a source of wrong passwords delays only itself. When `source.isGone`
 * becomes true, the task leaves the queue. Expensive tasks wait in a separate queue. If `size` is above 1, they never
 * occupy all places.
 */
export class SlowWork {
  readonly #maxRunningCount: number;
  readonly #usualTasks: TaskQueue;
  readonly #expensiveTasks: TaskQueue;
  /** Number of times that a task started while both kinds waited. */
  #choiceCount = 0;
  readonly #history = new History(HISTORY_SIZE);
  /** The cost of all computations so far, in units of `costOf`. */
  totalCost = 0;

  constructor(size: number, capacity = CAPACITY) {
    this.#maxRunningCount = size;
    this.#usualTasks = new TaskQueue(capacity, size);
    this.#expensiveTasks = new TaskQueue(Math.ceil(capacity / EXPENSIVE_CAPACITY_DIVISOR), Math.max(1, size - 1));
  }

  get waitingCount(): number {
    return this.#usualTasks.queue.size + this.#expensiveTasks.queue.size;
  }

  /** Runs `work` when a place is free. Rejects with `SlowWorkFull`, or `SlowWorkAbandoned` when `source.isGone`. */
  async run<T>(work: () => Promise<T>, source: Source = LOCAL_SOURCE, isExpensive = false): Promise<T> {
    if (source.isGone) throw new SlowWorkAbandoned();
    const taskQueue = isExpensive ? this.#expensiveTasks : this.#usualTasks;
    if (this.#mayStart(taskQueue)) taskQueue.runningCount++;
    else await this.#waitForTurn(taskQueue, source);
    try {
      return await work();
    } finally {
      taskQueue.runningCount--;
      this.#startWaitingTasks();
    }
  }

  #mayStart(taskQueue: TaskQueue): boolean {
    return (
      taskQueue.runningCount < taskQueue.maxRunningCount &&
      this.#usualTasks.runningCount + this.#expensiveTasks.runningCount < this.#maxRunningCount
    );
  }

  #startWaitingTasks(): void {
    for (;;) {
      const taskQueue = this.#nextQueue();
      if (!taskQueue || !this.#mayStart(taskQueue)) return;
      taskQueue.runningCount++;
      taskQueue.queue.shift()!.start();
    }
  }

  /** Returns the queue that the next task is taken from; undefined when no waiting task may start. */
  #nextQueue(): TaskQueue | undefined {
    const mayStartExpensive = this.#expensiveTasks.queue.size > 0 && this.#mayStart(this.#expensiveTasks);
    if (this.#usualTasks.queue.size === 0) return mayStartExpensive ? this.#expensiveTasks : undefined;
    return mayStartExpensive && ++this.#choiceCount % EXPENSIVE_INTERVAL === 0
      ? this.#expensiveTasks
      : this.#usualTasks;
  }

  #waitForTurn({ queue }: TaskQueue, source: Source): Promise<void> {
    return new Promise((resolve, reject) => {
      const removeCallback = source.onGone?.(() => {
        queue.remove(task);
        reject(new SlowWorkAbandoned());
      });
      const task: Task = {
        start: () => {
          removeCallback?.();
          resolve();
        },
        reject: (error) => {
          removeCallback?.();
          reject(error);
        },
      };
      const sourcePath = [source.network, source.identity, source.connection];
      queue.push(sourcePath, this.#history.rank(source), task)?.reject(new SlowWorkFull());
    });
  }

  recordResult(source: Source, isRight: boolean): void {
    this.#history.record(source, isRight);
  }
}

/** Returns the number of threads in libuv's pool. */
function poolSize(): number {
  const size = Number(process.env.UV_THREADPOOL_SIZE);
  return Number.isInteger(size) && size > 0 ? size : 4;
}

/** The queue of all hashing and verifying of passwords in this process. */
export const slowWork = new SlowWork(Math.max(1, Math.min(availableParallelism(), poolSize() - 1)));
