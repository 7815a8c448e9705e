import type { Maybe } from './contract.js';

/** Tells whether a `Maybe` has to be awaited. `if (isPromise(x)) x = await x` costs nothing when the engine answered at once. */
export function isPromise<T>(value: Maybe<T>): value is Promise<T> {
  return value instanceof Promise;
}
