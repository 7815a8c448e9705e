import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Job, readJob, runNow, Scheduler, standardJobs } from '../../src/jobs/index.js';
import { Partition } from '../../src/partition/index.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { testSchema } from '../partition/fixture.js';

/** The file that Node runs: `jobs-child.js FOLDER steps|purge LEASE`. */
export const JOBS_CHILD = fileURLToPath(import.meta.url);
/** Row of table `meta` that job `steps` counts in. */
export const STEPS = { table: 'meta', key: Buffer.from('steps'), family: 0, qualifier: Buffer.from('count') };
/** Commits that job `purge` is killed behind. */
const PURGE_COMMITS = 5;

/** A job that does one step at each call of `next`, until it gives false, and tells of each. */
export function stepsJob(
  store: Pick<Partition['store'], 'commit'>,
  next: () => Promise<boolean>,
  told: (step: number) => void,
): Job {
  const { table, key, family, qualifier } = STEPS;
  return {
    name: 'steps',
    description: 'counts',
    schedule: '* * * * *',
    async run(run) {
      let steps = 0;
      while (await next()) {
        await run.proceed();
        await store.commit({ steps: [{ table, key, add: [{ family, qualifier, by: 1n }] }, run.fence], decisive: 0 });
        told(++steps);
      }
      return `${steps} steps`;
    },
  };
}

async function steps(partition: Partition, leaseMs: number): Promise<void> {
  const lines = createInterface(process.stdin)[Symbol.asyncIterator]();
  const next = async () => !(await lines.next()).done;
  const job = stepsJob(partition.store, next, (step) => process.stdout.write(`step ${step}\n`));
  await runNow(partition.store, job, new AbortController().signal, undefined, leaseMs).then(
    (result) => process.stdout.write(`${result}\n`),
    (error: Error) => process.stdout.write(`${error.name}\n`),
  );
  process.exit();
}

/** The scheduler of a server, which is killed in the midst of job `purge`. */
async function purge(partition: Partition, leaseMs: number): Promise<void> {
  const { store } = partition;
  const jobs = standardJobs(partition, makeConfig({ 'history.deletedDays': 0 }));
  const log = { logResult: () => undefined, logFailure: () => undefined };
  const scheduler = new Scheduler(store, () => jobs, log, { leaseMs });
  const commit = store.commit.bind(store);
  let left = PURGE_COMMITS;
  store.commit = async (plan) => {
    await commit(plan);
    if ((await readJob(store, 'purge')).state.holder !== undefined && --left === 0)
      process.kill(process.pid, 'SIGKILL');
  };
  scheduler.start();
}

const [, program, folder, work, lease] = process.argv;
if (program === JOBS_CHILD) {
  const partition = await Partition.open(await openLmdbStore(folder!), testSchema());
  await (work === 'steps' ? steps : purge)(partition, Number(lease));
}
