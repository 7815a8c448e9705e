import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { randomId } from '../../src/store/hbase/journal/codec.js';
import { PACE } from '../../src/store/hbase/journal/pace.js';
import { rowId } from '../../src/store/hbase/journal/plan-rows.js';
import { Session } from '../../src/store/hbase/journal/session.js';
import { CLOCK, Tickets } from '../../src/store/hbase/journal/tickets.js';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import {
  ADMIN,
  exited,
  heard,
  PASSWORD,
  PEOPLE,
  PEOPLE_SCRIPT,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
  startRowan,
} from '../cli/rowan.js';
import { addPerson, figures, lives, personDn, read, replace, TwoWorkers } from '../cli/workers.js';
import type { Fixture } from '../partition/fixture.js';
import { openOver } from '../partition/kill.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';

const LEASE_MS = 1500;
/** One batch. */
const COUNT = 400;

/** Commands over HBase in processes of their own, some of which are killed. */
describe('rowan over HBase', () => {
  const sandbox = new Sandbox();
  let server: HBaseServer;
  let prefix: string;
  let url: string;

  before(async function () {
    server = await hbase(this);
    prefix = freshPrefix();
    url = server.url(prefix);
    const suffix = ['--suffix', SUFFIX, '--admin-dn', ADMIN, '--hbase-regions', '1'];
    await rowanDoes(['init', '--store', url, ...suffix], { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
  });
  after(() => sandbox.remove());

  async function looked(leaseMs: number, work: (front: Fixture, store: HBaseStore) => Promise<void>): Promise<void> {
    // What is in a batch of one that died is taken away when a request can no longer be under way.
    const settings = { ...server.settings(prefix), rpcTimeoutMs: 2_000 };
    const store = await openHBaseStore(settings, { leaseMs });
    const front = await openOver(store);
    try {
      await work(front, store);
    } finally {
      await front.close();
    }
  }

  it('an import that is killed within a batch leaves all of a batch or nothing, and goes on with the same command', async () => {
    const file = sandbox.path('people.ldif');
    const { stdout } = await run(process.execPath, [PEOPLE_SCRIPT, String(COUNT)]);
    writeFileSync(file, stdout);
    const importing = startRowan(['import', '--store', url, file]);
    const settings = server.settings(prefix);
    const looking = await openHBaseStore(settings);
    // Rows of a batch come before what decides it: there are people, and nobody counts them yet.
    for (let found = 0; found < 10; ) found = await looking.count('master', {}, 10);
    importing.kill('SIGKILL');
    // On a fast machine it is done by then.
    expect(await exited(importing)).to.be.oneOf(['SIGKILL', 0]);
    await looking.close();

    // One that gives others up so soon is not to be there while a command runs.
    await looked(LEASE_MS, async (front, store) => {
      await swept(store, settings, 1);
      await front.expectClean();
      expect(await store.count('master', {}, COUNT)).to.be.oneOf([0, COUNT]);
    });
    await rowanDoes(['import', '--store', url, file]);
    await looked(10 * LEASE_MS, async (front) => {
      expect(await front.find('(uid=*)')).to.have.length(COUNT);
      await front.expectClean();
    });
  });

  it('serves with two workers; one that is killed loses nothing, and is replaced', async () => {
    const two = await TwoWorkers.over(url);
    try {
      const [one, other] = await two.both();
      expect((await addPerson(one, 'ann', 'word')).code).to.equal(0);
      expect(await read(other, personDn('ann'), 'uid')).to.equal('ann');
      const pid = Number((await figures(other)).get('worker.1.pid'));
      const again = heard(two.server.process, 'the worker serves');
      process.kill(pid, 'SIGKILL');
      await again;
      while (lives(pid));
      expect((await replace(other, personDn('ann'), 'description', 'seen')).code).to.equal(0);
      expect(await read(await two.admin(1), personDn('ann'), 'description')).to.equal('seen');
      expect((await other.search(PEOPLE)).code).to.equal(0);
    } finally {
      two.close();
      await two.server.stop();
    }
    expect(await rowanDoes(['check', '--store', url])).to.equal('no breach found\n');
  });

  it('check tells of rows that front ends hold which died, and repair frees them', async () => {
    const settings = server.settings(prefix);
    const client = new HBaseClient(settings);
    const cluster = new Cluster(client, new TableRegistry(client, settings));
    const dead = new Session(
      cluster,
      new Tickets(cluster, CLOCK),
      { clock: CLOCK, pace: PACE, createId: randomId },
      () => undefined,
    );
    await dead.open();
    const key = Buffer.from('nobody');
    await dead.sharedRows.hold(await cluster.table('master'), key, rowId('master', key));
    // As if the hold had arrived when others had taken the writer out.
    await dead.writer.close();
    dead.abandon();
    await client.close();
    const check = ['check', '--store', url];
    expect(await rowanDoes(check)).to.match(/^note locks: .* died: 1;.*\nno breach found\n$/);
    expect(await rowanDoes(['repair', '--store', url])).to.match(/^freed rows .*: 1\n/);
    expect(await rowanDoes(check)).to.equal('no breach found\n');
  });
});
