import type { CompiledFilter, Term } from './filter/compiled-filter.js';
import { mayBeTrue, storeFilterText } from './filter/store-filter.js';
import type { IndexPlan } from './plan/index-plan.js';
import { search } from './run/search.js';
import type { SearchContext } from './run/search-context.js';
import type { Explanation, SearchParams } from './search-params.js';

const NOBODY = { entry: () => undefined, reference: () => undefined };

/** Runs a search without giving its entries away and tells how it was done. */
export async function explain(context: SearchContext, params: SearchParams): Promise<Explanation> {
  let considered: { term: Term; count: number | undefined; why: string }[] = [];
  let made: { filter: CompiledFilter; plan: IndexPlan | undefined; considered: typeof considered } | undefined;
  const outcome = await search(context, params, NOBODY, {
    consider: (term, count, why) => void considered.push({ term, count, why }),
    planned: (filter, plan) => {
      made = { filter, plan, considered };
      considered = [];
    },
  });
  if (!made) throw new TypeError('a search ended before it was planned');
  const { filter, plan } = made;
  const translated = mayBeTrue(filter);
  const byIndex = outcome.plan === 'index';
  const scanned = outcome.plan === 'scope' || outcome.plan === 'table';
  const names = plan?.term.split(' ') ?? [];
  return {
    plan: outcome.plan,
    terms: made.considered.map(({ term, count, why }) => ({
      term: termText(term),
      count,
      taken: byIndex && names.includes(term.types.map((t) => t.name).join(',')),
      why,
    })),
    storeFilter: scanned ? (typeof translated === 'string' ? translated : storeFilterText(translated)) : undefined,
    candidates: byIndex && plan ? plan.count : outcome.looked,
    looked: outcome.looked,
    entries: outcome.entries,
    advice: scanned && outcome.looked > outcome.entries * 10 + 100 ? outcome.advice() : undefined,
  };
}

function termText(term: Term): string {
  const names = term.types.map((type) => type.name).join(',') || 'any attribute';
  return term.lookup ? `${names} ${term.lookup.kind}` : names;
}
