import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../store/contract.js';
import { type Job, JobStopped } from './job.js';
import { type JobRow, readJob } from './job-rows.js';
import { LEASE_MS, Lease, LeaseWatch } from './lease.js';

/** Milliseconds between two checks of the current holder. */
const POLL_MS = 500;

/**
 * Runs the job in this process, regardless of its schedule. Resolves with the report of the job. If another process
 * holds the job, `onWait` is called and the heartbeat of the holder is watched: the call rejects for a living holder,
 * and takes the job over from a dead one.
 */
export async function runNow(
  store: Store,
  job: Job,
  stop: AbortSignal,
  onWait: (row: JobRow) => void = () => undefined,
  leaseMs = LEASE_MS,
): Promise<string> {
  const watch = new LeaseWatch(leaseMs);
  for (let firstRow: JobRow | undefined; ; ) {
    store.renewReads?.();
    const row = await readJob(store, job.name);
    if (row.state.holder === undefined || watch.hasDied(row)) {
      // The user has stopped this run, so no server may resume the job.
      const lease = await Lease.take(store, job, row, { stop, whenStopped: 'failed', leaseMs });
      if (lease) return lease.run();
      continue;
    }
    firstRow ??= row;
    if (row.term !== firstRow.term || row.beatCount !== firstRow.beatCount) throw new Error(runningText(row));
    if (row === firstRow) onWait(row);
    if (stop.aborted) throw new JobStopped(job.name);
    await sleep(POLL_MS);
  }
}

function runningText({ name, state: { holder, started } }: JobRow): string {
  return `job '${name}' is being run by ${holder} since ${new Date(started ?? 0).toISOString()}`;
}
