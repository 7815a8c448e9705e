import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { DescriptionTable } from '../../src/partition/model/descriptions.js';
import { draftFromAttributes } from '../../src/partition/model/draft.js';
import { draftMatcher } from '../../src/partition/read/filter/draft-matcher.js';
import { FilterCompiler } from '../../src/partition/read/filter/filter-compiler.js';
import { attributes, openFixture, SUFFIX } from './fixture.js';

const TITLES = [
  'alpha',
  'alpha beta',
  'Alpha   beta  gamma',
  'alphabet',
  'lead',
  'a lead',
  'mislead',
  'x\u0301 y',
  ' ',
];

/** Of each assertion the titles that it matches, by RFC 4518 §2.6.1: a space is found at the ends of a value, too. */
const MATCHES: [string, string[]][] = [
  ['(title=alpha *)', ['alpha', 'alpha beta', 'Alpha   beta  gamma']],
  ['(title=alpha  *)', ['alpha', 'alpha beta', 'Alpha   beta  gamma']],
  ['(title=alpha * beta)', ['alpha beta']],
  ['(title=alpha * *)', ['alpha beta', 'Alpha   beta  gamma']],
  ['(title=alpha * * *)', ['alpha beta', 'Alpha   beta  gamma']],
  ['(title=alpha * * * *)', ['Alpha   beta  gamma']],
  ['(title=*alpha *)', ['alpha', 'alpha beta', 'Alpha   beta  gamma']],
  ['(title=* beta *)', ['alpha beta', 'Alpha   beta  gamma']],
  ['(title=* beta)', ['alpha beta']],
  ['(title=* beta * gamma*)', ['Alpha   beta  gamma']],
  ['(title=* lead*)', ['lead', 'a lead']],
  ['(title=* lead)', ['lead', 'a lead']],
  ['(title=*lead )', ['lead', 'a lead', 'mislead']],
  ['(title= lead*)', ['lead']],
  ['(title= * lead*)', ['a lead']],
  ['(title=*x\u0301 *)', ['x\u0301 y']],
  ['(title=* \u0301*)', []],
  ['(title= *)', TITLES],
  ['(title=* *)', TITLES],
  ['(title=* * *)', TITLES],
  ['(title=* * * *)', TITLES.filter((title) => / ./.test(title))],
  ['(!(title=* lead*))', TITLES.filter((title) => !/^(?:a )?lead$/.test(title))],
  ['(title:caseIgnoreSubstringsMatch:=alpha \\2a)', ['alpha', 'alpha beta', 'Alpha   beta  gamma']],
  ['(title:caseExactSubstringsMatch:=alpha \\2a)', ['alpha', 'alpha beta']],
];

describe('spaces in a substring assertion', () => {
  for (const engine of ['memory', 'lmdb'] as const) {
    it(`match the same by a scan and by an index, with and without substring rows (${engine})`, async () => {
      const fixture = await openFixture(engine);
      for (const [i, title] of TITLES.entries()) await fixture.person(`n${i}`, SUFFIX, { title });
      const expectMatches = async (how: string): Promise<void> => {
        for (const [filter, titles] of MATCHES) {
          const wanted = titles.map((title) => `cn=n${TITLES.indexOf(title)},${SUFFIX}`);
          const found = await fixture.find(`(&(objectClass=person)${filter})`);
          expect(found.sort(), `${filter} ${how}`).to.deep.equal(wanted.sort());
          if (!filter.startsWith('(!')) expect((await fixture.find(filter)).sort(), filter).to.deep.equal(wanted);
        }
      };
      await expectMatches('by a scan');
      for (const substring of [false, true]) {
        await fixture.partition.addIndex('title', { substring });
        await fixture.partition.buildIndexes();
        await expectMatches(`by an index, substring: ${substring}`);
      }
      await fixture.expectClean();
      await fixture.close();
    });
  }

  it('match the same in an entry that is being written', async () => {
    const fixture = await openFixture('memory');
    const { schema } = fixture.partition;
    const fits = draftMatcher(new FilterCompiler(schema, new DescriptionTable(schema)));
    for (const [filter, titles] of MATCHES) {
      const found = TITLES.filter((title) => {
        return fits(parseFilter(filter), draftFromAttributes(schema, attributes({ title })));
      });
      expect(found, filter).to.deep.equal(titles);
    }
    await fixture.close();
  });

  it('match the same in every syntax of text, and in the lines of an address', async () => {
    const fixture = await openFixture('memory');
    const address = '1 Main  St$Anytown$ $ Land ';
    await fixture.person('ann', SUFFIX, {
      mail: 'ann lee@x',
      postalAddress: address,
      telephoneNumber: '+1 555-0100',
      x121Address: '12 34',
    });
    const matches: [string, boolean][] = [
      ['(mail=ann *)', true],
      ['(mail=*lee@x *)', true],
      ['(mail=* ee@x)', false],
      ['(postalAddress=* main *)', true],
      ['(postalAddress=*st *)', true],
      ['(postalAddress=* anytown *)', true],
      ['(postalAddress=* town*)', false],
      ['(postalAddress=*st $ anytown*)', true],
      ['(postalAddress=*anytown$$land)', true],
      ['(postalAddress=1 *)', true],
      ['(telephoneNumber=+1 5*)', true],
      ['(telephoneNumber=* 5550 1*)', true],
      ['(x121Address=1 2*)', true],
      ['(x121Address=* *)', true],
    ];
    for (const [filter, expected] of matches)
      expect((await fixture.find(filter)).length === 1, filter).to.equal(expected);
    await fixture.close();
  });
});
