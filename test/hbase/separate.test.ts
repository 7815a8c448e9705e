import { expect } from 'chai';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import { ADMIN, PASSWORD, rowanDoes, Sandbox, SUFFIX, serve } from '../cli/rowan.js';
import { seeded } from '../partition/fixture.js';
import { rounds, soakTest } from '../rounds.js';
import { LdapLoad, prepareLoad } from './ldap-load.js';
import { RegionFaults } from './region-faults.js';
import { residue } from './residue.js';
import { freshPrefix, type SeparateServers, separateHBase } from './server.js';

const FAULTS = rounds(0, 5);
/** Regions that a large table begins with. */
const REGIONS = 2;
/** Nobody has a reason to say `unavailable`, however slow the machine is. */
const PATIENT = ['--hbase-operation-seconds', '600'];

describe('HBase with region servers in processes of their own', function () {
  this.timeout(300_000 * FAULTS);
  const sandbox = new Sandbox();
  let server: SeparateServers;

  before(async function () {
    server = await separateHBase(this);
  });
  after(async () => {
    await sandbox.remove();
    await server?.end();
  });

  soakTest('goes on without one that is killed or stopped, and takes it back', async () => {
    const settings = server.settings(freshPrefix(), { operationTimeoutMs: 120_000 });
    const client = new HBaseClient(settings);
    const registry = new TableRegistry(client, settings);
    const table = registry.internal({ name: 'tables', families: [{ name: 'spec' }] });
    const key = Buffer.from('k');
    const cell = { family: 0, qualifier: Buffer.from('q') };
    const place = async (): Promise<string> => (await client.regions(table))[0]!.server;
    try {
      await registry.ensure([]);
      for (const end of ['kill', 'stop'] as const) {
        const put = { ...cell, value: Buffer.from(end) };
        await client.mutate(table, { key, put: [put] });
        const address = await place();
        if (end === 'kill') server.killServer(address);
        else await server.stopServer(address);
        const row = await client.get(table, key);
        expect(row?.includes(put.value), `what was put before the ${end}`).to.equal(true);
        expect(await place()).to.not.equal(address);
        await server.startServer(address);
        // The master chooses where it goes.
        await server.withRegions(table.name, async (regions) => {
          while ((await regions.move(key)) !== address);
        });
        expect(await place()).to.equal(address);
        expect(await client.get(table, key)).to.deep.equal(row);
      }
    } finally {
      await client.close();
    }
  });

  soakTest(
    'killed, stopped, regions moved, split and merged under two front ends and eight writers over LDAP: nothing acknowledged is lost, nothing is left, and nobody is told unavailable',
    () =>
      seeded(async (random) => {
        const prefix = freshPrefix();
        const url = server.url(prefix);
        const who = ['--suffix', SUFFIX, '--admin-dn', ADMIN, '--hbase-regions', String(REGIONS)];
        await rowanDoes(['init', '--store', url, ...who], { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
        const [one, other] = [await serve(url, PATIENT), await serve(url, PATIENT)];
        await prepareLoad(one.port);
        const load = await LdapLoad.start([one.port, other.port], random);
        const faults = new RegionFaults(server, prefix, random, load);
        for (let n = 0; n < FAULTS; n++) await faults.next();
        await faults.close();
        await load.stop();
        for (const { port } of [one, other]) await load.expectKept(port);
        expect(await residue(server.settings(prefix)), 'of writers that live').to.have.length.at.least(2);
        for (const front of [one, other]) expect(await front.stop()).to.equal(0);
        expect(await rowanDoes(['check', '--store', url])).to.equal('no breach found\n');
        expect(await residue(server.settings(prefix))).to.deep.equal([]);
      }),
  );
});
