import type { Maybe, Store } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { chain, isPromise } from '../store/maybe.js';
import { resolveBase, specials } from './aliases.js';
import type { FilterCompiler } from './filter.js';
import type { Context } from './locate.js';
import { BaseGone, SearchRun } from './search-run.js';
import type { SearchOutcome, SearchParams, SearchSink } from './types.js';

export interface SearchContext extends Context {
  readonly store: Store;
  readonly compiler: FilterCompiler;
}

/** Finds entries (RFC 4511 §4.5) and hands them to `sink` in the order of the store. A short search over an embedded store ends at once. */
export function search(context: SearchContext, params: SearchParams, sink: SearchSink): Maybe<SearchOutcome> {
  return chain(context.shared.fresh(), () => searchOnce(context, params, sink, true));
}

function searchOnce(
  context: SearchContext,
  params: SearchParams,
  sink: SearchSink,
  mayRepeat: boolean,
): Maybe<SearchOutcome> {
  let run: SearchRun | undefined;
  const start = (): Maybe<SearchOutcome> =>
    chain(specials(context, context.store), (flags) => {
      const { filter, needs } = context.compiler.compile(params.filter, params.view);
      return chain(resolveBase(context, params, flags), (base) => {
        run = new SearchRun(context, params, sink, filter, needs, flags);
        return run.search(base);
      });
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
