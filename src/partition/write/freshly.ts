import { isPromise } from '../../store/maybe.js';
import { isGuardFailure } from '../../store/store-error.js';
import { MAX_TRIES } from '../model/thresholds.js';
import type { WriteContext } from './context.js';

/**
 * Runs `work` on the current shared row, and repeats it while other processes change what its plan guards: the lists in
 * the shared row, a claim, the rows of a constraint.
 */
export async function retryWithFreshState<T>(context: WriteContext, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const maybeRefresh = context.shared.refresh();
    if (isPromise(maybeRefresh)) await maybeRefresh;
    try {
      return await work();
    } catch (error) {
      if (!isGuardFailure(error) || tries === MAX_TRIES) throw error;
    }
  }
}
