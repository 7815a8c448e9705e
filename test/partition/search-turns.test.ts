import { expect } from 'chai';
import type { SearchSink } from '../../src/partition/read/sink.js';
import { turns } from '../turns.js';
import { type Fixture, openFixture, type SearchGiven, SUFFIX } from './fixture.js';

const ENTRIES = 60;

for (const engine of ['memory', 'lmdb', 'delayed'] as const) {
  describe(`searches whose entries are not ready at once (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
      const numbers = Array.from({ length: ENTRIES }, (_, n) => n);
      await fixture.load([
        ...numbers.map((n) => ({
          dn: `uid=u${n},${SUFFIX}`,
          values: { objectClass: 'inetOrgPerson', uid: `u${n}`, cn: 'Name', sn: 'Same', title: 'Same' },
        })),
        ...numbers.map((n) => ({
          dn: `cn=r${n},${SUFFIX}`,
          values: { objectClass: ['referral', 'extensibleObject'], cn: `r${n}`, ref: 'ldap://other.example/o=x' },
        })),
      ]);
    });
    after(() => fixture.close());

    const search = async (given: SearchGiven, sink: SearchSink): Promise<void> => {
      await fixture.partition.search(fixture.params({ manageDsaIT: true, ...given }), sink);
    };

    for (const [name, params] of Object.entries({
      'by a scan': { filter: '(title=same)' },
      'by an index': { filter: '(sn=same)' },
      'by pages in the order of the entries': { filter: '(sn=same)', pageSize: ENTRIES },
      'by pages in the order of an index': { filter: '(uid=u*)', pageSize: ENTRIES },
      'for references': { filter: '(sn=nobody)', manageDsaIT: false },
    } satisfies Record<string, SearchGiven>)) {
      it(`${name} let others through after each of them`, async () => {
        let passed = 0;
        let inTurn = 0;
        let mostInTurn = 0;
        const pass = async (): Promise<void> => {
          passed++;
          mostInTurn = Math.max(mostInTurn, ++inTurn);
        };
        const onTurn = (): void => {
          inTurn = 0;
        };
        await turns(() => search(params, { entry: pass, reference: pass }), onTurn);
        expect(passed).to.equal(ENTRIES);
        // One may be passed before and one after the probe has its turn.
        expect(mostInTurn).to.be.at.most(2);
      });
    }
  });
}
