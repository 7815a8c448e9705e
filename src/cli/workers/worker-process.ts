import { type ChildProcess, fork, type SendHandle } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Answer, Question } from '../../server/processes/siblings.js';
import type { Counts } from '../../server/processes/statistics.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { holdWrites } from '../../store/lmdb/index.js';
import type { Settings } from '../options.js';
import type { IncomingSocket, Member } from './members.js';

export type WorkerOrder =
  | { readonly type: 'start'; readonly worker: number; readonly settings: Settings }
  /** Sent with a socket accepted at `listen[index]`. `elsewhere` is the number of connections of the other workers. */
  | { readonly type: 'socket'; readonly id: number; readonly index: number; readonly elsewhere: number }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }
  /** Answers of the other workers to a question of this worker. */
  | { readonly type: 'answers'; readonly id: number; readonly answers: Answer[] }
  | { readonly type: 'renewCertificate' }
  | { readonly type: 'stop' };

export type WorkerReport =
  | { readonly type: 'ready' }
  /** The worker could not start serving. */
  | { readonly type: 'failed'; readonly message: string }
  /** A socket has arrived. */
  | { readonly type: 'taken'; readonly id: number }
  | { readonly type: 'closed' }
  /** The last counts of a worker that ends. */
  | { readonly type: 'counts'; readonly counts: Counts }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }
  | { readonly type: 'answer'; readonly id: number; readonly answer: Answer };

/** Sends a message if the other process still lives; a dead process does not need it. */
export function sendTo(
  process: ChildProcess | NodeJS.Process,
  message: WorkerOrder | WorkerReport,
  handle?: SendHandle,
): void {
  if (!process.connected) return;
  // `keepOpen` keeps the socket open here until the worker confirms its arrival.
  (process as ChildProcess).send(message, handle, { keepOpen: true }, () => undefined);
}

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url));
/** Time in which a worker has to answer a question. */
const ANSWER_MS = 1000;

/** Time beyond `shutdownSeconds` after which a worker is killed. */
const KILL_DELAY_MS = 5000;

/** A worker that sends nothing for `misses` times `intervalMs`, while it is asked once each interval, hangs. */
export interface Heartbeat {
  readonly intervalMs: number;
  readonly misses: number;
}

/** Long enough for a worker that is merely busy, or that waits for a slow disk. */
export const HEARTBEAT: Heartbeat = { intervalMs: 1000, misses: 30 };

export interface WorkerOwner {
  /** The worker asks the other processes a question. */
  onQuestion(asker: WorkerProcess, question: Question): Promise<Answer[]>;
  /** A connection of the worker was closed. */
  onConnectionClosed?(worker: WorkerProcess): void;
  /** The worker has ended. `arrivals` are sockets that did not reach it. */
  onWorkerEnd(worker: WorkerProcess, reason: string, arrivals: IncomingSocket[]): void;
}

export class WorkerProcess implements Member {
  readonly number: number;
  /** Resolves when the worker serves, rejects when it ends before. */
  readonly whenReady: Promise<void>;
  /** Resolves after `onWorkerEnd` of the owner. */
  readonly whenEnded: Promise<void>;
  connectionCount = 0;
  /** Whether the worker gets no new connections and ends with its last one. */
  isDraining = false;
  #isServing = false;
  #hasEnded = false;
  counts: Counts | undefined;
  /** Undefined when the process could not be started. */
  readonly #process: ChildProcess | undefined;
  readonly #owner: WorkerOwner;
  readonly #unconfirmedSockets = new Map<number, IncomingSocket>();
  readonly #answerResolvers = new Map<number, (answer: Answer | undefined) => void>();
  #lastId = 0;
  #failure: string | undefined;
  /** Intervals since the last message of the worker. */
  #missedCount = 0;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #resolveEnded!: () => void;
  #readyCallbacks!: { readonly resolve: () => void; readonly reject: (error: Error) => void };

  constructor(worker: number, settings: Settings, owner: WorkerOwner, log: Logger, heartbeat = HEARTBEAT) {
    this.number = worker;
    this.#owner = owner;
    this.whenReady = new Promise((resolve, reject) => {
      this.#readyCallbacks = { resolve, reject };
    });
    this.whenEnded = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    this.#process = this.#forkProcess();
    this.#send({ type: 'start', worker, settings });
    this.whenReady.then(
      () => this.#startHeartbeat(log, heartbeat),
      () => undefined,
    );
  }

  /** Kills the worker when it hangs. Counts intervals, not time: none pass while this process itself stands still. */
  #startHeartbeat(log: Logger, { intervalMs, misses }: Heartbeat): void {
    const check = (): void => {
      if (this.#missedCount++ < misses) {
        this.#send({ type: 'question', id: this.#lastId++, question: { about: 'serving' } });
        return;
      }
      clearInterval(this.#heartbeatTimer);
      const silentSeconds = Math.round((misses * intervalMs) / 1000);
      log.error({ worker: this.number, pid: this.pid, silentSeconds }, 'a worker does not answer; it is killed');
      this.kill();
    };
    this.#heartbeatTimer = setInterval(check, intervalMs).unref();
  }

  /** Starts the process. A thrown failure is reported later, once the owner has this object from the constructor. */
  #forkProcess(): ChildProcess | undefined {
    try {
      const child = fork(PROGRAM, [], { serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      this.#listen(child);
      return child;
    } catch (error) {
      setImmediate(() => this.#handleEnd((error as Error).message));
      return undefined;
    }
  }

  #listen(child: ChildProcess): void {
    child.on('message', (report: WorkerReport) => this.#handleReport(report));
    child.on('error', (error) => {
      this.#failure ??= error.message;
      // A started process lives until its exit event.
      if (child.pid === undefined) this.#handleEnd(error.message);
    });
    child.once('exit', (code, signal) => {
      const handleEnd = (): void => this.#handleEnd(this.#failure ?? `ended with ${signal ?? `code ${code}`}`);
      // The last messages may still arrive before the disconnect.
      if (child.connected) child.once('disconnect', handleEnd);
      else handleEnd();
    });
  }

  get isReady(): boolean {
    return this.#isServing;
  }

  get acceptsConnections(): boolean {
    return this.#isServing && !this.isDraining;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  #send(order: WorkerOrder, socket?: Socket): void {
    if (this.#process) sendTo(this.#process, order, socket);
  }

  assign(arrival: IncomingSocket, elsewhere: number): void {
    const id = this.#lastId++;
    this.#unconfirmedSockets.set(id, arrival);
    this.connectionCount++;
    this.#send({ type: 'socket', id, index: arrival.index, elsewhere }, arrival.socket);
  }

  async ask(question: Question): Promise<Answer | undefined> {
    const id = this.#lastId++;
    const answer = await new Promise<Answer | undefined>((resolve) => {
      this.#answerResolvers.set(id, resolve);
      this.#send({ type: 'question', id, question });
      setTimeout(resolve, ANSWER_MS, undefined).unref();
    });
    this.#answerResolvers.delete(id);
    if (answer?.counts) this.counts = answer.counts;
    return answer;
  }

  renewCertificate(): void {
    this.#send({ type: 'renewCertificate' });
  }

  /** Lets the worker answer the requests it has begun. A worker that does not serve yet is killed. */
  stop(): void {
    if (this.#isServing) this.#send({ type: 'stop' });
    else this.kill();
  }

  kill(): void {
    // Without a process id, `kill` would signal the whole process group.
    if (this.pid !== undefined) this.#process?.kill('SIGKILL');
  }

  #handleReport(report: WorkerReport): void {
    this.#missedCount = 0;
    switch (report.type) {
      case 'ready':
        this.#isServing = true;
        this.#readyCallbacks.resolve();
        return;
      case 'failed':
        this.#failure = report.message;
        return;
      case 'taken':
        this.#unconfirmedSockets.get(report.id)?.socket.destroy();
        this.#unconfirmedSockets.delete(report.id);
        return;
      case 'closed':
        this.connectionCount--;
        this.#owner.onConnectionClosed?.(this);
        return;
      case 'counts':
        this.counts = report.counts;
        return;
      case 'answer':
        this.#answerResolvers.get(report.id)?.(report.answer);
        return;
      case 'question':
        void this.#owner
          .onQuestion(this, report.question)
          .then((answers) => this.#send({ type: 'answers', id: report.id, answers }));
    }
  }

  #handleEnd(reason: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#isServing = false;
    clearInterval(this.#heartbeatTimer);
    this.connectionCount = 0;
    for (const resolve of this.#answerResolvers.values()) resolve(undefined);
    this.#readyCallbacks.reject(new Error(reason));
    const arrivals = [...this.#unconfirmedSockets.values()];
    this.#unconfirmedSockets.clear();
    this.#owner.onWorkerEnd(this, reason, arrivals);
    this.#resolveEnded();
  }
}

/** Lets the workers answer pending requests, kills slow workers, and resolves when all have ended. */
export async function endWorkers(workers: Iterable<WorkerProcess>, { config }: Settings): Promise<void> {
  const workerList = [...workers];
  for (const worker of workerList) worker.stop();
  const killTimer = setTimeout(
    () => {
      for (const worker of workerList) worker.kill();
    },
    config.shutdownSeconds * 1000 + KILL_DELAY_MS,
  );
  await Promise.all(workerList.map((worker) => worker.whenEnded));
  clearTimeout(killTimer);
}

/** Signals that end a process with damaged LMDB pages. SIGABRT is not included: it also means out of memory. */
const CRASH_SIGNAL = /\bSIG(?:SEGV|BUS)\b/;

/** Stops all writes when a worker may have crashed because of damaged data. */
export function holdWritesAfterCrash({ store, config }: Settings, worker: number, reason: string, log: Logger): void {
  if (!CRASH_SIGNAL.test(reason) || !config.readOnlyWhenDamaged || isHBaseUrl(store)) return;
  holdWrites(store, `a server process ${reason}`);
  log.error(
    { worker, reason },
    'a worker crashed as damaged data makes it crash; nothing is written until "rowan check" finds no breach',
  );
}
