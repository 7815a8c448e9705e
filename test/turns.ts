/**
 * Turns of the event loop while `work` is under way, if each look at the clock finds that a time slice is over.
 * `onTurn` is called at each of them.
 */
export async function turns(work: () => Promise<unknown>, onTurn?: () => void): Promise<number> {
  const { now } = performance;
  let ms = now.call(performance);
  performance.now = () => ms++;
  let count = 0;
  let probe = setImmediate(function again() {
    count++;
    onTurn?.();
    probe = setImmediate(again);
  });
  try {
    await work();
  } finally {
    performance.now = now;
    clearImmediate(probe);
  }
  return count;
}
