import type { Logger } from 'pino';
import type { Answer, Question } from '../../server/processes/siblings.js';
import { Statistics } from '../../server/processes/statistics.js';
import { CliError } from '../exit.js';
import type { Settings } from '../options.js';
import { holdAfterCrash } from './crash.js';
import { type Arrival, Members } from './members.js';
import { endWorkers, type WorkerOwner, WorkerProcess } from './worker-process.js';

/** A worker that ends is started again after this time, which doubles up to the longest while they go on ending … */
const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 30_000;
/** … sooner than this. */
const STEADY_MS = 60_000;
/** How often the counts of the workers are taken, in case one is killed. */
const COUNT_MS = 1000;

/**
 * A given number of processes that serve one directory on the same URLs. This one accepts the connections, gives each
 * to the worker that has fewest, and starts a worker anew that has ended.
 */
export class Supervisor implements WorkerOwner {
  readonly #settings: Settings;
  readonly #count: number;
  readonly #log: Logger;
  /** What ended workers have counted. */
  readonly #statistics = new Statistics();
  readonly #workers: Members<WorkerProcess>;
  #delay = FIRST_DELAY_MS;
  #counting: NodeJS.Timeout | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();
  #started = false;
  #stopping = false;
  /** Ends the workers at once: an end without `close` leaves none behind. */
  readonly #kill = (): void => {
    for (const worker of this.#workers) worker.kill();
  };

  constructor(settings: Settings, log: Logger, count: number) {
    this.#count = count;
    this.#settings = settings;
    this.#log = log;
    this.#workers = new Members(settings.config, this.#statistics);
    process.once('exit', this.#kill);
  }

  /** Resolves with the URLs when all workers serve. Rejects when one of them cannot. */
  async listen(): Promise<string[]> {
    const urls = await this.#workers.listen(this.#log);
    const workers = Array.from({ length: this.#count }, (_, i) => this.#start(i + 1));
    try {
      await Promise.all(workers.map((worker) => worker.ready));
    } catch (error) {
      throw new CliError((error as Error).message, { cause: error });
    }
    this.#started = true;
    for (const { serves, worker } of workers) if (!serves) this.#startAgain(worker, 'ended while the others started');
    this.#counting = setInterval(() => void this.#workers.ask({ about: 'counts' }), COUNT_MS).unref();
    return urls;
  }

  #start(number: number): WorkerProcess {
    const worker = new WorkerProcess(number, this.#settings, this);
    this.#workers.add(worker);
    worker.ready.then(
      () => this.#serves(worker),
      () => undefined,
    );
    return worker;
  }

  #serves(worker: WorkerProcess): void {
    if (this.#started) this.#log.info({ worker: worker.worker, pid: worker.pid }, 'the worker serves');
    this.#workers.giveWaiting();
    this.#later(STEADY_MS, () => {
      if (worker.serves) this.#delay = FIRST_DELAY_MS;
    });
  }

  #later(ms: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, ms);
    this.#timers.add(timer);
  }

  async asked(asker: WorkerProcess, question: Question): Promise<Answer[]> {
    const answers = await this.#workers.ask(question, asker);
    return question.about === 'counts' ? [...answers, { counts: this.#statistics.counts() }] : answers;
  }

  ended(worker: WorkerProcess, reason: string, arrivals: Arrival[]): void {
    this.#workers.delete(worker);
    holdAfterCrash(this.#settings, worker.worker, reason, this.#log);
    if (worker.counts) this.#statistics.inherit(worker.counts);
    if (this.#stopping) {
      for (const { socket } of arrivals) socket.destroy();
      return;
    }
    for (const arrival of arrivals) this.#workers.give(arrival);
    if (this.#started) this.#startAgain(worker.worker, reason);
  }

  #startAgain(number: number, reason: string): void {
    this.#log.error({ worker: number, reason, againAfterMs: this.#delay }, 'a worker ended; it is started again');
    this.#later(this.#delay, () => void this.#start(number));
    this.#delay = Math.min(this.#delay * 2, LONGEST_DELAY_MS);
  }

  renewCertificate(): void {
    this.#workers.renewCertificate();
  }

  /** Accepts nothing more, lets the workers answer what they have begun, and resolves when they have ended. */
  async close(): Promise<void> {
    this.#stopping = true;
    this.#workers.close();
    for (const timer of [this.#counting, ...this.#timers]) clearTimeout(timer);
    await endWorkers(this.#workers, this.#settings);
    process.off('exit', this.#kill);
  }
}
