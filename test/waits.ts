/** What the tests of this process wait for, with the time at which each wait began. */
const waits = new Map<symbol, { readonly what: string; readonly sinceMs: number }>();

/** Waits for `promise`. `what` names it in the report of a test that hangs (`scripts/test-lane.mjs`). */
export async function waitFor<T>(what: string, promise: Promise<T>): Promise<T> {
  const key = Symbol();
  waits.set(key, { what, sinceMs: performance.now() });
  try {
    return await promise;
  } finally {
    waits.delete(key);
  }
}

/** The waits that have not ended, each with its seconds. */
export function openWaits(): string[] {
  return [...waits.values()].map(
    ({ what, sinceMs }) => `${what} (${Math.round((performance.now() - sinceMs) / 1000)} s)`,
  );
}
