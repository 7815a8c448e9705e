import type { PlanStep } from '../../store/contract.js';
import { guardsHold } from '../../store/store-error.js';
import { fenced, type Piecework } from '../model/piecework.js';
import type { WriteContext } from '../write/context.js';
import { surveyTree } from './check/check.js';

/** Steps that set counters, by what is wrong with them. */
type Fixes = Map<string, readonly PlanStep[]>;

/**
 * Sets the counters of entries (oneLevelCount, subLevelCount) that are not what is there; resolves with their number.
 * Runs beside writers: a counter that changes meanwhile is left for the next time. Where the store has no snapshots, a
 * counter counts as wrong when it is found so twice, with every plan between that was decided before wholly done.
 */
export async function recount(context: WriteContext, piecework?: Piecework): Promise<number> {
  let wrong = await wrongCounters(context, piecework);
  if (wrong.size > 0 && !context.store.supports.snapshot) {
    await context.store.quiet?.();
    const again = await wrongCounters(context, piecework);
    wrong = new Map([...again].filter(([key]) => wrong.has(key)));
  }
  let mended = 0;
  for (const steps of wrong.values()) {
    await piecework?.proceed();
    // A guard fails if the counters or the entry have changed since the survey.
    if (await guardsHold(context.store.commit({ steps: fenced(steps, piecework), decisive: 0 }))) mended++;
  }
  if (mended > 0) context.nodes.clear();
  return mended;
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
