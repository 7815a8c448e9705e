import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { decodeRequest } from '../../src/protocol/decode.js';
import { encodeRequest, encodeResponse, writeDisconnection, writeResult } from '../../src/protocol/encode.js';
import type { Request, RequestMessage, Response } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { Writer } from '../../src/protocol/writer.js';
import { bool, enumerated, int, message, seq, str, tlv } from './bytes.js';
import { respond } from './respond.js';

/** Bytes put together from RFC 4511's ASN.1 by hand, against the codec. */

const requests: [string, Request, Buffer][] = [
  [
    'simple bind',
    { op: 'bind', version: 3, name: 'cn=a', authentication: { method: 'simple', password: Buffer.from('pw') } },
    tlv(0x60, int(3), str('cn=a'), tlv(0x80, 'pw')),
  ],
  [
    'SASL bind',
    {
      op: 'bind',
      version: 3,
      name: '',
      authentication: { method: 'sasl', mechanism: 'EXTERNAL', credentials: undefined },
    },
    tlv(0x60, int(3), str(''), tlv(0xa3, str('EXTERNAL'))),
  ],
  ['unbind', { op: 'unbind' }, tlv(0x42)],
  [
    'modify',
    {
      op: 'modify',
      dn: 'cn=a',
      changes: [{ operation: 'replace', attribute: { type: 'sn', values: [Buffer.from('b'), Buffer.from('c')] } }],
    },
    tlv(0x66, str('cn=a'), seq(seq(enumerated(2), seq(str('sn'), tlv(0x31, str('b'), str('c')))))),
  ],
  [
    'add',
    { op: 'add', dn: 'cn=a', attributes: [{ type: 'sn', values: [Buffer.from('b')] }] },
    tlv(0x68, str('cn=a'), seq(seq(str('sn'), tlv(0x31, str('b'))))),
  ],
  ['delete', { op: 'delete', dn: 'cn=a' }, tlv(0x4a, 'cn=a')],
  [
    'modifyDN',
    { op: 'modifyDN', dn: 'cn=a', newRdn: 'cn=b', deleteOldRdn: true, newSuperior: 'o=c' },
    tlv(0x6c, str('cn=a'), str('cn=b'), bool(true), tlv(0x80, 'o=c')),
  ],
  [
    'compare',
    { op: 'compare', dn: 'cn=a', attribute: 'sn', value: Buffer.from('b') },
    tlv(0x6e, str('cn=a'), seq(str('sn'), str('b'))),
  ],
  ['abandon', { op: 'abandon', target: 300 }, tlv(0x50, [1, 0x2c])],
  [
    'extended',
    { op: 'extended', oid: '1.3.6.1.1.8', value: Buffer.from('v') },
    tlv(0x77, tlv(0x80, '1.3.6.1.1.8'), tlv(0x81, 'v')),
  ],
  [
    'search with every filter',
    {
      op: 'search',
      base: '',
      scope: 'one',
      deref: 'always',
      sizeLimit: 500,
      timeLimit: 30,
      typesOnly: true,
      filter: {
        type: 'or',
        filters: [
          { type: 'not', filter: { type: 'present', attribute: 'a' } },
          {
            type: 'substring',
            attribute: 'b',
            initial: Buffer.from('1'),
            any: [Buffer.from('2')],
            final: Buffer.from('3'),
          },
          { type: 'extensible', rule: 'r', attribute: 'c', value: Buffer.from('v'), dnAttributes: true },
        ],
      },
      attributes: ['cn', '+'],
    },
    tlv(
      0x63,
      ...[str(''), enumerated(1), enumerated(3), int(1, 0xf4), int(30), bool(true)],
      tlv(
        0xa1,
        tlv(0xa2, tlv(0x87, 'a')),
        tlv(0xa4, str('b'), seq(tlv(0x80, '1'), tlv(0x81, '2'), tlv(0x82, '3'))),
        tlv(0xa9, tlv(0x81, 'r'), tlv(0x82, 'c'), tlv(0x83, 'v'), tlv(0x84, [0xff])),
      ),
      seq(str('cn'), str('+')),
    ),
  ],
];

const ok = { code: 0, matchedDN: '', message: '' };
const done = Buffer.concat([enumerated(0), str(''), str('')]);

const responses: [string, Response, Buffer][] = [
  ['bindResponse', { op: 'bindResponse', ...ok, serverCredentials: Buffer.from('c') }, tlv(0x61, done, tlv(0x87, 'c'))],
  [
    'referral',
    { op: 'searchDone', code: 10, matchedDN: 'o=x', message: 'm', referrals: ['ldap://h'] },
    tlv(0x65, enumerated(10), str('o=x'), str('m'), tlv(0xa3, str('ldap://h'))),
  ],
  ['searchReference', { op: 'searchReference', urls: ['ldap://h'] }, tlv(0x73, str('ldap://h'))],
  [
    'extendedResponse',
    { op: 'extendedResponse', ...ok, oid: '1.2', value: Buffer.from('v') },
    tlv(0x78, done, tlv(0x8a, '1.2'), tlv(0x8b, 'v')),
  ],
  [
    'intermediate',
    { op: 'intermediate', oid: '1.2', value: Buffer.from('v') },
    tlv(0x79, tlv(0x80, '1.2'), tlv(0x81, 'v')),
  ],
];

describe('protocol: reference bytes', () => {
  for (const [name, request, bytes] of requests) {
    it(`${name} is encoded and decoded as the reference bytes`, () => {
      const decoded: RequestMessage = { id: 5, request, controls: [] };
      expect(encodeRequest(decoded).toString('hex')).to.equal(message(bytes).toString('hex'));
      expect(decodeRequest(message(bytes), 0, message(bytes).length)).to.deep.equal(decoded);
    });
  }

  for (const [name, response, bytes] of responses) {
    it(`response ${name} is encoded as the reference bytes`, () => {
      expect(respond({ id: 5, response }).toString('hex')).to.equal(message(bytes).toString('hex'));
    });
  }

  it('a result is encoded alike by writeResult and encodeResponse', () => {
    const writer = new Writer();
    const control = { oid: '1.2', critical: true, value: Buffer.from('v') };
    const result = { code: 10, matchedDN: 'o=x', message: 'm', referrals: ['ldap://h'] };
    writeResult(writer, 9, 'deleteResponse', result, [control]);
    const short = writer.take();
    encodeResponse(writer, { id: 9, response: { op: 'deleteResponse', ...result }, controls: [control] });
    expect(short.toString('hex')).to.equal(writer.take().toString('hex'));
  });

  it('a searchEntry is encoded with short lengths', () => {
    const attributes = [{ type: 'sn', values: [Buffer.from('b')] }];
    const entry = respond({ id: 5, response: { op: 'searchEntry', dn: 'o=x', attributes } });
    const parts = ['3017', '020105', '6412', '04036f3d78', '300b', '3009', '0402736e', '3103', '040162'];
    expect(entry.toString('hex')).to.equal(parts.join(''));
  });

  it('the Notice of Disconnection is encoded as the reference bytes', () => {
    const writer = new Writer();
    writeDisconnection(writer, 2, 'bad');
    const oid = tlv(0x8a, '1.3.6.1.4.1.1466.20036');
    expect(writer.take().toString('hex')).to.equal(
      seq(int(0), tlv(0x78, enumerated(2), str(''), str('bad'), oid)).toString('hex'),
    );
  });

  it('the example in docs/formats/ber.md decodes', () => {
    const page = readFileSync(new URL('../../../docs/formats/ber.md', import.meta.url), 'utf8');
    const hex = page
      .split('## Worked example')[1]!
      .match(/^ {4,}([0-9a-f]{2} )*[0-9a-f]{2}(?= {2,}|$)/gm)!
      .join('');
    const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex');
    expect(decodeRequest(bytes, 0, bytes.length)).to.deep.equal({
      id: 7,
      request: {
        op: 'search',
        base: 'dc=example',
        scope: 'sub',
        deref: 'never',
        sizeLimit: 0,
        timeLimit: 0,
        typesOnly: false,
        filter: { type: 'equal', attribute: 'uid', value: Buffer.from('fred') },
        attributes: ['cn'],
      },
      controls: [{ oid: ControlOid.manageDsaIT, critical: true, value: undefined }],
    });
    expect(encodeRequest(decodeRequest(bytes, 0, bytes.length)).equals(bytes)).to.equal(true);
  });
});

describe('protocol: variants that BER permits', () => {
  const decode = (bytes: Buffer): RequestMessage => decodeRequest(bytes, 0, bytes.length);
  const abandon = (target: number, id = 5): RequestMessage => ({
    id,
    request: { op: 'abandon', target },
    controls: [],
  });

  it('lengths longer than needed are accepted', () => {
    const body = Buffer.from('0282000105' + '50840000000109', 'hex');
    const bytes = Buffer.concat([Buffer.from([0x30, 0x83, 0, 0, body.length]), body]);
    expect(decode(bytes)).to.deep.equal(abandon(9));
  });

  it('integers longer than needed, of up to four bytes, are accepted', () => {
    expect(decode(seq(int(0, 0, 0, 5), tlv(0x50, [0, 9])))).to.deep.equal(abandon(9));
  });

  it('any byte other than 0 is true', () => {
    const request = decode(message(tlv(0x6c, str('cn=a'), str('cn=b'), tlv(1, [1])))).request;
    expect(request).to.have.property('deleteOldRdn', true);
  });

  it('an explicit criticality of FALSE is accepted', () => {
    const { controls } = decode(message(tlv(0x42), tlv(0xa0, seq(str('1.2'), bool(false), str('')))));
    expect(controls).to.deep.equal([{ oid: '1.2', critical: false, value: Buffer.alloc(0) }]);
  });

  it('unknown trailing components of a SEQUENCE are skipped (RFC 4511 §4)', () => {
    const compare = tlv(0x6e, str('cn=a'), seq(str('sn'), str('b'), tlv(0x85, 'x')), tlv(0xa9, str('y')));
    expect(decode(message(compare, tlv(0xaa, 'z'))).request).to.deep.equal({
      op: 'compare',
      dn: 'cn=a',
      attribute: 'sn',
      value: Buffer.from('b'),
    });
  });
});
