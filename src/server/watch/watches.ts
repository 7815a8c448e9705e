import type { Observer } from '../observation/finished-operation.js';
import type { OperationFilter, TopSample, WatchedLines } from '../processes/watch.js';
import type { Services } from '../services/services.js';
import { OperationLines } from './operation-lines.js';
import { TopTally } from './top-tally.js';

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
