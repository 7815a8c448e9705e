import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { encodeResponse } from '../../src/protocol/encode.js';
import { Writer } from '../../src/protocol/writer.js';
import { LdapClient } from '../../src/replica/ldap-client.js';

function messageOf(id: number, response: Parameters<typeof encodeResponse>[1]['response']): Buffer {
  const writer = new Writer();
  encodeResponse(writer, { id, response });
  return writer.take();
}

describe('replica: the connection to a primary', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-client-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('ends a request when the messages that have come are handled', async () => {
    const path = join(folder, 'socket');
    const bound = messageOf(1, { op: 'bindResponse', code: 0, matchedDN: '', message: '', referrals: [] });
    const part = messageOf(2, { op: 'intermediate', oid: '1.2', value: Buffer.from('x') });
    const server = createServer((socket) => {
      socket.once('data', () => {
        socket.write(bound);
        socket.once('data', () => socket.write(Buffer.concat([part, part])));
      });
      socket.on('error', () => undefined);
    }).listen(path);
    await once(server, 'listening');
    const url = `ldapi://${encodeURIComponent(path)}`;
    const client = await LdapClient.connect({ url, bindDn: 'cn=x', password: Buffer.from('y') });
    const order: string[] = [];
    let begin: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    let goOn: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const request = client.request({ op: 'extended', oid: '1.2', value: undefined }, [], async () => {
      begin();
      await gate;
      order.push('handled');
    });
    const ended = request.catch(() => order.push('ended'));
    await begun;
    client.close();
    await new Promise(setImmediate);
    goOn();
    await ended;
    expect(order).to.deep.equal(['handled', 'handled', 'ended']);
    server.close();
  });
});
