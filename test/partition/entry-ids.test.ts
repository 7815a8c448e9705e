import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { EntryIds } from '../../src/partition/tree/entry-ids.js';
import { ENGINES, Fixture, openFixture, refused, SUFFIX } from './fixture.js';

describe('ids of entries that were found by name', () => {
  const id = (n: number) => {
    const bytes = Buffer.alloc(16);
    bytes.writeUInt32BE(n);
    return bytes;
  };
  const name = (n: number) => Buffer.from(`2.5.4.3=user ${n}`);

  it('are those that were last told, by parent and RDN', () => {
    const ids = new EntryIds();
    expect(ids.get(id(1), name(1))).to.equal(undefined);
    ids.set(id(1), name(1), id(10));
    ids.set(id(2), name(1), id(20));
    expect([ids.get(id(1), name(1)), ids.get(id(2), name(1))]).to.deep.equal([id(10), id(20)]);
    ids.set(id(1), name(1), id(11));
    expect(ids.get(id(1), name(1))).to.deep.equal(id(11));
    expect(ids.get(id(1), name(2))).to.equal(undefined);
  });

  it('are nearly all kept of a hundred thousand names, and the last of more than there is room for', () => {
    const ids = new EntryIds();
    const kept = (from: number, to: number): number => {
      let found = 0;
      for (let n = from; n < to; n++) if (ids.get(id(0), name(n))?.equals(id(n))) found++;
      return found;
    };
    for (let n = 0; n < 100_000; n++) ids.set(id(0), name(n), id(n));
    expect(kept(0, 100_000)).to.be.greaterThan(90_000);
    for (let n = 100_000; n < 400_000; n++) ids.set(id(0), name(n), id(n));
    expect(kept(0, 400_000)).to.be.within(150_000, 262_144);
    expect(kept(399_000, 400_000)).to.equal(1000);
  });
});

for (const engine of ENGINES) {
  describe(`names that were looked up before (${engine})`, () => {
    let fixture: Fixture;
    let other: Fixture;
    const A = `ou=a,${SUFFIX}`;
    const B = `ou=b,${SUFFIX}`;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      other = new Fixture(fixture.store, await Partition.open(fixture.store, fixture.partition.schema), undefined);
      for (const unit of ['a', 'b']) await fixture.unit(unit);
      for (const cn of ['one', 'two']) await fixture.person(cn, A, { title: cn });
      for (const cn of ['one', 'two']) expect(await other.values(`cn=${cn},${A}`, 'title')).to.deep.equal([cn]);
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    it('are those of nobody when another front end has renamed, moved or deleted the entry', async () => {
      await fixture.rename(`cn=one,${A}`, 'cn=three');
      await refused('noSuchObject', other.read(`cn=one,${A}`));
      await fixture.rename(`cn=three,${A}`, 'cn=one');
      expect(await other.values(`cn=one,${A}`, 'title')).to.deep.equal(['one']);
      await fixture.rename(`cn=one,${A}`, 'cn=one', { newSuperior: B });
      await refused('noSuchObject', other.read(`cn=one,${A}`));
      expect(await other.values(`cn=one,${B}`, 'title')).to.deep.equal(['one']);
      await fixture.delete(`cn=two,${A}`);
      await refused('noSuchObject', other.read(`cn=two,${A}`));
    });

    it('are those of others that got them', async () => {
      await fixture.rename(`cn=one,${A}`, 'cn=three');
      await fixture.rename(`cn=two,${A}`, 'cn=one');
      await fixture.rename(`cn=three,${A}`, 'cn=two');
      for (const [cn, title] of [['one', 'two'] as const, ['two', 'one'] as const])
        expect(await other.values(`cn=${cn},${A}`, 'title')).to.deep.equal([title]);
      await fixture.delete(`cn=one,${A}`);
      await fixture.person('one', A, { title: 'new' });
      expect(await other.values(`cn=one,${A}`, 'title')).to.deep.equal(['new']);
      await fixture.rename(A, 'ou=gone');
      await fixture.rename(B, 'ou=a');
      // What others renamed is seen from the next turn of the event loop on.
      await new Promise((resolve) => setImmediate(resolve));
      await refused('noSuchObject', other.read(`cn=one,${A}`));
      await fixture.person('one', A, { title: 'below b' });
      expect(await other.values(`cn=one,${A}`, 'title')).to.deep.equal(['below b']);
    });
  });
}
