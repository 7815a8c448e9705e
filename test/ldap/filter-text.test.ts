import { expect } from 'chai';
import { FilterError, formatFilter, parseFilter } from '../../src/ldap/filter-text.js';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { type Random, seeded } from '../protocol/random.js';
import { rounds } from '../rounds.js';

const b = Buffer.from;
const equal = (attribute: string, value: string | Buffer): Filter => ({
  type: 'equal',
  attribute,
  value: b(value as Buffer),
});

/** RFC 4515 §4's examples and others: canonical text, filter. */
const pairs: [string, Filter][] = [
  ['(cn=Babs Jensen)', equal('cn', 'Babs Jensen')],
  ['(!(cn=Tim Howes))', { type: 'not', filter: equal('cn', 'Tim Howes') }],
  [
    '(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))',
    {
      type: 'and',
      filters: [
        equal('objectClass', 'Person'),
        {
          type: 'or',
          filters: [
            equal('sn', 'Jensen'),
            { type: 'substring', attribute: 'cn', initial: b('Babs J'), any: [], final: undefined },
          ],
        },
      ],
    },
  ],
  [
    '(o=univ*of*mich*)',
    { type: 'substring', attribute: 'o', initial: b('univ'), any: [b('of'), b('mich')], final: undefined },
  ],
  ['(o=*x*)', { type: 'substring', attribute: 'o', initial: undefined, any: [b('x')], final: undefined }],
  ['(o=*x)', { type: 'substring', attribute: 'o', initial: undefined, any: [], final: b('x') }],
  ['(seeAlso=)', equal('seeAlso', '')],
  ['(cn;lang-de=*)', { type: 'present', attribute: 'cn;lang-de' }],
  ['(2.5.4.3>=a)', { type: 'greaterOrEqual', attribute: '2.5.4.3', value: b('a') }],
  ['(a<=b=c)', { type: 'lessOrEqual', attribute: 'a', value: b('b=c') }],
  ['(a~=b)', { type: 'approx', attribute: 'a', value: b('b') }],
  [
    '(cn:caseExactMatch:=Fred Flintstone)',
    { type: 'extensible', rule: 'caseExactMatch', attribute: 'cn', value: b('Fred Flintstone'), dnAttributes: false },
  ],
  ['(cn:=Betty)', { type: 'extensible', rule: undefined, attribute: 'cn', value: b('Betty'), dnAttributes: false }],
  [
    '(sn:dn:2.4.6.8.10:=Barney)',
    { type: 'extensible', rule: '2.4.6.8.10', attribute: 'sn', value: b('Barney'), dnAttributes: true },
  ],
  ['(o:dn:=Ace)', { type: 'extensible', rule: undefined, attribute: 'o', value: b('Ace'), dnAttributes: true }],
  [
    '(:1.2.3:=Wilma)',
    { type: 'extensible', rule: '1.2.3', attribute: undefined, value: b('Wilma'), dnAttributes: false },
  ],
  [
    '(:dn:2.4.6.8.10:=Dino)',
    { type: 'extensible', rule: '2.4.6.8.10', attribute: undefined, value: b('Dino'), dnAttributes: true },
  ],
  ['(o=Parens R Us \\28for all\\29)', equal('o', 'Parens R Us (for all)')],
  ['(cn=*\\2a*)', { type: 'substring', attribute: 'cn', initial: undefined, any: [b('*')], final: undefined }],
  ['(filename=C:\\5cMyFile)', equal('filename', 'C:\\MyFile')],
  ['(bin=\\00\\00\\00\\04)', equal('bin', b([0, 0, 0, 4]))],
  ['(sn=Lučić)', equal('sn', 'Lučić')],
  ['(1.3.6.1.4.1.1466.0=\\04\\02Hi)', equal('1.3.6.1.4.1.1466.0', b([4, 2, 0x48, 0x69]))],
  ['(x=\\ff\\c3\\28a)', equal('x', b([0xff, 0xc3, 0x28, 0x61]))],
  ['(&)', { type: 'and', filters: [] }],
  ['(|)', { type: 'or', filters: [] }],
];

describe('ldap: filter text', () => {
  for (const [text, filter] of pairs) {
    it(text, () => {
      expect(parseFilter(text)).to.deep.equal(filter);
      expect(formatFilter(filter)).to.equal(text);
    });
  }

  it('accepts what people write', () => {
    expect(parseFilter(' uid=fred')).to.deep.equal(equal('uid', 'fred'));
    expect(parseFilter('sn=Lu\\c4\\8di\\C4\\87')).to.deep.equal(equal('sn', 'Lučić'));
    expect(parseFilter('(& (a=1)\n  (! (b=2) )\n)\n')).to.deep.equal(parseFilter('(&(a=1)(!(b=2)))'));
    expect(parseFilter('(cn:DN:=x)')).to.have.property('dnAttributes', true);
    expect(parseFilter('(cn= x )')).to.deep.equal(equal('cn', ' x '));
  });

  const wrong: [string, number, string][] = [
    ['', 0, "expected '=', '>=', '<=', '~=' or ':=', found the end"],
    ['()', 1, "expected '='"],
    ['(cn)', 3, "expected '=', '>=', '<=', '~=' or ':=', found a special character"],
    ['(cn=a', 5, "expected ')', found the end"],
    ['(cn=a))', 6, 'expected the end'],
    ['(cn=a)(sn=b)', 6, 'expected the end'],
    ['(=a)', 1, 'expected an attribute'],
    ['(>=a)', 1, 'expected an attribute'],
    ['(cn>a)', 4, "expected '=', found 'a'"],
    ['(cn=a\\2)', 6, 'two hexadecimal digits'],
    ['(cn=a\\zz)', 6, 'two hexadecimal digits'],
    ['(cn=a(b)', 5, 'written \\28'],
    ['(cn=a\0b)', 5, 'a special character'],
    ['(cn=a**b)', 8, "two '*'"],
    ['(cn>=a*b)', 6, "expected ')'"],
    ['(!(a=b)(c=d))', 7, "expected ')', found"],
    ['(!a=b)', 2, "expected '(', found 'a'"],
    ['(&(a=b)', 7, "expected ')', found the end"],
    ['(&a=b)', 2, "expected ')', found 'a'"],
    ['(:=a)', 2, 'neither attribute nor matching rule'],
    ['(:dn:=a)', 5, 'neither attribute nor matching rule'],
    ['(cn:rule=a)', 8, "expected ':', found '='"],
    ['(cn:a:b:=x)', 8, 'more than one matching rule'],
    ['(cn::=x)', 4, "expected 'dn', a matching rule or '='"],
  ];
  for (const [text, position, why] of wrong) {
    it(`refuses ${JSON.stringify(text)}`, () => {
      let caught: unknown;
      try {
        parseFilter(text);
      } catch (error) {
        caught = error;
      }
      expect(caught).to.be.instanceOf(FilterError);
      expect((caught as FilterError).message).to.contain(why);
      expect(caught).to.include({ position });
      expect((caught as FilterError).message).to.contain(`at character ${position + 1}`);
    });
  }

  it('nesting of 100 and no more, however deep', () => {
    const deep = (n: number): string => `${'(!'.repeat(n)}(a=b)${')'.repeat(n)}`;
    expect(formatFilter(parseFilter(deep(100)))).to.equal(deep(100));
    for (const n of [101, 1000, 1_000_000]) expect(() => parseFilter(deep(n))).to.throw(FilterError, 'over 100 deep');
  });

  it('very many escapes and stars', () => {
    const value = Buffer.alloc(1 << 18, '*');
    const read = parseFilter(formatFilter(equal('a', value)));
    expect(read.type === 'equal' && read.value.equals(value)).to.equal(true);
    const filter = parseFilter(`(a=${'*x'.repeat(200_000)})`);
    expect(filter).to.have.property('any').with.length(199_999);
  });

  it('nothing in a log but printable characters', () => {
    const nasty = '\n\r\x1b[2J\x7f\u0085\u2028\u202e\u200b\ufeff%s';
    const text = formatFilter({
      type: 'and',
      filters: [equal(nasty, nasty), { type: 'present', attribute: 'a)(b=*' }],
    });
    expect(text).to.match(/^[ -~]+$/);
    expect(text).to.contain('(a\\29\\28b=\\2a=*)');
    expect(parseFilter(formatFilter(equal('a', nasty)))).to.deep.equal(equal('a', nasty));
  });

  it('cuts values and texts where it is asked to', () => {
    const value = b(`${'x'.repeat(9)}é${'y'.repeat(100)}`);
    expect(formatFilter(equal('a', value), { maxValue: 10 })).to.equal('(a=xxxxxxxxx…)');
    expect(formatFilter(equal('a', value), { maxValue: 11 })).to.equal('(a=xxxxxxxxxé…)');
    expect(formatFilter(equal('a', Buffer.alloc(1 << 20, 0x80)), { maxValue: 20 }).length).to.be.below(100);
    const wide: Filter = { type: 'or', filters: Array<Filter>(10_000).fill(equal('a', 'b')) };
    expect(formatFilter(wide, { maxText: 12 })).to.equal('(|(a=b)(a=b)…)');
  });

  it(
    'random filters come back the same',
    seeded((random) => {
      for (let i = 0; i < rounds(500, 3000); i++) {
        const filter = randomFilter(random, 4);
        expect(parseFilter(formatFilter(filter))).to.deep.equal(filter);
      }
    }),
  );

  it(
    'random texts are read or refused with FilterError',
    seeded((random) => {
      const pieces = [
        '(',
        ')',
        '&',
        '|',
        '!',
        '=',
        '*',
        ':',
        'dn',
        '>',
        '<',
        '~',
        '\\',
        '2a',
        ' ',
        'cn',
        '\0',
        'é',
        '\ud800',
        ';x',
      ];
      for (let i = 0; i < rounds(5000, 50_000); i++) {
        const text = random.list(12, () => random.pick(pieces)).join('');
        try {
          expect(parseFilter(formatFilter(parseFilter(text)))).to.deep.equal(parseFilter(text));
        } catch (error) {
          if (!(error instanceof FilterError)) throw error;
        }
      }
    }),
  );
});

function randomFilter(random: Random, depth: number): Filter {
  const attribute = random.pick(['cn', 'CN;lang-de', '2.5.4.3', 'x-y_z']);
  const bytes = (): Buffer =>
    random.chance(2) ? random.bytes(12) : b(random.pick(['', 'é*', '()\\', '日本 \0', ' a ']));
  const part = (): Buffer => Buffer.concat([b('p'), bytes()]);
  switch (random.below(depth > 0 ? 7 : 4)) {
    case 0:
      return {
        type: random.pick(['equal', 'greaterOrEqual', 'lessOrEqual', 'approx'] as const),
        attribute,
        value: bytes(),
      };
    case 1:
      return { type: 'present', attribute };
    case 2:
      return {
        type: 'substring',
        attribute,
        initial: random.chance(2) ? part() : undefined,
        any: random.list(3, part),
        final: part(),
      };
    case 3:
      return {
        type: 'extensible',
        rule: random.chance(2) ? '2.5.13.2' : undefined,
        attribute,
        value: bytes(),
        dnAttributes: random.chance(2),
      };
    case 4:
      return { type: 'not', filter: randomFilter(random, depth - 1) };
    default:
      return {
        type: random.pick(['and', 'or'] as const),
        filters: random.list(3, () => randomFilter(random, depth - 1)),
      };
  }
}
