import type { Term } from './filter/compiled-filter.js';
import { mayBeTrue, storeFilterText } from './filter/store-filter.js';
import { planIndexes } from './plan/index-plan.js';
import { prepare, search } from './run/search.js';
import type { SearchContext } from './run/search-context.js';
import type { Explanation, SearchParams } from './search-params.js';

/** Runs a search without giving its entries away and tells how it was done. */
export async function explain(context: SearchContext, params: SearchParams): Promise<Explanation> {
  const { filter } = await prepare(context, params);
  const considered: { term: Term; count: number | undefined; why: string }[] = [];
  const plan = await planIndexes(filter, {
    indexes: context.shared.indexes,
    reader: context.store,
    consider: (term, count, why) => void considered.push({ term, count, why }),
  });
  const nobody = { entry: () => undefined, reference: () => undefined };
  const outcome = await search(context, params, nobody);
  const translated = mayBeTrue(filter);
  const byIndex = outcome.plan === 'index';
  const scanned = outcome.plan === 'scope' || outcome.plan === 'table';
  const names = plan?.term.split(' ') ?? [];
  return {
    plan: outcome.plan,
    terms: considered.map(({ term, count, why }) => ({
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
