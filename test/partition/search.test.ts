import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { LongWork } from '../../src/partition/index.js';
import type { LoadEntry } from '../../src/partition/model/directory-types.js';
import type { Order } from '../../src/partition/read/order/order.js';
import type { Hit } from '../../src/partition/read/sink.js';
import { attributes, change, ENGINES, type Fixture, OTHER, openFixture, refused, SUFFIX, SYSTEM } from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
/** How many have the value whose index is dropped. */
const SAME = 560;

async function loadPeople(fixture: Fixture, count: number, values: (n: number) => Record<string, string>) {
  const person = (n: number): LoadEntry => {
    const all = { objectClass: 'inetOrgPerson', cn: `p${n}`, sn: 'x', ...values(n) };
    return { line: n, dn: `cn=p${n},${PEOPLE}`, attributes: attributes(all) };
  };
  async function* people(): AsyncGenerator<LoadEntry[]> {
    yield Array.from({ length: count }, (_, n) => person(n));
  }
  const onReject = ({ reason }: { reason: string }) => expect.fail(reason);
  await fixture.partition.load(people(), SYSTEM, { continue: false, onReject });
}

for (const engine of ENGINES) {
  describe(`search (${engine})`, () => {
    const near = nearTests(engine);
    near('hands entries to an ordering stage, which the sink gets them from', async () => {
      const fixture = await openFixture(engine);
      for (const cn of ['ann', 'cid', 'bob']) await fixture.person(cn);
      const order: Order = {
        stage: (sink) => {
          const held: Hit[] = [];
          return {
            entry: (hit) => void held.push(hit),
            reference: (urls) => sink.reference(urls),
            end: async () => {
              held.sort((a, b) => Buffer.compare(b.dn, a.dn));
              for (const hit of held) await sink.entry(hit);
            },
          };
        },
      };
      const found: string[] = [];
      const sink = { entry: ({ dn }: Hit) => void found.push(dn.toString()), reference: () => undefined };
      await fixture.partition.search({ ...fixture.params({ filter: '(cn=*)' }), order }, sink);
      expect(found).to.deep.equal(['cid', 'bob', 'ann'].map((cn) => `cn=${cn},${SUFFIX}`));
      await fixture.close();
    });

    it('leaves each entry as it is until its sink has taken it, while others search', async () => {
      const fixture = await openFixture(engine);
      const people = Array.from({ length: 40 }, (_, n) => `p${n}`);
      for (const cn of people) await fixture.person(cn, SUFFIX, { description: cn.repeat(20 + 30 * (cn.length % 3)) });
      const rows = new Map<string, Buffer>();
      for (const cn of people)
        rows.set(`cn=${cn},${SUFFIX}`, (await fixture.partition.findRow(fixture.dn(`cn=${cn},${SUFFIX}`)))!.row);
      const searches = Array.from({ length: 6 }, async (_, n) => {
        let seen = 0;
        await fixture.partition.search(fixture.params({ filter: n % 2 ? '(cn=p*)' : '(description=*p*)' }), {
          entry: ({ dn, row }) => {
            const check = () => {
              seen++;
              expect(row).to.deep.equal(rows.get(dn.toString()));
            };
            // Every search answers some at once, and some late.
            if ((seen + n) % 3 === 0) return check();
            return new Promise<void>((resolve) => setImmediate(resolve)).then(check);
          },
          reference: () => undefined,
        });
        return seen;
      });
      expect(await Promise.all(searches)).to.deep.equal(searches.map(() => people.length));
      await fixture.close();
    });

    describe('scopes and bases', () => {
      let fixture: Fixture;
      beforeEach(async () => {
        fixture = await openFixture(engine);
        await fixture.unit('people');
        await fixture.person('ann', PEOPLE);
      });
      afterEach(() => fixture.close());

      it('the virtual root has the suffixes below it', async () => {
        await fixture.add(OTHER, { objectClass: 'organization', o: 'other' });
        expect(await fixture.find('(objectClass=*)', { base: '', scope: 'base' })).to.deep.equal([]);
        expect(await fixture.find('(objectClass=*)', { base: '', scope: 'one' })).to.deep.equal([SUFFIX, OTHER]);
        expect(await fixture.find('(objectClass=*)', { base: '', scope: 'sub' })).to.have.length(4);
        expect(await fixture.find('(cn=ann)', { base: '', scope: 'subordinate' })).to.deep.equal([`cn=ann,${PEOPLE}`]);
      });

      it('base, one, sub and subordinate', async () => {
        expect(await fixture.find('(objectClass=*)', { base: PEOPLE, scope: 'base' })).to.deep.equal([PEOPLE]);
        expect(await fixture.find('(cn=*)', { base: PEOPLE, scope: 'base' })).to.deep.equal([]);
        expect(await fixture.find('(objectClass=*)', { scope: 'one' })).to.deep.equal([PEOPLE]);
        expect(await fixture.find('(objectClass=*)', { scope: 'sub' })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          SUFFIX,
          PEOPLE,
        ]);
        expect(await fixture.find('(objectClass=*)', { scope: 'subordinate' })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          PEOPLE,
        ]);
      });

      it('a base that is not there says how far the name goes, whatever the plan', async () => {
        for (const scope of ['base', 'one', 'sub', 'subordinate'] as const) {
          for (const filter of ['(cn=ann)', '(objectClass=*)', '(nosuch=1)', '(description=*)']) {
            const error = await refused('noSuchObject', fixture.search({ base: `cn=x,ou=y,${PEOPLE}`, scope, filter }));
            expect(error.matchedDN).to.equal(PEOPLE);
            await refused('noSuchObject', fixture.search({ base: 'o=elsewhere', scope, filter }));
            await refused('noSuchObject', fixture.search({ base: OTHER, scope, filter }));
          }
        }
      });

      near('computed attributes can be searched', async () => {
        expect(await fixture.find(`(entryDN=${PEOPLE.toUpperCase()})`)).to.deep.equal([PEOPLE]);
        expect(await fixture.find('(hasSubordinates=FALSE)')).to.deep.equal([`cn=ann,${PEOPLE}`]);
        expect(await fixture.find('(numSubordinates=1)')).to.deep.equal([SUFFIX, PEOPLE]);
        expect(await fixture.find('(subschemaSubentry=cn=Subschema)')).to.have.length(3);
        const { id } = await fixture.read(PEOPLE);
        const uuid = id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
        expect(await fixture.find(`(entryUUID=${uuid.toUpperCase()})`)).to.deep.equal([PEOPLE]);
        expect(await fixture.find(`(&(entryUUID=${uuid})(cn=ann))`)).to.deep.equal([]);
        expect(await fixture.find(`(|(entryUUID=${uuid})(cn=ann))`)).to.deep.equal([`cn=ann,${PEOPLE}`, PEOPLE]);
        expect(await fixture.find('(entryUUID=*)')).to.have.length(3);
        expect(await fixture.find('(!(entryUUID=nonsense))')).to.deep.equal([]);
      });

      it('extensible matches, and those that are undefined', async () => {
        await fixture.modify(
          `cn=ann,${PEOPLE}`,
          change('add', 'employeeNumber', 'X1'),
          change('add', 'seeAlso', PEOPLE),
        );
        const found = (filter: string) => fixture.find(filter);
        const ann = [`cn=ann,${PEOPLE}`];
        expect(await found('(cn:caseExactMatch:=ann)')).to.deep.equal(ann);
        expect(await found('(cn:caseExactMatch:=Ann)')).to.deep.equal([]);
        expect(await found('(cn:=ANN)')).to.deep.equal(ann);
        expect(await found('(:caseIgnoreMatch:=x1)')).to.deep.equal(ann);
        expect(await found('(ou:dn:=people)')).to.deep.equal([...ann, PEOPLE]);
        expect(await found('(ou:dn:caseIgnoreMatch:=PEOPLE)')).to.deep.equal([...ann, PEOPLE]);
        expect(await found('(:dn:caseIgnoreMatch:=people)')).to.deep.equal([...ann, PEOPLE]);
        for (const undefinedTerm of [
          '(cn:noSuchRule:=x)',
          '(:1.2.3.4.5:=x)',
          '(nosuch:=x)',
          '(userPassword=x)',
          '(userPassword=*)',
          '(jpegPhoto>=x)',
          '(uidNumber=x)',
        ]) {
          expect(await found(undefinedTerm), undefinedTerm).to.deep.equal([]);
          expect(await found(`(!${undefinedTerm})`), `not ${undefinedTerm}`).to.deep.equal([]);
          expect(await found(`(|${undefinedTerm}(cn=ann))`), `or ${undefinedTerm}`).to.deep.equal(ann);
          expect(await found(`(&${undefinedTerm}(cn=ann))`), `and ${undefinedTerm}`).to.deep.equal([]);
          expect(await found(`(!(&${undefinedTerm}(cn=bob)))`), `nand ${undefinedTerm}`).to.have.length(3);
        }
        expect(await found('(&)')).to.have.length(3);
        expect(await found('(|)')).to.deep.equal([]);
      });

      it('a rule that does not suit the attribute is Undefined (RFC 4511 §4.5.1.7.7)', async () => {
        const account = { uidNumber: '5', gidNumber: '5', homeDirectory: '/h', uid: 'bob', mail: 'b@example.com' };
        const objectClass = ['inetOrgPerson', 'posixAccount'];
        await fixture.person('bob', PEOPLE, { objectClass, ...account, seeAlso: PEOPLE, telephoneNumber: '+1 5' });
        const bob = [`cn=bob,${PEOPLE}`];
        for (const term of [
          '(cn:octetStringMatch:=bob)',
          '(uidNumber:caseIgnoreMatch:=5)',
          '(mail:caseIgnoreMatch:=b@example.com)',
          '(cn:integerMatch:=1)',
          '(cn:dn:caseIgnoreIA5Match:=bob)',
          '(cn:dnSubtreeMatch:=dc=example,dc=com)',
          '(cn:1.2.840.113556.1.4.803:=1)',
          '(objectClass:caseIgnoreMatch:=person)',
        ]) {
          expect(await fixture.find(term), term).to.deep.equal([]);
          expect(await fixture.find(`(!${term})`), `not ${term}`).to.deep.equal([]);
        }
        for (const term of [
          '(cn:caseExactMatch:=bob)',
          '(cn:dn:caseExactMatch:=bob)',
          '(cn:caseExactSubstringsMatch:=b\\2a)',
          '(mail:caseExactIA5Match:=b@example.com)',
          '(telephoneNumber:caseIgnoreMatch:=+1 5)',
          '(uidNumber:1.2.840.113556.1.4.803:=5)',
          `(seeAlso:dnSubtreeMatch:=${SUFFIX})`,
          '(objectClass:objectIdentifierMatch:=posixAccount)',
        ])
          expect(await fixture.find(term), term).to.deep.equal(bob);
      });

      near('what is not of the assertion syntax is Undefined, indexed or not (RFC 4511 §4.5.1.7)', async () => {
        const values = { x121Address: '12 34', telephoneNumber: '+1 5', mail: 'b@example.com', postalAddress: 'a$b' };
        await fixture.person('bob', PEOPLE, values);
        const undefinedTerms = [
          ...['(x121Address=Ada)', '(x121Address=)', '(x121Address>=A)', '(x121Address=1*A*)', '(x121Address:dn:=Ada)'],
          ...['(cn=)', '(cn~=)', '(cn>=)', '(cn:caseExactMatch:=)', '(cn:wordMatch:=)', '(:caseIgnoreMatch:=)'],
          ...['(telephoneNumber=)', '(telephoneNumber=+é)', '(telephoneNumber=*é*)'],
          ...['(postalAddress=)', '(postalAddress=a\\5cb)', '(mail=é)', '(mail=é*)', '(presentationAddress=)'],
        ];
        for (const attribute of [undefined, 'x121Address', 'telephoneNumber']) {
          if (attribute) await fixture.partition.addIndex(attribute, { substring: true });
          for (const term of undefinedTerms) {
            expect(await fixture.find(term), term).to.deep.equal([]);
            expect(await fixture.find(`(!${term})`), `not ${term}`).to.deep.equal([]);
            expect(await fixture.find(`(|${term}(!${term})(cn=bob))`), term).to.deep.equal([`cn=bob,${PEOPLE}`]);
            expect(await fixture.find(`(!(&${term}(cn=bob)))`), term).to.have.length(3);
          }
        }
        expect(await fixture.find('(!(mail=))')).to.have.length(4);
        expect(await fixture.find('(!(seeAlso=))')).to.have.length(4);
        expect(await fixture.find('(telephoneNumber=*-*)')).to.deep.equal([`cn=bob,${PEOPLE}`]);
      });

      near('assertions of the wrong form match nothing and harm nothing', async () => {
        const garbage = [
          '',
          '\\00',
          '\\ff\\fe',
          '\\30\\82\\ff\\ff',
          '{ serialNumber 1 }',
          '{ serialNumber 1, issuer "',
          '\\30\\80\\00\\00',
          '*',
        ];
        for (const attribute of [
          'userCertificate',
          'cACertificate',
          'certificateRevocationList;binary',
          'entryUUID',
          'entryCSN',
          'authzFrom',
          'authzTo',
          'modifyTimestamp',
          'member',
          'uniqueMember',
          'x500UniqueIdentifier',
          'facsimileTelephoneNumber',
        ]) {
          for (const value of garbage) {
            for (const op of ['=', '>=', '<=', ':=', ':certificateExactMatch:=', ':2.5.13.35:=']) {
              const text = value === '*' && op !== '=' ? '' : value;
              if (text === '' && op === '=') continue;
              const found = await fixture.find(`(${attribute}${op}${text})`);
              expect(found.length, `${attribute}${op}${text}`).to.be.at.most(3);
            }
          }
        }
      });

      it('deep filters are evaluated', async () => {
        let filter = parseFilter('(cn=ann)');
        for (let n = 0; n < 90; n++)
          filter =
            n % 2
              ? { type: 'not', filter }
              : { type: 'and', filters: [filter, { type: 'present', attribute: 'objectClass' }] };
        expect(await fixture.find(filter)).to.have.length.at.least(1);
      });
    });

    describe('many candidates of an index', () => {
      let fixture: Fixture;
      before(async () => {
        fixture = await openFixture(engine);
        await fixture.unit('people');
        // Those of the same name are more than are read of an index in one go, and few enough for a plan to take it.
        await loadPeople(fixture, 2300, (n) => ({
          sn: n < 10 ? 'few' : n < 310 ? 'many' : 'other',
          ...(n < SAME ? { givenName: 'same' } : n < SAME + 60 ? { givenName: 'few' } : {}),
        }));
      });
      after(() => fixture.close());

      it('are left to whoever has time, before anything was found', async () => {
        let asked = 0;
        const left = async (filter: string, time: boolean): Promise<number | 'left'> => {
          const hasTime = (here: number) => {
            expect(here).to.equal(0);
            asked++;
            return time;
          };
          try {
            return (await fixture.search({ filter, otherThreads: { hasTime } })).dns.length;
          } catch (error) {
            expect(error).to.be.instanceOf(LongWork);
            return 'left';
          }
        };
        const waits = fixture.store.supports.spread;
        expect(await left('(sn=many)', true)).to.equal(waits ? 300 : 'left');
        expect(await left('(sn=many)', false)).to.equal(300);
        expect(asked).to.equal(waits ? 0 : 2);
        expect(await left('(sn=few)', true)).to.equal(10);
        expect(await left('(&(sn=many)(cn=p20))', true)).to.equal(1);
        expect(asked, 'is not asked for less').to.equal(waits ? 0 : 2);
      });

      it('are found by another plan when the index is dropped under a search, or it says so', async () => {
        const wanted = await fixture.find('(givenName=same)');
        expect(wanted).to.have.length(SAME);
        const params = fixture.params({ filter: '(givenName=same)' });
        expect((await fixture.partition.explain(params)).plan).to.equal('index');
        const few = await fixture.find('(givenName=few)');
        // Read in one go: before the index is dropped, or after, by another plan.
        const first = fixture.search({ filter: '(givenName=few)' });
        await fixture.partition.dropIndex('givenName');
        expect((await first).dns.sort()).to.deep.equal(few);
        expect(await fixture.find('(givenName=same)')).to.deep.equal(wanted);
        await fixture.partition.addIndex('givenName', {});
        await fixture.partition.buildIndexes();
        let seen = 0;
        const slow = Promise.resolve(
          fixture.partition.search(params, {
            entry: async () => {
              if (++seen === 3) await fixture.partition.dropIndex('givenName');
            },
            reference: () => undefined,
          }),
        );
        const hasFailed = await slow.then(
          () => false,
          (error) => {
            expect(error.result).to.equal('unavailable');
            return true;
          },
        );
        if (!hasFailed) expect(seen).to.equal(SAME);
        expect(await fixture.find('(givenName=same)')).to.deep.equal(wanted);
        await fixture.expectClean();
      });
    });
  });
}
