import type { RowStep } from '../../store/contract.js';

/** What long work asks of whoever has it done, so that it can be stopped, and taken over by another process. */
export interface Piecework {
  /** Called before each piece; rejects where the work is to end. */
  proceed(): Promise<void>;
  /** Goes into the plan of each piece: its guards fail where another process has taken the work over. */
  readonly fence: RowStep;
}

/** The steps of a piece, with the fence. */
export function fenced<T>(steps: readonly T[], piecework: Piecework | undefined): (T | RowStep)[] {
  return piecework ? [...steps, piecework.fence] : [...steps];
}
