import { expect } from 'chai';
import { RawClient } from '../server/raw-client.js';
import { ADMIN, PASSWORD, PEOPLE, rowan, rowanDoes, Sandbox } from './rowan.js';
import { TwoWorkers } from './workers.js';

const EACH = 60;
const MAKE = { env: { ROWAN_INDEXES_AUTO: 'make' } };

describe('rowan index proposals', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  async function search(client: RawClient, attribute: string): Promise<void> {
    const filter = { type: 'equal', attribute, value: Buffer.from('nobody') } as const;
    expect((await client.search(PEOPLE, { scope: 'one', filter })).code).to.equal(0);
  }

  const proposals = (...args: string[]) => rowanDoes(['index', 'proposals', '--data', sandbox.data, ...args]);

  it('has what both workers looked at in vain, cn=Monitor as well, and the job makes the index', async () => {
    const workers = await TwoWorkers.start(sandbox, ['--log-slow-search-rows', '2']);
    for (const client of await workers.both()) for (let n = 0; n < EACH; n++) await search(client, 'description');
    workers.close();
    await workers.server.stop();
    const text = await proposals();
    expect(text).to.match(
      /^rowan index add description: 120 searches, \d+ rows in vain, last [-0-9]+; cost: \d+ rows, \d+ KiB\n$/,
    );

    const server = await sandbox.serve(['--log-slow-search-rows', '2', '--indexes-auto', 'make']);
    const client = await RawClient.open(server.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    const { entries } = await client.search('cn=Index Proposals,cn=Monitor', { attributes: ['description'] });
    expect(entries[0]!.attributes.get('description')!.map(String)).to.deep.equal([text.trim()]);
    const said = await rowanDoes(['jobs', 'run', 'indexes', '--data', sandbox.data], MAKE);
    expect(said).to.equal('description made, none dropped\n');
    const list = () => rowanDoes(['index', 'list', '--data', sandbox.data]);
    expect(await list()).to.match(/^description .* ready +equality, presence, made by job indexes$/m);
    expect(await proposals()).to.equal('');

    await rowanDoes(['index', 'add', 'description', '--data', sandbox.data]);
    expect(await list()).to.match(/^description .* ready +equality, presence$/m);

    await search(client, 'title');
    client.close();
    await server.stop();
    expect(await proposals('--forget')).to.match(/^rowan index add title: /);
    expect(await proposals()).to.equal('');
    const off = ['index', 'proposals', '--data', sandbox.data];
    expect((await rowan(off, { env: { ROWAN_INDEXES_AUTO: 'off' } })).stderr).to.match(/not counted with indexes.auto/);
    const without = await rowan(['jobs', 'run', 'indexes', '--data', sandbox.data]);
    expect(without.stderr).to.match(/indexes.auto: make in the configuration makes it/);
  });
});
