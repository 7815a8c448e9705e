import type { Logger } from 'pino';
import { Scheduler } from '../jobs/index.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Partition } from '../partition/index.js';
import { logOutages } from '../server/services/outages.js';
import type { Config } from '../server/settings/index.js';
import { StoreError } from '../store/store-error.js';
import { jobsOf } from './jobs.js';

/** How often what is not finished is looked for, in milliseconds. */
const EVERY_MS = 60_000;

/**
 * What a serving process does beside serving: it runs the jobs, finishes indexes whose building was interrupted, puts
 * uniqueness constraints in force that have no conflicts any more, brings references up to date, and says when the
 * directory has another schema than the server.
 */
export class Maintenance {
  readonly #partition: Partition;
  readonly #log: Logger;
  readonly #everyMs: number;
  readonly #scheduler: Scheduler;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;
  #toldSchema = false;

  constructor(partition: Partition, config: Config, log: Logger, everyMs = EVERY_MS) {
    this.#partition = partition;
    this.#log = log;
    this.#everyMs = everyMs;
    this.#scheduler = new Scheduler(partition.store, jobsOf(partition, config, log), {
      done: (job, result, ms) => this.#log.info({ job, ms: Math.round(ms) }, result),
      failed: (job, error) => this.#tell(job, error, 'a job failed'),
    });
    logOutages(partition, log);
  }

  start(): void {
    this.#unfinished();
    this.#timer = setInterval(() => this.#unfinished(), this.#everyMs);
    this.#scheduler.start();
  }

  #unfinished(): void {
    this.#queue('indexes', () => this.#indexes());
    this.#queue('unique', () => this.#unique());
    this.#queue('references', () => this.#references());
  }

  /** Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await Promise.all([this.#scheduler.stop(), this.#running]);
  }

  #queue(name: string, task: () => Promise<void>): void {
    this.#running = this.#running.then(async () => {
      if (this.#stopped) return;
      try {
        await task();
      } catch (error) {
        this.#tell(name, error, 'maintenance failed; it is tried again later');
      }
    });
  }

  /** The store's silence is told once, and what it fails is no fault. */
  #tell(task: string, error: unknown, what: string): void {
    const cause = error instanceof LdapError ? error.cause : error;
    const isOutage = cause instanceof StoreError && cause.code === 'unavailable';
    if (!isOutage) this.#log.error({ err: error, task }, what);
    else if (!this.#partition.outage.isTold) this.#log.error({ task }, `${what}: ${cause.message.split('\n', 1)[0]}`);
  }

  async #indexes(): Promise<void> {
    await this.#partition.refresh();
    this.#tellSchema();
    const isUnfinished = this.#partition.indexes().some((index) => index.state !== 'ready');
    // It also ends what others began to add or to drop.
    await this.#partition.buildIndexes();
    if (isUnfinished) this.#log.info('indexes that were not finished are complete');
  }

  async #unique(): Promise<void> {
    const waiting = this.#partition.uniqueConstraints().filter(({ record }) => !record.ready);
    // It also removes the rows of those that are removed.
    await this.#partition.finishUnique();
    for (const { record, text } of this.#partition.uniqueConstraints()) {
      if (record.ready && waiting.some((one) => one.record.number === record.number))
        this.#log.info({ constraint: record.number }, `values are unique from now on: ${text}`);
    }
  }

  /** What a process left that ended, or that could not reach the store. */
  async #references(): Promise<void> {
    const changes = await this.#partition.settleReferences();
    if (changes > 0) this.#log.info({ changes }, 'references follow the names that entries have now');
  }

  /** Once. */
  #tellSchema(): void {
    if (this.#toldSchema || this.#partition.schemaIsCurrent) return;
    this.#toldSchema = true;
    this.#log.warn(
      'the directory has been given another schema; this server goes on with its own until it is restarted',
    );
  }
}
