import type { PlanStep } from '../../store/contract.js';
import { guardsHold } from '../../store/store-error.js';
import { type Piecework, withFence } from '../model/piecework.js';
import type { WriteContext } from '../write/context.js';
import { surveyTree } from './check/check.js';

/** Steps that set counters, by the description of the wrong counter. */
type Fixes = Map<string, readonly PlanStep[]>;

/**
 * Corrects wrong counters of entries (oneLevelCount, subLevelCount), and returns their number. May run beside writers:
 * a counter that changes meanwhile is left for the next run. On a store without snapshots a counter counts as wrong if
 * two surveys find the same error, and all plans that were decided in between are fully applied.
 */
export async function recount(context: WriteContext, piecework?: Piecework): Promise<number> {
  let wrong = await wrongCounters(context, piecework);
  if (wrong.size > 0 && !context.store.supports.snapshot) {
    await context.store.waitUntilQuiet?.();
    const again = await wrongCounters(context, piecework);
    wrong = new Map([...again].filter(([key]) => wrong.has(key)));
  }
  let fixed = 0;
  for (const steps of wrong.values()) {
    await piecework?.proceed();
    // A guard fails if the counters or the entry have changed since the survey.
    if (await guardsHold(context.store.commit({ steps: withFence(steps, piecework), decisive: 0 }))) fixed++;
  }
  if (fixed > 0) context.nodes.clear();
  return fixed;
}

async function wrongCounters(context: WriteContext, piecework: Piecework | undefined): Promise<Fixes> {
  const wrong: Fixes = new Map();
  await surveyTree(
    context,
    ({ breach, fix }) => {
      if (breach.invariant === 'count' && fix) wrong.set(`${breach.where} ${breach.message}`, fix);
    },
    () => piecework?.proceed(),
  );
  return wrong;
}
