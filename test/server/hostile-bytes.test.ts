import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import { encodeRequest } from '../../src/protocol/encode.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { int, message, nested, searchWith, seq, str, tlv } from '../protocol/bytes.js';
import { ADMIN, PEOPLE, type Running, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest, simpleBind } from './raw-client.js';

const MEGABYTE = 1024 * 1024;

/**
 * Bytes that once brought down a server or its library: each costs its sender the connection or an error, and nobody
 * else anything.
 */
describe('server: hostile bytes', () => {
  let running: Running;
  let bystander: RawClient;

  before(async () => {
    running = await start({ 'limits.messageBytes': MEGABYTE }, 2);
    bystander = await RawClient.open(running.port);
    await bystander.bind(ADMIN.dn, ADMIN.password);
  });
  after(async () => {
    bystander.close();
    await running.stop();
  });
  afterEach(async () => {
    expect((await bystander.search(SUFFIX)).code, 'a bystander').to.equal(0);
    const fresh = await RawClient.open(running.port);
    expect(await fresh.bind(ADMIN.dn, ADMIN.password), 'a fresh bind').to.equal(0);
    fresh.close();
  });

  async function bound(): Promise<RawClient> {
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    return client;
  }

  /** Code of the notice that the connection ends with; undefined when it ends without one. */
  async function endsWith(bytes: Buffer, client?: RawClient): Promise<number | undefined> {
    const sender = client ?? (await bound());
    sender.write(bytes);
    const notice = await sender.notice();
    await sender.ended();
    return notice?.code;
  }

  it('a length of 2 GB, and then silence', async () => {
    expect(await endsWith(Buffer.from('30847fffffff', 'hex'))).to.equal(2);
  });

  it('negative, nine-byte and indefinite lengths', async () => {
    for (const hex of ['3084ffffffff', '3089010203040506070809', '3080'])
      expect(await endsWith(Buffer.from(hex, 'hex'))).to.equal(2);
  });

  it('lengths that are longer than they need to be are understood', async () => {
    const client = await bound();
    const body = encodeRequest({ id: 77, request: searchRequest(''), controls: [] }).subarray(2);
    client.write(Buffer.concat([Buffer.from([0x30, 0x84, 0, 0, 0, body.length]), body]));
    expect((await client.answer(77)).code).to.equal(0);
    client.close();
  });

  it('sequences nested a hundred thousand deep', async () => {
    const deep = nested(0x30, 100_000);
    expect(await endsWith(message(deep))).to.equal(2);
  });

  it('NOT and AND nested 1,000, 5,000 and 100,000 deep: refused with a reason, the connection lives', async () => {
    const client = await bound();
    for (const tag of [0xa2, 0xa0]) {
      for (const depth of [1000, 5000, 100_000]) {
        client.write(searchWith(nested(tag, depth)));
        const answer = await client.answer(5);
        expect(answer.code).to.equal(2);
        expect(answer.final.message).to.match(/deep|nest/);
      }
    }
    client.close();
  });

  it('an OID of 254 KB', async () => {
    const client = await bound();
    client.write(message(tlv(0x77, tlv(0x80, '1.'.repeat(127_000) + '1'))));
    expect((await client.answer(5)).code).to.equal(2);
    client.close();
  });

  it('extended requests whose OID is a DN, empty, or a megabyte', async () => {
    for (const oid of ['cn=admin', '', 'x'.repeat(900_000)]) {
      const client = await bound();
      client.write(message(tlv(0x77, tlv(0x80, oid))));
      expect((await client.answer(5)).code).to.equal(2);
      client.close();
    }
  });

  it('a message over the limit', async () => {
    const client = await bound();
    client.write(tlv(0x30, Buffer.alloc(MEGABYTE + 1)).subarray(0, 100));
    expect((await client.notice())?.message).to.contain(String(MEGABYTE));
  });

  it('an unknown operation, a response sent by a client, messageID 0 and -1', async () => {
    for (const wrong of [
      message(tlv(0x7f, '')),
      message(tlv(0x65, tlv(10, [0]), str(''), str(''))),
      seq(int(0), tlv(0x42)),
      seq(int(0xff), tlv(0x42)),
    ]) {
      expect(await endsWith(wrong)).to.equal(2);
    }
  });

  it('what is another protocol ends quietly, and the log names it', async () => {
    const foreign = [
      ['HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
      ['TLS', Buffer.from('1603010200010001fc0303', 'hex')],
      ['SSH', Buffer.from('SSH-2.0-OpenSSH_9.2\r\n')],
      ['PROXY protocol', Buffer.from('PROXY TCP4 192.0.2.1 192.0.2.2 5000 389\r\n')],
      ['PROXY protocol', Buffer.from('0d0a0d0a000d0a515549540a20', 'hex')],
    ] as const;
    for (const [name, bytes] of foreign) {
      const before = running.lines.length;
      expect(await endsWith(bytes, await RawClient.open(running.port)), name).to.equal(undefined);
      const said = running.lines.slice(before).map((line) => JSON.parse(line) as { level: number; msg: string });
      expect(said.filter(({ level }) => level >= 30).map(({ msg }) => msg)).to.deep.equal([
        `connection refused: the client speaks ${name}`,
      ]);
    }
  });

  it('a first message that is malformed ends with the notice of RFC 4511 §4.1.1', async () => {
    for (const bytes of [
      Buffer.from('30050201014000', 'hex'),
      Buffer.from('3003040161', 'hex'),
      Buffer.from('3080', 'hex'),
      // An unbind request without its message: no HTTP, though it begins with a letter.
      Buffer.from('4200', 'hex'),
      Buffer.from([0xff, 0xf4, 0xff, 0xfd, 0x06]),
      Buffer.alloc(5000, 'x'),
    ]) {
      const before = running.lines.length;
      expect(await endsWith(bytes, await RawClient.open(running.port)), bytes.toString('hex', 0, 9)).to.equal(2);
      expect(running.lines.slice(before).join('')).not.to.contain('HTTP');
    }
  });

  it('thousands of controls, and the same control twice', async () => {
    const client = await bound();
    const control = (oid: string): { oid: string; critical: boolean; value: undefined } => ({
      oid,
      critical: false,
      value: undefined,
    });
    const many = Array.from({ length: 5000 }, (_, i) => control(`1.2.3.${i}`));
    expect((await client.search(SUFFIX, {}, many)).code).to.equal(2);
    expect((await client.search(SUFFIX, {}, [control('1.2.3'), control('1.2.3')])).code).to.equal(2);
    const paged = { oid: '1.2.840.113556.1.4.319', critical: false };
    for (const value of [undefined, Buffer.from('garbage'), Buffer.from('3003020101', 'hex')]) {
      expect((await client.search(SUFFIX, {}, [{ ...paged, value }])).code).to.equal(2);
    }
    const manage = { oid: '2.16.840.1.113730.3.4.2', critical: true };
    expect((await client.search(SUFFIX, {}, [{ ...manage, value: Buffer.from('x') }])).code).to.equal(2);
    client.close();
  });

  it('filter values full of NUL, *, %s and keys, and of half a megabyte, are values', async () => {
    const client = await bound();
    for (const value of ['\0', '*', '%s%n%x', '.*(a+)+$', '=uid\0', '\\2a', 'x'.repeat(500_000)]) {
      const filter = { type: 'equal', attribute: 'uid', value: Buffer.from(value) } as const;
      const answer = await client.search(PEOPLE, { scope: 'sub', filter });
      expect([answer.code, answer.entries.length], value.slice(0, 20)).to.deep.equal([0, 0]);
      const substring = {
        type: 'substring',
        attribute: 'uid',
        initial: undefined,
        any: [Buffer.from(value)],
        final: undefined,
      } as const;
      // NUL is mapped to nothing, which is one space (RFC 4518 §2.6.1), as it stands at the ends of every value.
      const everybody = { type: 'present', attribute: 'uid' } as const;
      const all =
        value === '\0' ? (await client.search(PEOPLE, { scope: 'sub', filter: everybody })).entries.length : 0;
      expect(
        (await client.search(PEOPLE, { scope: 'sub', filter: substring })).entries.length,
        value.slice(0, 20),
      ).to.equal(all);
    }
    expect(running.lines.join('')).not.to.match(/%s%n|\(a\+\)/);
    client.close();
  });

  it('every request cut at every byte, then dropped', async () => {
    for (const bytes of samples()) {
      const sockets = Array.from({ length: bytes.length }, () => connect(running.port, '127.0.0.1'));
      for (const [cut, socket] of sockets.entries()) socket.end(bytes.subarray(0, cut));
      await Promise.all(sockets.map((socket) => once(socket.resume(), 'close')));
    }
  });

  it('every byte of every request replaced', async () => {
    for (const bytes of samples()) {
      for (let at = 0; at < bytes.length; at += 16) {
        const sockets = Array.from({ length: Math.min(16, bytes.length - at) }, () =>
          connect(running.port, '127.0.0.1'),
        );
        for (const [i, socket] of sockets.entries()) {
          const changed = Buffer.from(bytes);
          changed[at + i] = changed[at + i]! ^ (1 << ((at + i) % 8));
          socket.end(changed);
        }
        await Promise.all(sockets.map((socket) => once(socket.resume(), 'close')));
      }
    }
    expect(running.lines.filter((line) => line.includes('"incident"'))).to.deep.equal([]);
  });

  it('abrupt resets at every stage', async () => {
    for (let round = 0; round < 50; round++) {
      const client = await RawClient.open(running.port);
      client.sendTogether([
        simpleBind(ADMIN.dn, ADMIN.password),
        searchRequest(SUFFIX, { scope: 'sub' }),
        searchRequest(''),
      ]);
      if (round % 3 === 0) await once(client.socket, 'data');
      client.socket.resetAndDestroy();
    }
  });
});

/** A bind as a user, a search, a compare and a password modify: small ones, so that all their bytes can be tried. */
function samples(): Buffer[] {
  const filter = {
    type: 'or',
    filters: [
      { type: 'present', attribute: 'cn' },
      { type: 'equal', attribute: 'uid', value: Buffer.from('p0') },
    ],
  } as const;
  const requests = [
    simpleBind('uid=p0,dc=x', 'pw'),
    searchRequest('', { filter, attributes: ['cn', '+'] }),
    { op: 'compare', dn: 'dc=x', attribute: 'cn', value: Buffer.from('y') },
    { op: 'extended', oid: ExtendedOid.whoAmI, value: undefined },
  ] as const;
  const controls = [{ oid: '1.2.3', critical: false, value: Buffer.from('v') }];
  return requests.map((request) => encodeRequest({ id: 7, request, controls }));
}
