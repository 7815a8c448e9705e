import type { Logger } from 'pino';
import type { Answer, Question } from '../../server/processes/siblings.js';
import { Statistics } from '../../server/processes/statistics.js';
import { CliError } from '../exit.js';
import type { Settings } from '../options.js';
import { holdWritesAfterCrash } from './crash.js';
import { ConnectionBalancer, type IncomingSocket } from './members.js';
import { endWorkers, type WorkerOwner, WorkerProcess } from './worker-process.js';

/** Delay before an ended worker is restarted. The delay doubles up to the maximum with each restart … */
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 30_000;
/** … and is reset when a worker has run for this time. */
const STEADY_MS = 60_000;
/** Interval for fetching the counts of the workers, which are lost when a worker is killed. */
const COUNT_MS = 1000;

/**
 * Runs a fixed number of worker processes that serve one directory. This process accepts the connections, assigns each
 * to the worker with the fewest, and restarts workers that end.
 */
export class Supervisor implements WorkerOwner {
  readonly #settings: Settings;
  readonly #count: number;
  readonly #log: Logger;
  /** Totals of ended workers. */
  readonly #statistics = new Statistics();
  readonly #workers: ConnectionBalancer<WorkerProcess>;
  #delay = FIRST_DELAY_MS;
  #countTimer: NodeJS.Timeout | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();
  #started = false;
  #stopping = false;
  /** Kills the workers when this process exits without `close`. */
  readonly #kill = (): void => {
    for (const worker of this.#workers) worker.kill();
  };

  constructor(settings: Settings, log: Logger, count: number) {
    this.#count = count;
    this.#settings = settings;
    this.#log = log;
    this.#workers = new ConnectionBalancer(settings.config, this.#statistics);
    process.once('exit', this.#kill);
  }

  /** Resolves with the URLs when all workers serve. Rejects when a worker cannot start. */
  async listen(): Promise<string[]> {
    const urls = await this.#workers.listen(this.#log);
    const workers = Array.from({ length: this.#count }, (_, i) => this.#start(i + 1));
    try {
      await Promise.all(workers.map((worker) => worker.ready));
    } catch (error) {
      throw new CliError((error as Error).message, { cause: error });
    }
    this.#started = true;
    for (const { isReady, number } of workers)
      if (!isReady) this.#scheduleRestart(number, 'ended while the others started');
    this.#countTimer = setInterval(() => void this.#workers.askAll({ about: 'counts' }), COUNT_MS).unref();
    return urls;
  }

  #start(number: number): WorkerProcess {
    const worker = new WorkerProcess(number, this.#settings, this);
    this.#workers.add(worker);
    worker.ready.then(
      () => this.#onReady(worker),
      () => undefined,
    );
    return worker;
  }

  #onReady(worker: WorkerProcess): void {
    if (this.#started) this.#log.info({ worker: worker.number, pid: worker.pid }, 'the worker serves');
    this.#workers.assignWaiting();
    this.#schedule(STEADY_MS, () => {
      if (worker.isReady) this.#delay = FIRST_DELAY_MS;
    });
  }

  #schedule(ms: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, ms);
    this.#timers.add(timer);
  }

  async onQuestion(asker: WorkerProcess, question: Question): Promise<Answer[]> {
    const answers = await this.#workers.askAll(question, asker);
    return question.about === 'counts' ? [...answers, { counts: this.#statistics.counts() }] : answers;
  }

  onEnded(worker: WorkerProcess, reason: string, arrivals: IncomingSocket[]): void {
    this.#workers.delete(worker);
    holdWritesAfterCrash(this.#settings, worker.number, reason, this.#log);
    if (worker.counts) this.#statistics.inherit(worker.counts);
    if (this.#stopping) {
      for (const { socket } of arrivals) socket.destroy();
      return;
    }
    for (const arrival of arrivals) this.#workers.assign(arrival);
    if (this.#started) this.#scheduleRestart(worker.number, reason);
  }

  #scheduleRestart(number: number, reason: string): void {
    this.#log.error({ worker: number, reason, againAfterMs: this.#delay }, 'a worker ended; it is started again');
    this.#schedule(this.#delay, () => void this.#start(number));
    this.#delay = Math.min(this.#delay * 2, MAX_DELAY_MS);
  }

  renewCertificate(): void {
    this.#workers.renewCertificate();
  }

  /** Stops accepting, lets the workers answer pending requests, and resolves when all workers have ended. */
  async close(): Promise<void> {
    this.#stopping = true;
    this.#workers.close();
    for (const timer of [this.#countTimer, ...this.#timers]) clearTimeout(timer);
    await endWorkers(this.#workers, this.#settings);
    process.off('exit', this.#kill);
  }
}
