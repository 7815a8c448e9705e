import { slowWork } from '../../src/password/index.js';

/** What `work` spends on hashing and verifying passwords, in whole units of `costOf`: sums of fractions are inexact. */
export async function costOfHashing(work: () => Promise<unknown>): Promise<number> {
  const before = slowWork.totalCost;
  await work();
  return Math.round(slowWork.totalCost - before);
}
