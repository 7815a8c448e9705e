import { inSoak } from '../rounds.js';
import { ENGINES, type Engine } from './fixture.js';

/**
 * For what HBase makes fail in no way that the delayed engine, or the suite of the store's contract, does not show:
 * the words of the directory, over reads and writes that other tests do over HBase. `npm run soak` does these over
 * HBase, too.
 */
const isNear = (engine: Engine): boolean => engine !== 'hbase' || inSoak;

export const NEAR_ENGINES: readonly Engine[] = ENGINES.filter(isNear);

/** Of a suite that runs over each engine, the tests that do not. */
export function nearTests(
  engine: Engine,
): (title: string, test: (this: Mocha.Context) => void | Promise<void>) => void {
  return isNear(engine) ? (title, test) => void it(title, test as Mocha.AsyncFunc) : () => undefined;
}
