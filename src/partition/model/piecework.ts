import type { RowStep } from '../../store/contract.js';

/** Link between long work and its job. The work can be stopped, or taken over by another process. */
export interface Piecework {
  /** Called before each piece. Rejects if the work must end. */
  proceed(): Promise<void>;
  /** Added to the plan of each piece. Its guards fail if another process has taken over the work. */
  readonly fence: RowStep;
}

export function fenced<T>(steps: readonly T[], piecework: Piecework | undefined): (T | RowStep)[] {
  return piecework ? [...steps, piecework.fence] : [...steps];
}
