import { expect } from 'chai';
import { base32, matchingSteps, newTotpSecret, totpUri } from '../../src/password/index.js';
import { hotpCode, stepAt } from '../../src/password/totp.js';

/** The secret of RFC 4226 appendix D and, for SHA-1, of RFC 6238 appendix B. */
const SECRET = Buffer.from('12345678901234567890');

describe('password: one-time codes', () => {
  it('codes are those of RFC 4226, appendix D', () => {
    const codes = Array.from({ length: 10 }, (_, counter) => hotpCode(SECRET, counter));
    expect(codes.join(' ')).to.equal('755224 287082 359152 969429 338314 254676 287922 162583 399871 520489');
  });

  it('codes are those of RFC 6238, appendix B', () => {
    for (const [seconds, code] of [
      [59, '94287082'],
      [1111111109, '07081804'],
      [1111111111, '14050471'],
      [1234567890, '89005924'],
      [2000000000, '69279037'],
      [20000000000, '65353130'],
    ] as const)
      expect(hotpCode(SECRET, stepAt(seconds * 1000), 8), String(seconds)).to.equal(code);
  });

  it('codes may be one step early or late', () => {
    const now = 1_800_000_000_000;
    const step = stepAt(now);
    for (const drift of [-1, 0, 1])
      expect(matchingSteps(SECRET, hotpCode(SECRET, step + drift), now)).to.include(step + drift);
    for (const drift of [-2, 2]) expect(matchingSteps(SECRET, hotpCode(SECRET, step + drift), now)).to.deep.equal([]);
    for (const code of ['', '12345', '1234567', 'abcdef', '\u0661\u0662\u0663\u0664\u0665\u0666'])
      expect(matchingSteps(SECRET, code, now)).to.deep.equal([]);
  });

  it('the URI of a code contains secret, issuer and account', () => {
    // RFC 4648 §10.
    for (const [text, expected] of [
      ['', ''],
      ['f', 'MY'],
      ['fo', 'MZXQ'],
      ['foo', 'MZXW6'],
      ['foob', 'MZXW6YQ'],
      ['fooba', 'MZXW6YTB'],
      ['foobar', 'MZXW6YTBOI'],
    ] as const)
      expect(base32(Buffer.from(text))).to.equal(expected);
    const url = new URL(totpUri(SECRET, 'My & Co', 'uid=ada,dc=example'));
    expect(url.protocol + url.host).to.equal('otpauth:totp');
    expect(url.searchParams.get('secret')).to.equal('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ');
    expect(url.searchParams.get('issuer')).to.equal('My & Co');
    expect(decodeURIComponent(url.pathname)).to.equal('/My & Co:uid=ada,dc=example');
    expect(newTotpSecret()).to.have.length(20);
  });
});
