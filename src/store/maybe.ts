import type { Maybe } from './contract.js';

/**
 * Tells whether a `Maybe` has to be awaited. `if (isPromise(x)) x = await x` costs nothing when the engine answered at
 * once.
 */
export function isPromise<T>(value: Maybe<T>): value is Promise<T> {
  return value instanceof Promise;
}

/**
 * Goes on with the value: at once when it is there. What `then` throws is thrown at once or rejects, as the value came.
 */
export function chain<T, U>(value: Maybe<T>, then: (value: T) => Maybe<U>): Maybe<U> {
  return isPromise(value) ? value.then(then) : then(value);
}

/**
 * The promise, which is awaited later, or by nobody where something else has failed: until then its failure does not
 * count as unhandled.
 */
export function awaitedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/** `step` over the items, one after another: at once for as long as nothing has to be awaited. */
export function fold<T, S>(items: readonly T[], start: S, step: (state: S, item: T) => Maybe<S>): Maybe<S> {
  let state = start;
  for (let i = 0; i < items.length; i++) {
    const next = step(state, items[i]!);
    if (isPromise(next)) return foldRest(items, i + 1, next, step);
    state = next;
  }
  return state;
}

/** Work that is written in a row, though it may have to wait: `yield* awaited(…)` does so where it has to. */
export type Work<T> = Generator<Promise<unknown>, T, unknown>;

export function* awaited<T>(value: Maybe<T>): Work<T> {
  return isPromise(value) ? ((yield value) as T) : value;
}

/** Does the work: at once for as long as nothing has to be awaited. */
export function done<T>(work: Work<T>): Maybe<T> {
  const step = work.next();
  return step.done ? step.value : doRest(work, step.value);
}

async function doRest<T>(work: Work<T>, first: Promise<unknown>): Promise<T> {
  for (let waits = first; ; ) {
    const next = await waits.then(
      (value) => () => work.next(value),
      (error) => () => work.throw(error),
    );
    const step = next();
    if (step.done) return step.value;
    waits = step.value;
  }
}

async function foldRest<T, S>(
  items: readonly T[],
  from: number,
  awaited: Promise<S>,
  step: (state: S, item: T) => Maybe<S>,
): Promise<S> {
  let state: S = await awaited;
  for (let i = from; i < items.length; i++) {
    const next = step(state, items[i]!);
    state = isPromise(next) ? await next : next;
  }
  return state;
}
