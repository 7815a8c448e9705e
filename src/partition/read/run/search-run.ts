import { TimeSlice, waitForFirstSlice } from '../../../fair/time-slice.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { chain, isPromise } from '../../../store/maybe.js';
import { EMPTY } from '../../../store/row.js';
import type { Node } from '../../model/tables.js';
import { type Sight, seenRow } from '../../model/viewer.js';
import { dnOf } from '../../tree/master-row.js';
import { ROOT } from '../../tree/nodes.js';
import type { Candidate, CompiledFilter, FilterInputs } from '../filter/compiled-filter.js';
import { IdSet } from '../plan/id-set.js';
import type { IndexPlan, PlanContext } from '../plan/index-plan.js';
import { lookLimitError, requireTime, type SearchParams, type SearchPlan, sizeLimitError } from '../search-params.js';
import type { Hit, MembersRow, SearchSink } from '../sink.js';
import { Areas, CLOCK_INTERVAL } from './area.js';
import { formatResume, type PlanKind, pathHash, type Resume } from './page.js';
import type { Chains, PreparedSearch, SearchContext } from './search-context.js';
import { countVisibleChildren, hasVisibleChild } from './visible-children.js';

/** The entry that a search is examining. `row` has the attributes that the viewer may search by. */
export interface ExaminedEntry extends Candidate {
  id: Buffer;
  /** The master row with all attributes. */
  storedRow: Buffer;
  /** Whether `storedRow` has only the part of a split row that the filter needs, and more is to be returned. */
  isPartial: boolean;
  parent: Node;
  kind: PlanKind;
  /** The key after which the next page starts, if this entry is the last of its page (`Resume`). */
  key: Buffer;
}

/** Returns an empty object, which a search fills in for each candidate. One made by a spread would be slow. */
function emptyEntry(): ExaminedEntry {
  return {
    row: EMPTY,
    dn: EMPTY,
    hasSubordinates: false,
    numSubordinates: 0,
    sight: undefined,
    largeValues: undefined,
    namedGroups: undefined,
    id: EMPTY,
    storedRow: EMPTY,
    isPartial: false,
    parent: ROOT,
    kind: 'b',
    key: EMPTY,
  };
}

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
  /** Whether the entries of the result are subentries; undefined: they may be. */
  readonly findsSubentries: boolean | undefined;
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
    { filter, inputs, chains, base, hasSubentries }: PreparedSearch,
  ) {
    this.context = context;
    this.params = params;
    this.filter = filter;
    this.inputs = inputs;
    this.chains = chains;
    if (params.subentries === 'only' || hasSubentries)
      this.findsSubentries = params.subentries && params.subentries === 'only';
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

/** Passes the entries and references of one search to its sink, up to size limit and page size. */
class SearchOutput {
  entries = 0;
  /** Put before the entry's key in the resume cookie. */
  keyPrefix: Buffer = EMPTY;
  /** Resume cookie for the next page; undefined unless this page is full. */
  resume: Buffer | undefined;
  readonly #context: SearchContext;
  readonly #params: SearchParams;
  readonly #sink: SearchSink;
  readonly #areas: Areas;
  /** Position of the last returned entry, and its parent. */
  #lastPosition: Resume | undefined;
  #lastParent: Node | undefined;
  #hasReferences = false;
  /** Ids of the returned entries. Only set if `#isRepeated` needs them. */
  #passedIds: IdSet | undefined;

  constructor(context: SearchContext, params: SearchParams, sink: SearchSink, areas: Areas) {
    this.#context = context;
    this.#params = params;
    this.#sink = sink;
    this.#areas = areas;
  }

  get hasBegun(): boolean {
    return this.entries > 0 || this.#hasReferences;
  }

  passReference(urls: readonly string[]): Maybe<void> {
    this.#hasReferences = true;
    return this.#sink.reference(urls);
  }

  /** Passes on an entry of area number `areaIndex`, or ends a full page. Throws `sizeLimitExceeded`. */
  passEntry({ id, storedRow, parent, kind, key, sight }: ExaminedEntry, areaIndex: number): Maybe<void> {
    const { sizeLimit, pageSize } = this.#params;
    if ((kind === 's' || kind === 't') && this.#isRepeated(id)) return;
    if (sizeLimit > 0 && this.entries >= sizeLimit) throw sizeLimitError();
    if (pageSize !== undefined && this.entries >= pageSize) {
      this.#endPage();
      return;
    }
    this.entries++;
    if (pageSize !== undefined) {
      this.#lastPosition = { areaIndex, kind, key: Buffer.concat([this.keyPrefix, key]) };
      this.#lastParent = parent;
    }
    const row = seenRow(this.#context.descriptions, storedRow, sight, 'read');
    return this.#sink.entry(new SearchHit(this.#context, this.#params, id, row, dnOf(storedRow, parent), sight));
  }

  /** A scan without snapshot can meet an entry twice: the entry is moved meanwhile. */
  #isRepeated(id: Buffer): boolean {
    if (this.#context.store.supports.snapshot) return false;
    this.#passedIds ??= new IdSet();
    return !this.#passedIds.add(id, 0);
  }

  /** Ends a full page when another entry matches: the next page starts after the last returned entry. */
  #endPage(): void {
    const lastPosition = this.#lastPosition ?? { areaIndex: 0, kind: 'b', key: EMPTY };
    const isBelow = lastPosition.kind === 's' && lastPosition.key.length > 0;
    const base = this.#areas.areaAt(lastPosition.areaIndex).node;
    const key = isBelow ? Buffer.concat([pathHash(this.#lastParent!, base), lastPosition.key]) : lastPosition.key;
    this.resume = formatResume({ ...lastPosition, key });
  }
}

export class SearchHit implements Hit {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly dn: Buffer;
  readonly sight: Sight | undefined;
  readonly #context: SearchContext;
  readonly #params: SearchParams;

  constructor(
    context: SearchContext,
    params: SearchParams,
    id: Buffer,
    row: Buffer,
    dn: Buffer,
    sight: Sight | undefined,
  ) {
    this.#context = context;
    this.#params = params;
    this.id = id;
    this.row = row;
    this.dn = dn;
    this.sight = sight;
  }

  hasSubordinates(): Maybe<boolean> {
    return hasVisibleChild(this.#context, this.#context.store, this.#params.viewer, this);
  }

  numSubordinates(): Maybe<number> {
    return countVisibleChildren(this.#context, this.#context.store, this.#params.viewer, this);
  }

  memberOf(): Maybe<Buffer[]> {
    const { schema, membershipsOf } = this.#context;
    const { viewer, directGroupsOnly } = this.#params;
    const member = { id: Buffer.from(this.id), dn: schema.parseDnBytes(this.dn) };
    return chain(membershipsOf(member, viewer, 'read', directGroupsOnly), (groups) =>
      Array.from(groups.values(), ({ dn }) => dn),
    );
  }

  async withMembers(limit: number): Promise<MembersRow> {
    const { schema, rowWithMembers } = this.#context;
    const { row, sight } = this;
    const { viewer, manageDsaIT } = this.#params;
    const mayRead = !sight || sight.all('read') || sight.allows('read', schema.requireDescription('member'));
    if (manageDsaIT || !mayRead) return { row, hasMore: false };
    return rowWithMembers(row, viewer, this.#params, limit);
  }
}
