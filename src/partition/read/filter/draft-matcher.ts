import type { Filter } from '../../../ldap/ldap-types.js';
import type { Draft } from '../../model/draft.js';
import { detachedRow } from '../../model/entry-cells.js';
import { UNRESTRICTED } from '../../model/viewer.js';
import { type CompiledFilter, emptyCandidate, evaluate, TRUE } from './compiled-filter.js';
import type { FilterCompiler } from './filter-compiler.js';

/** Returns a function that tests whether an entry that is being written matches a filter. Caches compiled filters. */
export function draftMatcher(compiler: FilterCompiler): (filter: Filter, entry: Draft) => boolean {
  const compiledFilters = new WeakMap<Filter, CompiledFilter>();
  return (filter, entry) => {
    let compiledFilter = compiledFilters.get(filter);
    if (!compiledFilter) {
      compiledFilter = compiler.compile(filter, UNRESTRICTED).filter;
      compiledFilters.set(filter, compiledFilter);
    }
    return evaluate(compiledFilter, { ...emptyCandidate(), row: detachedRow(entry) }) === TRUE;
  };
}
