import type { PlanStep } from '../../store/contract.js';
import { isGuardFailure } from '../../store/store-error.js';
import type { Breach } from '../model/directory-types.js';
import { GROUPS_STEP } from '../model/group-rows.js';
import { isDamage } from '../model/store-errors.js';
import type { WriteContext } from '../write/context.js';
import { survey } from './check/check.js';
import type { Report } from './check/survey.js';

/** A pass mends what it can see; the rows that follow from what it mended are mended by the next. */
const MAX_PASSES = 12;
/** Gets a breach, and whether it was mended or is left. */
export type OnRepaired = (breach: Breach, mended: boolean) => void;

/** Fixes committed together. */
const TOGETHER = 256;

/**
 * Restores tree rows, counters, normAttributes and index rows from table master alone; resolves with the number of
 * breaches mended. Entries are never removed: one without a parent, or in a circle, is put below the first suffix under
 * a name of its own (docs/operations.md). May run beside writers: every fix is guarded by what it was made from, and
 * one that comes too late is made again in the next pass. A clean directory is left as it is.
 * Where rows cannot be read, nothing is written that their content may decide. `onBreach` gets each breach that was
 * mended and, at the end, each that is left.
 */
export async function repair(
  context: WriteContext,
  onBreach?: OnRepaired,
  onProgress?: (done: number) => void,
): Promise<number> {
  let mended = 0;
  for (let pass = 1; ; pass++) {
    const left: Breach[] = [];
    const fixes = new Fixes(context, onBreach, left);
    const report: Report = ({ breach, fix }) => (fix ? fixes.add(breach, fix) : void left.push(breach));
    await survey(context, report, onProgress, undefined, true);
    await fixes.flush();
    mended += fixes.done;
    if (fixes.done > 0) context.nodes.clear();
    if (fixes.done === 0 || pass === MAX_PASSES) {
      // Others may have learned by rows that were wrong who is in which group.
      if (mended > 0) await context.store.commit({ steps: [GROUPS_STEP], decisive: 0 });
      for (const breach of left) onBreach?.(breach, false);
      return mended;
    }
  }
}

/** Commits many fixes at a time, so that they share their flushes. */
class Fixes {
  readonly #context: WriteContext;
  readonly #onBreach: OnRepaired | undefined;
  readonly #left: Breach[];
  #waiting: { readonly breach: Breach; readonly fix: readonly PlanStep[] }[] = [];
  done = 0;

  /** `left` gets what damage keeps from being mended. */
  constructor(context: WriteContext, onBreach: OnRepaired | undefined, left: Breach[]) {
    this.#left = left;
    this.#context = context;
    this.#onBreach = onBreach;
  }

  async add(breach: Breach, fix: readonly PlanStep[]): Promise<void> {
    this.#waiting.push({ breach, fix });
    if (this.#waiting.length >= TOGETHER) await this.flush();
  }

  async flush(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    const mended = await Promise.all(waiting.map(({ breach, fix }) => this.#mend(breach, fix)));
    for (const [i, { breach }] of waiting.entries()) {
      if (!mended[i]) continue;
      this.done++;
      this.#onBreach?.(breach, true);
    }
  }

  /** Whether the fix was still right and is done. */
  async #mend(breach: Breach, fix: readonly PlanStep[]): Promise<boolean> {
    try {
      await this.#context.store.commit({ steps: fix, decisive: 0 });
      return true;
    } catch (error) {
      if (isGuardFailure(error)) return false;
      if (!isDamage(error)) throw error;
      this.#left.push({ ...breach, message: `${breach.message}: not done, as ${error.message}` });
      return false;
    }
  }
}
