import { once } from 'node:events';
import { expect } from 'chai';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { faulty } from '../store/faulty.js';
import {
  ADMIN,
  addPerson,
  emptyPartition,
  fill,
  PEOPLE,
  personAttributes,
  personDn,
  type Running,
  start,
  testSchema,
} from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

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

  describe('that go out in pieces', () => {
    const LENGTH = 16 * 1024 * 1024;
    const large = Buffer.alloc(LENGTH, 'abc');
    const text = Buffer.alloc(200_000, 'text ');
    const dn = personDn('large');
    const photo = { attributes: ['jpegPhoto'] };
    let reads = 0;
    /** Gives the read that fails, counted from 1. */
    let failing = 0;
    let running: Running;
    let client: RawClient;

    before(async () => {
      const store = faulty(openMemoryStore(), ({ at }) =>
        at === 'getCells' && ++reads === failing ? { do: 'fail' } : undefined,
      );
      const partition = await emptyPartition(store);
      await fill(partition, 1);
      const values = [
        ...personAttributes('large'),
        { type: 'jpegPhoto', values: [large, large.subarray(1)] },
        { type: 'description', values: [text] },
      ];
      await partition.add(testSchema().parseDn(dn), values, { dn: ADMIN.dn });
      running = await start({}, 0, partition);
    });
    beforeEach(async () => {
      failing = 0;
      client = await RawClient.open(running.port);
      await client.bind(ADMIN.dn, ADMIN.password);
      reads = 0;
    });
    afterEach(() => client.close());
    after(async () => {
      await running.stop();
      await running.partition.close();
    });

    it('nothing comes between them, whatever else the connection answers', async () => {
      const compare = { op: 'compare', dn, attribute: 'cn', value: Buffer.from('Person large') } as const;
      const whole = Array.from({ length: 3 }, () => client.search(dn, photo));
      const between = Array.from({ length: 20 }, () => client.request(compare));
      const small = client.search(PEOPLE, { scope: 'sub', attributes: ['cn'] });
      // More of them than are begun at a time, of a length that is not sent in pieces.
      const middle = Array.from({ length: 40 }, () => client.search(dn, { attributes: ['description'] }));
      for (const { code, entries } of await Promise.all(whole)) {
        const [first, second] = entries[0]!.attributes.get('jpegPhoto')!;
        expect([code, first!.equals(large), second!.equals(large.subarray(1))]).to.deep.equal([0, true, true]);
      }
      for (const { code } of await Promise.all(between)) expect(code).to.equal(6);
      expect((await small).entries).to.have.length(3);
      for (const { entries } of await Promise.all(middle))
        expect(entries[0]!.attributes.get('description')![0]!.equals(text)).to.equal(true);
    });

    it('nothing more is read for a client that does not take it, or is gone', async () => {
      const gone = await RawClient.open(running.port);
      await gone.bind(ADMIN.dn, ADMIN.password);
      gone.send(searchRequest(dn, photo));
      await once(gone.socket, 'data');
      gone.close();
      await client.search(dn, photo);
      await client.search(dn, photo);
      const all = (2 * LENGTH) / (128 * 1024);
      expect(reads).to.be.within(2 * all, 3 * all - 100);
    });

    it('an error before anything has gone is answered, one in the middle ends the connection', async () => {
      failing = 1;
      expect((await client.search(dn, photo)).code).to.equal(52);
      expect((await client.search(dn, photo)).code).to.equal(0);
      reads = 0;
      failing = 150;
      const id = client.send(searchRequest(dn, photo));
      await client.ended();
      expect(client.hasHeardOf(id)).to.equal(false);
      expect(running.lines.filter((line) => line.includes('in the middle of an entry'))).to.have.length(1);
    });
  });
});
