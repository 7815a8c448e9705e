import { expect } from 'chai';
import { pino } from 'pino';
import { SearchTally } from '../../src/server/services/search-tally.js';
import { makeConfig, type SettingValues } from '../../src/server/settings/index.js';
import { proposalLines } from '../../src/server/virtual/index-proposals.js';
import { type Fixture, openFixture, refused, SUFFIX } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';

const COUNT = 20;
const DAY_MS = 86_400_000;
const SEVERAL = 100;

for (const engine of NEAR_ENGINES) {
  describe(`indexes that searches lack (${engine})`, () => {
    let fixture: Fixture;
    let now: number;
    beforeEach(async () => {
      now = Date.now();
      fixture = await openFixture(engine);
      await fixture.load(
        Array.from({ length: COUNT }, (_, n) => ({
          dn: `cn=p${n},${SUFFIX}`,
          values: { objectClass: 'inetOrgPerson', cn: `p${n}`, sn: 's', title: `t${n}`, employeeNumber: `${n}` },
        })),
      );
    });
    afterEach(() => fixture.close());

    function process(settings: Partial<SettingValues> = {}): SearchTally {
      const config = makeConfig({ 'indexes.auto': 'make', 'log.slowSearchRows': COUNT / 2, ...settings });
      return new SearchTally(fixture.partition, config, pino({ level: 'silent' }));
    }

    /** Searches `times` times, and adds what a process tallies of it. */
    async function search(filter: string, times = 1, tally = process()): Promise<void> {
      const { outcome } = await fixture.search({ filter });
      for (let n = 0; n < times; n++) tally.count(outcome);
      await tally.flush();
    }

    async function proposed(): Promise<string[]> {
      return (await fixture.partition.indexProposals()).map(
        ({ type, substring, searches, rowsInVain }) =>
          `${type.name}${substring ? ' --substring' : ''} ${searches} ${rowsInVain / COUNT}`,
      );
    }

    /** The indexes that the job has made, after a run. */
    async function tend(maxIndexes = 5): Promise<string[]> {
      await fixture.partition.tendIndexes(maxIndexes, now);
      return made();
    }

    function made(): string[] {
      return fixture.partition.indexes().flatMap((index) => (index.made ? [index.attribute] : []));
    }

    it('are proposed, the greatest gain first, with the sums of all processes', async () => {
      const [first, second] = [process(), process()];
      await search('(title=nobody)', 2, first);
      await search('(title=nobody)', 3, second);
      await search('(&(cn=*nobody*)(description=x))', 8, second);
      await search('(sn=*s*)', 4, first);
      await search('(!(title=t1))', 4, first);
      expect(await proposed()).to.deep.equal(['description 8 8.4', 'cn --substring 8 8.4', 'title 5 5.25']);
      const { lastSeen } = (await fixture.partition.indexProposals())[0]!;
      expect(lastSeen).to.be.within(now, Date.now());
      await fixture.partition.forgetProposals();
      expect(await proposed()).to.deep.equal([]);
    });

    it('are those that can answer a filter, of an OR all or none', async () => {
      const useless = [
        '(title=*1*)',
        '(|(title=x)(!(sn=s)))',
        '(|(title=x)(description=*))',
        '(entryUUID>=1)',
        '(name=x)',
      ];
      for (const filter of useless) {
        await search(filter);
        expect(await proposed(), filter).to.deep.equal([]);
      }
      await search('(&(title=*1*)(description=abc*))');
      expect(await proposed()).to.deep.equal(['description 1 1.05']);
      await search('(|(title=*one)(employeeNumber=99))');
      expect(await proposed()).to.have.members([
        'description 1 1.05',
        'title --substring 1 1.05',
        'employeeNumber 1 1.05',
      ]);
    });

    it('cost the rows of the entries that have the attribute', async () => {
      await search('(title=nobody)');
      const [line] = await proposalLines(fixture.partition);
      // A row for each value and each entry that has one: `=t0` or `=t10` and a zero byte, or `*`, and the entryUUID.
      const bytes = COUNT * (1 + 16) + 10 * (4 + 16) + 10 * (5 + 16);
      const cost = `cost: ${2 * COUNT} rows, ${Math.ceil(bytes / 1024)} KiB`;
      expect(line).to.match(new RegExp(`^rowan index add title: 1 searches, 21 rows in vain, last [-0-9]+; ${cost}$`));
    });

    it('are no longer proposed once a person has added them', async () => {
      await search('(title=*nobody*)');
      await search('(title=nobody)');
      await fixture.partition.addIndex('title');
      await fixture.partition.buildIndexes();
      expect(await proposed()).to.deep.equal(['title --substring 1 1.05']);
    });

    it('are noted when a limit ends the search, and not below the rows that count', async () => {
      const outcomes: number[] = [];
      const tally = process();
      const onCut: NonNullable<ReturnType<Fixture['params']>['onCut']> = (outcome) => {
        outcomes.push(outcome.rowsExamined);
        tally.count(outcome);
      };
      const sink = { entry: () => undefined, reference: () => undefined };
      const params = { ...fixture.params({ filter: '(title=t1)', lookLimit: COUNT - 1 }), onCut };
      await refused('adminLimitExceeded', (async () => fixture.partition.search(params, sink))());
      expect(outcomes).to.have.length(1);
      await tally.flush();
      expect(await proposed()).to.have.length(1);
      await fixture.partition.forgetProposals();
      await search('(description=x)', 3, process({ 'log.slowSearchRows': COUNT * 2 }));
      expect(await proposed()).to.deep.equal([]);
    });

    it('are made by the job after many searches, the greatest gain first, as many as the budget has', async () => {
      await search('(title=x)', SEVERAL - 1);
      await search('(employeeNumber=x)', SEVERAL + 1);
      expect(await tend(1)).to.deep.equal(['employeeNumber']);
      expect(fixture.partition.indexes().at(-1)).to.include({ attribute: 'employeeNumber', state: 'ready' });
      expect((await fixture.search({ filter: '(employeeNumber=7)' })).outcome.plan).to.equal('index');
      // The index may serve the searches behind the others, too, so that these begin anew.
      expect(await proposed()).to.deep.equal([]);
      await search('(title=x)', SEVERAL - 1);
      expect(await tend()).to.deep.equal(['employeeNumber']);
      await search('(title=x)');
      expect(await tend(1)).to.deep.equal(['employeeNumber']);
      await search('(employeeNumber=*xyz*)', SEVERAL * 2);
      expect(await tend(1)).to.deep.equal(['employeeNumber']);
      expect(fixture.partition.indexes().at(-1)).to.include({ attribute: 'employeeNumber', substring: true });
    });

    it('are made of no attribute that would follow names, nor in the place of an index that a person added', async () => {
      await fixture.partition.dropIndex('manager');
      await fixture.partition.addIndex('title');
      await fixture.partition.buildIndexes();
      await search('(title=*nobody*)', SEVERAL);
      await search(`(manager=cn=x,${SUFFIX})`, SEVERAL);
      expect(await tend()).to.deep.equal([]);
      expect(await proposed()).to.have.length(2);
    });

    it('are dropped a month after their last use, but for those of a person', async () => {
      for (const attribute of ['title', 'employeeNumber']) {
        await search(`(${attribute}=x)`, SEVERAL);
        await tend();
      }
      await fixture.partition.addIndex('description');
      await fixture.partition.buildIndexes();
      expect(made()).to.deep.equal(['title', 'employeeNumber']);
      for (let day = 0; day < 30; day++) {
        now += DAY_MS;
        await tend();
      }
      expect(made()).to.deep.equal(['title', 'employeeNumber']);
      await fixture.partition.addTallies([], new Set(['title']), now);
      now += DAY_MS;
      expect(await tend()).to.deep.equal(['title']);
      expect(fixture.partition.indexes().map(({ attribute }) => attribute)).to.include('description');
      expect(fixture.partition.indexes().map(({ attribute }) => attribute)).to.not.include('employeeNumber');
      await fixture.expectClean();
    });

    it('stay when nobody counted their uses for a while', async () => {
      await search('(title=x)', SEVERAL);
      expect(await tend()).to.deep.equal(['title']);
      now += 40 * DAY_MS;
      expect(await tend()).to.deep.equal(['title']);
    });

    it('become the index of the person who adds them', async () => {
      await search('(title=x)', SEVERAL);
      expect(await tend()).to.deep.equal(['title']);
      await fixture.partition.addIndex('title');
      expect(made()).to.deep.equal([]);
      await refused('noSuchObject', fixture.partition.dropIndex('street'));
      for (let day = 0; day < 32; day++) {
        now += DAY_MS;
        await tend();
      }
      expect(fixture.partition.indexes().map(({ attribute }) => attribute)).to.include('title');
    });

    it('count as used by each search that uses them', async () => {
      await search('(title=x)', SEVERAL);
      now -= 29 * DAY_MS;
      expect(await tend()).to.deep.equal(['title']);
      const tally = process();
      tally.count((await fixture.search({ filter: '(&(title=t1)(sn=s))' })).outcome);
      await tally.flush();
      for (let day = 0; day < 40; day++) {
        now += DAY_MS;
        await tend();
      }
      expect(made()).to.deep.equal(['title']);
    });
  });
}
