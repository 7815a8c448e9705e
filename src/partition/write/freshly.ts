import { isPromise } from '../../store/maybe.js';
import { isGuardFailure } from '../../store/store-error.js';
import { MAX_TRIES } from '../model/thresholds.js';
import type { WriteContext } from './context.js';

/**
 * Runs it on the shared row as it is now, and again for as long as others change what it guards: the lists in that row,
 * a claim, the rows of a constraint.
 */
export async function freshly<T>(context: WriteContext, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const fresh = context.shared.refresh();
    if (isPromise(fresh)) await fresh;
    try {
      return await work();
    } catch (error) {
      if (!isGuardFailure(error) || tries === MAX_TRIES) throw error;
    }
  }
}
