import { TimeSlice, waitForFirstSlice } from '../../../fair/time-slice.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import type { CompiledFilter, FilterInputs } from '../filter/compiled-filter.js';
import type { IndexPlan, PlanContext } from '../plan/index-plan.js';
import { lookLimitError, requireTime, type SearchParams, type SearchPlan } from '../search-params.js';
import type { SearchSink } from '../sink.js';
import { Areas } from './area.js';
import { CLOCK_INTERVAL } from './batch-sizes.js';
import type { Chains } from './chains.js';
import { type ExaminedEntry, emptyEntry } from './examined-entry.js';
import type { PreparedSearch, SearchContext } from './search-context.js';
import { SearchOutput } from './search-output.js';

/** The state of one search in progress. The steps of a search are in `search.ts`. */
export class SearchRun {
  readonly context: SearchContext;
  readonly params: SearchParams;
  readonly filter: CompiledFilter;
  readonly inputs: FilterInputs;
  readonly chains: Chains | undefined;
  readonly areas: Areas;
  readonly output: SearchOutput;
  readonly entry = emptyEntry();
  /** The store; a snapshot while the search runs in time slices. */
  reader: Reader;
  /** Index in `areas` of the area that is being searched. */
  areaIndex = 0;
  /** Classes whose entries are not returned: aliases when they are followed, referrals when references are returned. */
  excludedClasses: { readonly aliases: boolean; readonly referrals: boolean } | undefined;
  /** Set by paged searches over several index keys: returns true for the one key that returns the entry. */
  acceptsKey: ((entry: ExaminedEntry) => boolean) | undefined;
  plan: SearchPlan = 'index';
  rowsExamined = 0;
  /** Number of visible entries in scope that were examined. Only counted if entries may be hidden from the viewer. */
  visibleEntryCount = 0;
  /** Whether indexes could answer the search, even if a scan is cheaper. */
  isIndexed = false;
  /** Attributes of the index plan of the last area. */
  indexNames = '';
  readonly #slice: TimeSlice;

  constructor(
    context: SearchContext,
    params: SearchParams,
    sink: SearchSink,
    { filter, inputs, chains, base }: PreparedSearch,
  ) {
    this.context = context;
    this.params = params;
    this.filter = filter;
    this.inputs = inputs;
    this.chains = chains;
    this.areas = new Areas({ node: base.node, row: base.row, scope: params.scope });
    this.output = new SearchOutput(context, params, sink, this.areas);
    this.reader = context.store;
    this.#slice = new TimeSlice(params.client);
    if (params.scope === 'base') this.plan = 'base';
  }

  setIndexPlan(plan: IndexPlan | undefined): void {
    this.isIndexed = plan !== undefined;
    this.indexNames = plan?.typeNames ?? '';
  }

  get isPageFull(): boolean {
    return this.output.resume !== undefined;
  }

  /** Whether the client has not taken all entries that were sent. The search then has to wait for it. */
  get isClientBehind(): boolean {
    return this.params.client?.isFull === true;
  }

  /** Runs the work of a long search on a snapshot (if the engine has snapshots), when its first time slice begins. */
  async withSnapshot(work: () => Promise<void>): Promise<void> {
    const pause = waitForFirstSlice(this.params.client);
    if (isPromise(pause)) await pause;
    this.#slice.restart();
    const snapshot = this.context.store.snapshot();
    this.reader = snapshot;
    try {
      await work();
    } finally {
      this.reader = this.context.store;
      snapshot.close();
    }
  }

  planContext(rangeUse?: PlanContext['rangeUse']): PlanContext {
    const { shared, membersOf } = this.context;
    const inChain = this.chains?.idsInChain;
    const pause = () => this.yieldIfDue();
    return { rangeUse, indexes: shared.indexes, reader: this.reader, membersOf, inChain, pause };
  }

  /** Called between candidates. Checks the limits, and lets other work run at the end of a time slice. */
  yieldIfDue(): Maybe<void> {
    if (this.#slice.isOver) return this.checkAndYield();
  }

  /**
   * Called after each candidate: waits until it has been handled, then lets other work run at the end of a time slice.
   * The time is checked after every candidate that takes a promise, and after every `CLOCK_INTERVAL`th of the others.
   */
  afterCandidate(completion: Maybe<void>, number: number): Maybe<void> {
    if (isPromise(completion)) return completion.then(() => this.yieldIfDue());
    return number % CLOCK_INTERVAL === 0 ? this.yieldIfDue() : undefined;
  }

  /** Called between batches. Checks the limits, and lets other work run at the end of a time slice. */
  checkAndYield(): Maybe<void> {
    this.checkLimits();
    return this.#slice.yieldIfOver();
  }

  /** Throws `adminLimitExceeded`, `timeLimitExceeded` or `canceled`. */
  checkLimits(): void {
    const { lookLimit, viewer } = this.params;
    // If entries may be hidden, only visible entries count: the number of all entries would reveal that some are
    // hidden.
    if (this.rowsExamined > lookLimit && !viewer.sightOf) throw lookLimitError();
    requireTime(this.params);
  }
}
