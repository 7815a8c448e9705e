import type { RowStep } from '../../store/contract.js';

/** Lets a job control work that is done in slices: the job may stop the work, or another process may take it over. */
export interface Piecework {
  /** Called before each slice. Rejects if the work has to end. */
  proceed(): Promise<void>;
  /** Added to each plan of the work. Its guards fail if another process has taken the work over. */
  readonly fence: RowStep;
}

export function withFence<T>(steps: readonly T[], piecework: Piecework | undefined): (T | RowStep)[] {
  return piecework ? [...steps, piecework.fence] : [...steps];
}
