import { type ChildProcess, fork } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Answer, Question } from '../../server/processes/siblings.js';
import type { Counts } from '../../server/processes/statistics.js';
import type { Settings } from '../options.js';
import type { Arrival, Member } from './members.js';
import { sendTo, type WorkerOrder, type WorkerReport } from './worker-messages.js';

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url));
/** A worker that does not answer a question in this time is left out. */
const ANSWER_MS = 1000;

/** What a worker may take longer than `shutdownSeconds`. */
const LATE_MS = 5000;

/** What the supervisor hears of a worker. */
export interface WorkerOwner {
  /** It has something to ask the others. */
  asked(asker: WorkerProcess, question: Question): Promise<Answer[]>;
  /** One of its connections has closed. */
  closed?(worker: WorkerProcess): void;
  /** It has ended; `arrivals` are sockets that did not reach it. */
  ended(worker: WorkerProcess, reason: string, arrivals: Arrival[]): void;
}

/** A worker process, as the supervisor has it. */
export class WorkerProcess implements Member {
  readonly worker: number;
  /** Resolves when it serves, rejects when it ends before. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended, and its owner knows. */
  readonly ended: Promise<void>;
  /** Sockets that it was given and that are not closed. */
  connections = 0;
  /** It is to be given no more connections, and to end with those that it has. */
  leaving = false;
  #ready = false;
  #hasEnded = false;
  /** As it told them last. */
  counts: Counts | undefined;
  /** Undefined where none could be started. */
  readonly #process: ChildProcess | undefined;
  readonly #owner: WorkerOwner;
  readonly #arriving = new Map<number, Arrival>();
  readonly #asked = new Map<number, (answer: Answer | undefined) => void>();
  #ids = 0;
  #failure: string | undefined;
  #tellEnd!: () => void;
  #settle!: { readonly resolve: () => void; readonly reject: (error: Error) => void };

  constructor(worker: number, settings: Settings, owner: WorkerOwner) {
    this.worker = worker;
    this.#owner = owner;
    this.ready = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.ended = new Promise((resolve) => {
      this.#tellEnd = resolve;
    });
    this.#process = this.#fork();
    this.#send({ type: 'start', worker, settings });
  }

  /** Some failures are thrown, others told later; the owner does not know this worker before it is made. */
  #fork(): ChildProcess | undefined {
    try {
      const child = fork(PROGRAM, [], { serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      this.#listen(child);
      return child;
    } catch (error) {
      setImmediate(() => this.#end((error as Error).message));
      return undefined;
    }
  }

  #listen(child: ChildProcess): void {
    child.on('message', (report: WorkerReport) => this.#heard(report));
    child.on('error', (error) => {
      this.#failure ??= error.message;
      // One that was started lives until it exits.
      if (child.pid === undefined) this.#end(error.message);
    });
    child.once('exit', (code, signal) => {
      const end = (): void => this.#end(this.#failure ?? `ended with ${signal ?? `code ${code}`}`);
      // What it has said last may still be on its way.
      if (child.connected) child.once('disconnect', end);
      else end();
    });
  }

  get serves(): boolean {
    return this.#ready;
  }

  get takes(): boolean {
    return this.#ready && !this.leaving;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  #send(order: WorkerOrder, socket?: Socket): void {
    if (this.#process) sendTo(this.#process, order, socket);
  }

  /** Hands a socket over; `elsewhere`: connections that the other workers have. */
  give(arrival: Arrival, elsewhere: number): void {
    const id = this.#ids++;
    this.#arriving.set(id, arrival);
    this.connections++;
    this.#send({ type: 'socket', id, index: arrival.index, elsewhere }, arrival.socket);
  }

  /** Undefined when it ends, or is too slow. */
  async ask(question: Question): Promise<Answer | undefined> {
    const id = this.#ids++;
    this.#send({ type: 'question', id, question });
    let late: NodeJS.Timeout | undefined;
    const answer = await new Promise<Answer | undefined>((resolve) => {
      late = setTimeout(resolve, ANSWER_MS, undefined);
      this.#asked.set(id, resolve);
    });
    clearTimeout(late);
    this.#asked.delete(id);
    if (answer?.counts) this.counts = answer.counts;
    return answer;
  }

  renewCertificate(): void {
    this.#send({ type: 'renewCertificate' });
  }

  /** Lets it answer what it has begun; one that does not serve yet ends at once. */
  stop(): void {
    if (this.#ready) this.#send({ type: 'stop' });
    else this.kill();
  }

  kill(): void {
    // Where it has no number, its handle would signal the whole group of this process.
    if (this.pid !== undefined) this.#process?.kill('SIGKILL');
  }

  #heard(report: WorkerReport): void {
    switch (report.type) {
      case 'ready':
        this.#ready = true;
        this.#settle.resolve();
        return;
      case 'failed':
        this.#failure = report.message;
        return;
      case 'taken':
        this.#arriving.get(report.id)?.socket.destroy();
        this.#arriving.delete(report.id);
        return;
      case 'closed':
        this.connections--;
        this.#owner.closed?.(this);
        return;
      case 'answer':
        this.#asked.get(report.id)?.(report.answer);
        return;
      case 'question':
        void this.#owner
          .asked(this, report.question)
          .then((answers) => this.#send({ type: 'answers', id: report.id, answers }));
    }
  }

  #end(reason: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#ready = false;
    this.connections = 0;
    for (const resolve of this.#asked.values()) resolve(undefined);
    this.#settle.reject(new Error(reason));
    const arrivals = [...this.#arriving.values()];
    this.#arriving.clear();
    this.#owner.ended(this, reason, arrivals);
    this.#tellEnd();
  }
}

/** Lets them answer what they have begun, kills those that take too long, and resolves when all have ended. */
export async function endWorkers(workers: Iterable<WorkerProcess>, { config }: Settings): Promise<void> {
  const all = [...workers];
  for (const worker of all) worker.stop();
  const late = setTimeout(
    () => {
      for (const worker of all) worker.kill();
    },
    config.shutdownSeconds * 1000 + LATE_MS,
  );
  await Promise.all(all.map((worker) => worker.ended));
  clearTimeout(late);
}
