import { expect } from 'chai';
import { parseSubstrings } from '../../src/partition/read/filter/substring-assertion.js';
import { ENGINES, type Fixture, openFixture, SUFFIX } from './fixture.js';

describe('substrings assertions (RFC 4517 §3.3.30)', () => {
  const cases: [string, [string | undefined, string[], string | undefined] | undefined][] = [
    ['goat*', ['goat', [], undefined]],
    ['*goat', [undefined, [], 'goat']],
    ['a*b*c*d', ['a', ['b', 'c'], 'd']],
    ['*b*', [undefined, ['b'], undefined]],
    ['a\\2Ab\\5c*', ['a*b\\', [], undefined]],
    ['goat', undefined],
    ['*', undefined],
    ['**', undefined],
    ['a**b', undefined],
    ['a\\b*', undefined],
    ['', undefined],
    ['a*'.repeat(2000), undefined],
  ];
  for (const [text, expected] of cases) {
    it(JSON.stringify(text.slice(0, 20)), () => {
      const found = parseSubstrings(Buffer.from(text));
      const shown = found && [found.initial?.toString(), found.any.map(String), found.final?.toString()];
      expect(shown).to.deep.equal(expected);
    });
  }
});

for (const engine of ENGINES) {
  describe(`an extensible match by a substrings rule (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
      for (const ou of ['goat', 'Goatherd', 'a goat', 'g*t']) await fixture.unit(ou);
    });
    after(() => fixture.close());

    const expected: [string, string[]][] = [
      ['(ou:caseIgnoreSubstringsMatch:=goat\\2a)', ['goat', 'Goatherd']],
      ['(ou:caseExactSubstringsMatch:=goat\\2a)', ['goat']],
      ['(ou:caseIgnoreSubstringsMatch:=\\2a goat)', ['goat', 'a goat']],
      ['(ou:caseIgnoreSubstringsMatch:=g\\5c2a\\2a)', ['g*t']],
      ['(:caseIgnoreSubstringsMatch:=\\2aherd)', ['Goatherd']],
      ['(ou:dn:caseIgnoreSubstringsMatch:=\\2ather\\2a)', ['Goatherd']],
      ['(ou:caseIgnoreSubstringsMatch:=goat)', []],
      ['(&(ou=*)(!(ou:caseIgnoreSubstringsMatch:=goat)))', []],
    ];
    for (const [filter, ous] of expected) {
      it(filter, async () => {
        expect(await fixture.find(filter)).to.deep.equal(ous.map((ou) => `ou=${ou},${SUFFIX}`).sort());
      });
    }
  });
}
