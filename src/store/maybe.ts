import type { Batch, Maybe } from './contract.js';

/** Returns whether a `Maybe` has to be awaited. `if (isPromise(x)) x = await x` costs nothing for a plain value. */
export function isPromise<T>(value: Maybe<T>): value is Promise<T> {
  return value instanceof Promise;
}

/**
 * Calls `then` with the value: synchronously unless the value is a promise. An error of `then` is thrown if the call
 * was synchronous, and rejects the returned promise otherwise.
 */
export function chain<T, U>(value: Maybe<T>, then: (value: T) => Maybe<U>): Maybe<U> {
  return isPromise(value) ? value.then(then) : then(value);
}

/** Marks a rejection of the promise as handled. For promises that are awaited later, or never after another error. */
export function markHandled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/** Reduces the items with `reduce`, one after another: synchronously until a call returns a promise. */
export function reduceMaybe<T, S>(items: readonly T[], start: S, reduce: (state: S, item: T) => Maybe<S>): Maybe<S> {
  let state = start;
  for (let i = 0; i < items.length; i++) {
    const nextState = reduce(state, items[i]!);
    if (isPromise(nextState)) return foldRest(items, i + 1, nextState, reduce);
    state = nextState;
  }
  return state;
}

/** Sequential work as a generator, run by `runWork`. `yield* awaitMaybe(maybe)` in it waits only for promises. */
export type Work<T> = Generator<Promise<unknown>, T, unknown>;

export function* awaitMaybe<T>(value: Maybe<T>): Work<T> {
  return isPromise(value) ? ((yield value) as T) : value;
}

/** Runs the work: synchronously until a promise has to be awaited. */
export function runWork<T>(work: Work<T>): Maybe<T> {
  const result = work.next();
  return result.done ? result.value : finishWork(work, result.value);
}

async function finishWork<T>(work: Work<T>, firstPromise: Promise<unknown>): Promise<T> {
  for (let pending = firstPromise; ; ) {
    const resume = await pending.then(
      (value) => () => work.next(value),
      (error) => () => work.throw(error),
    );
    const result = resume();
    if (result.done) return result.value;
    pending = result.value;
  }
}

async function foldRest<T, S>(
  items: readonly T[],
  startIndex: number,
  pendingState: Promise<S>,
  reduce: (state: S, item: T) => Maybe<S>,
): Promise<S> {
  let state: S = await pendingState;
  for (let i = startIndex; i < items.length; i++) {
    const nextState = reduce(state, items[i]!);
    state = isPromise(nextState) ? await nextState : nextState;
  }
  return state;
}

interface Batches<B> {
  next(): Maybe<B | undefined>;
  close(): void;
}

/**
 * Yields the batches of a scan and closes the scan at the end, also after an error. Each batch costs some microtasks,
 * which `scanPart` of a search saves by calling the scan directly.
 */
export async function* batchesOf<B = Batch>(scan: Batches<B>): AsyncGenerator<B, void, undefined> {
  try {
    for (;;) {
      const result = scan.next();
      const batch = isPromise(result) ? await result : result;
      if (!batch) return;
      yield batch;
    }
  } finally {
    scan.close();
  }
}

/** All keys of a scan. For scans with few rows or a limit. */
export async function keysOf(scan: Batches<Pick<Batch, 'keys'>>): Promise<Buffer[]> {
  const allKeys: Buffer[] = [];
  for await (const { keys } of batchesOf(scan)) allKeys.push(...keys);
  return allKeys;
}
