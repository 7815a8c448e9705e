import { isPromise, type Maybe } from '../../partition/index.js';
import { storeFailureOf } from '../../partition/model/store-errors.js';

/** Milliseconds that a request waits for the store when it can be answered without. */
const WAIT_MS = 500;

/** Returns the result of `read`; if `isEnough()`, `lastKnown` when the store does not answer, or not soon. */
export function orLastKnown<T>(read: Maybe<T>, lastKnown: T, isEnough = () => true): Maybe<T> {
  if (!isPromise(read)) return read;
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const fail = (error: unknown): void => {
      if (timer && storeFailureOf(error)?.code === 'unavailable') resolve(lastKnown);
      else reject(error);
    };
    read.then(resolve, fail).finally(() => clearTimeout(timer));
    if (isEnough()) timer = setTimeout(resolve, WAIT_MS, lastKnown);
  });
}
