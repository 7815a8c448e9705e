import type { Logger } from 'pino';
import { ownReplication } from '../../replica/report.js';
import type { Answer, Question } from '../../server/processes/siblings.js';
import { Statistics } from '../../server/processes/statistics.js';
import { onSettingsChanged } from '../../server/settings/index.js';
import { CliError } from '../exit.js';
import type { Settings } from '../options.js';
import { ConnectionBalancer, type IncomingSocket } from './members.js';
import { endWorkers, type Heartbeat, holdWritesAfterCrash, type WorkerOwner, WorkerProcess } from './worker-process.js';

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
  readonly #workerCount: number;
  readonly #log: Logger;
  readonly #heartbeat: Heartbeat | undefined;
  /** Counts the connections that are refused here. */
  readonly #statistics = new Statistics();
  readonly #balancer: ConnectionBalancer<WorkerProcess>;
  #delayMs = FIRST_DELAY_MS;
  #countTimer: NodeJS.Timeout | undefined;
  readonly #restartTimers = new Set<NodeJS.Timeout>();
  #isStarted = false;
  #isStopping = false;
  /** Kills the workers when this process exits without `close`. */
  readonly #killWorkers = (): void => {
    for (const worker of this.#balancer) worker.kill();
  };

  /** `heartbeat`: when a worker counts as hung, if not as usual. */
  constructor(settings: Settings, log: Logger, count: number, heartbeat?: Heartbeat) {
    this.#workerCount = count;
    this.#heartbeat = heartbeat;
    this.#settings = settings;
    this.#log = log;
    this.#balancer = new ConnectionBalancer(settings.config, this.#statistics);
    onSettingsChanged(settings.config, (values) => this.#balancer.askAll({ about: 'settings', values }));
    process.once('exit', this.#killWorkers);
  }

  /** Resolves with the URLs when all workers serve. Rejects when a worker cannot start. */
  async listen(): Promise<string[]> {
    const urls = await this.#balancer.listen(this.#log);
    const workers = Array.from({ length: this.#workerCount }, (_, i) => this.#startWorker(i + 1));
    try {
      await Promise.all(workers.map((worker) => worker.whenReady));
    } catch (error) {
      throw new CliError((error as Error).message, { cause: error });
    }
    this.#isStarted = true;
    for (const { isReady, number } of workers)
      if (!isReady) this.#scheduleRestart(number, 'ended while the others started');
    this.#countTimer = setInterval(() => void this.#balancer.askAll({ about: 'counts' }), COUNT_MS).unref();
    return urls;
  }

  #startWorker(number: number): WorkerProcess {
    const worker = new WorkerProcess(number, this.#settings, this, this.#log, this.#heartbeat);
    this.#balancer.add(worker);
    worker.whenReady.then(
      () => this.#onReady(worker),
      () => undefined,
    );
    return worker;
  }

  #onReady(worker: WorkerProcess): void {
    if (this.#isStarted) this.#log.info({ worker: worker.number, pid: worker.pid }, 'the worker serves');
    this.#balancer.assignWaitingSockets();
    this.#schedule(STEADY_MS, () => {
      if (worker.isReady) this.#delayMs = FIRST_DELAY_MS;
    });
  }

  #schedule(ms: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.#restartTimers.delete(timer);
      action();
    }, ms);
    this.#restartTimers.add(timer);
  }

  onQuestion(asker: WorkerProcess, question: Question): Promise<Answer[]> {
    return this.askAll(question, asker);
  }

  /** Returns the answers of all workers except `asker`, for `counts` and `replicas` with that of this process. */
  async askAll(question: Question, asker?: WorkerProcess): Promise<Answer[]> {
    const answers = await this.#balancer.askAll(question, asker);
    if (question.about === 'replicas') answers.push(ownReplication());
    return question.about === 'counts' ? [...answers, { counts: this.#statistics.counts() }] : answers;
  }

  onWorkerEnd(worker: WorkerProcess, reason: string, arrivals: IncomingSocket[]): void {
    this.#balancer.delete(worker, arrivals);
    holdWritesAfterCrash(this.#settings, worker.number, reason, this.#log);
    if (this.#isStarted && !this.#isStopping) this.#scheduleRestart(worker.number, reason);
  }

  #scheduleRestart(number: number, reason: string): void {
    this.#log.error({ worker: number, reason, againAfterMs: this.#delayMs }, 'a worker ended; it is started again');
    this.#schedule(this.#delayMs, () => void this.#startWorker(number));
    this.#delayMs = Math.min(this.#delayMs * 2, MAX_DELAY_MS);
  }

  renewCertificate(): void {
    this.#log.info('each worker reloads the certificate from its files');
    this.#balancer.renewCertificate();
  }

  /** Stops accepting, lets the workers answer pending requests, and resolves when all workers have ended. */
  async close(): Promise<void> {
    this.#isStopping = true;
    this.#balancer.close();
    for (const timer of [this.#countTimer, ...this.#restartTimers]) clearTimeout(timer);
    await endWorkers(this.#balancer, this.#settings);
    process.off('exit', this.#killWorkers);
  }
}
