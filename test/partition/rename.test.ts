import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { counted } from '../store/counted.js';
import {
  change,
  ENGINES,
  Fixture,
  OTHER,
  openFixture,
  refused,
  SUFFIX,
  SYSTEM,
  testSchema,
  uuidText,
} from './fixture.js';
import { nearTests } from './near-engines.js';

for (const engine of ENGINES) {
  describe(`rename and move (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    const A = `ou=a,${SUFFIX}`;
    const B = `ou=b,${SUFFIX}`;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('a');
      await fixture.unit('b');
      await fixture.unit('deep', A);
      await fixture.person('ann', `ou=deep,${A}`, { mail: 'ann@x' });
      await fixture.person('bob', A, { mail: 'bob@x' });
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    near('a rename changes the name and the values of the RDN', async () => {
      await fixture.rename(`cn=bob,${A}`, 'cn=Robert', { deleteOldRdn: false });
      expect(await fixture.values(`cn=robert,${A}`, 'cn')).to.deep.equal(['bob', 'Robert']);
      await fixture.rename(`cn=robert,${A}`, 'cn=Rob');
      expect(await fixture.values(`cn=rob,${A}`, 'cn')).to.deep.equal(['bob', 'Rob']);
      expect(await fixture.find('(cn=robert)')).to.deep.equal([]);
      expect(await fixture.find('(cn=rob)')).to.deep.equal([`cn=Rob,${A}`]);
      await refused('noSuchObject', fixture.read(`cn=bob,${A}`));
    });

    near('a rename may change the case of a name, and make a name multi-valued and back', async () => {
      await fixture.rename(`cn=bob,${A}`, 'CN=BOB');
      expect((await fixture.read(`cn=bob,${A}`)).dn).to.equal(`CN=BOB,${A}`);
      await fixture.rename(`cn=bob,${A}`, 'cn=bob+sn=bob');
      await fixture.rename(`sn=bob+cn=bob,${A}`, 'sn=bob', { deleteOldRdn: false });
      expect(await fixture.values(`sn=bob,${A}`, 'cn')).to.have.length(1);
    });

    it('entries below a renamed container are found by name and by search', async () => {
      expect(await fixture.find('(mail=ann@x)')).to.deep.equal([`cn=ann,ou=deep,${A}`]);
      await fixture.rename(A, 'ou=anew');
      expect(await fixture.find('(mail=ann@x)')).to.deep.equal([`cn=ann,ou=deep,ou=anew,${SUFFIX}`]);
      expect((await fixture.read(`cn=ann,ou=deep,ou=anew,${SUFFIX}`)).dn).to.equal(`cn=ann,ou=deep,ou=anew,${SUFFIX}`);
      await refused('noSuchObject', fixture.read(`cn=ann,ou=deep,${A}`));
      await fixture.unit('a');
      await refused('noSuchObject', fixture.read(`cn=ann,ou=deep,${A}`));
      expect(await fixture.counts(`ou=anew,${SUFFIX}`)).to.deep.equal([2, 3]);
    });

    it('a move takes the subtree and the counters along', async () => {
      await fixture.rename(`ou=deep,${A}`, 'ou=deeper', { newSuperior: B });
      expect(await fixture.counts(A)).to.deep.equal([1, 1]);
      expect(await fixture.counts(B)).to.deep.equal([1, 2]);
      expect(await fixture.find('(cn=ann)', { base: B })).to.deep.equal([`cn=ann,ou=deeper,${B}`]);
      expect(await fixture.find('(cn=ann)', { base: A })).to.deep.equal([]);
      await fixture.rename(`ou=deeper,${B}`, 'ou=deep', { newSuperior: A });
      await fixture.rename(`cn=ann,ou=deep,${A}`, 'cn=ann', { newSuperior: SUFFIX });
      expect(await fixture.counts(A)).to.deep.equal([2, 2]);
    });

    near('a move to the current parent changes the name only', async () => {
      await fixture.rename(`cn=bob,${A}`, 'cn=rob', { newSuperior: A });
      expect(await fixture.counts(A)).to.deep.equal([2, 3]);
    });

    near('an impossible rename is refused', async () => {
      await refused('entryAlreadyExists', fixture.rename(A, 'ou=b'));
      await refused('unwillingToPerform', fixture.rename(A, 'ou=a', { newSuperior: `ou=deep,${A}` }));
      await refused('unwillingToPerform', fixture.rename(A, 'ou=a', { newSuperior: A }));
      await refused('unwillingToPerform', fixture.rename(A, 'ou=a', { newSuperior: '' }));
      await refused('unwillingToPerform', fixture.rename('', 'ou=a'));
      expect(
        (await refused('noSuchObject', fixture.rename(A, 'ou=a', { newSuperior: `ou=x,ou=y,${B}` }))).matchedDN,
      ).to.equal(B);
      expect((await refused('noSuchObject', fixture.rename(`ou=zoe,${A}`, 'ou=a'))).matchedDN).to.equal(A);
      await fixture.add(OTHER, { objectClass: 'organization', o: 'other' });
      await refused('affectsMultipleDSAs', fixture.rename(A, 'ou=a', { newSuperior: OTHER }));
      for (const rdn of ['', 'cn', 'ou=a,ou=b', 'ou=']) await refused('invalidDNSyntax', fixture.rename(A, rdn));
      await refused('invalidDNSyntax', fixture.rename(A, 'nosuch=a')).catch((e) =>
        expect(e.message).to.match(/undefinedAttributeType/),
      );
      await refused('objectClassViolation', fixture.rename(A, 'mail=a@x'));
      await refused('objectClassViolation', fixture.rename(`cn=bob,${A}`, 'mobile=1', { deleteOldRdn: true }));
      await refused('constraintViolation', fixture.rename(`cn=bob,${A}`, `entryUUID=${uuidText(Buffer.alloc(16, 7))}`));
      await refused('namingViolation', fixture.rename(`cn=bob,${A}`, 'jpegPhoto=a'));
      await refused('invalidDNSyntax', fixture.rename(`cn=bob,${A}`, 'employeeNumber=\\00\\ff'));
    });

    near('a name by entryUUID given by repair can be changed, and the entryUUID stays', async () => {
      const { id } = await fixture.read(`cn=bob,${A}`);
      const to = { newRdn: `cn=bob+entryUUID=${uuidText(id)}`, deleteOldRdn: true, newSuperior: undefined };
      await fixture.partition.rename(fixture.dn(`cn=bob,${A}`), to, SYSTEM);
      await fixture.rename(`${to.newRdn},${A}`, 'cn=bob');
      expect(await fixture.values(`cn=bob,${A}`, 'entryUUID')).to.deep.equal([uuidText(id)]);
    });

    near('a move below an alias is refused', async () => {
      await fixture.add(`cn=alias,${SUFFIX}`, {
        objectClass: ['alias', 'extensibleObject'],
        cn: 'alias',
        aliasedObjectName: A,
      });
      await refused('namingViolation', fixture.rename(B, 'ou=b', { newSuperior: `cn=alias,${SUFFIX}` }));
      await refused('namingViolation', fixture.unit('x', `cn=alias,${SUFFIX}`));
    });

    it('of two moves of A below B and B below A one is refused, so that there is no cycle', async () => {
      for (let n = 0; n < 10; n++) {
        const moves = await Promise.allSettled([
          fixture.rename(A, 'ou=a', { newSuperior: B }),
          fixture.rename(B, 'ou=b', { newSuperior: A }),
        ]);
        expect(moves.map((m) => m.status).sort()).to.deep.equal(['fulfilled', 'rejected']);
        await fixture.expectClean();
        if (moves[0]!.status === 'fulfilled') await fixture.rename(`ou=a,${B}`, 'ou=a', { newSuperior: SUFFIX });
        else await fixture.rename(`ou=b,${A}`, 'ou=b', { newSuperior: SUFFIX });
      }
    });

    near('concurrent moves of deep ancestors below each other make no cycle', async () => {
      await fixture.unit('inner', B);
      for (let n = 0; n < 5; n++) {
        const moves = await Promise.allSettled([
          fixture.rename(A, 'ou=a', { newSuperior: `ou=inner,${B}` }),
          fixture.rename(B, 'ou=b', { newSuperior: `ou=deep,${A}` }),
        ]);
        expect(moves.filter((m) => m.status === 'fulfilled')).to.have.length(1);
        await fixture.expectClean();
        if (moves[0]!.status === 'fulfilled')
          await fixture.rename(`ou=a,ou=inner,${B}`, 'ou=a', { newSuperior: SUFFIX });
        else await fixture.rename(`ou=b,ou=deep,${A}`, 'ou=b', { newSuperior: SUFFIX });
      }
    });

    near('the second of two concurrent renames of an entry does not find the old name', async () => {
      const renames = await Promise.allSettled([
        fixture.rename(`cn=bob,${A}`, 'cn=b1'),
        fixture.rename(`cn=bob,${A}`, 'cn=b2'),
      ]);
      expect(renames.filter((r) => r.status === 'fulfilled')).to.have.length(1);
      for (const r of renames) if (r.status === 'rejected') expect(r.reason.result).to.equal('noSuchObject');
    });

    it('many concurrent renames of an entry succeed one after another without blocking others', async () => {
      const count = engine === 'hbase' ? 20 : 100;
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      /** Plans made in one round of the event loop, at most, when each has been made once. */
      let most = 0;
      let before = 0;
      let done = false;
      const round = (): void => {
        const made = work.plans.length;
        if (before >= count) most = Math.max(most, made - before);
        before = made;
        if (!done) setImmediate(round);
      };
      setImmediate(round);
      const names = ['cn=Bob', 'cn=bob'];
      await Promise.all(Array.from({ length: count }, (_, n) => front.rename(`cn=bob,${A}`, names[n % 2]!)));
      done = true;
      expect(work.plans.length).to.be.within(count + 1, 3 * count);
      expect(most).to.be.at.most(2);
    });

    it('a rename succeeds while other clients write below the entry', async () => {
      const adds = Array.from({ length: 10 }, (_, n) => fixture.person(`p${n}`, A));
      const all = await Promise.allSettled([
        ...adds,
        fixture.rename(A, 'ou=a2', { newSuperior: B }),
        fixture.modify(`cn=bob,${A}`, change('add', 'title', 'x')),
      ]);
      for (const r of all) if (r.status === 'rejected') expect(r.reason.result).to.equal('noSuchObject');
      const added = all.slice(0, 10).filter((r) => r.status === 'fulfilled').length;
      expect(await fixture.counts(`ou=a2,${B}`)).to.deep.equal([2 + added, 3 + added]);
    });

    near('after a container is deleted and added again its name refers to the new container', async () => {
      await fixture.unit('c');
      expect(await fixture.find('(cn=*)', { base: `ou=c,${SUFFIX}` })).to.deep.equal([]);
      await refused('noSuchObject', fixture.read(`cn=x,ou=c,${SUFFIX}`));
      await fixture.delete(`ou=c,${SUFFIX}`);
      await fixture.unit('c');
      await fixture.unit('d', `ou=c,${SUFFIX}`);
      await fixture.person('x', `ou=d,ou=c,${SUFFIX}`);
      expect((await fixture.read(`cn=x,ou=d,ou=c,${SUFFIX}`)).dn).to.equal(`cn=x,ou=d,ou=c,${SUFFIX}`);
      for (const scope of ['one', 'sub', 'subordinate'] as const) {
        await fixture.delete(`cn=x,ou=d,ou=c,${SUFFIX}`);
        await fixture.delete(`ou=d,ou=c,${SUFFIX}`);
        await fixture.unit('d', `ou=c,${SUFFIX}`);
        await fixture.person('x', `ou=d,ou=c,${SUFFIX}`);
        expect(await fixture.find('(cn=*)', { base: `ou=d,ou=c,${SUFFIX}`, scope })).to.deep.equal([
          `cn=x,ou=d,ou=c,${SUFFIX}`,
        ]);
      }
    });
  });
}
