import type { PlanStep } from '../../store/contract.js';
import { StoreError } from '../../store/errors.js';
import type { Breach } from '../model/directory.js';
import type { WriteContext } from '../write/context.js';
import { survey } from './check/check.js';

/** A pass mends what it can see; the rows that follow from what it mended are mended by the next. */
const MAX_PASSES = 12;
/** Fixes committed together. */
const TOGETHER = 256;

/**
 * Restores tree rows, counters, normAttributes and index rows from table master alone; resolves with the number of
 * breaches mended. Entries are never removed: one without a parent, or in a circle, is put below the first suffix under
 * a name of its own (docs/operations.md). May run beside writers: every fix is guarded by what it was made from, and
 * one that comes too late is made again in the next pass. A clean directory is left as it is.
 * `onBreach` gets each breach that was mended and, at the end, each that cannot be.
 */
export async function repair(
  context: WriteContext,
  onBreach?: (breach: Breach) => void,
  onProgress?: (done: number) => void,
): Promise<number> {
  let mended = 0;
  for (let pass = 1; ; pass++) {
    const left: Breach[] = [];
    const fixes = new Fixes(context, onBreach);
    await survey(context, ({ breach, fix }) => (fix ? fixes.add(breach, fix) : void left.push(breach)), onProgress);
    await fixes.flush();
    mended += fixes.done;
    if (fixes.done > 0) context.nodes.clear();
    if (fixes.done === 0 || pass === MAX_PASSES) {
      for (const breach of left) onBreach?.(breach);
      return mended;
    }
  }
}

/** Commits many fixes at a time, so that they share their flushes. */
class Fixes {
  readonly #context: WriteContext;
  readonly #onBreach: ((breach: Breach) => void) | undefined;
  #waiting: { readonly breach: Breach; readonly fix: readonly PlanStep[] }[] = [];
  done = 0;

  constructor(context: WriteContext, onBreach: ((breach: Breach) => void) | undefined) {
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
    const mended = await Promise.all(waiting.map(({ fix }) => this.#mend(fix)));
    for (const [i, { breach }] of waiting.entries()) {
      if (!mended[i]) continue;
      this.done++;
      this.#onBreach?.(breach);
    }
  }

  /** Whether the fix was still right and is done. */
  async #mend(fix: readonly PlanStep[]): Promise<boolean> {
    try {
      await this.#context.store.commit({ steps: fix, decisive: 0 });
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'guard') return false;
      throw error;
    }
  }
}
