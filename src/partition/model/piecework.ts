import type { RowStep } from '../../store/contract.js';

/** Control of work that is done in slices, for its job: the work can be stopped, or taken over by another process. */
export interface Piecework {
  /** Called before each slice. Rejects if the work must end. */
  proceed(): Promise<void>;
  /** Added to each plan. Its guards fail if another process has taken over the work. */
  readonly fence: RowStep;
}

export function withFence<T>(steps: readonly T[], piecework: Piecework | undefined): (T | RowStep)[] {
  return piecework ? [...steps, piecework.fence] : [...steps];
}
