import type { Maybe } from '../../../store/contract.js';
import { chain, fold } from '../../../store/maybe.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';
import { type Asking, type IndexPlan, planIndexes } from './index-plan.js';
import { keyRanges } from './key-ranges.js';
import type { Source } from './sources.js';

/** An index plan that later pages find again: it is of one part of the filter, named by its number. */
export interface PagePlan extends IndexPlan {
  /** Which part of an AND; 0 for any other filter. */
  readonly part: number;
}

/** The parts of which any one is enough for a plan. */
export function partsOf(filter: CompiledFilter): readonly CompiledFilter[] {
  return filter.kind === 'and' ? filter.of : [filter];
}

/** The cheapest plan by which pages can go through the entries. */
export function planPages(filter: CompiledFilter, asking: Asking): Maybe<PagePlan | undefined> {
  const parts = partsOf(filter);
  let best: PagePlan | undefined;
  const all = fold([...parts.keys()], undefined as unknown, (_, part) => {
    if (best && best.count <= 1) return;
    return chain(planIndexes(parts[part]!, { ...asking, ranges: 'kept' }), (plan) => {
      // Ids that no index holds have no place among ranges of keys.
      const isKept = plan && (isByIds(plan.sources) || keyRanges(parts[part]!, asking.indexes));
      if (isKept && (!best || plan.count < best.count)) best = { ...plan, part };
      return asking.pause?.();
    });
  });
  return chain(all, () => best);
}

/** Whether the candidates come in the order of their ids, from lists; else ranges of keys have to be gone through. */
export function isByIds(sources: readonly Source[]): boolean {
  return !sources.some((source) => 'range' in source);
}
