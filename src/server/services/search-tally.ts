import type { Logger } from 'pino';
import { type IndexTally, keyOfMissing } from '../../partition/index/proposals.js';
import type { Partition } from '../../partition/index.js';
import type { SearchOutcome } from '../../partition/read/search-params.js';
import type { Config } from '../settings/index.js';

/** A search counts from this number of rows in vain, or from `log.slowSearchRows` where that is smaller. */
const ROWS_IN_VAIN = 200;
/** A search that lacks more indexes than these does not count: all of an OR have to be there before one serves. */
const MAX_MISSING = 5;
/** Milliseconds between two additions to the directory. */
const FLUSH_MS = 60_000;
/** The most indexes, and the most index plans, that are tallied between two additions. */
const MAX_TALLIES = 200;

/** Tallies the searches that lacked an index, and adds them to those of all processes in the directory. */
export class SearchTally {
  readonly #partition: Pick<Partition, 'addTallies'>;
  readonly #log: Logger;
  readonly #minRows: number;
  /** Whether the uses of indexes count, too. */
  readonly #countsUses: boolean;
  readonly #tallies = new Map<string, IndexTally>();
  readonly #usedPlans = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(partition: Pick<Partition, 'addTallies'>, { indexes, log: { slowSearchRows } }: Config, log: Logger) {
    this.#partition = partition;
    this.#log = log;
    this.#minRows = Math.min(ROWS_IN_VAIN, slowSearchRows || ROWS_IN_VAIN);
    this.#countsUses = indexes.auto === 'make';
  }

  count(outcome: SearchOutcome): void {
    const { entries, rowsExamined, indexNames } = outcome;
    if (this.#countsUses && indexNames !== '' && !this.#usedPlans.has(indexNames)) this.#countUse(indexNames);
    if (rowsExamined - entries < this.#minRows) return;
    const missing = outcome.missingIndexes();
    if (missing.length > MAX_MISSING) return;
    for (const index of missing) {
      const key = keyOfMissing(index);
      const known = this.#tallies.get(key);
      if (!known && this.#tallies.size >= MAX_TALLIES) continue;
      const searches = (known?.searches ?? 0) + 1;
      const rowsInVain = (known?.rowsInVain ?? 0) + rowsExamined - entries;
      this.#tallies.set(key, { ...index, searches, rowsInVain, lastSeen: Date.now() });
      this.#scheduleFlush();
    }
  }

  #countUse(indexNames: string): void {
    if (this.#usedPlans.size >= MAX_TALLIES) void this.flush();
    this.#usedPlans.add(indexNames);
    this.#scheduleFlush();
  }

  #scheduleFlush(): void {
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS).unref();
  }

  /** Adds the tallies to the directory. After a failure they are lost: a few minutes do not change the proposals. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const tallies = [...this.#tallies.values()];
    const usedNames = new Set([...this.#usedPlans].flatMap((names) => names.split(/[ ,]/)));
    this.#tallies.clear();
    this.#usedPlans.clear();
    if (tallies.length === 0 && usedNames.size === 0) return;
    try {
      await this.#partition.addTallies(tallies, usedNames, Date.now());
    } catch (error) {
      this.#log.warn({ err: error }, 'searches of the last minute that lacked an index are not noted');
    }
  }
}
