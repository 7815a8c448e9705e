import { isPromise } from '../../store/maybe.js';
import { isGuardFailure } from '../../store/store-error.js';
import { MAX_TRIES } from '../model/thresholds.js';
import type { WriteContext } from './context.js';

/**
 * Runs `work` on the current shared row. Repeats it if another process has changed what its plan guards, such as the
 * lists in the shared row.
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
