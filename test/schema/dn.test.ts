import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { Schema } from '../../src/schema/index.js';
import { needs } from '../require.js';
import { bytes, refused, schema } from './helpers.js';
import { type Random, repeat } from './random.js';

const CN = '2.5.4.3';
const DC = '0.9.2342.19200300.100.1.25';

describe('distinguished names', () => {
  /** As given, its normal form, and its text where that is another than the one given. */
  const same: [string, string, string?][] = [
    // RFC 4514 §4
    ['UID=jsmith,DC=example,DC=net', `0.9.2342.19200300.100.1.1=jsmith,${DC}=example,${DC}=net`],
    ['OU=Sales+CN=J.  Smith,DC=example,DC=net', `2.5.4.11=sales+${CN}=j. smith,${DC}=example,${DC}=net`],
    ['CN=James \\"Jim\\" Smith\\, III,DC=example', `${CN}=james "jim" smith\\2c iii,${DC}=example`],
    ['CN=Before\\0dAfter,DC=example', `${CN}=before after,${DC}=example`],
    ['CN=Lu\\C4\\8Di\\C4\\87', `${CN}=lučić`],
    ['CN=Lučić', `${CN}=lučić`],
    // RFC 2253 and older
    ['  cn = a  ,  dc = b  ', `${CN}=a,${DC}=b`, 'cn=a,dc=b'],
    ['cn=a;dc=b', `${CN}=a,${DC}=b`, 'cn=a,dc=b'],
    ['cn="a, b + c";dc="d"', `${CN}=a\\2c b \\2b c,${DC}=d`, 'cn=a\\, b \\+ c,dc=d'],
    ['cn="say \\"x\\""', `${CN}=say "x"`, 'cn=say \\"x\\"'],
    ['OID.2.5.4.3=a,oid.2.5.4.3=b', `${CN}=a,${CN}=b`, 'cn=a,cn=b'],
    ['2.5.4.3=#0C024869', `${CN}=hi`, 'cn=Hi'],
    ['cn=#04024869 , dc=x', `${CN}=hi,${DC}=x`, 'cn=Hi,dc=x'],
    ['cn=#1E0400480069', `${CN}=hi`, 'cn=Hi'],
    // escapes
    ['cn=\\ a\\ ', `${CN}=a`],
    ['cn=a\\ \\ \\ b', `${CN}=a b`],
    ['cn=\\#a', `${CN}=#a`],
    ['cn=a=b', `${CN}=a=b`, 'cn=a\\=b'],
    ['cn=a#b', `${CN}=a#b`, 'cn=a\\#b'],
    ['cn=a\\2cb', `${CN}=a\\2cb`],
    ['cn=a\\5Cb', `${CN}=a\\5cb`],
    ['cn=a\\+sn\\=b', `${CN}=a\\2bsn=b`],
    ['cn=a\\00b', `${CN}=ab`],
    ['CN=A\u0007b\\09+OU= x', `2.5.4.11=x+${CN}=ab`, 'CN=A\\07b\\09+OU=x'],
    ['Cn=\\ a\\20 ; SN=b  ', `${CN}=a,2.5.4.4=b`, 'Cn=\\ a\\20,SN=b'],
    ['', ''],
    ['   ', '', ''],
  ];
  for (const [text, norm, written = text] of same) {
    it(`DN ${JSON.stringify(text)} has the norm ${norm}`, () => {
      expect(schema.parseDn(text).norm.toString()).to.equal(norm);
      expect(schema.parseDn(text).text).to.equal(written);
      expect(schema.parseDn(written).text).to.equal(written);
    });
  }

  it('the text of a DN keeps the case of types and values', () => {
    const dn = schema.parseDn(' CN=J\\C3\\BCrgen + sn = Müller , DC="x" ');
    expect(dn.rdns.map((rdn) => rdn.text)).to.deep.equal(['CN=Jürgen+sn=Müller', 'DC=x']);
    expect(dn.rdns[0]!.avas.map((ava) => [ava.type.name, ava.value.toString(), ava.norm.toString()])).to.deep.equal([
      ['cn', 'Jürgen', 'jürgen'],
      ['sn', 'Müller', 'müller'],
    ]);
    expect(schema.parseDn('').rdns).to.deep.equal([]);
    expect(schema.parseDn('userPassword=" \\ff\\fe "').text).to.equal('userPassword=\\ \\ff\\fe\\ ');
  });

  it('the norm of a DN normalizes each value by the equality rule of its type', () => {
    expect(schema.parseDn('uidNumber=100').norm.equals(schema.parseDn('uidNumber=\\31\\30\\30').norm)).to.equal(true);
    expect(schema.parseDn('telephoneNumber=\\+1 55-5').norm).to.deep.equal(
      schema.parseDn('telephoneNumber=\\2b1555').norm,
    );
    const inner = schema.parseDn('member=CN=A\\, dc=B,dc=x');
    expect(inner.norm.toString()).to.equal(`2.5.4.31=${CN}=a\\2c${DC}=b,${DC}=x`);
  });

  const wrong: [string, RegExp][] = [
    ['cn', /byte 3: '=' expected after the attribute 'cn'/],
    ['=x', /byte 1: an attribute type expected/],
    ['cn=', /byte 4: the value of 'cn' is empty/],
    ['cn= , dc=x', /byte 5: the value of 'cn' is empty/],
    ['cn=""', /the value of 'cn' is empty/],
    ['cn=a,', /byte 6: ends after a comma/],
    ['cn=a,,dc=b', /byte 6: an attribute type expected/],
    [',cn=a', /byte 1: an attribute type expected/],
    ['cn=a+', /an attribute type expected/],
    ['cn=a+,dc=b', /an attribute type expected/],
    ['cn=a+cn=b', /'cn' is twice in one RDN/],
    ['cm=a', /byte 1: attribute 'cm' is not in the schema; did you mean '(?:cn|c|co|l|dc)'/],
    ['bad', /byte 1: 'bad' has no '='; a DN is written like 'ou=people,dc=example,dc=com'/],
    ['example.com', /'example.com' has no '='; did you mean 'dc=example,dc=com'\?/],
    ['cn=a,Bad one', /byte 6: 'Bad one' has no '='; a DN is written/],
    ['ada@example.com', /'ada@example.com' has no '='/],
    ['cn=a,dcc=b', /byte 6: attribute 'dcc' is not in the schema; did you mean 'dc'/],
    ['cn=a\\', /byte 5: a backslash must be followed/],
    ['cn=a\\x', /byte 5: a backslash must be followed/],
    ['cn=a\\4', /byte 5: a backslash must be followed/],
    ['cn="a', /byte 4: a quoted value is never closed/],
    ['cn="a"b', /byte 7: ',' or '\+' expected/],
    ['cn=a"b', /byte 5: character 0x22 must be escaped/],
    ['cn=a<b>', /character 0x3c must be escaped/],
    ['cn=a\u0000b', /byte 5: character 0x00 must be escaped/],
    ['cn=#', /hexadecimal digits in pairs/],
    ['cn=#abc', /hexadecimal digits in pairs/],
    ['cn=#zz', /hexadecimal digits in pairs/],
    ['cn=#0c05', /is not BER/],
    ['cn=#0c0148x', /',' or '\+' expected/],
    ['cn=a\\ff', /value of 'cn' is not UTF-8/],
    ['uidNumber=abc', /value of 'uidNumber' does not fit/],
    ['member=nosuch\\=x', /does not fit/],
  ];
  for (const [text, message] of wrong) {
    it(`DN ${JSON.stringify(text)} is refused`, () => {
      refused('invalidDNSyntax', message, () => schema.parseDn(text));
      refused('invalidDNSyntax', message, () => schema.parseDn(text));
      refused('invalidDNSyntax', /./, () => schema.parseDn(`${text} ,dc=example,`));
    });
  }

  it('a DN in bytes has to be UTF-8', () => {
    expect(schema.parseDnBytes(bytes('cn=Ü')).norm.toString()).to.equal(`${CN}=ü`);
    refused('invalidDNSyntax', /not UTF-8/, () => schema.parseDnBytes(Buffer.from([0x63, 0x6e, 0x3d, 0xff])));
  });

  it('a DN parsed from bytes does not retain the buffer', () => {
    const text = bytes('cn=kept,dc=example');
    const dn = schema.parseDnBytes(text);
    text.fill(0);
    expect(dn.text).to.equal('cn=kept,dc=example');
    expect(dn.rdns[0]!.avas[0]!.value.toString()).to.equal('kept');
    expect(dn.norm.toString()).to.equal(`${CN}=kept,${DC}=example`);
  });

  it('DNs stay correct when more are used than the cache holds', () => {
    for (let i = 0; i < 30000; i++) {
      const dn = schema.parseDn(`cn=N${i},ou=O${i % 7000},dc=Example`);
      expect(dn.norm.toString()).to.equal(`${CN}=n${i},2.5.4.11=o${i % 7000},${DC}=example`);
    }
  });

  it('parseRdn parses a DN of one RDN', () => {
    expect(schema.parseRdn('sn=B+cn=A').norm.toString()).to.equal(`2.5.4.3=a+2.5.4.4=b`);
    refused('invalidDNSyntax', /one RDN expected, 2 given/, () => schema.parseRdn('cn=a,cn=b'));
    refused('invalidDNSyntax', /one RDN expected, 0 given/, () => schema.parseRdn(''));
  });

  const TYPES = ['cn', 'sn', 'ou', 'dc', 'uid', 'l'];
  const CHARACTERS = ['a', 'B', 'ß', 'Ü', ' ', ',', '+', '"', '\\', '<', '>', ';', '#', '=', 'x'];

  type Plain = { type: string; value: string }[][];
  function randomDn(random: Random): Plain {
    return Array.from({ length: 1 + random.below(4) }, () =>
      random
        .shuffle(TYPES)
        .slice(0, 1 + random.below(2))
        .map((type) => ({ type, value: `x${random.text(type === 'dc' ? ['a', 'B', ',', '+'] : CHARACTERS, 6)}x` })),
    );
  }

  /** The same DN written in a random way. */
  function write(random: Random, dn: Plain): string {
    const space = () => ' '.repeat(random.below(2));
    const value = (text: string) => {
      const cased = [...text].map((c) =>
        random.below(2) && c !== 'ß' ? (random.below(2) ? c.toUpperCase() : c.toLowerCase()) : c,
      );
      if (random.below(4) === 0) return `"${cased.join('').replace(/["\\]/g, '\\$&')}"`;
      const escaped = cased.map((c) => {
        const hex = [...Buffer.from(c)].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('');
        if (random.below(5) === 0) return hex;
        return /[,+"\\<>;]/.test(c) ? random.pick([hex, `\\${c}`]) : c;
      });
      return escaped.join('').replace(/ /g, () => ' '.repeat(1 + random.below(2)));
    };
    return dn
      .map((rdn) =>
        random
          .shuffle(rdn)
          .map(
            (ava) =>
              `${random.pick([ava.type, ava.type.toUpperCase(), schema.attribute(ava.type)!.oid])}${space()}=${space()}${value(ava.value)}`,
          )
          .join(`${space()}+${space()}`),
      )
      .join(random.pick([',', ' , ', ';', ', ']));
  }

  it('a DN has the same norm in every notation, cached or not', () => {
    const fresh = Schema.load();
    repeat(3000, (random) => {
      const dn = randomDn(random);
      const [one, two] = [write(random, dn), write(random, dn)];
      const norm = schema.parseDn(one).norm.toString();
      expect(schema.parseDn(two).norm.toString(), `${one} ${two}`).to.equal(norm);
      expect(fresh.parseDn(` ${two}`).norm.toString(), two).to.equal(norm);
      const { rdns } = schema.parseDn(one);
      expect(rdns.map((rdn) => rdn.norm.toString()).join(',')).to.equal(norm);
      expect(schema.parseDn(rdns.map((rdn) => rdn.text).join(',')).norm.toString()).to.equal(norm);
    });
  });

  it('ldap3 parses the texts of DNs with the same meaning', function () {
    needs(this, 'python3-ldap3');
    const texts = new Set<string>();
    repeat(2000, (random) => {
      const dn = schema.parseDn(write(random, randomDn(random)));
      expect(schema.parseDn(dn.text).norm.equals(dn.norm), dn.text).to.equal(true);
      texts.add(dn.text);
    });
    const program =
      'import sys, json\nfrom ldap3.utils.dn import parse_dn\nfor dn in json.load(sys.stdin): parse_dn(dn)';
    const input = JSON.stringify([...texts]);
    const { status, stderr } = spawnSync('/usr/bin/python3', ['-c', program], { input, encoding: 'utf8' });
    expect(status, stderr).to.equal(0);
  });

  it('the text of a DN has at most 64 KiB, even if the given notation is shorter', () => {
    const quoted = `cn="${','.repeat(40_000)}x",dc=x`;
    refused('invalidDNSyntax', /DN of 80\d+ bytes; at most 65536/, () => schema.parseDn(quoted));
    schema.parseDn(`dc=y,ou=${'ü'.repeat(20_000)}`);
    const ou = `ou=${'ü'.repeat(32_000)}`;
    schema.parseDn(ou);
    refused('invalidDNSyntax', /at most 65536/, () => schema.parseDn(`cn=${'a'.repeat(2000)},${ou}`));
    const member = schema.attribute('member')!;
    expect(member.syntax.check(Buffer.from(`cn=${'a'.repeat(65_536)}`))).to.match(/DN of over 65536 bytes/);
    expect(member.equality!.normalizeAssertion(Buffer.from(quoted))).to.equal(undefined);
  });

  it('different DNs have different norms', () => {
    repeat(3000, (random) => {
      const dn = randomDn(random);
      const other = structuredClone(dn);
      const ava = random.pick(random.pick(other));
      ava.value += random.pick(['y', 'yy', 'y,cn=y']);
      expect(schema.parseDn(write(random, dn)).norm.equals(schema.parseDn(write(random, other)).norm)).to.equal(false);
    });
  });

  it('a DN parsed below a known parent equals the DN parsed as a whole', () => {
    repeat(3000, (random) => {
      const parent = write(random, randomDn(random));
      const child = random.pick([
        'cn=a',
        ' cn = b ',
        'cn=c+sn=d',
        'cn=#0c0161',
        'uid=é',
        'cn=a\\,b',
        'cn="x,y"',
        'cn=e;cn=f',
      ]);
      const known = schema.parseDn(`${child},${parent}`);
      schema.parseDn(parent);
      const text = `${child} ,${parent}`;
      const below = schema.parseDn(text);
      expect(below.norm.toString(), text).to.equal(known.norm.toString());
      expect(below.rdns.length).to.equal(known.rdns.length);
      expect(below.text, text).to.equal(`${known.rdns.map((rdn) => rdn.text).join(',')}`);
      expect(schema.parseDn(below.text).text).to.equal(below.text);
    });
  });
});
