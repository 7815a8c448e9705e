import { expect } from 'chai';
import { schema } from './helpers.js';

const ARC = '1.3.6.1.4.1.1466.115.121.1';

/** OID or its last arc → valid values, invalid values. */
const TABLE: Record<string, [string[], string[]]> = {
  '3': [["( 2.5.4.3 NAME 'cn' SUP name )"], ['cn', "( cn NAME 'cn' )"]],
  '6': [
    ["'0101111101'B", "''B"],
    ["'012'B", '0101', "'01'b", ''],
  ],
  '7': [
    ['TRUE', 'FALSE'],
    ['true', 'YES', '', 'TRUE '],
  ],
  '11': [
    ['US', 'de'],
    ['USA', 'U', 'Ü', 'U*'],
  ],
  '12': [
    ['', 'cn=a,dc=b'],
    ['cn', 'nosuch=a', 'cn=a,'],
  ],
  '14': [
    ['mhs $ telephone', 'any', 'ANY', 'Any$G3Fax'],
    ['pigeon', ''],
  ],
  '15': [
    ['Это строка', 'a'],
    ['', '\xff'],
  ],
  '21': [
    [
      'person#(sn$EQ)#oneLevel',
      ' 2.5.6.6 #sn$eq|(!cn$SUBSTR&?true)# WHOLESUBTREE',
      'person # ( sn $ EQ ) # baseobject',
    ],
    ['', 'x', 'person#sn$EQ', 'person#sn$EQ#below', '#sn$EQ#oneLevel', 'person#(sn$EQ#oneLevel', 'a#sn$EQ#oneLevel#x'],
  ],
  '22': [
    ['+61 3 9896 7801', '+1 5$fineResolution$a3Width'],
    ['+1$blue', '', '+1#2'],
  ],
  '24': [
    ['19941216103200Z', '199412161032-0500', '1994121610.5Z', '20240229000000Z', '20161231235960Z'],
    ['19941216103200', '1994', '20230229000000Z', '19941232000000Z', '19941216243200Z', '199412161032+2500', ''],
  ],
  '25': [
    [
      'person#sn$EQ',
      'sn$EQ',
      '?TRUE',
      '(sn$GE)&!(cn$le|?false)',
      '!!2.5.4.3$approx',
      `${'('.repeat(9000)}a$EQ${')'.repeat(9000)}`,
    ],
    [
      '',
      'x',
      'sn$EQ)',
      'sn$EQ(',
      '()',
      'sn$EQ&',
      '|sn$EQ',
      'sn$XX',
      'sn$EQ cn$EQ',
      '#sn$EQ',
      'person#',
      'a#b#sn$EQ',
      '!',
    ],
  ],
  '26': [['', 'abc~'], ['é']],
  '27': [
    ['1321', '-1', '0'],
    ['', '-', '01', '-0', '1.5', '+1', ' 1'],
  ],
  '34': [
    ["1.3.6.1.4.1.1466.0=#04024869,O=Test,C=GB#'0101'B".replace('1.3.6.1.4.1.1466.0', 'cn'), 'cn=a'],
    ["nosuch=a#'0101'B"],
  ],
  '36': [['15 079 672 281'], ['', '1-2']],
  '38': [
    ['1.2.3.4', 'cn', '0.9'],
    ['', '1', '1..2', '1.02', '-a', 'a_b', '1.2.'],
  ],
  '39': [['internet$a@b'], ['internet', '$a']],
  '41': [
    ['1234 Main St.$Anytown, CA 12345$USA', '\\241,000,000 Sweepstakes$PO Box 1000000'],
    ['', 'a\\b'],
  ],
  '44': [["This is a PrintableString (it's)"], ['', 'a@b']],
  '45': [
    ['{ base "ou=x", minimum 1 }', '{ }'],
    ['base', '{', '{ "a }'],
  ],
  '50': [
    ['+1 512 315 0280', 'call me?', '(5) x.3'],
    ['', '-- ', '+1\u0007', 'call me?!', '+1#2', '*5', 'é'],
  ],
  '51': [['term$graphic:x'], ['term$colour:x']],
  '52': [['12345$023$ABC'], ['12345', '1$2$']],
  '53': [
    ['9412161032Z', '941216103200-0500'],
    ['94121610', '9413161032Z'],
  ],
  '54': [[`( ${ARC}.58 DESC 'x' )`], ['( x )']],
  '1.3.6.1.1.16.1': [
    ['597ae2f6-16a6-1027-98f4-d28b5365dc14'],
    ['597ae2f616a6102798f4d28b5365dc14', '597ae2f6-16a6-1027-98f4-d28b5365dc1g'],
  ],
  '1.3.6.1.4.1.4203.666.11.2.1': [
    ['20261121083556.123456Z#000000#000#000000'],
    [
      '20261121083556Z#000000#000#000000',
      '20261321083556.123456Z#000000#000#000000',
      '20261121083556.123456Z#00000g#000#000000',
    ],
  ],
  '1.3.6.1.1.1.0.0': [
    ['(host,user,domain)', '(,-,)'],
    ['host,user,domain', '(a,b)'],
  ],
  '1.3.6.1.1.1.0.1': [['root=server:/path'], ['root', 'root=x']],
};

describe('syntaxes', () => {
  for (const [arc, [valid, invalid]] of Object.entries(TABLE)) {
    const oid = arc.includes('.') ? arc : `${ARC}.${arc}`;
    const syntax = schema.syntax(oid)!;
    it(`syntax ${syntax.description} accepts valid and refuses invalid values`, () => {
      for (const value of valid) expect(syntax.check(Buffer.from(value)), value).to.equal(undefined);
      for (const value of invalid) {
        const wrong = syntax.check(Buffer.from(value, value === '\xff' ? 'latin1' : 'utf8'));
        expect(wrong, value).to.be.a('string');
      }
    });
  }

  it('error messages of syntaxes never contain the refused value', () => {
    for (const type of schema.attributes()) {
      const wrong = type.syntax.check(Buffer.from('\u0001Zebra7\xff~'));
      if (wrong !== undefined) expect(wrong, type.name).to.not.contain('Zebra7');
    }
  });

  it('syntaxes that are not text are marked as binary', () => {
    const binary = ['userPassword', 'jpegPhoto', 'userCertificate', 'audio'];
    for (const name of binary) expect(schema.attribute(name)!.syntax.binary, name).to.equal(true);
    for (const name of ['cn', 'mail', 'uidNumber']) expect(schema.attribute(name)!.syntax.binary, name).to.equal(false);
  });
});
