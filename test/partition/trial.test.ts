import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { TrialStore } from '../../src/store/trial.js';
import { attributes, change, Fixture, openFixture, refused, SUFFIX, SYSTEM, testSchema } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

for (const engine of NEAR_ENGINES) {
  describe(`a trial of writes (${engine})`, () => {
    const PEOPLE = `ou=people,${SUFFIX}`;
    let fixture: Fixture;
    let trial: Fixture;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.person('ann', PEOPLE, { mail: 'ann@example.com', jpegPhoto: Buffer.alloc(300_000, 7) });
      await fixture.partition.addUnique({ attributes: ['mail'] });
      await fixture.partition.finishUnique();
      const store = await TrialStore.over(fixture.store, openMemoryStore());
      trial = new Fixture(store, await Partition.open(store, testSchema(), { readOnly: true }), undefined);
    });
    afterEach(async () => {
      await trial.partition.close();
      await fixture.close();
    });

    /** Loads people in bulk; why some were refused. */
    async function load(...dns: string[]): Promise<string[]> {
      const reasons: string[] = [];
      async function* chunks() {
        const values = { objectClass: 'person', cn: 'x', sn: 'x' };
        yield dns.map((dn, line) => ({ line, dn, attributes: attributes(values) }));
      }
      const onReject = ({ reason }: { reason: string }) => void reasons.push(reason);
      await trial.partition.load(chunks(), SYSTEM, { continue: true, onReject });
      return reasons;
    }

    it('sees what was written before it, and leaves the directory as it is', async () => {
      const ann = `cn=ann,${PEOPLE}`;
      const before = await fixture.read(ann);
      await trial.person('bob', PEOPLE, { mail: 'bob@example.com', jpegPhoto: Buffer.alloc(300_000, 8) });
      await refused('entryAlreadyExists', trial.person('bob', PEOPLE));
      await refused('constraintViolation', trial.person('eve', PEOPLE, { mail: 'BOB@example.com' }));
      await refused('constraintViolation', trial.person('eve', PEOPLE, { mail: 'Ann@example.com' }));
      await trial.modify(ann, change('replace', 'mail', 'other@example.com'));
      await trial.person('eve', PEOPLE, { mail: 'ann@example.com' });
      await refused('attributeOrValueExists', trial.modify(ann, change('add', 'mail', 'other@example.com')));
      await refused('notAllowedOnNonLeaf', trial.delete(PEOPLE));
      await trial.rename(ann, 'cn=anna');
      await refused('noSuchObject', trial.delete(ann));
      for (const name of ['anna', 'bob', 'eve']) await trial.delete(`cn=${name},${PEOPLE}`);
      await trial.delete(PEOPLE);
      const after = await fixture.read(ann);
      expect(after.version).to.equal(before.version);
      expect(await fixture.values(ann, 'mail')).to.deep.equal(['ann@example.com']);
      await refused('noSuchObject', fixture.delete(`cn=bob,${PEOPLE}`));
      await fixture.expectClean();
    });

    it('finds by indexes and by reading all entries what was written, and no longer what was deleted', async () => {
      const ids = (from: Fixture, filter: string) => from.find(filter, { base: PEOPLE });
      await fixture.person('bob', PEOPLE, { description: 'x' });
      await trial.person('eve', PEOPLE, { mail: 'eve@example.com', description: 'x' });
      await trial.modify(
        `cn=ann,${PEOPLE}`,
        change('replace', 'mail', 'a@example.com'),
        change('add', 'description', 'x'),
      );
      await trial.delete(`cn=bob,${PEOPLE}`);
      await load(`cn=loaded,${PEOPLE}`);
      const [ann, bob, eve, loaded] = ['ann', 'bob', 'eve', 'loaded'].map((cn) => `cn=${cn},${PEOPLE}`);
      expect(await ids(trial, '(mail=ann@example.com)')).to.deep.equal([]);
      expect(await ids(trial, '(mail=a@example.com)')).to.deep.equal([ann]);
      expect(await ids(trial, '(mail=*)')).to.deep.equal([ann, eve]);
      expect(await ids(trial, '(description=x)')).to.deep.equal([ann, eve]);
      expect(await ids(trial, '(objectClass=person)')).to.deep.equal([ann, eve, loaded]);
      expect(await ids(trial, '(mail=e*)')).to.deep.equal([eve]);
      await trial.rename(eve!, 'cn=eva');
      await trial.modify(`cn=eva,${PEOPLE}`, change('replace', 'mail', 'ann@example.com'));
      expect(await ids(trial, '(mail=ann@*)')).to.deep.equal([`cn=eva,${PEOPLE}`]);
      expect(await ids(fixture, '(description=x)')).to.deep.equal([bob]);
      expect(await ids(fixture, '(mail=*)')).to.deep.equal([ann]);
      await fixture.expectClean();
    });

    it('refuses of a bulk load what is there, in the directory or in the load, and has its parents', async () => {
      await trial.delete(`cn=ann,${PEOPLE}`);
      expect(await load(`cn=ann,${PEOPLE}`, `cn=x,cn=ann,${PEOPLE}`, `cn=y,cn=gone,${PEOPLE}`, PEOPLE)).to.have.length(
        2,
      );
      const reasons = await load(`cn=ann,${PEOPLE}`, `cn=z,cn=x,cn=ann,${PEOPLE}`);
      expect(reasons).to.have.length(1);
      expect(reasons[0]).to.match(/^entryAlreadyExists/);
      await refused('notAllowedOnNonLeaf', trial.delete(`cn=x,cn=ann,${PEOPLE}`));
      await fixture.read(`cn=ann,${PEOPLE}`);
      await fixture.expectClean();
    });
  });
}
