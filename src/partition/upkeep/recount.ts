import type { PlanStep } from '../../store/contract.js';
import { guardsHold } from '../../store/store-error.js';
import { type Piecework, withFence } from '../model/piecework.js';
import type { WriteContext } from '../write/context.js';
import { surveyTree } from './check/check.js';

/** The steps that correct counters, by a description of the wrong counter. */
type CounterFixes = Map<string, readonly PlanStep[]>;

/**
 * Corrects wrong counters of entries (oneLevelCount, subLevelCount), and returns their number. Writers may continue: a
 * counter that changes meanwhile is left to the next run. On a store without snapshots, a counter counts as wrong if
 * two surveys find the same error, and all plans decided before the second are completely applied.
 */
export async function recount(context: WriteContext, piecework?: Piecework): Promise<number> {
  let fixes = await findWrongCounters(context, piecework);
  if (fixes.size > 0 && !context.store.supports.snapshot) {
    await context.store.waitUntilQuiet?.();
    const fixesAgain = await findWrongCounters(context, piecework);
    fixes = new Map([...fixesAgain].filter(([key]) => fixes.has(key)));
  }
  let fixedCount = 0;
  for (const steps of fixes.values()) {
    await piecework?.proceed();
    // A guard fails if counters or entry have changed since the survey.
    if (await guardsHold(context.store.commit({ steps: withFence(steps, piecework), decisive: 0 }))) fixedCount++;
  }
  if (fixedCount > 0) context.nodes.clear();
  return fixedCount;
}

async function findWrongCounters(context: WriteContext, piecework: Piecework | undefined): Promise<CounterFixes> {
  const fixes: CounterFixes = new Map();
  await surveyTree(
    context,
    ({ breach, fix }) => {
      if (breach.invariant === 'count' && fix) fixes.set(`${breach.where} ${breach.message}`, fix);
    },
    () => piecework?.proceed(),
  );
  return fixes;
}
