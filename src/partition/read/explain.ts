import type { CompiledFilter, Term } from './filter/compiled-filter.js';
import { mayBeTrue, storeFilterText } from './filter/store-filter.js';
import type { IndexPlan } from './plan/index-plan.js';
import { search } from './run/search.js';
import type { SearchContext } from './run/search-context.js';
import type { Explanation, SearchParams } from './search-params.js';

const NO_SINK = { entry: () => undefined, reference: () => undefined };

/** Runs a search without returning entries, and describes its plan. */
export async function explain(context: SearchContext, params: SearchParams): Promise<Explanation> {
  let considered: { term: Term; count: number | undefined; why: string }[] = [];
  let planned: { filter: CompiledFilter; plan: IndexPlan | undefined; considered: typeof considered } | undefined;
  const outcome = await search(context, params, NO_SINK, {
    consider: (term, count, why) => void considered.push({ term, count, why }),
    planned: (filter, plan) => {
      planned = { filter, plan, considered };
      considered = [];
    },
  });
  if (!planned) throw new TypeError('a search ended before it was planned');
  const { filter, plan } = planned;
  const translated = mayBeTrue(filter);
  const usesIndex = outcome.plan === 'index';
  const isScan = outcome.plan === 'scope' || outcome.plan === 'table';
  const names = plan?.term.split(' ') ?? [];
  return {
    plan: outcome.plan,
    terms: planned.considered.map(({ term, count, why }) => ({
      term: termText(term),
      count,
      taken: usesIndex && names.includes(term.types.map((t) => t.name).join(',')),
      why,
    })),
    storeFilter: isScan ? (typeof translated === 'string' ? translated : storeFilterText(translated)) : undefined,
    candidates: usesIndex && plan ? plan.count : outcome.rowsExamined,
    rowsExamined: outcome.rowsExamined,
    entries: outcome.entries,
    advice: isScan && outcome.rowsExamined > outcome.entries * 10 + 100 ? outcome.advice() : undefined,
  };
}

function termText(term: Term): string {
  const names = term.types.map((type) => type.name).join(',') || 'any attribute';
  return term.lookup ? `${names} ${term.lookup.kind}` : names;
}
