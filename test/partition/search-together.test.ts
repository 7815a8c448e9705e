import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { LdapError } from '../../src/ldap/ldap-error.js';
import type { Hit, SearchSink } from '../../src/partition/read/sink.js';
import { gate } from '../password/hold.js';
import { ENGINES, type Fixture, openFixture, refused, SUFFIX } from './fixture.js';

const PEOPLE = `ou=people,${SUFFIX}`;

for (const engine of ENGINES) {
  describe(`searches that scan at the same time (${engine})`, () => {
    // Over HBase, so few that its tables are used again.
    const COUNT = engine === 'hbase' ? 120 : 300;
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      const add = (i: number, parent: string): Promise<Buffer> =>
        fixture.person(`p${i}`, parent, { description: `number ${i}`, title: i % 2 ? 'odd' : 'even' });
      const all = Array.from({ length: COUNT }, (_, i) => i);
      const isChild = (i: number): boolean => i % 3 === 0 && i > 0;
      await Promise.all(all.filter((i) => !isChild(i)).map((i) => add(i, PEOPLE)));
      await Promise.all(all.filter(isChild).map((i) => add(i, `cn=p${i - 1},${PEOPLE}`)));
    });
    after(() => fixture.close());

    it('each finds what it finds alone', async () => {
      const filters = [
        '(description=number 7)',
        '(description=number 1*)',
        '(title=odd)',
        '(!(title=odd))',
        '(&(title=even)(description=*9*))',
        '(|(description=number 3)(description=number 300))',
        '(description=*)',
        '(nosuch=1)',
      ];
      const ask = (filter: string, base: string, scope: 'one' | 'sub' | 'subordinate') =>
        fixture.find(filter, { base, scope });
      const questions = filters.flatMap((filter) =>
        [SUFFIX, PEOPLE, `cn=p2,${PEOPLE}`].flatMap((base) =>
          (['one', 'sub', 'subordinate'] as const).map((scope) => [filter, base, scope] as const),
        ),
      );
      const alone = [];
      for (const question of questions) alone.push(await ask(...question));
      const together = await Promise.all([...questions, ...questions].map((question) => ask(...question)));
      expect(together).to.deep.equal([...alone, ...alone]);
      expect(alone.some((dns) => dns.length > 100)).to.equal(true);
    });

    it('one that has to wait for its client holds up nobody, and misses nothing', async () => {
      let release = (): void => undefined;
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const slowDns: string[] = [];
      const slow: SearchSink = {
        entry(hit: Hit) {
          slowDns.push(hit.dn.toString());
          return slowDns.length === 5 ? held : undefined;
        },
        reference: () => undefined,
      };
      const params = fixture.params({ filter: parseFilter('(description=*)'), base: PEOPLE });
      const waiting = fixture.partition.search(params, slow);
      const others = await Promise.all([1, 2, 3].map(() => fixture.find('(description=*)', { base: PEOPLE })));
      expect(slowDns).to.have.length(5);
      release();
      await waiting;
      for (const dns of others) expect(dns).to.have.length(COUNT);
      expect(slowDns.sort()).to.deep.equal(others[0]!.sort());
    });

    it('limits and cancellation end one and not the others', async () => {
      const signal = { aborted: true };
      const [limited, canceled, looked, fine] = await Promise.all([
        refused('sizeLimitExceeded', fixture.search({ filter: '(description=*)', base: PEOPLE, sizeLimit: 7 })),
        refused('canceled', fixture.search({ filter: '(description=*)', base: PEOPLE, signal })),
        refused('adminLimitExceeded', fixture.search({ filter: '(title=none)', base: PEOPLE, lookLimit: 10 })),
        fixture.find('(description=*)', { base: PEOPLE }),
      ]);
      for (const error of [limited, canceled, looked]) expect(error.message).to.not.equal('');
      expect(fine).to.have.length(COUNT);
    });

    it('a search sees what was written before it began, though others are scanning', async () => {
      const running = Array.from({ length: 5 }, () => fixture.find('(description=*)', { base: PEOPLE }));
      await fixture.person('late', PEOPLE, { title: 'late' });
      expect(await fixture.find('(title=late)', { base: PEOPLE })).to.deep.equal([`cn=late,${PEOPLE}`]);
      await Promise.all(running);
      await fixture.delete(`cn=late,${PEOPLE}`);
      expect(await fixture.find('(title=late)', { base: PEOPLE })).to.deep.equal([]);
    });

    it('those that wait when the directory is closed are told so', async () => {
      const taken = gate();
      const begun = gate();
      const sink: SearchSink = {
        entry() {
          begun.open();
          return taken.opened;
        },
        reference: () => undefined,
      };
      const slow = fixture.partition.search(fixture.params({ filter: '(description=*)' }), sink);
      await begun.opened;
      const searches = [1, 2, 3].map((i) => fixture.search({ filter: `(description=*${i}*)` }));
      const outcomes = Promise.allSettled([slow, ...searches]);
      const closing = fixture.partition.close();
      taken.open();
      await closing;
      const reasons = (await outcomes).flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
      expect(reasons).not.to.deep.equal([]);
      for (const reason of reasons) expect(reason).to.be.instanceOf(LdapError).with.property('result', 'unavailable');
      await refused('unavailable', fixture.search({ filter: '(description=*late*)' }));
    });
  });
}
