import { expect } from 'chai';
import { nfkc } from '../../src/schema/nfkc.js';
import {
  prepareExact,
  prepareIgnore,
  prepareNumeric,
  preparePartIgnore,
  prepareTelephone,
} from '../../src/schema/prepare.js';
import { bytes } from './helpers.js';
import { repeat } from './random.js';

function ignore(text: string): string | undefined {
  return prepareIgnore(bytes(text))?.toString();
}

describe('string preparation', () => {
  const cases: [string, string | undefined][] = [
    ['Foo', 'foo'],
    ['  foo   BAR ', 'foo bar'],
    ['', ' '],
    ['   ', ' '],
    ['a\tb\r\nc', 'a b c'],
    ['a\u0000b', 'ab'],
    ['\u0000', ' '],
    ['Jürgen', 'jürgen'],
    ['Ju\u0308rgen', 'jürgen'],
    ['STRASSE', 'strasse'],
    ['Straße', 'strasse'],
    ['STRAẞE', 'strasse'],
    ['ﬁnd', 'find'],
    ['ΟΔΟΣ', 'οδοσ'],
    ['οδος', 'οδοσ'],
    ['ı', 'ı'],
    ['I', 'i'],
    ['İ', 'i̇'],
    ['K', 'k'],
    ['Ⅳ', 'iv'],
    ['ｆｕｌｌ　ｗｉｄｔｈ', 'full width'],
    ['a\u00a0\u2003b', 'a b'],
    ['soft\u00adhyphen', 'softhyphen'],
    ['zero\u200bwidth\ufeff', 'zerowidth'],
    ['a \u0301b', 'a \u0301b'],
    ['  \u0301b', '\u0020\u0301b'],
    ['emoji 😀', 'emoji 😀'],
    ['private \ue000', undefined],
    ['replaced \ufffd', undefined],
    ['unassigned \u0378', undefined],
  ];
  for (const [text, form] of cases) {
    it(`string preparation makes ${JSON.stringify(form)} of ${JSON.stringify(text)}`, () =>
      expect(ignore(text)).to.equal(form));
  }

  it('caseExact preparation keeps case', () => {
    expect(prepareExact(bytes('  Foo   BÄR '))!.toString()).to.equal('Foo BÄR');
    expect(prepareExact(bytes('Straße'))!.toString()).to.equal('Straße');
  });

  it('string preparation refuses bytes that are not UTF-8', () => {
    for (const hex of ['ff', '61c3', 'c080', 'eda080', 'f8888080'])
      expect(prepareIgnore(Buffer.from(hex, 'hex')), hex).to.equal(undefined);
  });

  it('string preparation returns the same buffer if nothing changes', () => {
    for (const text of ['foo bar', 'x', 'a.b@c-d']) {
      const value = bytes(text);
      expect(prepareIgnore(value)).to.equal(value);
    }
    const upper = bytes('Foo');
    expect(prepareExact(upper)).to.equal(upper);
    expect(prepareIgnore(upper)!.toString()).to.equal('foo');
    expect(upper.toString()).to.equal('Foo');
  });

  it('preparation of a part keeps a space where the value may have a space', () => {
    const part = (text: string, where: 'initial' | 'any' | 'final') =>
      preparePartIgnore(bytes(text), where)!.toString();
    expect(part('  Foo  ', 'initial')).to.equal('foo ');
    expect(part('  Foo  ', 'any')).to.equal(' foo ');
    expect(part('  Foo  ', 'final')).to.equal(' foo');
    expect(part('  ', 'initial')).to.equal(' ');
    expect(part('  ', 'final')).to.equal(' ');
    expect(part('  ', 'any')).to.equal(' ');
    expect(part('  É  ', 'initial')).to.equal('é ');
    expect(part('  É  ', 'any')).to.equal(' é ');
    expect(part('  É  ', 'final')).to.equal(' é');
  });

  const pieces = [
    ' ',
    '  ',
    'a',
    'B',
    'é',
    'e\u0301',
    'ß',
    'ẞ',
    '\u0301',
    '\u00a8',
    'ς',
    'Σ',
    'ﬀ',
    'ı',
    'İ',
    '\t',
    '\u0000',
    '😀',
    '가',
    '\u1100\u1161',
    'Å',
    '\u0345',
    '\u00a0',
    'ǰ',
  ];

  it('preparation of a prepared string changes nothing', () => {
    repeat(20000, (random) => {
      const value = bytes(random.text(pieces, 12));
      for (const prepare of [prepareIgnore, prepareExact]) {
        const once = prepare(value);
        if (once) expect(prepare(once)!.equals(once), JSON.stringify(value.toString())).to.equal(true);
      }
    });
  });

  it('ASCII is prepared alike on the fast and on the slow path', () => {
    repeat(20000, (random) => {
      const text = random.text([' ', 'a', 'B', '  ', 'Z', '9', '\\'], 10);
      for (const prepare of [prepareIgnore, prepareExact]) {
        const short = prepare(bytes(text))!;
        expect(prepare(bytes(`${text}\u200b`))!.equals(short), JSON.stringify(text)).to.equal(true);
      }
    });
  });

  it('a text has the same prepared form in any case and spacing', () => {
    repeat(5000, (random) => {
      const words = Array.from({ length: 1 + random.below(4) }, () => `x${random.text(['a', 'Q', 'é', 'ß', 'ж'], 5)}`);
      const variant = () =>
        words
          .map((word) => random.pick([word, word.toLowerCase(), word.toUpperCase(), word.normalize('NFD')]))
          .join(' '.repeat(1 + random.below(3)));
      expect(ignore(`${variant()} `)).to.equal(ignore(variant()));
    });
  });
});

describe('runs of combining marks', () => {
  it('runs of combining marks of any length are put into canonical order', () => {
    const pairs = 150_000;
    const given = bytes(`A${'\u0301\u0316'.repeat(pairs)}b`);
    const form = `${'a'}${'\u0316'.repeat(pairs)}${'\u0301'.repeat(pairs)}b`.normalize('NFKC');
    expect(prepareIgnore(given)!.toString() === form).to.equal(true);
    expect(prepareExact(given)!.toString() === form.replace('á', 'Á')).to.equal(true);
    expect(preparePartIgnore(given, 'any')!.toString() === form).to.equal(true);
    expect(prepareTelephone(given)!.toString() === form).to.equal(true);
    expect(prepareNumeric(given)!.toString() === form.replace('á', 'Á')).to.equal(true);
  });

  it('every kind of combining mark is ordered as by the runtime', () => {
    const all: string[] = [];
    for (let code = 0x80; code < 0x110000; code++) {
      const char = String.fromCodePoint(code);
      if (/\p{M}|[\uff9e\uff9f]/u.test(char)) all.push(char);
    }
    // What one run begins with, another ends with.
    const run = [...all, ...[...all].reverse(), ...all].join('');
    expect(nfkc(`a${run}b`) === `a${run}b`.normalize('NFKC')).to.equal(true);
    repeat(200, (random) => {
      const text = random.text([...all, 'a', ' ', 'Ω', 'が', '가', 'ﾊ'], 400);
      expect(nfkc(text) === text.normalize('NFKC'), JSON.stringify(text)).to.equal(true);
      const few = random.text(['\u0316', '\u0301', '\u0345', '\u0f73', '\u20dd', '\uff9e', '\u0344', '\u0334'], 400);
      expect(nfkc(few) === few.normalize('NFKC'), JSON.stringify(few)).to.equal(true);
    });
  });

  it('canonical ordering moves combining marks only', () => {
    const first = '\u0334';
    const last = '\u0345';
    for (let code = 0x80; code < 0x110000; code++) {
      if (code >= 0xd800 && code < 0xe000) continue;
      const char = String.fromCodePoint(code);
      const [start] = char.normalize('NFKD');
      const moves = (start + first).normalize('NFD') !== start + first || start === last;
      if (moves || start === first) expect(char).to.match(/\p{M}|[\uff9e\uff9f]/u, code.toString(16));
    }
  });
});
