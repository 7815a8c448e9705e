import { TimeSlice } from '../../../fair/time-slice.js';
import type { Maybe } from '../../../store/contract.js';
import { chain, isPromise, markHandled } from '../../../store/maybe.js';
import { StoreError } from '../../../store/store-error.js';
import { type Places, type Specials, specialsOf } from '../../tree/specials.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';
import { adviceFor } from '../plan/advice.js';
import { type Consider, type IndexPlan, planIndexes } from '../plan/index-plan.js';
import { type PagePlan, planPages } from '../plan/page-plan.js';
import type { SearchOutcome, SearchParams } from '../search-params.js';
import type { SearchSink } from '../sink.js';
import { followAliases, sendReferences } from './aliases.js';
import { type Area, choosePlan, isCheap } from './area.js';
import { BaseGone, requireBase, resolveBase, searchBase } from './base.js';
import { Chains } from './chains.js';
import { searchIndex } from './index-search.js';
import { workOrOffload } from './many-candidates.js';
import { parseResume, type Resume } from './page.js';
import { searchPage } from './page-search.js';
import { resumeArea, scanArea } from './scope-scan.js';
import type { Prepared, SearchContext } from './search-context.js';
import { SearchRun } from './search-run.js';

/**
 * Finds entries (RFC 4511 §4.5) and passes them to `sink` in the order of the store. A short search on an embedded
 * store is done on return.
 *
 * The search starts again, once, where an index has been dropped or a cached base deleted before anything was returned.
 */
export function search(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  observer?: PlanObserver,
): Maybe<SearchOutcome> {
  const attempt: Attempt = { run: undefined };
  const retry = (error: unknown): Maybe<SearchOutcome> => {
    const isStale = error instanceof BaseGone || (error instanceof StoreError && error.code === 'noTable');
    if (!isStale || attempt.run?.output.hasBegun) throw error;
    context.nodes.clear();
    return chain(context.shared.refresh(), () => searchOnce(context, params, sink, { run: undefined }, observer));
  };
  try {
    const outcome = searchOnce(context, params, sink, attempt, observer);
    return isPromise(outcome) ? outcome.catch(retry) : outcome;
  } catch (error) {
    return retry(error);
  }
}

/** Receives the index plan of the base's area, for `explain`. With an observer, a plan is always made. */
export interface PlanObserver {
  readonly consider: Consider;
  planned(filter: CompiledFilter, plan: IndexPlan | undefined): void;
}

interface Attempt {
  run: SearchRun | undefined;
}

/** Runs all steps of a search in order. */
function searchOnce(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  attempt: Attempt,
  observer: PlanObserver | undefined,
): Maybe<SearchOutcome> {
  // Refresh the shared state, compile the filter, find the base.
  return chain(prepare(context, params, observer), (prepared) => {
    const stage = params.order?.stage(sink);
    const run = new SearchRun(context, params, stage ?? sink, prepared);
    attempt.run = run;
    // Add the areas of aliases, send references.
    return chain(handleSpecials(run, prepared.places), () =>
      // Plan each area, and check each candidate (`checkRow`). Matching entries go to the sink.
      chain(searchAreas(run, prepared.plan), () => chain(stage?.end(), () => finish(run))),
    );
  });
}

function prepare(context: SearchContext, params: SearchParams, observer: PlanObserver | undefined): Maybe<Prepared> {
  return context.shared.readFresh((early) => {
    const { filter, inputs } = context.compiler.compile(
      params.filter,
      params.viewer,
      params.ofUrl,
      params.directGroupsOnly,
    );
    const chains = inputs.chains.length > 0 ? new Chains(context.inChain, params) : undefined;
    const plansEarly = observer !== undefined || (early && params.scope !== 'base' && !params.pageSize);
    const plan = plansEarly ? planEarly(context, filter, chains, observer) : undefined;
    return chain(specialsOf(context, context.store), (specials) =>
      chain(needsPlaces(params, specials) ? placesOf(context, specials) : undefined, (places) =>
        chain(resolveBase(context, params, specials, places), (base) => ({
          places,
          filter,
          inputs,
          chains,
          base,
          plan,
        })),
      ),
    );
  });
}

/** Whether the search has to know the positions of aliases, to follow them, or of referrals, to return references. */
function needsPlaces(
  { deref, manageDsaIT }: SearchParams,
  { hasAliases: aliases, hasReferrals: referrals }: Specials,
): boolean {
  return (aliases && deref !== 'never') || (referrals && !manageDsaIT);
}

function placesOf(context: SearchContext, specials: Specials): Maybe<Places> {
  const slice = new TimeSlice();
  return specials.places(context, context.store, () => slice.yieldIfOver());
}

/** Begins to plan before the base is found, which saves a round trip where rows are on servers. */
function planEarly(
  context: SearchContext,
  filter: CompiledFilter,
  chains: Chains | undefined,
  observer: PlanObserver | undefined,
): Prepared['plan'] | undefined {
  const { shared, store: reader, membersOf } = context;
  const planContext = {
    indexes: shared.indexes,
    reader,
    membersOf,
    inChain: chains?.idsIn,
    consider: observer?.consider,
  };
  const plan = planIndexes(filter, planContext);
  if (!observer) return isPromise(plan) ? markHandled(plan) : undefined;
  const report = (made: IndexPlan | undefined): IndexPlan | undefined => {
    observer.planned(filter, made);
    return made;
  };
  return markHandled(Promise.resolve(plan).then(report));
}

/** Adds the areas of aliases, and sends references for referrals. Most areas contain neither. */
function handleSpecials(run: SearchRun, places: Places | undefined): Maybe<void> {
  const { params, areas } = run;
  const { scope, deref, manageDsaIT } = params;
  if (!places || scope === 'base') return;
  const has = (kind: 'alias' | 'referral') => places.below(kind, areas.at(0).node, scope === 'one').length > 0;
  const aliases = (deref === 'searching' || deref === 'always') && has('alias');
  const referrals = !manageDsaIT && (aliases || has('referral'));
  if (!aliases && !referrals) return;
  run.excluded = { aliases, referrals };
  return chain(aliases ? followAliases(run, places) : undefined, () =>
    referrals && !params.resume ? sendReferences(run, places) : undefined,
  );
}

/** Searches the areas one after another. An entry in several areas is returned once. */
function searchAreas(run: SearchRun, early: Prepared['plan']): Maybe<void> {
  const resume = run.params.resume && parseResume(run.params.resume);
  if (!resume && run.areas.length === 1) return searchArea(run, run.areas.at(0), undefined, early);
  return searchEach(run, resume, early);
}

async function searchEach(run: SearchRun, resume: Resume | undefined, early: Prepared['plan']): Promise<void> {
  for (run.area = resume?.area ?? 0; run.area < run.areas.length && !run.isPageFull; run.area++) {
    const start = resume?.area === run.area ? resume : undefined;
    const done = searchArea(run, run.areas.at(run.area), start, run.area === 0 ? early : undefined);
    if (isPromise(done)) await done;
    const pause = run.yieldIfDue();
    if (isPromise(pause)) await pause;
  }
}

/** Searches one area by the cheapest plan: the base entry, an index or a scan. `resume`: end of the previous page. */
function searchArea(
  run: SearchRun,
  area: Area,
  resume: Resume | undefined,
  early: Promise<IndexPlan | undefined> | undefined,
): Maybe<void> {
  if (area.scope === 'base') return resume ? undefined : searchBase(run, area);
  switch (resume?.kind) {
    case 's':
    case 't':
      return run.withSnapshot(async () => {
        run.isIndexed =
          run.params.viewer.sightOf !== undefined && (await planPages(run.filter, run.planContext())) !== undefined;
        await resumeArea(run, area, resume.kind as 's' | 't', resume.key);
      });
    case 'i':
    case 'r':
      run.isIndexed = true;
      return run.withSnapshot(async () => searchPage(run, undefined, resume));
  }
  if (run.params.pageSize !== undefined)
    return chain(planPages(run.filter, run.planContext()), (plan) => searchFirstPage(run, area, plan));
  return chain(early ?? planIndexes(run.filter, run.planContext()), (plan) => {
    run.isIndexed = plan !== undefined;
    // A few candidates are read without a pause, during which the state of the store does not change.
    if (plan && isCheap(plan.count)) return searchIndex(run, plan);
    return searchLong(run, area, plan);
  });
}

async function searchFirstPage(run: SearchRun, area: Area, plan: PagePlan | undefined): Promise<void> {
  run.isIndexed = plan !== undefined;
  const chosen = await choosePlan(run.reader, area, plan);
  if (chosen === 'scope') return scanArea(run, area);
  return run.withSnapshot(async () => searchPage(run, plan, undefined));
}

async function searchLong(run: SearchRun, area: Area, plan: IndexPlan | undefined): Promise<void> {
  const chosen = await choosePlan(run.reader, area, plan);
  if (chosen === 'scope') return scanArea(run, area);
  return workOrOffload(run, plan!.count, () => run.withSnapshot(async () => searchIndex(run, plan!)));
}

/** Returns the outcome. Where nothing was found, checks that the base entry still exists. */
function finish(run: SearchRun): Maybe<SearchOutcome> {
  const { context, filter, output, rowsExamined, plan, params, areas } = run;
  const { entries, resume } = output;
  const advice = () => adviceFor(context.shared.indexes, filter);
  const outcome = { entries, rowsExamined, resume, plan, advice };
  if (entries > 0 || params.resume) return outcome;
  return chain(requireBase(run, areas.at(0).node), () => outcome);
}
