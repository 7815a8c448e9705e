import { isPromise } from '../store/maybe.js';
import { resolveBase, specials } from './aliases.js';
import { choosePlan, wholeTable } from './area.js';
import { searchFrom } from './area-search.js';
import type { CompiledFilter, Term } from './filter.js';
import { planIndexes } from './plan.js';
import type { SearchContext } from './search.js';
import { SearchRun } from './search-run.js';
import { mayBeTrue, storeFilterText } from './store-filter.js';
import type { Explanation, SearchParams } from './types.js';

/** Runs a search without giving its entries away and tells how it was done. */
export async function explain(context: SearchContext, params: SearchParams): Promise<Explanation> {
  const fresh = context.shared.fresh();
  if (isPromise(fresh)) await fresh;
  const flags = await specials(context, context.store);
  const { filter, needs } = context.compiler.compile(params.filter, params.view);
  const base = await resolveBase(context, params, flags);
  const considered: { term: Term; count: number | undefined; why: string }[] = [];
  const plan = await planIndexes(filter, context.shared.indexes, context.store, (term, count, why) =>
    considered.push({ term, count, why }),
  );
  const area = { ...base, scope: params.scope };
  const chosen = params.scope === 'base' ? 'base' : await choosePlan(context.store, area, plan);
  const nobody = { entry: () => undefined, reference: () => undefined };
  const run = new SearchRun(context, params, nobody, { filter, needs, flags });
  const outcome = await searchFrom(run, { base, plan: undefined });
  const translated = mayBeTrue(filter);
  const scanned = chosen === 'scope';
  return {
    plan: scanned && wholeTable(area) ? 'table' : chosen,
    terms: considered.map(({ term, count, why }) => ({
      term: termText(term),
      count,
      taken:
        chosen === 'index' &&
        plan !== undefined &&
        plan.term.split(' ').includes(term.types.map((t) => t.name).join(',')),
      why,
    })),
    storeFilter: scanned ? (typeof translated === 'string' ? translated : storeFilterText(translated)) : undefined,
    candidates: chosen === 'index' ? plan!.count : outcome.looked,
    looked: outcome.looked,
    entries: outcome.entries,
    advice: scanned && outcome.looked > outcome.entries * 10 + 100 ? adviceFor(context, filter) : undefined,
  };
}

function termText(term: Term): string {
  const names = term.types.map((type) => type.name).join(',') || 'any attribute';
  return term.lookup ? `${names} ${term.lookup.kind}` : names;
}

/** The index that would help most, as a command. */
function adviceFor(context: SearchContext, filter: CompiledFilter): string | undefined {
  const names = new Set<string>();
  const visit = (part: CompiledFilter): void => {
    if (part.kind === 'and' || part.kind === 'or') part.of.forEach(visit);
    if (part.kind !== 'term' || !part.lookup || part.lookup.kind === 'presence') return;
    const middle = part.lookup.kind === 'pattern' && !part.lookup.initial;
    for (const type of part.types) {
      const index = context.shared.indexes.of(type);
      if (!index || (middle && !index.substring))
        names.add(`rowan index add ${type.name}${middle ? ' --substring' : ''}`);
    }
  };
  visit(filter);
  return names.size > 0 ? [...names].join('; ') : undefined;
}
