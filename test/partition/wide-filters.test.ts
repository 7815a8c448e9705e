import { expect } from 'chai';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { UNRESTRICTED } from '../../src/partition/index.js';
import type { CompiledFilter } from '../../src/partition/read/filter/compiled-filter.js';
import { turns } from '../turns.js';
import { type Fixture, openFixture, SUFFIX } from './fixture.js';

const ENTRIES = 1000;
const MOST_TERMS = 9999;

function anyOf(count: number, make: (n: number) => Filter): Filter {
  return { type: 'or', filters: Array.from({ length: count }, (_, n) => make(n)) };
}

function equal(attribute: string, value: string): Filter {
  return { type: 'equal', attribute, value: Buffer.from(value) };
}

function contains(attribute: string, part: string): Filter {
  return { type: 'substring', attribute, initial: undefined, any: [Buffer.from(part)], final: undefined };
}

/** Tests of a row that a compiled filter consists of. */
function tests(filter: CompiledFilter): number {
  if (filter.kind === 'and' || filter.kind === 'or') return filter.parts.reduce((sum, part) => sum + tests(part), 0);
  return filter.kind === 'not' ? tests(filter.part) : 1;
}

for (const engine of ['memory', 'lmdb'] as const) {
  describe(`filters that could cost much (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
      await fixture.load(
        Array.from({ length: ENTRIES }, (_, n) => ({
          dn: `uid=u${n},${SUFFIX}`,
          values: {
            objectClass: ['inetOrgPerson', 'posixAccount'],
            uidNumber: `${n}`,
            gidNumber: '5',
            homeDirectory: '/',
            uid: `u${n}`,
            cn: `Name ${n}`,
            sn: `S${n % 10}`,
            title: `Title number ${n}`,
            description: [`some words ${n}`, `others ${n * 7}`],
          },
        })),
      );
    });
    after(() => fixture.close());

    it('equalities by index are one set: only what they name is looked at', async () => {
      const { dns, outcome } = await fixture.search({ filter: anyOf(MOST_TERMS, (n) => equal('uid', `u${n * 100}`)) });
      expect(dns).to.have.length(ENTRIES / 100);
      expect(outcome.rowsExamined).to.equal(ENTRIES / 100);
      const nested = anyOf(99, (m) => anyOf(99, (n) => equal('uid', `u${(m * 99 + n) * 100}`)));
      expect((await fixture.search({ filter: nested })).outcome.rowsExamined).to.equal(ENTRIES / 100);
      const mixed = anyOf(MOST_TERMS, (n) => equal(n % 2 ? 'uid' : 'cn', n % 2 ? `u${n * 100}` : `Name ${n * 100}`));
      expect((await fixture.search({ filter: mixed })).outcome.rowsExamined).to.equal(ENTRIES / 100);
    });

    it('equalities without an index are one test of a row', async () => {
      const compile = (filter: Filter) => fixture.partition.context.compiler.compile(filter, UNRESTRICTED).filter;
      const many = anyOf(MOST_TERMS, (n) => equal('title', `title number ${n * 100}`));
      expect(await fixture.find(many)).to.have.length(ENTRIES / 100);
      expect(tests(compile(many))).to.equal(1);
      const excluded: Filter = {
        type: 'and',
        filters: [
          equal('sn', 'S1'),
          ...Array.from(
            { length: MOST_TERMS - 1 },
            (_, n): Filter => ({ type: 'not', filter: equal('title', `Title number ${n}`) }),
          ),
        ],
      };
      expect(await fixture.find(excluded)).to.deep.equal([]);
      expect(tests(compile(excluded))).to.equal(2);
    });

    for (const [name, filter] of Object.entries({
      'equalities on candidates of an index': {
        type: 'and',
        filters: [equal('objectClass', 'person'), anyOf(360, (n) => equal('description', `nothing ${n}`))],
      } as Filter,
      'substrings without an index': anyOf(360, (n) => contains('title', `no ${n}`)),
      'substrings on candidates of an index': {
        type: 'and',
        filters: [equal('sn', 'S1'), anyOf(1000, (n) => contains('description', `no ${n}`))],
      } as Filter,
      'equalities by index': anyOf(MOST_TERMS, (n) => equal('uid', `u${n}`)),
    })) {
      it(`${name} let others through every 64 entries`, async () => {
        const { rowsExamined } = (await fixture.search({ filter })).outcome;
        expect(await turns(() => fixture.find(filter))).to.be.at.least(rowsExamined / 64);
      });
    }
  });
}
