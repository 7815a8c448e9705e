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
