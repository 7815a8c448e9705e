import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { rounds } from '../rounds.js';
import { schema } from './helpers.js';
import { repeat } from './random.js';

/** Bytes of a large value. */
const MUCH = rounds(1 << 17, 1 << 20);

/** What hurt other servers: big, deep, cut, not UTF-8. Name → bytes. */
const HOSTILE: Record<string, Buffer> = {
  nothing: Buffer.alloc(0),
  'a NUL': Buffer.from([0]),
  'much of NULs': Buffer.alloc(MUCH),
  'much of a': Buffer.alloc(MUCH, 'a'),
  'much of A': Buffer.alloc(MUCH, 'A'),
  'much of spaces': Buffer.alloc(MUCH, ' '),
  'much of a and space': Buffer.alloc(MUCH, 'a '),
  'much of digits': Buffer.alloc(MUCH, '9'),
  'much of zeros': Buffer.alloc(MUCH, '0'),
  'much of dollars': Buffer.alloc(MUCH, '$'),
  'much of backslashes': Buffer.alloc(MUCH, '\\'),
  'much of quotes': Buffer.alloc(MUCH, "'"),
  'much of (': Buffer.alloc(MUCH, '('),
  'much of {': Buffer.alloc(MUCH, '{'),
  'much of #': Buffer.alloc(MUCH, '#'),
  'much of 0xff': Buffer.alloc(MUCH, 0xff),
  'much of é': Buffer.alloc(MUCH, 'é'),
  'much of combining accents': Buffer.alloc(MUCH, '\u0301'),
  'much of space and accent': Buffer.alloc(3 * (MUCH / 3), ' \u0301'),
  'much of SEQUENCEs': Buffer.alloc(MUCH, Buffer.from([0x30, 0x84, 0x00, 0x0f, 0xff, 0x00])),
  'SEQUENCEs of indefinite length': Buffer.alloc(10000, Buffer.from([0x30, 0x80])),
  'an OID of 254 KB': Buffer.from(`1${'.2'.repeat(127000)}`),
  'an OID with an arc of 254 KB': Buffer.from(`1.${'2'.repeat(254000)}`),
  '10,000 RDNs': Buffer.from(Array.from({ length: 10000 }, () => 'c=x').join(',')),
  '10,000 attributes in an RDN': Buffer.from(Array.from({ length: 10000 }, () => 'cn=x').join('+')),
  'a long RDN': Buffer.from(`cn=${'x'.repeat(MUCH)},dc=y`),
  'DNs within DNs': Buffer.from('member='.repeat(9000) + 'cn=x'),
  'escaped DNs within DNs': Buffer.from(`member=member\\=member\\=cn\\=${'\\\\'.repeat(20000)}`),
  'a DN of backslashes': Buffer.from(`cn=${'\\\\'.repeat(30000)}`),
  'a DN of commas': Buffer.alloc(60000, ','),
  'a time with a long fraction': Buffer.from(`20261121083556.${'0'.repeat(MUCH)}1Z`),
  'a quote never closed': Buffer.from(`( 1.2.3 NAME '${'x'.repeat(MUCH)}`),
  'formats and patterns': Buffer.from('%s%n%d*()\\(\\)(a+)+$^[[.*.]]\u0000\n\r'),
  'half a surrogate': Buffer.from([0xed, 0xa0, 0x80]),
  'an overlong slash': Buffer.from([0xc0, 0xaf]),
};

/** Long enough for a slow machine that also does other things; anything not linear takes minutes. */
const PATIENCE = 60_000;

describe('hostile values', function () {
  this.timeout(PATIENCE);
  const syntaxes = new Set([...schema.attributes()].map((type) => type.syntax));
  const rules = new Set<NonNullable<ReturnType<typeof schema.rule>>>();
  for (const { values } of schema.subschema().filter((attribute) => attribute.type === 'matchingRules')) {
    for (const value of values) rules.add(schema.rule(value.split(' ')[1]!)!);
  }

  /** Rules of one family share their functions: each once is enough. */
  const functions = new Set([...rules].flatMap((rule) => [rule.normalize, rule.normalizeAssertion]));
  const partFunctions = new Set([...rules].flatMap((rule) => rule.normalizePart ?? []));

  for (const [name, value] of Object.entries(HOSTILE)) {
    it(`every syntax and rule returns a result for a hostile value: ${name}`, () => {
      for (const syntax of syntaxes)
        expect(syntax.check(value)).to.satisfy((wrong: unknown) => wrong === undefined || typeof wrong === 'string');
      const forms = [...functions].map((normalize) => normalize(value));
      for (const normalizePart of partFunctions) {
        for (const where of ['initial', 'any', 'final'] as const) forms.push(normalizePart(value, where));
      }
      for (const form of forms) expect(form === undefined || Buffer.isBuffer(form)).to.equal(true);
      for (const { test, normalize, normalizeAssertion } of rules) {
        const [stored, asserted] = test ? [normalize(value), normalizeAssertion(value)] : [];
        if (stored && asserted) expect(test!(stored, asserted)).to.be.a('boolean');
      }
    });

    it(`a hostile value as DN, description or class is valid or an LdapError: ${name}`, () => {
      const text = value.toString();
      const rdn = schema.parseRdn('cn=x');
      const objectClass = schema.describe('objectClass')!;
      const attempts = [
        () => schema.parseDnBytes(value),
        () => schema.parseDn(text),
        () => schema.parseRdn(text),
        () => schema.requireDescription(text),
        () => schema.checkEntry([{ description: objectClass, values: [value] }], rdn),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
        } catch (error) {
          expect(error).to.be.instanceOf(LdapError);
          expect((error as LdapError).message.length).to.be.lessThan(500);
          expect((error as LdapError).message).to.not.match(/\p{Cc}/u);
        }
      }
    });
  }

  it('the limits of DNs are enforced, and the diagnostic message names the limit', () => {
    const dn = (n: number) => Array.from({ length: n }, () => 'ou=x').join(',');
    expect(schema.parseDn(dn(1000)).rdns).to.have.length(1000);
    expect(() => schema.parseDn(dn(1001))).to.throw(LdapError, /more than 1000 RDNs/);
    expect(() => schema.parseDn(`cn=new,${dn(1000)}`)).to.throw(LdapError, /more than 1000 RDNs/);
    expect(() => schema.parseDn(`cn=${'x'.repeat(70000)}`)).to.throw(LdapError, /65536/);
    expect(() => schema.parseDn(`cn=${'é'.repeat(40000)}`)).to.throw(LdapError, /65536/);
  });

  it('random values cause no other exception than LdapError', () => {
    const all = [...rules];
    const pieces = [
      'cn',
      'member',
      '=',
      ',',
      '+',
      '\\',
      '"',
      '#',
      'a',
      ' ',
      ';',
      '0c',
      'é',
      '\u0000',
      '(',
      '\\2c',
      '1.2',
    ];
    repeat(rounds(5_000, 50_000), (random) => {
      const text = random.text(pieces, 20);
      try {
        const dn = schema.parseDn(text);
        expect(schema.parseDn(dn.rdns.map((rdn) => rdn.text).join(',')).norm.equals(dn.norm), text).to.equal(true);
      } catch (error) {
        if (!(error instanceof LdapError)) throw error;
      }
      const value = random.bytes(40);
      for (const syntax of syntaxes) syntax.check(value);
      const rule = random.pick(all);
      rule.normalize(value);
      rule.normalizeAssertion(value);
    });
  });
});
