import { TimeSlice } from '../../../fair/time-slice.js';
import { LdapError } from '../../../ldap/ldap-error.js';
import type { Maybe } from '../../../store/contract.js';
import { chain, isPromise, markHandled } from '../../../store/maybe.js';
import { isMissing, StoreError } from '../../../store/store-error.js';
import { LongWork } from '../../model/long-work.js';
import { UUID_BYTES } from '../../model/tables.js';
import { noteMissing } from '../../tree/missing-tables.js';
import { type Places, type Specials, specialsOf } from '../../tree/specials.js';
import type { CompiledFilter, FilterInputs } from '../filter/compiled-filter.js';
import { adviceFor, missingIndexes } from '../plan/advice.js';
import { type IndexPlan, type PlanContext, planIndexes, type TermReporter } from '../plan/index-plan.js';
import { sourceIds } from '../plan/sources.js';
import type { LockTimes, SearchOutcome, SearchParams } from '../search-params.js';
import type { SearchSink } from '../sink.js';
import { type Area, choosePlan, isCheap } from './area.js';
import { BaseDeletedError, followAliases, requireBase, resolveBase, searchBase, sendReferences } from './base.js';
import { examineIds, searchIndex } from './index-search.js';
import { walkIndex } from './index-walk.js';
import { parseResume, type Resume } from './page.js';
import { type PagePlan, planPages, searchPage } from './page-search.js';
import { resumeArea, scanArea } from './scope-scan.js';
import { Chains, type PreparedSearch, type SearchContext } from './search-context.js';
import { SearchRun } from './search-run.js';

/**
 * Finds entries (RFC 4511 §4.5) and passes them to `sink` in the order of the store. A short search on an embedded
 * store is complete on return.
 * ~ The search starts again, once, if before its first result an index was dropped or lost, or a cached base deleted.
 */
export function search(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  observer?: PlanObserver,
): Maybe<SearchOutcome> {
  const startedRun: StartedRun = { run: undefined };
  const retry = (error: unknown): Maybe<SearchOutcome> => {
    const isGone = error instanceof StoreError && error.code === 'noTable';
    const isStale = isGone || isMissing(error) || error instanceof BaseDeletedError;
    if (!isStale || startedRun.run?.output.hasBegun) {
      if (startedRun.run && error instanceof LdapError) params.onCut?.(outcomeOf(startedRun.run));
      throw error;
    }
    context.nodes.clear();
    const refreshed: Maybe<unknown> = isMissing(error) ? noteMissing(context, error) : context.shared.refresh();
    return chain(refreshed, () => searchOnce(context, params, sink, { run: undefined }, observer));
  };
  try {
    const outcome = searchOnce(context, params, sink, startedRun, observer);
    return isPromise(outcome) ? outcome.catch(retry) : outcome;
  } catch (error) {
    return retry(error);
  }
}

/** Receives the index plan for the base's area, for `explain`. With an observer, a plan is always made. */
export interface PlanObserver {
  readonly reportTerm: TermReporter;
  reportPlan(filter: CompiledFilter, plan: IndexPlan | undefined): void;
}

interface StartedRun {
  run: SearchRun | undefined;
}

function searchOnce(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  startedRun: StartedRun,
  observer: PlanObserver | undefined,
): Maybe<SearchOutcome> {
  // Refresh the shared state, compile the filter, find the base.
  return chain(prepare(context, params, observer), (prepared) => {
    const stage = params.order?.stage(sink);
    const search = new SearchRun(context, params, stage ?? sink, prepared);
    startedRun.run = search;
    // Add the areas of aliases, send references.
    return chain(handleSpecials(search, prepared.places), () =>
      // Plan each area, and check each candidate (`checkRow`). Matching entries go to the sink.
      chain(searchAreas(search, prepared.earlyPlan), () => chain(stage?.end(), () => finish(search))),
    );
  });
}

function prepare(
  context: SearchContext,
  params: SearchParams,
  observer: PlanObserver | undefined,
  lockTimes?: LockTimes,
): Maybe<PreparedSearch> {
  return context.shared.readFresh((early) => {
    const { filter, inputs } = context.compiler.compile(
      params.filter,
      params.viewer,
      params.ofUrl,
      params.directGroupsOnly,
      lockTimes ?? (params.readLockTimes && 'unread'),
    );
    if (inputs.needsLockTimes && params.readLockTimes && !lockTimes)
      return readLockTimes(context, filter, inputs, params).then((times) => prepare(context, params, observer, times));
    const chains = inputs.chains.length > 0 ? new Chains(context.findChainIds, params) : undefined;
    const isPlannedEarly = observer !== undefined || (early && params.scope !== 'base' && !params.pageSize);
    const earlyPlan = isPlannedEarly ? planEarly(context, filter, chains, observer) : undefined;
    return chain(specialsOf(context, context.store), (specials) =>
      chain(needsPlaces(params, specials) ? findPlaces(context, specials) : undefined, (places) =>
        chain(resolveBase(context, params, specials, places), (base) => ({
          places,
          filter,
          inputs,
          chains,
          base,
          hasSubentries: specials.hasSubentries,
          earlyPlan,
        })),
      ),
    );
  });
}

/** A filter on lock times with up to this number of other candidates reads their states, not those of all accounts. */
const FEW_CANDIDATES = 1000;

async function readLockTimes(
  { shared, store, membersOf }: SearchContext,
  filter: CompiledFilter,
  { chains }: FilterInputs,
  params: SearchParams,
): Promise<LockTimes> {
  // Chains are not followed here, and without them a plan may lack candidates.
  if (chains.length > 0) return params.readLockTimes!(params, undefined);
  const plan = await planIndexes(filter, { indexes: shared.indexes, reader: store, membersOf, rangeUse: 'none' });
  if (!plan || plan.count > FEW_CANDIDATES) return params.readLockTimes!(params, undefined);
  const lists = await Promise.all(plan.sources.map((source) => sourceIds(source, store, FEW_CANDIDATES + 1)));
  const ids = lists.flatMap((list) =>
    Array.from({ length: list.length / UUID_BYTES }, (_, i) => list.subarray(i * UUID_BYTES, (i + 1) * UUID_BYTES)),
  );
  return params.readLockTimes!(params, ids);
}

/** Whether the search needs the positions of aliases (to follow them) or of referrals (to return references). */
function needsPlaces(
  { deref, manageDsaIT }: SearchParams,
  { hasAliases: aliases, hasReferrals: referrals }: Specials,
): boolean {
  return (aliases && deref !== 'never') || (referrals && !manageDsaIT);
}

function findPlaces(context: SearchContext, specials: Specials): Maybe<Places> {
  const slice = new TimeSlice();
  return specials.places(context, context.store, () => slice.yieldIfOver());
}

/** Starts to plan before the base is found. Saves a round trip if rows are on servers. */
function planEarly(
  context: SearchContext,
  filter: CompiledFilter,
  chains: Chains | undefined,
  observer: PlanObserver | undefined,
): PreparedSearch['earlyPlan'] | undefined {
  const { shared, store: reader, membersOf } = context;
  const planContext: PlanContext = {
    indexes: shared.indexes,
    reader,
    membersOf,
    inChain: chains?.idsInChain,
    reportTerm: observer?.reportTerm,
  };
  const plan = planIndexes(filter, planContext);
  if (!observer) return isPromise(plan) ? markHandled(plan) : undefined;
  const report = (made: IndexPlan | undefined): IndexPlan | undefined => {
    observer.reportPlan(filter, made);
    return made;
  };
  return markHandled(Promise.resolve(plan).then(report));
}

/** Adds the areas of aliases, and sends references for referrals. Most areas contain neither. */
function handleSpecials(search: SearchRun, places: Places | undefined): Maybe<void> {
  const { params, areas } = search;
  const { scope, deref, manageDsaIT } = params;
  if (!places || scope === 'base') return;
  const hasPlace = (kind: 'alias' | 'referral') =>
    places.nodesBelow(kind, areas.areaAt(0).node, scope === 'one').length > 0;
  const followsAliases = (deref === 'searching' || deref === 'always') && hasPlace('alias');
  const sendsReferrals = !manageDsaIT && (followsAliases || hasPlace('referral'));
  if (!followsAliases && !sendsReferrals) return;
  search.excludedClasses = { aliases: followsAliases, referrals: sendsReferrals };
  return chain(followsAliases ? followAliases(search, places) : undefined, () =>
    sendsReferrals && !params.resume && !params.candidates ? sendReferences(search, places) : undefined,
  );
}

/** Searches the areas one after another. An entry in several areas is returned once. */
function searchAreas(search: SearchRun, earlyPlan: PreparedSearch['earlyPlan']): Maybe<void> {
  const { walk, candidates } = search.params;
  if (candidates) return examineIds(search, candidates);
  if (walk) return walkIndex(search, walk);
  const resume = search.params.resume && parseResume(search.params.resume);
  if (!resume && search.areas.length === 1) return searchArea(search, search.areas.areaAt(0), undefined, earlyPlan);
  return searchAllAreas(search, resume, earlyPlan);
}

async function searchAllAreas(
  search: SearchRun,
  resume: Resume | undefined,
  earlyPlan: PreparedSearch['earlyPlan'],
): Promise<void> {
  for (
    search.areaIndex = resume?.areaIndex ?? 0;
    search.areaIndex < search.areas.length && !search.isPageFull;
    search.areaIndex++
  ) {
    const areaResume = resume?.areaIndex === search.areaIndex ? resume : undefined;
    const plan = search.areaIndex === 0 ? earlyPlan : undefined;
    const completion = searchArea(search, search.areas.areaAt(search.areaIndex), areaResume, plan);
    if (isPromise(completion)) await completion;
    const pause = search.yieldIfDue();
    if (isPromise(pause)) await pause;
  }
}

/** Searches one area by the cheapest plan: the base entry, an index or a scan. `resume`: end of the previous page. */
function searchArea(
  search: SearchRun,
  area: Area,
  resume: Resume | undefined,
  earlyPlan: Promise<IndexPlan | undefined> | undefined,
): Maybe<void> {
  if (area.scope === 'base') return resume ? undefined : searchBase(search, area);
  switch (resume?.kind) {
    case 's':
    case 't':
      return search.withSnapshot(async () => {
        search.isIndexed =
          search.params.viewer.sightOf !== undefined &&
          (await planPages(search.filter, search.planContext())) !== undefined;
        await resumeArea(search, area, resume.kind as 's' | 't', resume.key);
      });
    case 'i':
    case 'r':
      search.isIndexed = true;
      return search.withSnapshot(async () => searchPage(search, undefined, resume));
  }
  if (search.params.pageSize !== undefined)
    return chain(planPages(search.filter, search.planContext()), (plan) => searchFirstPage(search, area, plan));
  return chain(earlyPlan ?? planIndexes(search.filter, search.planContext()), (plan) => {
    search.setIndexPlan(plan);
    // A few candidates are read without a pause, in one state of the store.
    if (plan && isCheap(plan.count)) return searchIndex(search, plan);
    return searchByCheaperPlan(search, area, plan);
  });
}

async function searchFirstPage(search: SearchRun, area: Area, plan: PagePlan | undefined): Promise<void> {
  search.setIndexPlan(plan);
  const planKind = await choosePlan(search.reader, area, plan);
  if (planKind === 'scope') return scanArea(search, area);
  return search.withSnapshot(async () => searchPage(search, plan, undefined));
}

async function searchByCheaperPlan(search: SearchRun, area: Area, plan: IndexPlan | undefined): Promise<void> {
  const planKind = await choosePlan(search.reader, area, plan);
  if (planKind === 'scope') return scanArea(search, area);
  return workOrOffload(search, plan!.count, () => search.withSnapshot(async () => searchIndex(search, plan!)));
}

/** Returns the outcome. If nothing was found, checks that the base entry still exists. */
function finish(search: SearchRun): Maybe<SearchOutcome> {
  const { params, areas } = search;
  const outcome = outcomeOf(search);
  if (outcome.entries > 0 || params.resume) return outcome;
  return chain(requireBase(search, areas.areaAt(0).node), () => outcome);
}

function outcomeOf(search: SearchRun): SearchOutcome {
  const { context, filter, output, rowsExamined, plan } = search;
  const { entries, resume } = output;
  return {
    entries,
    rowsExamined,
    resume,
    plan,
    indexNames: plan === 'index' ? search.indexNames : '',
    missingIndexes: () => missingIndexes(context.shared.indexes, filter),
    advice: () => adviceFor(context.shared.indexes, filter),
  };
}

/** From this number on, index candidates take some milliseconds. */
const MANY_CANDIDATES = 256;

/** Number of searches with many candidates that are running in this thread. */
let searchCount = 0;

/**
 * Runs `work`, which examines `candidates` entries. Throws `LongWork` instead if these are many, another thread has
 * time, and no entry has been returned.
 */
async function workOrOffload(search: SearchRun, candidates: number, work: () => Promise<void>): Promise<void> {
  const { context, params, output } = search;
  // If rows are spread over servers, the search mostly waits for rows, and does not block this thread.
  if (candidates < MANY_CANDIDATES || context.store.supports.spread) return work();
  if (!output.hasBegun && params.otherThreads?.hasTime(searchCount)) throw new LongWork();
  searchCount++;
  try {
    await work();
  } finally {
    searchCount--;
  }
}
