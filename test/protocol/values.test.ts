import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { expectNoValue } from '../../src/protocol/controls/no-value.js';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import { decodeCancel } from '../../src/protocol/extended/cancel.js';
import { decodePasswordModify, encodeGeneratedPassword } from '../../src/protocol/extended/password-modify.js';
import { int, nested, seq, str, tlv } from './bytes.js';
import { decodeGeneratedPassword, encodeCancel, encodePasswordModify } from './client-values.js';
import { seeded } from './random.js';

const b = Buffer.from;

/** Fails unless `body` throws LdapError protocolError; returns its text. */
function refused(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    if (error instanceof LdapError && error.result === 'protocolError') return error.message;
    throw error;
  }
  throw new Error('was accepted');
}

const garbage: [string, Buffer | undefined][] = [
  ['missing', undefined],
  ['empty', b('')],
  ['not BER', b('xyzzy')],
  ['cut', seq(int(5), str('x')).subarray(0, 5)],
  ['followed by more', Buffer.concat([seq(int(5)), b([0])])],
  ['not a SEQUENCE', str('x')],
  ['of an indefinite length', b([0x30, 0x80, 2, 1, 5, 4, 0, 0, 0])],
  ['nested deep', nested(0x30, 10_000)],
  ['huge', seq(int(5), str(Buffer.alloc(1 << 20)))],
  ['of many components', seq(...Array<Buffer>(1000).fill(int(1)))],
];

describe('protocol: paged results', () => {
  it('the paged results control is encoded and decoded as the reference bytes', () => {
    for (const size of [0, 100, 128, 40_000, 0x7fffff, 0x800000, 0x7fffffff]) {
      const value = { size, cookie: b([0x30, 0, 0xff]) };
      expect(decodePagedResults(encodePagedResults(value))).to.deep.equal(value);
    }
    expect(encodePagedResults({ size: 100, cookie: b('') }).toString('hex')).to.equal(
      seq(int(100), str('')).toString('hex'),
    );
    expect(encodePagedResults({ size: 0x7fffffff, cookie: b('abc') }).toString('hex')).to.equal(
      seq(int(0x7f, 0xff, 0xff, 0xff), str('abc')).toString('hex'),
    );
    expect(decodePagedResults(seq(int(0, 0x80), str('abc')))).to.deep.equal({ size: 128, cookie: b('abc') });
  });

  it('a cookie that is itself BER stays bytes', () => {
    const cookie = seq(str('a'), nested(0x30, 50));
    expect(decodePagedResults(seq(int(1), str(cookie))).cookie.equals(cookie)).to.equal(true);
  });

  for (const [name, value] of garbage) {
    it(`a paged results value is refused: ${name}`, () => {
      expect(refused(() => decodePagedResults(value))).to.match(/^paged results control: /);
    });
  }

  it('invalid sizes and cookies of paged results are refused', () => {
    expect(refused(() => decodePagedResults(seq(int(0xff), str(''))))).to.contain('-1 is out of range');
    expect(refused(() => decodePagedResults(seq(int(0, 0x80, 0, 0, 0), str(''))))).to.contain('5 bytes');
    expect(refused(() => decodePagedResults(seq(int(1))))).to.contain('OCTET STRING is missing');
    expect(refused(() => decodePagedResults(seq(int(1), int(1))))).to.contain('OCTET STRING is missing');
    expect(refused(() => decodePagedResults(seq(int(1), tlv(0x24, str('a')))))).to.contain('OCTET STRING is missing');
    expect(refused(() => decodePagedResults(seq(int(1), str(''), str(''))))).to.contain('1 components too many');
  });
});

describe('protocol: password modify', () => {
  it('every combination of password modify fields is encoded and decoded', () => {
    for (let parts = 0; parts < 8; parts++) {
      const value = {
        userIdentity: parts & 1 ? 'uid=jürgen,dc=x' : undefined,
        oldPassword: parts & 2 ? b('0x30 \x30\x00') : undefined,
        newPassword: parts & 4 ? b([0xff, 0]) : undefined,
      };
      expect(decodePasswordModify(encodePasswordModify(value))).to.deep.equal(value);
    }
  });

  it('password modify is encoded as the reference bytes', () => {
    const value = { userIdentity: 'u', oldPassword: b('old'), newPassword: b('new') };
    const bytes = seq(tlv(0x80, 'u'), tlv(0x81, 'old'), tlv(0x82, 'new'));
    expect(decodePasswordModify(bytes)).to.deep.equal(value);
    expect(encodePasswordModify(value).toString('hex')).to.equal(bytes.toString('hex'));
  });

  it('password modify without a value asks for a generated password of the bound user', () => {
    expect(decodePasswordModify(undefined)).to.deep.equal(decodePasswordModify(seq()));
  });

  for (const [name, value] of garbage.slice(1)) {
    it(`a password modify value is refused: ${name}`, () => {
      expect(refused(() => decodePasswordModify(value))).to.match(/^password modify: /);
    });
  }

  it('password modify fields out of order, duplicate, with other tags or not in UTF-8 are refused', () => {
    expect(refused(() => decodePasswordModify(seq(tlv(0x82, 'n'), tlv(0x81, 'o'))))).to.contain(
      '1 components too many',
    );
    expect(refused(() => decodePasswordModify(seq(tlv(0x80, 'n'), tlv(0x80, 'o'))))).to.contain('too many');
    expect(refused(() => decodePasswordModify(seq(tlv(0xa1, str('o')))))).to.contain('too many');
    expect(refused(() => decodePasswordModify(seq(tlv(0x80, [0xc3, 0x28]))))).to.contain('UTF-8');
  });

  it('errors of password modify never contain a password', () => {
    const text = refused(() => decodePasswordModify(seq(tlv(0x81, 'hunter2'), tlv(0x82, 'hunter3'), str('hunter4'))));
    expect(text).to.not.contain('hunter');
  });

  it('the generated password is encoded and decoded', () => {
    const bytes = encodeGeneratedPassword(b('made up'));
    expect(bytes.toString('hex')).to.equal(seq(tlv(0x80, 'made up')).toString('hex'));
    expect(decodeGeneratedPassword(bytes)).to.deep.equal(b('made up'));
    expect(decodeGeneratedPassword(undefined)).to.equal(undefined);
    expect(decodeGeneratedPassword(seq())).to.equal(undefined);
  });
});

describe('protocol: cancel', () => {
  it('cancel values are encoded and decoded', () => {
    for (const id of [0, 1, 255, 0x7fffffff]) expect(decodeCancel(encodeCancel(id))).to.equal(id);
    expect(encodeCancel(200).toString('hex')).to.equal(seq(int(0, 200)).toString('hex'));
  });

  for (const [name, value] of garbage) {
    it(`a cancel value is refused: ${name}`, () => {
      expect(refused(() => decodeCancel(value))).to.match(/^cancel: /);
    });
  }
});

describe('protocol: values', () => {
  it('a control that is defined without a value is refused with a value', () => {
    expectNoValue({ oid: '1.2', critical: true, value: undefined }, 'ManageDsaIT');
    expectNoValue({ oid: '1.2', critical: true, value: b('') }, 'ManageDsaIT');
    expect(refused(() => expectNoValue({ oid: '1.2', critical: true, value: b('x') }, 'ManageDsaIT'))).to.contain(
      'ManageDsaIT',
    );
  });

  it(
    'mutated values are decoded or refused, without other exceptions',
    seeded((random) => {
      const decoders = [decodePagedResults, decodePasswordModify, decodeCancel, decodeGeneratedPassword];
      const samples = [
        encodePagedResults({ size: 70_000, cookie: random.bytes(40) }),
        encodePasswordModify({ userIdentity: 'uid=x', oldPassword: b('a'), newPassword: random.bytes(20) }),
        encodeCancel(70_000),
      ];
      for (let i = 0; i < 20_000; i++) {
        const bytes = Buffer.from(random.pick(samples));
        for (let n = random.below(3); n >= 0; n--) bytes[random.below(bytes.length)] = random.below(256);
        const cut = random.chance(3) ? bytes.subarray(0, random.below(bytes.length)) : bytes;
        try {
          random.pick(decoders)(cut);
        } catch (error) {
          if (!(error instanceof LdapError && error.result === 'protocolError')) throw error;
        }
      }
    }),
  );
});
