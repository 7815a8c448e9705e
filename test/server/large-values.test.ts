import { expect } from 'chai';
import type { Filter } from '../../src/ldap/types.js';
import { faulty } from '../../src/store/faulty/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { ADMIN, addPerson, emptyPartition, fill, PEOPLE, personDn, start } from './directory.js';
import { RawClient } from './raw-client.js';

const equal = (attribute: string, value: string): Filter => ({ type: 'equal', attribute, value: Buffer.from(value) });

describe('server: values over 64 KiB', () => {
  it('are read from the store only where they are selected, matched or compared', async () => {
    let reads = 0;
    const store = faulty(openMemoryStore(), ({ at }) => {
      if (at === 'getCells') reads++;
      return undefined;
    });
    const partition = await emptyPartition(store);
    await fill(partition, 1);
    const large = 'x'.repeat(200_000);
    await addPerson(partition, 'large', { description: large, mail: 'large@example.com' });
    const running = await start({}, 0, partition);
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    const readsOf = async (work: Promise<{ readonly code: number }>, code = 0): Promise<number> => {
      reads = 0;
      expect((await work).code).to.equal(code);
      return reads;
    };
    const dn = personDn('large');
    for (const attributes of [['mail'], ['+'], ['1.1'], ['cn', 'sn']])
      expect(await readsOf(client.search(dn, { attributes })), attributes.join()).to.equal(0);
    expect(await readsOf(client.search(dn, { typesOnly: true })), 'types only').to.equal(0);
    const by = { scope: 'one', attributes: ['1.1'] } as const;
    expect(await readsOf(client.search(PEOPLE, { ...by, filter: equal('mail', 'large@example.com') }))).to.equal(0);
    const mail = { op: 'compare', dn, attribute: 'mail', value: Buffer.from('x') } as const;
    expect(await readsOf(client.request(mail), 5)).to.equal(0);
    expect(await readsOf(client.search(dn)), 'all attributes').to.be.greaterThan(0);
    expect(await readsOf(client.search(dn, { attributes: ['description'] }))).to.be.greaterThan(0);
    const found = await client.search(PEOPLE, { ...by, filter: equal('description', large) });
    expect(found.entries.map((entry) => entry.dn)).to.deep.equal([dn]);
    const compared = { op: 'compare', dn, attribute: 'description', value: Buffer.from(large) } as const;
    expect(await readsOf(client.request(compared), 6)).to.be.greaterThan(0);
    client.close();
    await running.stop();
    await partition.close();
  });
});
