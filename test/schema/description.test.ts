import { expect } from 'chai';
import { refused, schema } from './helpers.js';

describe('attribute descriptions', () => {
  it('equal attribute descriptions are one object with sorted options in lower case', () => {
    const german = schema.describe('CN;lang-DE;X-b;x-a')!;
    expect(german.text).to.equal('cn;lang-de;x-a;x-b');
    expect(german.options).to.deep.equal(['lang-de', 'x-a', 'x-b']);
    expect(schema.describe('2.5.4.3;x-a;x-B;lang-de')).to.equal(german);
    expect(schema.describe('commonname')).to.equal(schema.describe('cn'));
    expect(schema.describe('cn;x-a;x-a')!.options).to.deep.equal(['x-a']);
  });

  it('the option binary is kept apart from other options', () => {
    const binary = schema.describe('userCertificate;Binary')!;
    expect(binary.binary).to.equal(true);
    expect(binary.options).to.deep.equal([]);
    expect(binary.text).to.equal('userCertificate;binary');
    expect(schema.matches(schema.describe('userCertificate')!, binary)).to.equal(true);
    expect(schema.matches(binary, schema.describe('userCertificate')!)).to.equal(true);
  });

  const relation: [string, string, boolean][] = [
    ['cn', 'cn', true],
    ['name', 'cn', true],
    ['cn', 'name', false],
    ['cn', 'cn;lang-de', true],
    ['cn;lang-de', 'cn', false],
    ['name;lang-de', 'sn;lang-de;x-a', true],
    ['cn;lang-de', 'cn;lang-de-at', false],
    ['cn;lang-de-', 'cn;lang-de-at', true],
    ['cn;lang-de-', 'cn;lang-de', true],
    ['cn;lang-de-', 'cn;lang-en', false],
    ['sn', 'cn', false],
  ];
  for (const [wanted, stored, expected] of relation) {
    it(`attribute description ${wanted} ${expected ? 'stands for' : 'does not stand for'} ${stored}`, () => {
      expect(schema.matches(schema.describe(wanted)!, schema.describe(stored)!)).to.equal(expected);
    });
  }

  it('the error for an unknown attribute type suggests similar names', () => {
    refused(
      'undefinedAttributeType',
      /^attribute 'mial' is not in the schema; did you mean 'mail'\? "rowan schema set" defines others$/,
      () => schema.requireDescription('mial'),
    );
    refused(
      'undefinedAttributeType',
      /^attribute 'zzzzzzzzzz' is not in the schema; "rowan schema set" defines others$/,
      () => schema.requireDescription('zzzzzzzzzz;lang-de'),
    );
    refused('undefinedAttributeType', /'1.2.3.4.5'/, () => schema.requireDescription('1.2.3.4.5'));
    expect(schema.describe('mial')).to.equal(undefined);
  });

  for (const text of ['', ';', 'cn;', 'cn;lang_de', 'c n', 'cn;;x', '1.', 'cn\u0000', `cn;${'x'.repeat(2000)}`]) {
    it(`attribute description ${JSON.stringify(text.slice(0, 20))} is malformed`, () => {
      expect(schema.describe(text)).to.equal(undefined);
      refused('protocolError', /is not an attribute description/, () => schema.requireDescription(text));
    });
  }

  it('attribute descriptions stay correct when more are used than the cache holds', () => {
    const first = schema.describe('cn;x-first')!;
    for (let i = 0; i < 20000; i++) expect(schema.describe(`cn;x-${i}`)!.options[0]).to.equal(`x-${i}`);
    expect(schema.describe('cn;x-first')).to.deep.equal(first);
    expect(schema.describe('CN')).to.equal(schema.describe('cn'));
  });
});
