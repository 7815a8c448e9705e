let count = 0;

/** The order of what happens in this process: reads that wait for HBase, and folds that begin and end meanwhile. */
export const moments = {
  now: (): number => count,
  next: (): number => ++count,
};
