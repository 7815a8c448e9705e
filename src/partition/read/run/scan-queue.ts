import { FairTree } from '../../../fair/fair-tree.js';
import { waitForFirstSlice } from '../../../fair/time-slice.js';
import type { Store, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import type { ScanTarget } from './range-scan.js';
import type { SearchRun } from './search-run.js';
import { type Participant, requireLimits, type ScanShare, SharedScan } from './shared-scan.js';

/** The most searches in a scan. Every row is tested for each search. */
const MAX_PARTICIPANTS = 128;
/** The most searches of one identity in a scan. */
const MAX_PER_IDENTITY = MAX_PARTICIPANTS / 2;

/**
 * Between two scans the queue waits for this fraction of the duration of the last scan, but at most `MAX_WAIT_MS`:
 * clients that have just received an answer may search again, and would otherwise miss the next scan.
 */
const WAIT_SHARE = 1 / 16;
const MAX_WAIT_MS = 10;

/** The queues of each store, by kind and start of the range. A queue exists while searches use it. */
const queuesByStore = new WeakMap<Store, Map<string, ScanQueue>>();

/**
 * Scans a range for all searches that have to scan it at this time, since reading a row costs more than evaluating a
 * filter on it. A search that arrives during a scan waits for the next one: it must not return a state older than
 * itself.
 */
export async function joinSharedScan(search: SearchRun, target: ScanTarget): Promise<ScanShare> {
  const clientReady = search.params.client?.waitForDrain();
  if (isPromise(clientReady)) await clientReady;
  const { store } = search.context;
  let queues = queuesByStore.get(store);
  if (!queues) {
    queues = new Map();
    queuesByStore.set(store, queues);
  }
  const key = `${target.kind}${target.range.from?.toString('latin1') ?? ''}`;
  let queue = queues.get(key);
  if (!queue) {
    queue = new ScanQueue(store, target, () => queues.delete(key));
    queues.set(key, queue);
  }
  return queue.join(search, target.filter);
}

/** Runs the shared scans of one range, one after another, until no search waits. */
class ScanQueue {
  readonly #store: Store;
  readonly #target: Omit<ScanTarget, 'filter'>;
  readonly #onEmpty: () => void;
  /** Searches that wait for the next scan, by identity and client. */
  readonly #queue = new FairTree<Participant>();
  #isRunning = false;
  /** Set while `#waitForSearches` waits for this number of searches. */
  #expectedSearches: { readonly count: number; readonly proceed: () => void } | undefined;

  constructor(store: Store, { range, kind }: ScanTarget, onEmpty: () => void) {
    this.#store = store;
    this.#target = { range, kind };
    this.#onEmpty = onEmpty;
  }

  join(search: SearchRun, filter: StoreFilter | undefined): Promise<ScanShare> {
    return new Promise((resolve, reject) => {
      const participant = { run: search, filter, containers: [], resolve, reject, hasLeft: false };
      const client = search.params.client ?? search;
      this.#queue.push([search.params.client?.identity?.() ?? client, client], participant);
      if (this.#expectedSearches && this.#queue.size >= this.#expectedSearches.count) this.#expectedSearches.proceed();
      if (!this.#isRunning) void this.#runScans();
    });
  }

  async #runScans(): Promise<void> {
    this.#isRunning = true;
    while (this.#queue.size > 0) {
      const pause = waitForFirstSlice();
      if (isPromise(pause)) await pause;
      const participants = this.#takeParticipants();
      if (participants.length === 0) continue;
      const startMs = performance.now();
      try {
        await new SharedScan(this.#store, this.#target, participants).run();
      } catch (error) {
        // The scan could not begin.
        for (const { reject } of participants) reject(error);
      }
      const searchCount = this.#queue.size + participants.length;
      const waitMs = Math.min((performance.now() - startMs) * WAIT_SHARE, MAX_WAIT_MS);
      if (searchCount > 1 && waitMs >= 1) await this.#waitForSearches(searchCount, waitMs);
    }
    this.#isRunning = false;
    this.#onEmpty();
  }

  /** Takes searches from the queue, by identity and client in turn, up to the limits. Rejects those over their own. */
  #takeParticipants(): Participant[] {
    const participants: Participant[] = [];
    for (let round = 0; round < MAX_PER_IDENTITY; round++)
      for (let n = this.#queue.keyCount; n > 0 && participants.length < MAX_PARTICIPANTS; n--)
        participants.push(this.#queue.shift()!);
    return participants.filter(requireLimits);
  }

  /** Waits until `count` searches are in the queue, at most for some milliseconds. */
  async #waitForSearches(count: number, milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      const proceed = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#expectedSearches = { count, proceed };
    });
    this.#expectedSearches = undefined;
  }
}
