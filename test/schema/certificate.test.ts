import { expect } from 'chai';
import { CERTIFICATE, ISSUER, LIST, SERIAL } from './certificate-sample.js';
import { bytes, rule, schema } from './helpers.js';
import { repeat } from './random.js';

const exact = rule('certificateExactMatch');
const check = schema.attribute('userCertificate')!.syntax.check;

describe('certificates', () => {
  it('certificates in DER are accepted and distinguished from revocation lists', () => {
    expect(check(CERTIFICATE)).to.equal(undefined);
    expect(check(LIST)).to.match(/not an X.509 certificate/);
    const list = schema.attribute('certificateRevocationList')!.syntax;
    expect(list.check(LIST)).to.equal(undefined);
    expect(list.check(CERTIFICATE)).to.match(/not an X.509 certificate revocation list/);
    const pair = schema.attribute('crossCertificatePair')!.syntax;
    const forward = Buffer.concat([
      Buffer.from([0xa0, 0x82, CERTIFICATE.length >> 8, CERTIFICATE.length & 255]),
      CERTIFICATE,
    ]);
    const whole = Buffer.concat([Buffer.from([0x30, 0x82, forward.length >> 8, forward.length & 255]), forward]);
    expect(pair.check(whole)).to.equal(undefined);
    expect(pair.check(forward)).to.match(/not a pair/);
  });

  it('certificates are stored without trailing line ends', () => {
    for (const [name, der] of [
      ['userCertificate', CERTIFICATE],
      ['certificateRevocationList', LIST],
    ] as const) {
      const { proper } = schema.attribute(name)!.syntax;
      for (const end of ['\n', '\r\n', '\n\n'])
        expect(proper!(Buffer.concat([der, bytes(end)])).equals(der), JSON.stringify(end)).to.equal(true);
      expect(proper!(der)).to.equal(der);
      const wrong = Buffer.concat([der, bytes('x\n')]);
      expect(proper!(wrong)).to.equal(wrong);
    }
  });

  const assertions: [string, boolean | undefined][] = [
    [`{ serialNumber ${SERIAL}, issuer rdnSequence:"${ISSUER}" }`, true],
    [`{serialNumber ${SERIAL},issuer rdnSequence:"${ISSUER}"}`, true],
    [`{ issuer rdnSequence:"${ISSUER}", serialNumber '1234567890ABCDEF12'H }`, true],
    [`${SERIAL}$${ISSUER}`, true],
    [`${SERIAL} $ 1.2.840.113549.1.9.1=ca@example.com,2.5.4.3=JÜRGEN  CA,o="Example, Inc.",c=DE`, true],
    [`${SERIAL}$c=de`, false],
    [`1$${ISSUER}`, false],
    [`{ serialNumber 1, issuer rdnSequence:"${ISSUER}" }`, false],
    [`${SERIAL}$1.2.3.4=x`, false],
    ['', undefined],
    ['$', undefined],
    ['1', undefined],
    ['{', undefined],
    ['{ serialNumber 1 }', undefined],
    ['{ serialNumber 1, issuer rdnSequence:"cn=a }', undefined],
    ['{ serialNumber 1, issuer rdnSequence:"cn" }', undefined],
    ['{ serialNumber 01, issuer rdnSequence:"cn=a" }', undefined],
    ['{ serialNumber 1, serialNumber 1 }', undefined],
    [`{ serialNumber ${'9'.repeat(1000)}, issuer rdnSequence:"cn=a" }`, undefined],
  ];
  for (const [assertion, expected] of assertions) {
    it(`a certificate matches ${JSON.stringify(assertion.slice(0, 80))}: ${expected}`, () => {
      const form = exact.normalizeAssertion(bytes(assertion));
      const stored = exact.normalize(CERTIFICATE)!;
      expect(form?.equals(stored)).to.equal(expected);
    });
  }

  it('certificates truncated at any byte are refused', () => {
    for (let n = 0; n < CERTIFICATE.length; n++) {
      expect(check(CERTIFICATE.subarray(0, n)), `${n}`).to.be.a('string');
      expect(exact.normalize(CERTIFICATE.subarray(0, n))).to.equal(undefined);
    }
    expect(check(Buffer.concat([CERTIFICATE, Buffer.from([0])]))).to.be.a('string');
  });

  it('certificates with changed bytes never cause an exception', () => {
    const syntaxes = ['userCertificate', 'certificateRevocationList', 'crossCertificatePair', 'supportedAlgorithms'];
    const checks = syntaxes.map((name) => schema.attribute(name)!.syntax.check);
    repeat(20000, (random) => {
      const bad = Buffer.from(random.below(4) ? CERTIFICATE : random.bytes(100));
      for (let i = random.below(4); i >= 0 && bad.length > 0; i--) bad[random.below(bad.length)] = random.below(256);
      for (const wrong of checks) wrong(bad);
      const form = exact.normalize(bad);
      expect(form === undefined || form.length > 0).to.equal(true);
    });
  });
});
