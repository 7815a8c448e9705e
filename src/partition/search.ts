import type { Maybe, Store } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { awaitedLater, chain, isPromise } from '../store/maybe.js';
import { resolveBase, specials } from './aliases.js';
import type { Base } from './area.js';
import { searchFrom } from './area-search.js';
import { BaseGone } from './base-search.js';
import type { CompiledFilter, Needs } from './filter.js';
import type { FilterCompiler } from './filter-compiler.js';
import type { Context } from './locate.js';
import type { Specials } from './nodes.js';
import { type IndexPlan, planIndexes } from './plan.js';
import { SearchRun } from './search-run.js';
import type { SearchOutcome, SearchParams, SearchSink } from './types.js';

export interface SearchContext extends Context {
  readonly store: Store;
  readonly compiler: FilterCompiler;
}

/** Finds entries (RFC 4511 §4.5) and hands them to `sink` in the order of the store. A short search over an embedded store ends at once. */
export function search(context: SearchContext, params: SearchParams, sink: SearchSink): Maybe<SearchOutcome> {
  return searchOnce(context, params, sink, true);
}

/** What a search begins with. */
export interface Prepared {
  readonly flags: Specials;
  readonly filter: CompiledFilter;
  readonly needs: Needs;
  readonly base: Base;
  /** The index plan, where it was asked for together with the rest. */
  readonly plan: Promise<IndexPlan | undefined> | undefined;
}

/** `early`: nothing waits for anything, so the index is asked, too. */
function prepare(context: SearchContext, params: SearchParams, early: boolean): Maybe<Prepared> {
  return chain(specials(context, context.store), (flags) => {
    const { filter, needs } = context.compiler.compile(params.filter, params.view);
    const plan = early && params.scope !== 'base' && !params.resume ? askIndexes(context, filter) : undefined;
    return chain(resolveBase(context, params, flags), (base) => ({ flags, filter, needs, base, plan }));
  });
}

function askIndexes(context: SearchContext, filter: CompiledFilter): Promise<IndexPlan | undefined> | undefined {
  const plan = planIndexes(filter, context.shared.indexes, context.store);
  return isPromise(plan) ? awaitedLater(plan) : undefined;
}

function searchOnce(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  mayRepeat: boolean,
): Maybe<SearchOutcome> {
  let run: SearchRun | undefined;
  const work = (early: boolean): Maybe<Prepared> => prepare(context, params, early);
  const start = (): Maybe<SearchOutcome> =>
    chain(context.shared.ahead(work), (prepared) => {
      run = new SearchRun(context, params, sink, prepared);
      return searchFrom(run, prepared);
    });
  if (!mayRepeat) return start();
  /** An index was dropped, or the cached base deleted, before anything was given: looks again at what is there now. */
  const repeat = (error: unknown): Maybe<SearchOutcome> => {
    const gone = error instanceof BaseGone || (error instanceof StoreError && error.code === 'noTable');
    if (!gone || run?.gave) throw error;
    context.nodes.clear();
    return chain(context.shared.refresh(), () => searchOnce(context, params, sink, false));
  };
  try {
    const outcome = start();
    return isPromise(outcome) ? outcome.catch(repeat) : outcome;
  } catch (error) {
    return repeat(error);
  }
}
