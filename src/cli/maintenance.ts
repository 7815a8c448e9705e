import type { Logger } from 'pino';
import type { Partition } from '../partition/index.js';
import type { Config } from '../server/settings/index.js';

/** How often indexes that are not finished are looked for, and old history is cleared away, in milliseconds. */
const EVERY = { indexes: 60_000, history: 3_600_000 };

/**
 * What a serving process does beside serving: finishes indexes whose building was interrupted, says when the directory
 * has another schema than the server, and removes change records and deleted entries that are older than the
 * configuration keeps them.
 */
export class Maintenance {
  readonly #partition: Partition;
  readonly #config: Config;
  readonly #log: Logger;
  readonly #every: typeof EVERY;
  #timers: NodeJS.Timeout[] = [];
  #running: Promise<void> = Promise.resolve();
  #stopped = false;
  #toldSchema = false;

  constructor(partition: Partition, config: Config, log: Logger, every = EVERY) {
    this.#partition = partition;
    this.#config = config;
    this.#log = log;
    this.#every = every;
  }

  start(): void {
    this.#queue('indexes', () => this.#indexes());
    this.#queue('history', () => this.#history());
    this.#timers = [
      setInterval(() => this.#queue('indexes', () => this.#indexes()), this.#every.indexes),
      setInterval(() => this.#queue('history', () => this.#history()), this.#every.history),
    ];
  }

  /** Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) clearInterval(timer);
    await this.#running;
  }

  #queue(name: string, task: () => Promise<void>): void {
    this.#running = this.#running.then(async () => {
      if (this.#stopped) return;
      try {
        await task();
      } catch (error) {
        this.#log.error({ err: error, task: name }, 'maintenance failed; it is tried again later');
      }
    });
  }

  async #indexes(): Promise<void> {
    await this.#partition.refresh();
    this.#tellSchema();
    const isUnfinished = this.#partition.indexes().some((index) => index.state !== 'ready');
    // It also ends what others began to add or to drop.
    await this.#partition.buildIndexes();
    if (isUnfinished) this.#log.info('indexes that were not finished are complete');
  }

  /** Once. */
  #tellSchema(): void {
    if (this.#toldSchema || this.#partition.schemaIsCurrent) return;
    this.#toldSchema = true;
    this.#log.warn(
      'the directory has been given another schema; this server goes on with its own until it is restarted',
    );
  }

  async #history(): Promise<void> {
    const removed = await this.#partition.maintain(this.#config.history);
    this.#log.debug({ removed }, 'old history cleared');
  }
}
