import type { Maybe } from '../../../store/contract.js';
import { chain, reduceMaybe } from '../../../store/maybe.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';
import { type IndexPlan, type PlanContext, planIndexes } from './index-plan.js';
import { keyRanges } from './key-ranges.js';
import type { Source } from './sources.js';

/** An index plan for one operand of the filter. Later pages plan the same operand again. */
export interface PagePlan extends IndexPlan {
  /** Number of the operand of an AND; 0 for other filters. */
  readonly partNumber: number;
}

/** Returns the operands of a filter that can each serve as a plan for the whole filter. */
export function usableOperands(filter: CompiledFilter): readonly CompiledFilter[] {
  return filter.kind === 'and' ? filter.parts : [filter];
}

/** Returns the cheapest plan by which a search can be resumed from page to page. */
export function planPages(filter: CompiledFilter, context: PlanContext): Maybe<PagePlan | undefined> {
  const operands = usableOperands(filter);
  let best: PagePlan | undefined;
  const planning = reduceMaybe([...operands.keys()], undefined as unknown, (_, partNumber) => {
    if (best && best.count <= 1) return;
    return chain(planIndexes(operands[partNumber]!, { ...context, rangeUse: 'kept' }), (plan) => {
      // A plan with ranges is usable only if key ranges can answer the whole operand.
      const isUsable = plan && (isInIdOrder(plan.sources) || keyRanges(operands[partNumber]!, context.indexes));
      if (isUsable && (!best || plan.count < best.count)) best = { ...plan, partNumber };
      return context.pause?.();
    });
  });
  return chain(planning, () => best);
}

/** Whether all sources are lists in the order of ids, so that no key range has to be read. */
export function isInIdOrder(sources: readonly Source[]): boolean {
  return !sources.some((source) => 'range' in source);
}
