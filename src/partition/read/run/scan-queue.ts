import { FairTree } from '../../../fair/fair-tree.js';
import { waitForFirstSlice } from '../../../fair/time-slice.js';
import type { Store, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import type { ScanTarget } from './range-scan.js';
import type { SearchRun } from './search-run.js';
import { type Participant, requireLimits, type ScanShare, SharedScan } from './shared-scan.js';

/** Maximum number of searches of the same client in a scan. */
const MAX_PER_CLIENT = 32;
/** Maximum number of searches in a scan: each row is tested for each search. */
const MAX_PARTICIPANTS = 128;

/**
 * Between two scans the queue waits for this share of the duration of the last scan, and for at most `MAX_WAIT_MS`:
 * clients that have just received an answer may search again, and would miss the whole next scan.
 */
const WAIT_SHARE = 1 / 16;
const MAX_WAIT_MS = 10;

/** The queues of each store, by kind and start of the range. A queue exists while searches use it. */
const queuesByStore = new WeakMap<Store, Map<string, ScanQueue>>();

/**
 * Scans a range for all searches that currently have to scan the range: reading a row costs more than evaluating a
 * filter on the row. A search that comes during a scan waits for the next scan. Otherwise the search would read a state
 * that is older than the search itself.
 */
export async function joinSharedScan(run: SearchRun, target: ScanTarget): Promise<ScanShare> {
  const room = run.params.client?.waitForDrain();
  if (isPromise(room)) await room;
  const { store } = run.context;
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
  return queue.join(run, target.filter);
}

/** Runs shared scans of a range, in sequence, until no search is waiting. */
class ScanQueue {
  readonly #store: Store;
  readonly #target: Omit<ScanTarget, 'filter'>;
  readonly #onEmpty: () => void;
  /** Searches that wait for the next scan, by client. */
  readonly #waiting = new FairTree<Participant>();
  #isRunning = false;
  /** Ends `#waitForMore` once this many searches wait. */
  #expected: { readonly count: number; readonly proceed: () => void } | undefined;

  constructor(store: Store, { range, kind }: ScanTarget, onEmpty: () => void) {
    this.#store = store;
    this.#target = { range, kind };
    this.#onEmpty = onEmpty;
  }

  join(run: SearchRun, filter: StoreFilter | undefined): Promise<ScanShare> {
    return new Promise((resolve, reject) => {
      const participant = { run, filter, containers: [], resolve, reject, hasLeft: false };
      this.#waiting.push([run.params.client ?? run], participant);
      if (this.#expected && this.#waiting.size >= this.#expected.count) this.#expected.proceed();
      if (!this.#isRunning) void this.#runScans();
    });
  }

  async #runScans(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.size > 0) {
      const pause = waitForFirstSlice();
      if (isPromise(pause)) await pause;
      const participants = this.#takeParticipants();
      if (participants.length === 0) continue;
      const began = performance.now();
      try {
        await new SharedScan(this.#store, this.#target, participants).run();
      } catch (error) {
        // The scan could not begin.
        for (const { reject } of participants) reject(error);
      }
      const count = this.#waiting.size + participants.length;
      const wait = Math.min((performance.now() - began) * WAIT_SHARE, MAX_WAIT_MS);
      if (count > 1 && wait >= 1) await this.#waitForMore(count, wait);
    }
    this.#isRunning = false;
    this.#onEmpty();
  }

  /**
   * Takes searches from the queue round-robin by client, up to the limits. Rejects searches that exceed their limits.
   */
  #takeParticipants(): Participant[] {
    const taken: Participant[] = [];
    for (let round = 0; round < MAX_PER_CLIENT; round++)
      for (let left = this.#waiting.keyCount; left > 0 && taken.length < MAX_PARTICIPANTS; left--)
        taken.push(this.#waiting.shift()!);
    return taken.filter(requireLimits);
  }

  /** Waits until `count` searches wait, for at most so many milliseconds. */
  async #waitForMore(count: number, milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      const proceed = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#expected = { count, proceed };
    });
    this.#expected = undefined;
  }
}
