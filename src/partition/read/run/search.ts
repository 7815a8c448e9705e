import { TimeSlice } from '../../../fair/time-slice.js';
import type { Maybe } from '../../../store/contract.js';
import { awaitedLater, chain, isPromise } from '../../../store/maybe.js';
import { StoreError } from '../../../store/store-error.js';
import { type Places, type Specials, specialsOf } from '../../tree/specials.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';
import { adviceFor } from '../plan/advice.js';
import { type Consider, type IndexPlan, planIndexes } from '../plan/index-plan.js';
import { type PagePlan, planPages } from '../plan/page-plan.js';
import type { SearchOutcome, SearchParams } from '../search-params.js';
import type { SearchSink } from '../sink.js';
import { followAliases, giveReferences } from './aliases.js';
import { type Area, type Base, choosePlan, isFew, wholeTable } from './area.js';
import { BaseGone, requireBase, resolveBase, searchBase } from './base.js';
import { Chains } from './chains.js';
import { searchIndex } from './index-search.js';
import { parseResume, type Resume } from './page.js';
import { searchPage } from './page-search.js';
import { rideAlong } from './passes.js';
import { resumeArea, scanArea } from './scope-scan.js';
import type { Prepared, SearchContext } from './search-context.js';
import { SearchRun } from './search-run.js';

/**
 * Finds entries (RFC 4511 §4.5) and hands them to `sink` in the order of the store. A short search over an embedded
 * store ends at once.
 */
export function search(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  told?: PlanTold,
): Maybe<SearchOutcome> {
  const attempt: Attempt = { run: undefined, told };
  try {
    const outcome = searchOnce(context, params, sink, attempt);
    return isPromise(outcome) ? outcome.catch((error) => searchAgain(context, params, sink, attempt, error)) : outcome;
  } catch (error) {
    return searchAgain(context, params, sink, attempt, error);
  }
}

/** What `explain` wants to hear of the plan of the base's area, which is then made in any case. */
export interface PlanTold {
  readonly consider: Consider;
  planned(filter: CompiledFilter, plan: IndexPlan | undefined): void;
}

interface Attempt {
  run: SearchRun | undefined;
  readonly told?: PlanTold | undefined;
}

/** All that a search does, in this order. */
function searchOnce(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  attempt: Attempt,
): Maybe<SearchOutcome> {
  // What is shared by all front ends as of now, the filter compiled, the base found.
  return chain(prepare(context, params, attempt.told), (prepared) => {
    const stage = params.order?.stage(sink);
    const run = new SearchRun(context, params, stage ?? sink, prepared);
    attempt.run = run;
    // Where to look besides the base's area, and what is to be asked elsewhere.
    return chain(meetSpecials(run), () =>
      // For each area: the plan, and its candidates, each of which goes through `SearchRun.consider` to the sink.
      chain(searchAreas(run, prepared.plan), () => chain(stage?.end(), () => end(run))),
    );
  });
}

/** An index was dropped, or the cached base deleted, before anything was given: looks again at what is there now. */
function searchAgain(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  { run, told }: Attempt,
  error: unknown,
): Maybe<SearchOutcome> {
  const gone = error instanceof BaseGone || (error instanceof StoreError && error.code === 'noTable');
  if (!gone || run?.gave) throw error;
  context.nodes.clear();
  return chain(context.shared.refresh(), () => searchOnce(context, params, sink, { run: undefined, told }));
}

function prepare(context: SearchContext, params: SearchParams, told: PlanTold | undefined): Maybe<Prepared> {
  return context.shared.ahead((early) => {
    const specials = specialsOf(context, context.store);
    return isPromise(specials)
      ? specials.then((known) => prepareWith(context, params, known, early, told))
      : prepareWith(context, params, specials, early, told);
  });
}

function prepareWith(
  context: SearchContext,
  params: SearchParams,
  specials: Specials,
  early: boolean,
  told: PlanTold | undefined,
): Maybe<Prepared> {
  const { filter, needs } = context.compiler.compile(params.filter, params.viewer, params.ofUrl, params.ownGroups);
  const chains = needs.chains.length > 0 ? new Chains(context.inChain, params) : undefined;
  const isAsked = told !== undefined || (early && params.scope !== 'base' && !params.pageSize);
  const plan = isAsked ? askEarly(context, filter, chains, told) : undefined;
  const whole = (places: Places | undefined, base: Base): Prepared => ({ places, filter, needs, chains, base, plan });
  if (asksForPlaces(params, specials))
    return chain(placesOf(context, specials), (places) =>
      chain(resolveBase(context, params, specials, places), (base) => whole(places, base)),
    );
  const base = resolveBase(context, params, specials, undefined);
  return isPromise(base) ? base.then((found) => whole(undefined, found)) : whole(undefined, base);
}

/** Where aliases are matters to who follows them, and where referrals are, to who is not to get them as entries. */
function asksForPlaces({ deref, manageDsaIT }: SearchParams, { aliases, referrals }: Specials): boolean {
  return (aliases && deref !== 'never') || (referrals && !manageDsaIT);
}

function placesOf(context: SearchContext, specials: Specials): Maybe<Places> {
  const slice = new TimeSlice();
  return specials.places(context, context.store, () => slice.yieldIfOver());
}

/** Where answers take a journey, the index is asked before the base is found. */
function askEarly(
  context: SearchContext,
  filter: CompiledFilter,
  chains: Chains | undefined,
  told: PlanTold | undefined,
): Prepared['plan'] | undefined {
  const { shared, store: reader, membersOf } = context;
  const asking = { indexes: shared.indexes, reader, membersOf, inChain: chains?.idsIn, consider: told?.consider };
  const plan = planIndexes(filter, asking);
  if (told) return awaitedLater(tellPlan(filter, plan, told));
  return isPromise(plan) ? awaitedLater(plan) : undefined;
}

async function tellPlan(
  filter: CompiledFilter,
  asked: Maybe<IndexPlan | undefined>,
  told: PlanTold,
): Promise<IndexPlan | undefined> {
  const plan = await asked;
  told.planned(filter, plan);
  return plan;
}

/** Aliases in the area lead to others; referrals in them become references. Most searches meet neither. */
function meetSpecials(run: SearchRun): Maybe<void> {
  const { places, params, areas } = run;
  if (!places || params.scope === 'base') return;
  const { node, scope } = areas.at(0);
  const follow = run.followsAliases && places.below('alias', node, scope === 'one').length > 0;
  const refer = !params.manageDsaIT && (follow || places.below('referral', node, scope === 'one').length > 0);
  if (!follow && !refer) return;
  return meet(run, places, follow, refer);
}

async function meet(run: SearchRun, places: NonNullable<Prepared['places']>, follow: boolean, refer: boolean) {
  if (follow) await followAliases(run, places);
  run.hides = { aliases: follow, referrals: refer };
  if (refer && !run.params.resume) await giveReferences(run, places);
}

/** One after another; an entry that lies in an earlier one is not given again. */
function searchAreas(run: SearchRun, early: Prepared['plan']): Maybe<void> {
  const resume = run.params.resume && parseResume(run.params.resume);
  if (!resume && run.areas.length === 1) return searchArea(run, run.areas.at(0), undefined, early);
  return searchEach(run, resume, early);
}

async function searchEach(run: SearchRun, resume: Resume | undefined, early: Prepared['plan']): Promise<void> {
  for (run.area = resume?.area ?? 0; run.area < run.areas.length && !run.ended; run.area++) {
    const at = resume?.area === run.area ? resume : undefined;
    const done = searchArea(run, run.areas.at(run.area), at, run.area === 0 ? early : undefined);
    if (isPromise(done)) await done;
    const pause = run.lookUp();
    if (isPromise(pause)) await pause;
  }
}

/** By the cheapest way: the base entry, an index or a scan; `resume` is where the page before ended. */
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
        run.indexed =
          run.params.viewer.sightOf !== undefined && (await planPages(run.filter, run.asking())) !== undefined;
        await resumeArea(run, area, resume.kind as 's' | 't', resume.key);
      });
    case 'i':
    case 'r':
      run.indexed = true;
      return run.withSnapshot(async () => searchPage(run, undefined, resume));
  }
  if (run.params.pageSize !== undefined)
    return chain(planPages(run.filter, run.asking()), (plan) => searchFirstPage(run, area, plan));
  return chain(early ?? planIndexes(run.filter, run.asking()), (plan) => {
    run.indexed = plan !== undefined;
    // A handful of candidates is read within one turn, which is one state of the store already.
    if (plan && isFew(plan.count)) return searchIndex(run, plan);
    return searchLong(run, area, plan);
  });
}

async function searchFirstPage(run: SearchRun, area: Area, plan: PagePlan | undefined): Promise<void> {
  run.indexed = plan !== undefined;
  const chosen = await choosePlan(run.reader, area, plan);
  if (chosen === 'scope') return scan(run, area);
  return run.withSnapshot(async () => searchPage(run, plan, undefined));
}

async function searchLong(run: SearchRun, area: Area, plan: IndexPlan | undefined): Promise<void> {
  const chosen = await choosePlan(run.reader, area, plan);
  if (chosen === 'scope') return scan(run, area);
  return run.doOrLeave(plan!.count, () => run.withSnapshot(async () => searchIndex(run, plan!)));
}

/** The first range together with other searches that look at it, the rest on the same state. */
async function scan(run: SearchRun, area: Area): Promise<void> {
  let release = (): void => {};
  const kind = wholeTable(area) ? 't' : 's';
  run.plan = kind === 't' ? 'table' : 'scope';
  try {
    await scanArea(run, area, kind, async (range, filter) => {
      const ride = await rideAlong(run, range, filter, kind);
      release = ride.release;
      return ride.containers;
    });
  } finally {
    run.readFrom(run.context.store);
    release();
  }
}

/** Where nothing was found, the base itself must still be there. */
function end(run: SearchRun): Maybe<SearchOutcome> {
  const { context, filter, entries, looked, resume, plan } = run;
  const advice = () => adviceFor(context.shared.indexes, filter);
  const outcome = { entries, looked, resume, plan, advice };
  if (entries > 0 || run.params.resume) return outcome;
  return chain(requireBase(run, run.areas.at(0).node), () => outcome);
}
