import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { type Job, type JobState, readJob, runNow, Scheduler, standardJobs } from '../../src/jobs/index.js';
import { disabledStep, readJobs, stateStep } from '../../src/jobs/job-rows.js';
import { Partition } from '../../src/partition/index.js';
import { makeConfig } from '../../src/server/settings/index.js';
import type { Store } from '../../src/store/contract.js';
import { cellCounter } from '../../src/store/row.js';
import { ENGINES, type Fixture, openFixture, testSchema } from '../partition/fixture.js';
import { JOBS_CHILD, STEPS, stepsJob } from './jobs-child.js';

/** Short, so that a test does not wait for the death of a holder. */
const LEASE_MS = 300;
/** Longer than any process is kept from showing that it lives. */
const LONG_LEASE_MS = 120_000;
const NEVER = new AbortController().signal;
const HOUR_MS = 3_600_000;

/** A scheduler that looks often, and what it says. */
function schedulerOf(store: Store, jobs: readonly Job[] | (() => readonly Job[]), leaseMs = LONG_LEASE_MS) {
  const said: string[] = [];
  const log = {
    logResult: (job: string, result: string) => void said.push(`${job}: ${result}`),
    logFailure: (job: string, error: unknown) => void said.push(`${job} failed: ${(error as Error).message}`),
  };
  return {
    said,
    scheduler: new Scheduler(store, typeof jobs === 'function' ? jobs : () => jobs, log, { leaseMs, pollMs: 10 }),
  };
}

/** As if a server had first had the job two hours ago. */
async function makeDue(store: Store, name: string): Promise<void> {
  const { term, state } = await readJob(store, name);
  const ago = Date.now() - 2 * HOUR_MS;
  const due: JobState = state.started === undefined ? { since: ago } : { ...state, started: ago };
  await store.commit({ steps: [stateStep(name, term, due)], decisive: 0 });
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(5);
}

function job(run: Job['run'], schedule = '* * * * *'): Job {
  return { name: 'work', description: 'works', schedule, run };
}

for (const engine of ENGINES) {
  describe(`scheduled jobs (${engine})`, () => {
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
    });
    afterEach(() => fixture.close());

    it('a job runs when its time has come, and the directory keeps what it did', async () => {
      const { store } = fixture;
      const { said, scheduler } = schedulerOf(store, [job(async () => 'all done')]);
      await makeDue(store, 'work');
      scheduler.start();
      await until(() => said.length > 0);
      await scheduler.stop();
      expect(said).to.deep.equal(['work: all done']);
      const { state } = await readJob(store, 'work');
      expect(state).to.include({ outcome: 'done', result: 'all done' });
      expect(state.holder).to.equal(undefined);
      expect(state.ended! >= state.started!).to.equal(true);
      expect(state.next! > state.started!).to.equal(true);
    });

    it('a job that no server has had before waits for its time', async () => {
      const { store } = fixture;
      const { said, scheduler } = schedulerOf(store, [job(async () => 'done', '0 0 1 1 *')]);
      scheduler.start();
      await until(async () => (await readJob(store, 'work')).state.since !== undefined);
      await scheduler.stop();
      expect(said).to.deep.equal([]);
    });

    it('of two servers one runs a job, once at each time', async () => {
      const { store } = fixture;
      let runs = 0;
      let running = 0;
      const work = job(async (run) => {
        expect(++running).to.equal(1);
        await run.proceed();
        runs++;
        running--;
        return 'done';
      });
      await makeDue(store, 'work');
      const servers = [schedulerOf(store, [work]), schedulerOf(store, [work])];
      for (const { scheduler } of servers) scheduler.start();
      for (let time = 1; time <= 3; time++) {
        await until(async () => runs === time && (await readJob(store, 'work')).state.holder === undefined);
        if (time < 3) await makeDue(store, 'work');
      }
      for (const { scheduler } of servers) await scheduler.stop();
      expect(runs).to.equal(3);
      expect(servers.flatMap(({ said }) => said)).to.deep.equal(Array(3).fill('work: done'));
    });

    it('a job that is disabled or off is not started, and is run when it is asked for', async () => {
      const { store } = fixture;
      const off: Job = { ...job(async () => 'done', 'off'), name: 'off' };
      const jobs = [job(async () => 'done'), off];
      for (const { name } of jobs) await makeDue(store, name);
      await store.commit({ steps: [disabledStep('work', true)], decisive: 0 });
      const last: Job = { ...job(async () => 'done'), name: 'last' };
      await makeDue(store, 'last');
      const { said, scheduler } = schedulerOf(store, [...jobs, last]);
      scheduler.start();
      await until(() => said.length > 0);
      expect(said).to.deep.equal(['last: done']);
      expect(await runNow(store, jobs[0]!, NEVER)).to.equal('done');
      await makeDue(store, 'work');
      await store.commit({ steps: [disabledStep('work', false)], decisive: 0 });
      await until(() => said.length > 1);
      await scheduler.stop();
      expect(said).to.deep.equal(['last: done', 'work: done']);
      expect((await readJobs(store)).map(({ name }) => name)).to.deep.equal(['last', 'off', 'work']);
    });

    it('a schedule that changes holds at the next check', async () => {
      const { store } = fixture;
      let schedule = 'off';
      const work = job(async () => 'done');
      let checks = 0;
      const { said, scheduler } = schedulerOf(store, () => {
        checks++;
        return [{ ...work, schedule }];
      });
      await makeDue(store, 'work');
      scheduler.start();
      await until(() => checks > 1);
      expect(said).to.deep.equal([]);
      schedule = '* * * * *';
      await until(() => said.length > 0);
      await scheduler.stop();
      expect(said).to.deep.equal(['work: done']);
    });

    it('a job that fails is told of, and runs again at its next time', async () => {
      const { store } = fixture;
      let runs = 0;
      const failing = job(async () => {
        runs++;
        throw new Error('the disk is full');
      });
      await makeDue(store, 'work');
      const { said, scheduler } = schedulerOf(store, [failing]);
      scheduler.start();
      await until(() => said.length > 0);
      expect((await readJob(store, 'work')).state).to.include({ outcome: 'failed', result: 'the disk is full' });
      await makeDue(store, 'work');
      await until(() => said.length > 1);
      await scheduler.stop();
      expect(runs).to.equal(2);
      expect(said[1]).to.equal('work failed: the disk is full');
    });

    it('a job whose server ends stops before its next piece, and another server starts it at once', async () => {
      const { store } = fixture;
      let pieces = 0;
      let begun = (): void => undefined;
      const first = new Promise<void>((resolve) => {
        begun = resolve;
      });
      const long = job(async (run) => {
        for (;;) {
          await run.proceed();
          if (++pieces === 3) begun();
          await sleep(1);
        }
      });
      await makeDue(store, 'work');
      const one = schedulerOf(store, [long]);
      one.scheduler.start();
      await first;
      await one.scheduler.stop();
      expect((await readJob(store, 'work')).state.outcome).to.equal('stopped');
      const other = schedulerOf(store, [job(async () => 'finished')]);
      other.scheduler.start();
      await until(() => other.said.length > 0);
      await other.scheduler.stop();
      expect(other.said).to.deep.equal(['work: finished']);
    });

    it('a job that is disabled is not started where it was stopped, or where its server died', async () => {
      const { store } = fixture;
      const stop = new AbortController();
      const stopped = job(async (run) => {
        stop.abort();
        await run.proceed();
        return 'never';
      });
      await runNow(store, stopped, stop.signal).catch(() => undefined);
      expect((await readJob(store, 'work')).state.outcome).to.equal('failed');
      for (const state of [{ outcome: 'stopped' }, { holder: 'gone:1' }] as const) {
        const { term } = await readJob(store, 'work');
        await store.commit({ steps: [stateStep('work', term, { started: 1, ...state })], decisive: 0 });
        await store.commit({ steps: [disabledStep('work', true)], decisive: 0 });
        const last: Job = { ...job(async () => 'done'), name: 'last' };
        await makeDue(store, 'last');
        const { said, scheduler } = schedulerOf(store, [job(async () => 'started'), last], 1);
        scheduler.start();
        await until(() => said.length > 0);
        await makeDue(store, 'last');
        await until(() => said.length > 1);
        await scheduler.stop();
        expect(said).to.deep.equal(['last: done', 'last: done']);
      }
    });

    it('a job that another process runs is not run beside it', async () => {
      const { store } = fixture;
      let end = (): void => undefined;
      const ended = new Promise<void>((resolve) => {
        end = resolve;
      });
      const holding = runNow(
        store,
        job(() => ended.then(() => 'done')),
        NEVER,
        undefined,
        LEASE_MS,
      );
      await until(async () => (await readJob(store, 'work')).state.holder !== undefined);
      const waits: string[] = [];
      const asked = runNow(
        store,
        job(async () => 'twice'),
        NEVER,
        ({ name }) => void waits.push(name),
        LEASE_MS * 20,
      );
      expect(await asked.catch((error: Error) => error.message)).to.match(/^job 'work' is being run by .*:\d+ since/);
      expect(waits).to.deep.equal(['work']);
      end();
      expect(await holding).to.equal('done');
    });
  });
}

describe('scheduled jobs of several processes', () => {
  let fixture: Fixture;
  let child: ChildProcess;
  beforeEach(async () => {
    fixture = await openFixture('lmdb');
  });
  afterEach(async () => {
    child.kill('SIGKILL');
    await fixture.close();
  });

  function startChild(work: string): { lines: string[] } {
    const lines: string[] = [];
    child = spawn(process.execPath, [JOBS_CHILD, fixture.folder!, work, String(LEASE_MS)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    child.stdout!.on('data', (data: Buffer) => void lines.push(...data.toString().trim().split('\n')));
    return { lines };
  }

  async function counted(): Promise<bigint> {
    fixture.store.renewReads?.();
    return cellCounter(await fixture.store.get(STEPS.table, STEPS.key), STEPS.family, STEPS.qualifier);
  }

  it('a holder that is stopped and goes on later does nothing of a job that another has taken over', async () => {
    const { lines } = startChild('steps');
    child.stdin!.write('\n\n');
    await until(() => lines.length === 2);
    child.kill('SIGSTOP');
    const before = await counted();
    let steps = 3;
    const { said, scheduler } = schedulerOf(
      fixture.store,
      [
        stepsJob(
          fixture.store,
          async () => steps-- > 0,
          () => undefined,
        ),
      ],
      LEASE_MS,
    );
    scheduler.start();
    await until(() => said.length > 0);
    await scheduler.stop();
    expect(said).to.deep.equal(['steps: 3 steps']);
    child.stdin!.write('\n\n');
    child.kill('SIGCONT');
    await once(child, 'exit');
    expect(lines).to.deep.equal(['step 1', 'step 2', 'JobLost']);
    expect(await counted()).to.equal(before + 3n);
  });

  it('a purge whose process is killed half way is finished by another', async () => {
    const count = 700;
    const people = Array.from({ length: count }, (_, n) => `cn=p${n},ou=people,dc=example,dc=com`);
    await fixture.unit('people');
    const values = (cn: string) => ({ objectClass: 'inetOrgPerson', cn, sn: cn });
    await fixture.load(people.map((dn, n) => ({ dn, values: values(`p${n}`) })));
    await Promise.all(people.map((dn) => fixture.delete(dn)));
    await makeDue(fixture.store, 'purge');
    startChild('purge');
    const [, signal] = await once(child, 'exit');
    expect(signal).to.equal('SIGKILL');
    const left = await fixture.store.count('deleted', {}, count);
    expect(left).to.be.within(1, count - 1);
    const partition = await Partition.open(fixture.store, testSchema());
    const jobs = standardJobs(partition, makeConfig({ 'history.deletedDays': 0 }));
    const { said, scheduler } = schedulerOf(fixture.store, jobs, LEASE_MS);
    scheduler.start();
    await until(() => said.length > 0);
    await scheduler.stop();
    expect(said).to.deep.equal([`purge: ${left.toLocaleString('en')} deleted entries forgotten`]);
    expect(await fixture.store.count('deleted', {}, 1)).to.equal(0);
    await fixture.expectClean();
  });
});
