import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../store/contract.js';
import { type Job, JobStopped } from './job.js';
import { type JobRow, readJob } from './job-rows.js';
import { LEASE_MS, Lease, Watch } from './lease.js';

/** How often the holder of a job is looked at, in milliseconds. */
const LOOK_MS = 500;

/**
 * Runs the job in this process, whatever its schedule; resolves with what it did. Where another process has the job,
 * `onWait` is told of it, and the holder is watched: one that lives makes this fail, one that has died is replaced.
 */
export async function runNow(
  store: Store,
  job: Job,
  stop: AbortSignal,
  onWait: (row: JobRow) => void = () => undefined,
  leaseMs = LEASE_MS,
): Promise<string> {
  const watch = new Watch(leaseMs);
  for (let first: JobRow | undefined; ; ) {
    store.renewReads?.();
    const row = await readJob(store, job.name);
    if (row.state.holder === undefined || watch.hasDied(row)) {
      // Whoever stops it wants it stopped: no server goes on with it.
      const lease = await Lease.take(store, job, row, { stop, whenStopped: 'failed', leaseMs });
      if (lease) return lease.run();
      continue;
    }
    first ??= row;
    if (row.term !== first.term || row.beat !== first.beat) throw new Error(runs(row));
    if (row === first) onWait(row);
    if (stop.aborted) throw new JobStopped(job.name);
    await sleep(LOOK_MS);
  }
}

function runs({ name, state: { holder, started } }: JobRow): string {
  return `job '${name}' is being run by ${holder} since ${new Date(started ?? 0).toISOString()}`;
}
