import type { Logger } from 'pino';
import { Scheduler } from '../jobs/index.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Partition } from '../partition/index.js';
import { logOutages } from '../server/services/outages.js';
import type { Config } from '../server/settings/index.js';
import { StoreError } from '../store/store-error.js';
import { listJobs } from './jobs.js';

/** Milliseconds between two checks for unfinished work. */
const INTERVAL_MS = 60_000;

/**
 * Background work of a serving process: runs jobs, finishes interrupted index builds, enforces uniqueness constraints
 * once their conflicts are gone, and updates references. Warns when the schema of the directory has changed.
 */
export class Maintenance {
  readonly #partition: Partition;
  readonly #log: Logger;
  readonly #intervalMs: number;
  readonly #scheduler: Scheduler;
  #timer: NodeJS.Timeout | undefined;
  #queueEnd: Promise<void> = Promise.resolve();
  #isStopped = false;
  #hasWarnedOfSchema = false;

  constructor(partition: Partition, config: Config, log: Logger, everyMs = INTERVAL_MS, settingsFile?: string) {
    this.#partition = partition;
    this.#log = log;
    this.#intervalMs = everyMs;
    this.#scheduler = new Scheduler(partition.store, () => listJobs(partition, config, log, settingsFile), {
      logResult: (job, result, ms) => this.#log.info({ job, ms: Math.round(ms) }, result),
      logFailure: (job, error) => this.#logFailure(job, error, 'a job failed'),
    });
    logOutages(partition, log);
  }

  start(): void {
    this.#enqueue('tables', () => this.#partition.noteMissingTables());
    this.#queueAll();
    this.#timer = setInterval(() => this.#queueAll(), this.#intervalMs);
    this.#scheduler.start();
  }

  #queueAll(): void {
    this.#enqueue('indexes', () => this.#finishIndexes());
    this.#enqueue('unique', () => this.#finishConstraints());
    this.#enqueue('references', () => this.#updateReferences());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await Promise.all([this.#scheduler.stop(), this.#queueEnd]);
  }

  #enqueue(name: string, task: () => Promise<void>): void {
    this.#queueEnd = this.#queueEnd.then(async () => {
      if (this.#isStopped) return;
      try {
        await task();
      } catch (error) {
        this.#logFailure(name, error, 'maintenance failed; it is tried again later');
      }
    });
  }

  /** Logs a failure. During an outage of the store or with a full disk, which are logged once elsewhere, in short. */
  #logFailure(task: string, error: unknown, message: string): void {
    const cause = error instanceof LdapError ? error.cause : error;
    const isOutage = cause instanceof StoreError && (cause.code === 'unavailable' || cause.code === 'full');
    if (!isOutage) this.#log.error({ err: error, task }, message);
    else if (!this.#partition.outage.isReported)
      this.#log.error({ task }, `${message}: ${cause.message.split('\n', 1)[0]}`);
  }

  async #finishIndexes(): Promise<void> {
    await this.#partition.refresh();
    this.#warnOfNewSchema();
    const hasUnfinished = this.#partition.indexes().some((index) => index.state === 'building');
    // Also finishes indexes that other processes began to add or to drop.
    await this.#partition.buildIndexes();
    if (hasUnfinished) this.#log.info('indexes that were not finished are complete');
  }

  async #finishConstraints(): Promise<void> {
    const waitingConstraints = this.#partition.uniqueConstraints().filter(({ record }) => !record.ready);
    // Also deletes the rows of removed constraints.
    await this.#partition.finishUnique();
    for (const { record, text } of this.#partition.uniqueConstraints()) {
      if (record.ready && waitingConstraints.some((one) => one.record.number === record.number))
        this.#log.info({ constraint: record.number }, `values are unique from now on: ${text}`);
    }
  }

  /** Updates references left by a process that ended or lost the store. */
  async #updateReferences(): Promise<void> {
    const changes = await this.#partition.settleReferences();
    if (changes > 0) this.#log.info({ changes }, 'references follow the names that entries have now');
  }

  #warnOfNewSchema(): void {
    if (this.#hasWarnedOfSchema || this.#partition.schemaIsCurrent) return;
    this.#hasWarnedOfSchema = true;
    this.#log.warn(
      'the directory has been given another schema; this server goes on with its own until it is restarted',
    );
  }
}
