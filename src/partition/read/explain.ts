import type { CompiledFilter, Term } from './filter/compiled-filter.js';
import { mayBeTrue, storeFilterText } from './filter/store-filter.js';
import type { IndexPlan } from './plan/index-plan.js';
import { search } from './run/search.js';
import type { SearchContext } from './run/search-context.js';
import type { Explanation, SearchParams } from './search-params.js';

const NO_SINK = { entry: () => undefined, reference: () => undefined };

/** Runs a search without returning entries, and describes its plan. */
export async function explain(context: SearchContext, params: SearchParams): Promise<Explanation> {
  let terms: { term: Term; count: number | undefined; why: string }[] = [];
  let plannedSearch: { filter: CompiledFilter; plan: IndexPlan | undefined; terms: typeof terms } | undefined;
  const outcome = await search(context, params, NO_SINK, {
    reportTerm: (term, count, why) => void terms.push({ term, count, why }),
    reportPlan: (filter, plan) => {
      plannedSearch = { filter, plan, terms };
      terms = [];
    },
  });
  if (!plannedSearch) throw new TypeError('a search ended before it was planned');
  const { filter, plan } = plannedSearch;
  const rowSelection = mayBeTrue(filter);
  const usesIndex = outcome.plan === 'index';
  const isScan = outcome.plan === 'scope' || outcome.plan === 'table';
  const usedTypeNames = plan?.typeNames.split(' ') ?? [];
  return {
    plan: outcome.plan,
    terms: plannedSearch.terms.map(({ term, count, why }) => ({
      term: termText(term),
      count,
      taken: usesIndex && usedTypeNames.includes(term.types.map((t) => t.name).join(',')),
      why,
    })),
    storeFilter: isScan ? (typeof rowSelection === 'string' ? rowSelection : storeFilterText(rowSelection)) : undefined,
    candidates: usesIndex && plan ? plan.count : outcome.rowsExamined,
    rowsExamined: outcome.rowsExamined,
    entries: outcome.entries,
    advice: isScan && outcome.rowsExamined > outcome.entries * 10 + 100 ? outcome.advice() : undefined,
  };
}

function termText(term: Term): string {
  const typeNames = term.types.map((type) => type.name).join(',') || 'any attribute';
  return term.lookup ? `${typeNames} ${term.lookup.kind}` : typeNames;
}
