import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { counted, type StoreWork } from '../store/counted.js';
import { ADMIN, emptyPartition, fill, PEOPLE, personDn, type Running, start } from './directory.js';
import { RawClient } from './raw-client.js';

describe('server: the log of slow searches', () => {
  let running: Running;
  let work: StoreWork;
  before(async () => {
    const { store, work: done } = counted(openMemoryStore());
    work = done;
    const partition = await emptyPartition(store, PRESETS['anybody-reads']);
    await fill(partition, 30);
    running = await start({ 'log.slowSearchRows': 10 }, 0, partition);
  });
  after(async () => {
    await running.stop();
    await running.partition.close();
  });

  it('tells base, scope and who asked, and no value of the filter', async () => {
    const secret = Buffer.from('asserted');
    const ask = async (attribute: string, dn = '', password = ''): Promise<Record<string, unknown>> => {
      const client = await RawClient.open(running.port);
      if (dn !== '') expect(await client.bind(dn, password)).to.equal(0);
      const filter = { type: 'equal', attribute, value: secret } as const;
      expect((await client.search(PEOPLE, { scope: 'one', filter })).code).to.equal(0);
      client.close();
      const lines = running.lines.filter((line) => line.includes(`(${attribute}=?)`));
      expect(lines).to.have.length(1);
      return JSON.parse(lines[0]!) as Record<string, unknown>;
    };
    const asked = { base: PEOPLE, scope: 'one', entries: 0 };
    const byUser = await ask('description', personDn('p1'), 'secret-1');
    expect(byUser).to.include({ ...asked, filter: '(description=?)', boundAs: personDn('p1') });
    expect(byUser.msg).to.match(/^slow search: looked at \d+ rows for 0 entries/);
    expect(await ask('title', ADMIN.dn, ADMIN.password)).to.include({ ...asked, boundAs: ADMIN.dn });
    expect(await ask('street')).to.include({ ...asked, boundAs: '' });
    expect(running.lines.join('')).to.not.match(/asserted|secret-1/);
  });

  it('tells which connection it was', async () => {
    const clients = [await RawClient.open(running.port), await RawClient.open(running.port)];
    const asked = ['l', 'st', 'ou', 'o'];
    for (const [i, attribute] of asked.entries()) {
      const filter = { type: 'equal', attribute, value: Buffer.from('x') } as const;
      expect((await clients[i % 2]!.search(PEOPLE, { scope: 'one', filter })).code).to.equal(0);
    }
    for (const client of clients) client.close();
    const numbers = asked.map((attribute) => {
      const line = running.lines.find((one) => one.includes(`(${attribute}=?)`));
      return (JSON.parse(line!) as { connection?: number }).connection;
    });
    const [first, second] = numbers;
    expect(first).to.be.a('number');
    expect(second).to.be.a('number').that.is.not.equal(first);
    expect(numbers).to.deep.equal([first, second, first, second]);
  });

  it('costs no second search', async () => {
    const client = await RawClient.open(running.port);
    const told = (): number => running.lines.filter((line) => line.includes('(carLicense=*)')).length;
    /** Rows that are read until the search is answered and the log has told of its kind. */
    const cost = async (): Promise<number> => {
      const before = work.rows;
      const filter = { type: 'present', attribute: 'carLicense' } as const;
      expect((await client.search(PEOPLE, { scope: 'one', filter })).code).to.equal(0);
      while (told() === 0) await new Promise(setImmediate);
      return work.rows - before;
    };
    const first = await cost();
    expect(await cost(), 'a kind that was told is not told again').to.equal(first);
    expect(told()).to.equal(1);
    client.close();
  });
});
