import type { Maybe, PlanStep } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import type { WriteRequest } from '../../model/directory-types.js';
import type { Change, Target, Verdict, WriteContext } from '../context.js';

/** Throws the error of the first rule that refuses the request. */
export function requireRequestAllowed(context: WriteContext, asked: WriteRequest): void {
  const { rules } = context;
  for (let i = 0; i < rules.length; i++) {
    const refusal = rules[i]!.checkRequest?.(context, asked);
    if (refusal) throw refusal;
  }
}

/** Throws the error of the first rule that refuses the request for this entry. */
export async function requireEntryAllowed(context: WriteContext, asked: WriteRequest, target: Target): Promise<void> {
  const { rules } = context;
  for (let i = 0; i < rules.length; i++) {
    const verdict = rules[i]!.checkTarget?.(context, asked, target);
    const refusal = isPromise(verdict) ? await verdict : verdict;
    if (refusal) throw refusal;
  }
}

/** Applies the rules to the change in order. Returns the added steps. Throws the error of the first refusal. */
export function applyRules(context: WriteContext, change: Change): Maybe<PlanStep[]> {
  return applyRulesFrom(context, change, 0, []);
}

function applyRulesFrom(context: WriteContext, change: Change, index: number, steps: PlanStep[]): Maybe<PlanStep[]> {
  const { rules } = context;
  for (let i = index; i < rules.length; i++) {
    const verdict = rules[i]!.checkChange?.(context, change);
    if (!verdict) continue;
    if (isPromise(verdict)) {
      return verdict.then((resolvedVerdict) => {
        carryOut(change, resolvedVerdict, steps);
        return applyRulesFrom(context, change, i + 1, steps);
      });
    }
    carryOut(change, verdict, steps);
  }
  return steps;
}

function carryOut({ after }: Change, verdict: Verdict, steps: PlanStep[]): void {
  if (!verdict) return;
  if ('refuse' in verdict) throw verdict.refuse;
  if (after) verdict.amend?.(after);
  if (verdict.steps) steps.push(...verdict.steps);
}
