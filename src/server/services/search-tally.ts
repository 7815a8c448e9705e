import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Filter } from '../../ldap/ldap-types.js';
import { type IndexTally, keyOfMissing } from '../../partition/index/proposals.js';
import type { Partition } from '../../partition/index.js';
import type { SearchOutcome } from '../../partition/read/search-params.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Config } from '../settings/index.js';
import { printable } from '../words/printable.js';
import type { Session } from '../words/session.js';

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

const MAX_SHAPES = 1000;
const REPEAT_AFTER_MS = 10 * 60 * 1000;

/**
 * Logs slow searches with the index that would have helped, at most once in `REPEAT_AFTER_MS` for each shape of filter.
 * Values of filters are never logged.
 */
export class SlowSearches {
  readonly #settings: Config['log'];
  readonly #log: Logger;
  readonly #loggedAtByShape = new BoundedMap<string, number>(MAX_SHAPES);

  /** `slowSearchRows`: number of examined rows without a match from which a search is slow; 0: no search is slow. */
  constructor(settings: Config['log'], log: Logger) {
    this.#settings = settings;
    this.#log = log;
  }

  logIfSlow(
    { filter, scope, base }: SearchRequest,
    { dn, connectionNumber: connection }: Session,
    outcome: SearchOutcome,
  ): void {
    const { entries, rowsExamined: looked, plan } = outcome;
    const { slowSearchRows } = this.#settings;
    if (slowSearchRows === 0 || looked - entries < slowSearchRows) return;
    const shape = printable(filterShape(filter));
    const now = performance.now();
    if (now - (this.#loggedAtByShape.get(shape) ?? Number.NEGATIVE_INFINITY) < REPEAT_AFTER_MS) return;
    this.#loggedAtByShape.set(shape, now);
    const advice = plan === 'index' ? undefined : outcome.advice();
    this.#log.warn(
      { base: printable(base), scope, filter: shape, boundAs: printable(dn), connection, plan, looked, entries },
      `slow search: looked at ${looked} rows for ${entries} ${entries === 1 ? 'entry' : 'entries'}${advice ? `; ${advice}` : ''}`,
    );
  }
}

const COMPARISON_SIGNS = { equal: '=', approx: '~=', greaterOrEqual: '>=', lessOrEqual: '<=' } as const;

/** Returns the filter with `?` in place of its values. */
export function filterShape(filter: Filter): string {
  switch (filter.type) {
    case 'and':
      return `(&${filter.filters.map(filterShape).join('')})`;
    case 'or':
      return `(|${filter.filters.map(filterShape).join('')})`;
    case 'not':
      return `(!${filterShape(filter.filter)})`;
    case 'present':
      return `(${filter.attribute}=*)`;
    case 'substring':
      return `(${filter.attribute}=*?*)`;
    case 'extensible':
      return `(${filter.attribute ?? ''}${filter.dnAttributes ? ':dn' : ''}${filter.rule ? `:${filter.rule}` : ''}:=?)`;
    default:
      return `(${filter.attribute}${COMPARISON_SIGNS[filter.type]}?)`;
  }
}
