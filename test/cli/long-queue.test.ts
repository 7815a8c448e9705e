import { expect } from 'chai';
import { WriteQueue } from '../../src/cli/long/long-thread.js';
import { hashPasswordFast } from '../../src/password/index.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { RequestQuota } from '../../src/server/connection/long-admission.js';
import { gate } from '../password/hold.js';
import { attributes } from '../server/directory.js';
import { RawClient, searchRequest } from '../server/raw-client.js';
import { ADA, ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox, SUFFIX, serve } from './rowan.js';
import { scrape, total } from './scrape.js';

describe('cli: turns of long writes', () => {
  it('one at a time, users in turn, and their connections, whatever becomes of one', async () => {
    const turns = new WriteQueue();
    const begun: string[] = [];
    let going = 0;
    const write = (who: string, connection: number, what: string, fails = false) =>
      turns.run([who, connection], { onAbort: undefined }, async () => {
        begun.push(what);
        expect(++going).to.equal(1);
        await new Promise(setImmediate);
        going--;
        if (fails) throw new Error('refused');
        return what;
      });
    const greedy = Array.from({ length: 100 }, (_, i) =>
      write('ann', 1, `ann${i}`, i % 2 === 1).catch(() => 'refused'),
    );
    const others = [write('bob', 2, 'bob0'), write('bob', 2, 'bob1'), write('carol', 3, 'carol0')];
    const another = write('ann', 4, 'other ann');
    expect(await Promise.all(others)).to.deep.equal(['bob0', 'bob1', 'carol0']);
    expect(begun.slice(0, 6)).to.deep.equal(['ann0', 'ann1', 'bob0', 'carol0', 'other ann', 'bob1']);
    expect(await another).to.equal('other ann');
    const ended = await Promise.all(greedy);
    expect(ended.filter((one) => one === 'refused')).to.have.length(50);
    expect(begun.filter((one) => one.startsWith('ann'))).to.deep.equal(greedy.map((_, i) => `ann${i}`));
    expect(await write('dave', 5, 'dave0')).to.equal('dave0');
  });

  it('a write that is aborted before its turn does not begin', async () => {
    const turns = new WriteQueue();
    const { opened, open } = gate();
    const begun: string[] = [];
    const replies = ['ann', 'bob', 'carol'].map((who) => ({ who, onAbort: undefined as (() => void) | undefined }));
    const writes = replies.map((reply, n) =>
      turns
        .run([reply.who, n], reply, async () => {
          begun.push(reply.who);
          await opened;
          return 'done';
        })
        .catch(({ result }) => result),
    );
    replies[1]!.onAbort!();
    expect(await writes[1]).to.equal('canceled');
    open();
    expect(await Promise.all(writes)).to.deep.equal(['done', 'canceled', 'done']);
    expect(begun).to.deep.equal(['ann', 'carol']);
  });

  it('there is room for so many, and for half of them of one user', () => {
    const room = new RequestQuota({ longRequests: 10 });
    for (let i = 0; i < 5; i++) room.acquire('ann');
    expect(() => room.acquire('ann')).to.throw('too many long requests are waiting, 5 in all and 5 of the same user');
    for (let i = 0; i < 5; i++) room.acquire(`user${i}`);
    // Who has none is admitted all the same.
    room.acquire('bob');
    expect(() => room.acquire('bob')).to.throw('(limits.longRequests); try again later');
    for (let i = 0; i < 2; i++) room.release('ann');
    room.acquire('bob');
    for (let i = 0; i < 2; i++) room.release('bob');
    room.acquire('ann');
    for (let i = 0; i < 4; i++) room.release('ann');
    for (let i = 0; i < 4; i++) room.acquire('ann');
  });
});

describe('cli: long writes of a server', () => {
  const sandbox = new Sandbox();
  const clients: RawClient[] = [];
  let server: RunningServer;

  before(async () => {
    await sandbox.initSample();
    const input = `dn: ${ADA}\nchangetype: modify\nreplace: userPassword\nuserPassword: ${hashPasswordFast(Buffer.from('secret'))}\n`;
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input });
    server = await serve(sandbox.data, ['--workers', '1', '--limits-long-requests', '60', '--http', '127.0.0.1:0']);
  });
  after(async () => {
    for (const client of clients) client.close();
    await server?.stop();
    await sandbox.remove();
  });

  async function open(dn: string, password: string, at = server): Promise<RawClient> {
    const client = await RawClient.open(at.port);
    clients.push(client);
    expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  const group = (name: string, members: number): Request => ({
    op: 'add',
    dn: `cn=${name},${SUFFIX}`,
    attributes: attributes({
      objectClass: 'groupOfNames',
      cn: name,
      member: Array.from({ length: members }, (_, n) => `uid=${name}.${n},${PEOPLE}`),
    }),
  });

  it('those of others come in between, of another user and of another connection of the same one', async () => {
    const [greedy, other] = [await open(ADMIN, PASSWORD), await open(ADMIN, PASSWORD)];
    const ada = await open(ADA, 'secret');
    const many = Array.from({ length: 25 }, (_, n) => group(`many${n}`, 2000));
    const ids = greedy.sendTogether(many);
    const left = (): number => ids.filter((id) => !greedy.hasHeardOf(id)).length;
    const values = Array.from({ length: 1000 }, (_, n) => `value ${n}`);
    const changes = [{ operation: 'add', attribute: attributes({ description: values })[0]! }] as const;
    const own = ada.request({ op: 'modify', dn: ADA, changes }).then(({ code }) => [code, left()] as const);
    const small = other.request(group('between', 600)).then(({ code }) => [code, left()] as const);
    const [[refused, leftThen], [added, leftAfter]] = await Promise.all([own, small]);
    expect([refused, added]).to.deep.equal([50, 0]);
    expect(Math.min(leftThen, leftAfter), 'of 25 that were sent before').to.be.above(0);
    for (const id of ids) expect((await greedy.answer(id)).code).to.equal(0);
  });

  it('those of a connection that has gone do not begin', async () => {
    const [leaving, other] = [await open(ADMIN, PASSWORD), await open(ADMIN, PASSWORD)];
    const many = 25;
    const ids = leaving.sendTogether(Array.from({ length: many }, (_, n) => group(`left${n}`, 2000)));
    await leaving.answer(ids[0]!);
    leaving.close();
    const waiting = async () => total((await scrape(server)).series, 'rowan_queue_length', { queue: 'long_requests' });
    while ((await waiting()) > 0);
    const { entries } = await other.search(SUFFIX, {
      scope: 'one',
      filter: { type: 'substring', attribute: 'cn', initial: Buffer.from('left'), any: [], final: undefined },
      attributes: ['cn'],
    });
    expect(entries.length).to.be.within(1, many - 1);
  });

  it('wide searches of one user do not end the thread: writes of others in it succeed', async () => {
    const small = await serve(sandbox.data, ['--workers', '1'], { env: { NODE_OPTIONS: '--max-old-space-size=128' } });
    try {
      const terms = Array.from({ length: 9998 }, (_, n) => ({
        type: 'equal' as const,
        attribute: n % 2 === 0 ? 'sn' : 'cn',
        value: Buffer.from(`${n}`),
      }));
      const wide = searchRequest(SUFFIX, { scope: 'sub', filter: { type: 'or', filters: terms } });
      const users = await Promise.all(Array.from({ length: 6 }, () => open(ADA, 'secret', small)));
      for (const user of users) user.sendTogether(Array(6).fill(wide));
      const admin = await open(ADMIN, PASSWORD, small);
      for (let n = 0; n < 2; n++) expect((await admin.request(group(`beside${n}`, 600))).code).to.equal(0);
      for (const user of users) user.close();
    } finally {
      await small.stop();
    }
  });

  it('too many of one user are refused as busy, others are served', async () => {
    const greedy = await open(ADMIN, PASSWORD);
    const ada = await open(ADA, 'secret');
    // The first ones take long: the others arrive meanwhile.
    const ids = greedy.sendTogether(Array.from({ length: 50 }, (_, n) => group(`busy${n}`, n < 5 ? 5000 : 600)));
    const answers = ids.map((id) => greedy.answer(id));
    const value = Buffer.from('x'.repeat(10_000));
    const filter = { type: 'equal', attribute: 'description', value } as const;
    expect((await ada.search(SUFFIX, { scope: 'sub', filter })).code).to.equal(0);
    const finals = (await Promise.all(answers)).map(({ final }) => final);
    const refused = finals.filter(({ code }) => code !== 0);
    expect(refused.length).to.be.within(1, 20);
    for (const { code, message } of refused) {
      expect(code).to.equal(51);
      expect(message).to.match(/^too many long requests are waiting, \d+ in all and 30 of the same user/);
    }
  });
});
