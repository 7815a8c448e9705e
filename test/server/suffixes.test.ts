import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { ADMIN, attributes, fill, PEOPLE, personDn, type Running, SUFFIX, start, testSchema } from './directory.js';
import { RawClient } from './raw-client.js';

const OTHER = 'o=Other';

describe('server: two suffixes', () => {
  let running: Running;
  let client: RawClient;

  before(async () => {
    const store = openMemoryStore();
    const adminPassword = hashPasswordFast(Buffer.from(ADMIN.password));
    await initDirectory(store, { suffixes: [SUFFIX, OTHER], adminDn: ADMIN.dn, adminPassword }, testSchema());
    const partition = await Partition.open(store, testSchema());
    await fill(partition, 1);
    running = await start({}, 0, partition);
    client = await RawClient.open(running.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const other = attributes({ objectClass: 'organization', o: 'Other' });
    expect((await client.request({ op: 'add', dn: OTHER, attributes: other })).code).to.equal(0);
  });
  after(async () => {
    client?.close();
    await running?.stop();
    await running?.partition.close();
  });

  const move = (dn: string, newRdn: string, newSuperior: string) =>
    client.request({ op: 'modifyDN', dn, newRdn, deleteOldRdn: true, newSuperior });

  it('a move of a leaf or tree between suffixes is refused with affectsMultipleDSAs (71)', async () => {
    const leaf = await move(personDn('p0'), 'uid=p0', OTHER);
    expect([leaf.code, leaf.final.message]).to.deep.equal([
      71,
      'an entry cannot be moved to another suffix; export it and import it there',
    ]);
    expect((await move(PEOPLE, 'ou=people', OTHER)).code).to.equal(71);
    expect((await move(personDn('p0'), 'uid=p1', OTHER)).code, 'with another name').to.equal(71);
    expect((await client.search(personDn('p0'))).entries, 'it stays where it was').to.have.length(1);
    expect((await client.search(OTHER, { scope: 'one' })).entries).to.have.length(0);
  });

  it('a new superior below no suffix is distinguished from one in another suffix', async () => {
    expect((await move(personDn('p0'), 'uid=p0', 'o=Nowhere')).code).to.equal(32);
    expect((await move(personDn('p0'), 'uid=p0', `ou=none,${OTHER}`)).code).to.equal(32);
    expect((await move(personDn('p0'), 'uid=p0', '')).code).to.equal(53);
  });
});
