import { isAtOrBelow } from '../../access/requester.js';
import { parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import { AccessLog, SUCCESS_CODES } from '../logs/access-log.js';
import type { FinishedOperation, Observer } from '../observation/observation.js';
import type { BusyClient, OperationFilter, SlowSearch, TopSample, WatchedLines } from '../processes/siblings.js';
import type { Statistics } from '../processes/statistics.js';
import { filterShape } from '../services/search-tally.js';
import type { Services } from '../services/services.js';

/** Most lines, and most characters of lines, that wait for the watcher. */
const MAX_LINES = 10_000;
const MAX_CHARACTERS = 4 * 1024 * 1024;

/** Keeps the wanted operations as lines until the watcher asks. */
export class OperationLines implements Observer {
  readonly #filter: OperationFilter;
  readonly #base: Dn | undefined;
  readonly #schema: Schema;
  readonly #log: AccessLog;
  #lines: string[] = [];
  #characterCount = 0;
  #droppedCount = 0;

  constructor(filter: OperationFilter, schema: Schema, workerNumber: number | undefined) {
    this.#filter = { ...filter, who: filter.who?.toLowerCase() };
    this.#base = filter.base === undefined ? undefined : schema.parseDn(filter.base);
    this.#schema = schema;
    this.#log = new AccessLog(this, { slowerThan: 0, sample: 1 }, workerNumber);
  }

  onOperation(operation: FinishedOperation): void {
    if (!this.#isWanted(operation)) return;
    if (this.#lines.length >= MAX_LINES || this.#characterCount >= MAX_CHARACTERS) this.#droppedCount++;
    else this.#log.onOperation(operation);
  }

  append(bytes: Buffer): void {
    const line = bytes.toString();
    this.#characterCount += line.length;
    this.#lines.push(line);
  }

  #isWanted(operation: FinishedOperation): boolean {
    const { op, who, client, slowerThanMs, isFailed } = this.#filter;
    if (op !== undefined && op !== operation.op) return false;
    if (slowerThanMs !== undefined && operation.waitMs + operation.workMs < slowerThanMs) return false;
    if (isFailed && SUCCESS_CODES.has(operation.result.code) && !operation.isAbandoned) return false;
    if (client !== undefined && !operation.address?.startsWith(client)) return false;
    if (who === undefined && !this.#base) return true;
    const target = operation.description()?.target;
    const clientName = operation.op === 'bind' ? (target ?? '') : operation.boundAs;
    if (who !== undefined && !clientName.toLowerCase().includes(who)) return false;
    return !this.#base || (target !== undefined && this.#isBelowBase(target, this.#base));
  }

  #isBelowBase(target: string, base: Dn): boolean {
    try {
      return isAtOrBelow(this.#schema.parseDn(target), base);
    } catch (error) {
      if (error instanceof LdapError) return false;
      throw error;
    }
  }

  take(): WatchedLines {
    const taken = { lines: this.#lines, droppedCount: this.#droppedCount };
    this.#lines = [];
    this.#characterCount = this.#droppedCount = 0;
    return taken;
  }
}

const MAX_SEARCHES = 20;
const MAX_CLIENTS = 1000;
/** Clients in a sample. */
const SAMPLE_CLIENTS = 20;
/** A faster search is not worth the description of its request. */
const MIN_SLOW_MS = 1;

/** Collects the figures of operations for `rowan top`. */
class TopTally implements Observer {
  readonly #statistics: Statistics;
  #highestMs: Partial<Record<FinishedOperation['op'], number>> = {};
  readonly #searches = new Map<string, SlowSearch>();
  #clients = new Map<string, { -readonly [K in keyof BusyClient]: BusyClient[K] }>();

  constructor(statistics: Statistics) {
    this.#statistics = statistics;
  }

  onOperation(operation: FinishedOperation): void {
    const { op, workMs, address, boundAs } = operation;
    this.#highestMs[op] = Math.max(this.#highestMs[op] ?? 0, workMs);
    const key = `${address} ${boundAs}`;
    const client = this.#clients.get(key);
    if (client) {
      client.operationCount++;
      client.workMs += workMs;
    } else if (this.#clients.size < MAX_CLIENTS)
      this.#clients.set(key, { address, boundAs, operationCount: 1, workMs });
    if (operation.search && (workMs >= MIN_SLOW_MS || this.#searches.size === 0)) this.#addSearch(operation);
  }

  #addSearch({ search, workMs, entryCount, description }: FinishedOperation): void {
    const slowest = [...this.#searches].sort(([, a], [, b]) => a.workMs - b.workMs);
    if (slowest.length >= MAX_SEARCHES && workMs <= slowest[0]![1].workMs) return;
    const { filter, target: base = '', scope = '' } = description() ?? {};
    const shape = shapeOf(filter ?? '');
    const known = this.#searches.get(shape);
    if (known && known.workMs >= workMs) return;
    if (!known && slowest.length >= MAX_SEARCHES) this.#searches.delete(slowest[0]![0]);
    const { plan, rowsExamined, advice } = search!;
    const adviceText = plan === 'index' ? undefined : advice();
    this.#searches.set(shape, { shape, base, scope, plan, rowsExamined, entryCount, workMs, advice: adviceText });
  }

  take(): TopSample {
    const sample = {
      counts: this.#statistics.counts(),
      highestMs: this.#highestMs,
      slowSearches: [...this.#searches.values()].sort((a, b) => b.workMs - a.workMs),
      clients: [...this.#clients.values()].sort((a, b) => b.operationCount - a.operationCount).slice(0, SAMPLE_CLIENTS),
    };
    this.#highestMs = {};
    this.#clients = new Map();
    return sample;
  }
}

/** `filter` is a text that may have been cut. */
function shapeOf(filter: string): string {
  try {
    return filterShape(parseFilter(filter));
  } catch (error) {
    if (error instanceof LdapError) return '(a filter too long to show)';
    throw error;
  }
}

/** Time without a question after which a watch ends, in milliseconds. */
const IDLE_MS = 10_000;
const MAX_WATCHES = 64;

interface Watch<O extends Observer> {
  readonly observer: O;
  readonly timer: NodeJS.Timeout;
  readonly remove: () => void;
}

/** The observers of the watchers of this process. An observer exists only while its watcher asks. */
export class Watches {
  readonly #services: Services;
  readonly #idleMs: number;
  readonly #lines = new Map<string, Watch<OperationLines>>();
  readonly #tallies = new Map<string, Watch<TopTally>>();

  constructor(services: Services, idleMs = IDLE_MS) {
    this.#services = services;
    this.#idleMs = idleMs;
  }

  /** Returns the operations since the last call with this name. */
  lines(watcher: string, filter: OperationFilter): WatchedLines {
    const { schema, siblings } = this.#services;
    return this.#observer(
      this.#lines,
      watcher,
      () => new OperationLines(filter, schema, siblings?.workerNumber),
    ).take();
  }

  top(watcher: string): TopSample {
    return this.#observer(this.#tallies, watcher, () => new TopTally(this.#services.statistics)).take();
  }

  #observer<O extends Observer>(watches: Map<string, Watch<O>>, watcher: string, make: () => O): O {
    const known = watches.get(watcher);
    known?.timer.refresh();
    return (known ?? this.#add(watches, watcher, make())).observer;
  }

  #add<O extends Observer>(watches: Map<string, Watch<O>>, watcher: string, observer: O): Watch<O> {
    if (watches.size >= MAX_WATCHES) [...watches.values()][0]!.remove();
    const stopObserving = this.#services.observation.add(observer);
    const remove = (): void => {
      clearTimeout(timer);
      stopObserving();
      watches.delete(watcher);
    };
    const timer = setTimeout(remove, this.#idleMs).unref();
    const watch = { observer, timer, remove };
    watches.set(watcher, watch);
    return watch;
  }
}
