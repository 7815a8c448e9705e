import { expect } from 'chai';
import type { Partition } from '../../src/partition/index.js';
import type { SettingValues } from '../../src/server/settings/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { faulty } from '../store/faulty.js';
import { StoppedClock } from './clock.js';
import { ADMIN, emptyPartition, fill, PEOPLE, personDn, type Running, start } from './directory.js';
import { RawClient } from './raw-client.js';

const PERSONS = 1200;
const ALL = { scope: 'one', filter: { type: 'present', attribute: 'uid' } } as const;
const UNINDEXED = { scope: 'one', filter: { type: 'present', attribute: 'description' } } as const;

describe('server: limits of a search', () => {
  /** Called whenever the store reads on in a scan. */
  let scans = (): void => undefined;
  let partition: Partition;
  let running: Running;
  let admin: RawClient;
  let user: RawClient;

  before(async () => {
    const store = faulty(openMemoryStore(), ({ at }) => {
      if (at === 'scan') scans();
      return undefined;
    });
    partition = await emptyPartition(store);
    await fill(partition, PERSONS);
  });
  afterEach(async () => {
    scans = () => undefined;
    admin.close();
    user.close();
    await running.stop();
  });
  after(() => partition.close());

  async function serve(settings: Partial<SettingValues>): Promise<void> {
    running = await start(settings, 0, partition);
    admin = await RawClient.open(running.port);
    expect(await admin.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    user = await RawClient.open(running.port);
    expect(await user.bind(personDn('p1'), 'secret-1')).to.equal(0);
  }

  it('a search returns as many entries as its size limit, then sizeLimitExceeded; the smaller limit applies', async () => {
    await serve({ 'limits.search.sizeLimit': 20, 'limits.admin.sizeLimit': 900 });
    const given = async (client: RawClient, sizeLimit: number): Promise<[number, number]> => {
      const { code, entries } = await client.search(PEOPLE, { ...ALL, sizeLimit });
      return [code, entries.length];
    };
    expect(await given(user, 0), 'the server’s alone').to.deep.equal([4, 20]);
    expect(await given(user, 5), 'the client’s').to.deep.equal([4, 5]);
    expect(await given(user, 1000), 'more than the server gives').to.deep.equal([4, 20]);
    expect(await given(admin, 0), 'the administrator’s own').to.deep.equal([4, 900]);
    expect(await given(admin, 21)).to.deep.equal([4, 21]);
    const one = await user.search(personDn('p7'), { sizeLimit: 1 });
    expect([one.code, one.entries.length], 'just so many').to.deep.equal([0, 1]);
  });

  it('a search returns the entries found within its time limit, then timeLimitExceeded', async () => {
    await serve({ 'limits.search.timeLimitSeconds': 1 });
    using clock = new StoppedClock();
    scans = () => clock.pass(1100);
    for (const [client, timeLimit] of [
      [admin, 1],
      [user, 0],
      [user, 30],
    ] as const) {
      const asked = client.search(PEOPLE, {
        scope: 'one',
        filter: { type: 'not', filter: UNINDEXED.filter },
        timeLimit,
      });
      const { code, entries } = await asked;
      expect(code).to.equal(3);
      expect(entries.length).to.be.greaterThan(0).and.lessThan(PERSONS);
    }
  });

  for (const [direction, hours, timeLimit, code] of [
    ['forward', 1, 60, 0],
    ['back', -1, 1, 3],
  ] as const)
    it(`the time limit of a search does not depend on the system clock being set ${direction}`, async () => {
      await serve({});
      const { now } = Date;
      using clock = new StoppedClock();
      scans = () => {
        if (timeLimit === 1) clock.pass(1100);
        Date.now = () => now() + hours * 3_600_000;
      };
      try {
        const answer = await user.search(PEOPLE, { ...UNINDEXED, timeLimit });
        expect(answer.code, answer.final.message).to.equal(code);
      } finally {
        Date.now = now;
      }
    });

  it('a search beyond the limit of rows fails with adminLimitExceeded and a reason', async () => {
    await serve({ 'limits.search.lookLimit': 700 });
    const { code, final } = await user.search(PEOPLE, UNINDEXED);
    expect(code).to.equal(11);
    expect(final.message).to.match(/index/);
    expect((await admin.search(PEOPLE, UNINDEXED)).code).to.equal(0);
  });
});
