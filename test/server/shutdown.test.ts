import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as tlsConnect } from 'node:tls';
import { expect } from 'chai';
import { makeCertificate } from '../require.js';
import { StoppedClock } from './clock.js';
import { ADMIN, personDn, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

describe('server: shutdown', () => {
  it('answers what it has begun and says goodbye, closes idle connections without a word, refuses what is new', async () => {
    const running = await start({ shutdownSeconds: 60 }, 3);
    const busy = await RawClient.open(running.port);
    const idle = await RawClient.open(running.port);
    await busy.bind(ADMIN.dn, ADMIN.password);
    await idle.search('');
    // Hashing the password takes the modify off the event loop.
    const changes = (['description', 'userPassword'] as const).map(
      (type) => ({ operation: 'replace', attribute: { type, values: [Buffer.from('last')] } }) as const,
    );
    const ids = busy.sendTogether([0, 1, 2].map((n) => ({ op: 'modify', dn: personDn(`p${n}`), changes }) as const));
    while (running.server.services.statistics.operations.modify < 3) await new Promise(setImmediate);
    const closed = running.server.close();
    for (const id of ids) expect((await busy.answer(id)).code).to.equal(0);
    expect((await busy.notice())?.code).to.equal(52);
    expect(await idle.notice()).to.equal(undefined);
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

  it('does not wait for idle clients, nor for TLS handshakes, nor for who leaves his side open', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'rowan-shutdown-'));
    const { cert, key } = makeCertificate(folder);
    // They would be given seconds to close and for handshakes, which never pass.
    using _ = new StoppedClock();
    const listen = ['ldap://127.0.0.1:0', 'ldaps://127.0.0.1:0'];
    const running = await start({ listen, 'tls.cert': cert, 'tls.key': key, shutdownSeconds: 600 }, 1);
    const port = Number(new URL(running.urls[1]!).port);
    const idle = await RawClient.open(running.port, true);
    await idle.bind(ADMIN.dn, ADMIN.password);
    const handshaking = connect(port, '127.0.0.1');
    await once(handshaking, 'connect');
    const encrypted = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false, allowHalfOpen: true } as object);
    await once(encrypted, 'secureConnect');
    for (const socket of [handshaking, encrypted]) socket.on('error', () => undefined).resume();
    while (running.server.services.statistics.connectionsCurrent < 2) await new Promise(setImmediate);
    const gone = once(handshaking, 'close');
    await running.stop();
    await gone;
    idle.socket.end();
    expect(await idle.notice()).to.equal(undefined);
    for (const socket of [idle.socket, handshaking, encrypted]) socket.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  it('does not wait for ever for a client that does not read or close', async () => {
    const running = await start(
      { shutdownSeconds: 1, 'limits.slowReaderSeconds': 0, 'limits.unsentBytes': 64 * 1024 },
      3,
    );
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    client.socket.pause();
    client.sendTogether(Array.from({ length: 5000 }, () => searchRequest(SUFFIX, { scope: 'sub' })));
    while (running.server.services.statistics.operations.search === 0) await new Promise(setImmediate);
    await running.stop();
    client.close();
  });
});
