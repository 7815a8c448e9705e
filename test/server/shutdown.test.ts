import { expect } from 'chai';
import { ADMIN, personDn, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

describe('server: shutdown', () => {
  it('answers what it has begun, tells idle clients, refuses what is new', async () => {
    const running = await start({ shutdownSeconds: 5 }, 3);
    const busy = await RawClient.open(running.port);
    const idle = await RawClient.open(running.port);
    await busy.bind(ADMIN.dn, ADMIN.password);
    await idle.search('');
    const changes = [
      { operation: 'replace', attribute: { type: 'description', values: [Buffer.from('last')] } } as const,
    ];
    const ids = busy.sendTogether([0, 1, 2].map((n) => ({ op: 'modify', dn: personDn(`p${n}`), changes }) as const));
    while (running.server.services.statistics.operations.modify < 3) await new Promise(setImmediate);
    const closed = running.server.close();
    for (const id of ids) expect((await busy.answer(id)).code).to.equal(0);
    expect((await busy.notice())?.code).to.equal(52);
    expect((await idle.notice())?.code).to.equal(52);
    await closed;
    await RawClient.open(running.port).then(
      () => expect.fail('still listening'),
      (error: NodeJS.ErrnoException) => expect(error.code).to.equal('ECONNREFUSED'),
    );
    const again = await start({}, 0, running.partition);
    const client = await RawClient.open(again.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    const answer = await client.search(personDn('p2'), { attributes: ['description'] });
    expect(answer.entries[0]!.attributes.get('description')!.map(String)).to.deep.equal(['last']);
    client.close();
    await again.stop();
    await running.stop();
  });

  it('does not wait for ever for a client that does not read or close', async () => {
    const running = await start({ shutdownSeconds: 1, 'limits.unsentBytes': 64 * 1024 }, 3);
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    client.socket.pause();
    client.sendTogether(Array.from({ length: 5000 }, () => searchRequest(SUFFIX, { scope: 'sub' })));
    while (running.server.services.statistics.operations.search === 0) await new Promise(setImmediate);
    await running.stop();
    client.close();
  }).timeout(8000);
});
