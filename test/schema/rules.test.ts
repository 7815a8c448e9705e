import { expect } from 'chai';
import { bytes, rule, schema } from './helpers.js';
import { type Random, repeat } from './random.js';

function form(name: string, value: string): Buffer | undefined {
  return rule(name).normalize(bytes(value));
}

/** undefined: not evaluable; else whether the assertion matches the value. */
function matches(name: string, value: string | Buffer, assertion: string): boolean | undefined {
  const found = rule(name);
  const stored = found.normalize(Buffer.from(value));
  const asserted = found.normalizeAssertion(bytes(assertion));
  if (!stored || !asserted) return undefined;
  return found.test ? found.test(stored, asserted) : stored.equals(asserted);
}

describe('equality rules', () => {
  const cases: [string, string, string, boolean | undefined][] = [
    ['caseIgnoreMatch', 'Lućić  A', 'luĆić a', true],
    ['caseExactMatch', 'Abc', 'abc', false],
    ['caseIgnoreIA5Match', 'A@B.C', 'a@b.c', true],
    ['caseIgnoreIA5Match', 'a@b.c', 'ä@b.c', undefined],
    ['caseExactIA5Match', 'a', 'A', false],
    ['numericStringMatch', '15 079 672', '15079672', true],
    ['numericStringMatch', '15', '15x', undefined],
    ['numericStringMatch', '15', '', undefined],
    ['caseIgnoreMatch', 'a', '', undefined],
    ['caseExactMatch', 'a', '', undefined],
    ['caseIgnoreMatch', ' ', '  ', true],
    ['telephoneNumberMatch', '+15', '', undefined],
    ['telephoneNumberMatch', '+15', '+1é', undefined],
    ['caseIgnoreListMatch', 'a$b', '', undefined],
    ['caseIgnoreListMatch', 'a$b', 'a\\b', undefined],
    ['presentationAddressMatch', 'a', '', undefined],
    ['directoryStringFirstComponentMatch', "( 'Ab c' x )", '', undefined],
    ['wordMatch', 'a', '', undefined],
    ['telephoneNumberMatch', '+1 555-0100 ABC', '+15550100abc', true],
    ['telephoneNumberMatch', '+1‐555', '+1555', true],
    ['telephoneNumberMatch', '+15', '+16', false],
    ['caseIgnoreListMatch', '1 Main  St$Town', '1 main st$TOWN', true],
    ['caseIgnoreListMatch', 'a$b', 'a\\24b', false],
    ['booleanMatch', 'TRUE', 'true', true],
    ['booleanMatch', 'TRUE', 'FALSE', false],
    ['booleanMatch', 'TRUE', '1', undefined],
    ['integerMatch', '42', '42', true],
    ['integerMatch', '42', '042', undefined],
    ['integerMatch', '42', '', undefined],
    ['bitStringMatch', "'0101'B", "'0101'B", true],
    ['bitStringMatch', "'0101'B", "'01010'B", false],
    ['octetStringMatch', 'a ', 'a', false],
    ['objectIdentifierMatch', 'person', '2.5.6.6', true],
    ['objectIdentifierMatch', '2.5.4.3', 'COMMONNAME', true],
    ['objectIdentifierMatch', 'person', 'persom', undefined],
    ['objectIdentifierMatch', '1.2.3.4', '1.2.3.4', true],
    ['distinguishedNameMatch', 'CN=A  b, dc=X', 'cn=a b,dc=x', true],
    ['distinguishedNameMatch', 'cn=a+sn=b,dc=x', 'sn=B + cn=A,dc=x', true],
    ['distinguishedNameMatch', 'cn=a', 'cnn=a', undefined],
    ['uniqueMemberMatch', "cn=A,dc=x#'01'B", "CN=a,dc=x#'01'B", true],
    ['uniqueMemberMatch', "cn=A,dc=x#'01'B", 'cn=a,dc=x', false],
    ['uniqueMemberMatch', "cn=a\\#'01'B", "cn=a#'01'B", false],
    ['generalizedTimeMatch', '20261121103000+0200', '20261121083000Z', true],
    ['generalizedTimeMatch', '2026112108.5Z', '20261121083000.000Z', true],
    ['generalizedTimeMatch', '202611210830,25Z', '20261121083015Z', true],
    ['generalizedTimeMatch', '20261301000000Z', '20261301000000Z', undefined],
    ['generalizedTimeMatch', '20270101003000+01', '20261231233000Z', true],
    ['UUIDMatch', '597AE2F6-16a6-1027-98f4-d28b5365dc14', '597ae2f6-16A6-1027-98f4-d28b5365dc14', true],
    ['UUIDMatch', '597ae2f6-16a6-1027-98f4-d28b5365dc14', '597ae2f6', undefined],
    ['CSNMatch', '20261121083556.123456Z#00000A#000#000000', '20261121083556.123456Z#00000a#000#000000', true],
    ['CSNMatch', '20261121083556.123456Z#00000A#000#000000', '20261121083556Z#00000A#00#000000', undefined],
    ['integerBitAndMatch', '6', '2', true],
    ['integerBitAndMatch', '6', '3', false],
    ['integerBitAndMatch', '-1', '18446744073709551615', true],
    ['integerBitAndMatch', '36893488147419103232', '1', undefined],
    ['integerBitOrMatch', '6', '3', true],
    ['integerBitOrMatch', '6', '9', false],
    ['integerFirstComponentMatch', '( 2 FORM x )', '2', true],
    ['objectIdentifierFirstComponentMatch', "( 2.5.4.3 NAME 'cn' )", 'cn', true],
    ['objectIdentifierFirstComponentMatch', "( 2.5.4.3 NAME 'cn' )", '2.5.4.4', false],
    ['directoryStringFirstComponentMatch', "( 'Ab c' x )", 'ab C', true],
    ['wordMatch', 'the quick fox', 'QUICK', true],
    ['wordMatch', 'the quick fox', 'quic', false],
    ['wordMatch', 'quic, quick', 'quick', true],
    ['dnSubtreeMatch', 'cn=a,ou=b,dc=c', 'ou=B,dc=c', true],
    ['dnSubtreeMatch', 'ou=b,dc=c', 'ou=b,dc=c', true],
    ['dnSubtreeMatch', 'xou=b,dc=c'.replace('xou', 'cn'), 'ou=b,dc=c', false],
    ['dnSubtreeMatch', 'cn=a\\,ou\\=b', 'ou=b', false],
    ['dnSubtreeMatch', 'dc=c', '', true],
    ['dnOneLevelMatch', 'cn=a,ou=b,dc=c', 'ou=b,dc=c', true],
    ['dnOneLevelMatch', 'cn=x,cn=a,ou=b,dc=c', 'ou=b,dc=c', false],
    ['dnOneLevelMatch', 'dc=c', '', true],
    ['dnOneLevelMatch', 'cn=a,dc=c', '', false],
    ['dnSubordinateMatch', 'cn=x,cn=a,dc=c', 'dc=c', true],
    ['dnSubordinateMatch', 'dc=c', 'dc=c', false],
    ['dnSuperiorMatch', 'dc=c', 'cn=x,cn=a,dc=c', true],
    ['dnSuperiorMatch', 'dc=c', 'dc=c', false],
  ];
  for (const [name, value, assertion, expected] of cases) {
    it(`${name}: '${assertion}' on '${value}' is ${expected}`, () => {
      expect(matches(name, value, assertion)).to.equal(expected);
    });
  }

  it('equality rules are symmetric, and normal forms that are text have the same normal form', () => {
    const names = [
      'caseIgnoreMatch',
      'caseExactMatch',
      'caseIgnoreIA5Match',
      'telephoneNumberMatch',
      'caseIgnoreListMatch',
      'numericStringMatch',
    ];
    const pieces = ['a', 'A', ' ', '-', '$', 'é', 'É', '1', '\\24'];
    repeat(5000, (random) => {
      const name = random.pick(names);
      const [a, b] = [random.text(pieces, 5), random.text(pieces, 5)];
      const [there, back] = [matches(name, a, b), matches(name, b, a)];
      // Not every value that has a form may be asked for.
      if (there !== undefined && back !== undefined) expect(there, `${name} ${a} ${b}`).to.equal(back);
      const once = form(name, a);
      if (once) expect(rule(name).normalize(once)!.equals(once), `${name} '${a}'`).to.equal(true);
    });
  });
});

describe('ordering rules', () => {
  function randomInteger(random: Random): bigint {
    const digits = Array.from({ length: 1 + random.below(random.pick([2, 5, 40, 300])) }, () => random.below(10)).join(
      '',
    );
    return BigInt(digits) * (random.below(2) ? 1n : -1n);
  }

  it('integerOrderingMatch orders integers of any size by bytes', () => {
    repeat(10000, (random) => {
      const a = randomInteger(random);
      const b = random.below(5) ? randomInteger(random) : a + BigInt(random.below(3) - 1);
      const order = Math.sign(
        Buffer.compare(form('integerOrderingMatch', `${a}`)!, form('integerOrderingMatch', `${b}`)!),
      );
      expect(order, `${a} ${b}`).to.equal(a < b ? -1 : a > b ? 1 : 0);
    });
  });

  it('integerOrderingMatch orders integers across the change of the length encoding', () => {
    const numbers = [254, 255, 256, 1000].flatMap((n) => [`1${'0'.repeat(n - 1)}`, '9'.repeat(n)]);
    const sorted = [...numbers.map((n) => `-${n}`).reverse(), '-1', '0', '1', ...numbers];
    const forms = sorted.map((number) => form('integerMatch', number)!);
    for (let i = 1; i < forms.length; i++) expect(Buffer.compare(forms[i - 1]!, forms[i]!)).to.equal(-1);
  });

  it('generalizedTimeOrderingMatch orders times by bytes, in any zone and precision', () => {
    repeat(10000, (random) => {
      const time = () => {
        const ms = Date.UTC(
          2000 + random.below(3),
          random.below(12),
          1 + random.below(28),
          random.below(24),
          random.below(60),
          random.below(60),
          random.below(3) * 250,
        );
        const offset = random.pick([0, 60, -330, 845]);
        const local = new Date(ms + offset * 60000).toISOString();
        const sign = offset < 0 ? '-' : '+';
        const zone = `${sign}${String(Math.floor(Math.abs(offset) / 60)).padStart(2, '0')}${String(Math.abs(offset) % 60).padStart(2, '0')}`;
        const text = `${local.slice(0, 19).replace(/[-:T]/g, '')}.${local.slice(20, 23)}${offset === 0 ? 'Z' : zone}`;
        return { ms, text: ms % 1000 === 0 && random.below(2) ? text.replace('.000', '') : text };
      };
      const [a, b] = [time(), time()];
      const order = Buffer.compare(
        form('generalizedTimeOrderingMatch', a.text)!,
        form('generalizedTimeOrderingMatch', b.text)!,
      );
      expect(order, `${a.text} ${b.text}`).to.equal(Math.sign(a.ms - b.ms));
    });
  });

  it('change sequence numbers, strings and octets are ordered by bytes', () => {
    const csn = (time: string, count: string) =>
      form('CSNOrderingMatch', `20261121083556.${time}Z#${count}#000#000000`)!;
    expect(Buffer.compare(csn('000009', '00000f'), csn('000010', '000000'))).to.equal(-1);
    expect(Buffer.compare(csn('000010', '00000F'), csn('000010', '00000a'))).to.equal(1);
    expect(Buffer.compare(form('caseIgnoreOrderingMatch', 'ABC')!, form('caseIgnoreOrderingMatch', 'abd')!)).to.equal(
      -1,
    );
    const order = (name: string, a: string, b: string) => Buffer.compare(form(name, a)!, form(name, b)!);
    expect(order('caseExactOrderingMatch', 'B', 'a')).to.equal(-1);
    expect(order('caseExactOrderingMatch', 'a  b', 'a b')).to.equal(0);
    expect(order('numericStringOrderingMatch', '1 2', '13')).to.equal(-1);
    const uuids = ['597AE2F6-16a6-1027-98f4-d28b5365dc14', '597ae2f6-16a6-1027-98f4-d28b5365dc15'] as const;
    expect(order('UUIDOrderingMatch', ...uuids)).to.equal(-1);
    expect(order('UUIDOrderingMatch', uuids[0], uuids[0].toLowerCase())).to.equal(0);
    expect(Buffer.compare(form('octetStringOrderingMatch', 'ab')!, form('octetStringOrderingMatch', 'abc')!)).to.equal(
      -1,
    );
  });
});

describe('substrings rules', () => {
  function found(name: string, value: string, parts: { initial?: string; any?: string[]; final?: string }): boolean {
    const { normalize, normalizePart } = rule(name);
    const stored = normalize(bytes(value))!;
    const part = (text: string, where: 'initial' | 'any' | 'final') => normalizePart!(bytes(text), where)!;
    let at = 0;
    let end = stored.length;
    if (parts.initial !== undefined) {
      const initial = part(parts.initial, 'initial');
      if (!stored.subarray(0, initial.length).equals(initial)) return false;
      at = initial.length;
    }
    if (parts.final !== undefined) {
      const final = part(parts.final, 'final');
      end -= final.length;
      if (end < at || !stored.subarray(end).equals(final)) return false;
    }
    for (const text of parts.any ?? []) {
      const any = part(text, 'any');
      const position = stored.subarray(0, end).indexOf(any, at);
      if (position < 0) return false;
      at = position + any.length;
    }
    return true;
  }

  const cases: [string, string, Parameters<typeof found>[2], boolean][] = [
    ['caseIgnoreSubstringsMatch', 'Horatio  Hornblower', { initial: 'HORATIO ', any: ['Blow'], final: 'er ' }, true],
    ['caseIgnoreSubstringsMatch', 'Horatio Hornblower', { any: ['o  horn'] }, true],
    ['caseIgnoreSubstringsMatch', 'Horatio Hornblower', { initial: 'ornb' }, false],
    ['caseIgnoreSubstringsMatch', 'aba', { initial: 'ab', final: 'ba' }, false],
    ['caseIgnoreSubstringsMatch', 'Ängström', { initial: 'än', any: ['ST'], final: 'RÖM' }, true],
    ['caseExactSubstringsMatch', 'Abc', { initial: 'a' }, false],
    ['caseIgnoreIA5SubstringsMatch', 'User.1@Example.com', { any: ['@example'] }, true],
    ['caseExactIA5SubstringsMatch', '/home/Ann', { initial: '/home/', final: 'Ann' }, true],
    ['caseExactIA5SubstringsMatch', '/home/Ann', { any: ['ann'] }, false],
    ['numericStringSubstringsMatch', '12 34 56', { any: ['2345'] }, true],
    ['telephoneNumberSubstringsMatch', '+1 555-0100', { initial: '+15', final: '-100' }, true],
    ['caseIgnoreListSubstringsMatch', '1 Main St$Anytown', { any: ['st$any'] }, true],
    ['octetStringSubstringsMatch', 'a  b', { any: ['  '] }, true],
  ];
  for (const [name, value, parts, expected] of cases) {
    it(`${name}: ${JSON.stringify(parts)} in '${value}' is ${expected}`, () => {
      expect(found(name, value, parts)).to.equal(expected);
    });
  }

  it('parts of a substrings assertion have the assertion syntax of the equality rule', () => {
    const part = (name: string, text: string) => rule(name).normalizePart!(bytes(text), 'any');
    expect(part('numericStringSubstringsMatch', '1a')).to.equal(undefined);
    expect(part('telephoneNumberSubstringsMatch', 'é')).to.equal(undefined);
    expect(part('telephoneNumberSubstringsMatch', '-')).to.deep.equal(bytes(''));
    expect(part('caseIgnoreIA5SubstringsMatch', 'é')).to.equal(undefined);
    expect(part('caseExactIA5SubstringsMatch', 'é')).to.equal(undefined);
  });

  it('every substrings rule named by an attribute type is implemented', () => {
    for (const type of schema.attributes()) {
      if (type.substrings) expect(type.substrings.normalizePart, type.name).to.be.a('function');
      for (const kind of ['equality', 'ordering', 'substrings'] as const) {
        if (type[kind]) expect(type[kind].kind, type.name).to.equal(kind);
      }
    }
  });
});
