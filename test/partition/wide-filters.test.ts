import { expect } from 'chai';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { type Fixture, openFixture, SUFFIX } from './fixture.js';

const ENTRIES = 3000;
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

/** Processor time of the process, ms: what other processes do does not count. */
async function cost(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** The most processor time, ms, that passes between two rounds of the event loop while `work` is under way. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = process.cpuUsage();
  let done = false;
  const probe = (): void => {
    const { user, system } = process.cpuUsage(last);
    last = process.cpuUsage();
    longest = Math.max(longest, (user + system) / 1000);
    if (!done) setImmediate(probe);
  };
  setImmediate(probe);
  await new Promise(setImmediate);
  await work();
  await new Promise(setImmediate);
  done = true;
  return longest;
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

    /** How many times as long as a search with one such term. */
    async function timesOne(many: Filter, one: Filter): Promise<number> {
      const run = (filter: Filter) => () => fixture.find(filter);
      await run(one)();
      const least = async (filter: Filter) =>
        Math.min(await cost(run(filter)), await cost(run(filter)), await cost(run(filter)));
      return (await least(many)) / (await least(one));
    }

    it('equalities by index are one set: only what they name is looked at', async () => {
      const { dns, outcome } = await fixture.search({ filter: anyOf(MOST_TERMS, (n) => equal('uid', `u${n * 100}`)) });
      expect(dns).to.have.length(ENTRIES / 100);
      expect(outcome.looked).to.equal(ENTRIES / 100);
      const nested = anyOf(99, (m) => anyOf(99, (n) => equal('uid', `u${(m * 99 + n) * 100}`)));
      expect((await fixture.search({ filter: nested })).outcome.looked).to.equal(ENTRIES / 100);
      const mixed = anyOf(MOST_TERMS, (n) => equal(n % 2 ? 'uid' : 'cn', n % 2 ? `u${n * 100}` : `Name ${n * 100}`));
      expect((await fixture.search({ filter: mixed })).outcome.looked).to.equal(ENTRIES / 100);
    });

    it('equalities without an index cost a scan no test of each on each row', async () => {
      const many = anyOf(MOST_TERMS, (n) => equal('title', `title number ${n * 100}`));
      expect(await fixture.find(many)).to.have.length(ENTRIES / 100);
      // Tests of each on each row would cost thousands of times as much.
      expect(await timesOne(many, equal('title', 'nobody'))).to.be.below(500);
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
      expect(await timesOne(excluded, equal('title', 'nobody'))).to.be.below(500);
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
      it(`${name} let others through`, async () => {
        // Warm: what is compiled first costs more.
        await fixture.find(filter);
        const turns = [];
        for (let n = 0; n < 3; n++) turns.push(await longestTurn(() => fixture.find(filter)));
        // A turn is 1 ms; compiling the filter, which is one, took 10 to 20 on a quiet machine. Others' work makes it
        // longer.
        expect(Math.min(...turns)).to.be.below(150);
      });
    }
  });
}
