import { expect } from 'chai';
import { CHANGES_TABLE, DELETED_TABLE } from '../../src/partition/model/tables.js';
import { cellValue } from '../../src/store/row.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX, SYSTEM, uuidText } from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const ANN = `cn=ann,${PEOPLE}`;

for (const engine of ENGINES) {
  describe(`deleted entries and history (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    let ann: Buffer;
    let people: Buffer;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      people = await fixture.unit('people');
      ann = await fixture.person('ann', PEOPLE, { mail: 'ann@x', 'description;lang-de': 'Text' });
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    async function deleted() {
      const found = [];
      for await (const entry of fixture.partition.deletedEntries()) found.push(entry);
      return found;
    }

    near('deleted entries are listed with DN, time and deleter', async () => {
      const before = Date.now();
      await fixture.delete(ANN);
      const [entry, ...more] = await deleted();
      expect(more).to.deep.equal([]);
      expect([uuidText(entry!.id), entry!.dn, entry!.by]).to.deep.equal([
        uuidText(ann),
        ANN,
        'cn=admin,dc=example,dc=com',
      ]);
      expect(entry!.time).to.be.within(before, Date.now());
    });

    it('a restored entry has its entryUUID, its values and a higher version', async () => {
      await fixture.modify(ANN, change('add', 'title', 'x'));
      const before = await fixture.read(ANN);
      await fixture.delete(ANN);
      expect(await fixture.partition.restore(ann, SYSTEM)).to.equal(ANN);
      const after = await fixture.read(ANN);
      expect(after.id.equals(ann)).to.equal(true);
      expect(after.version > before.version).to.equal(true);
      const stamps = ['entryCSN', 'modifyTimestamp', 'modifiersName'];
      const plain = (entry: typeof after) =>
        entry.attributes
          .filter((a) => !stamps.includes(a.description))
          .map((a) => [a.description, a.values.map(String)]);
      expect(plain(after)).to.deep.equal(plain(before));
      expect(await fixture.find('(mail=ann@x)')).to.deep.equal([ANN]);
      expect(await deleted()).to.deep.equal([]);
      await refused('noSuchObject', fixture.partition.restore(ann, SYSTEM));
    });

    near('a restored entry is placed below its parent wherever the parent is now', async () => {
      await fixture.delete(ANN);
      await fixture.unit('there');
      await fixture.rename(PEOPLE, 'ou=folk', { newSuperior: `ou=there,${SUFFIX}` });
      expect(await fixture.partition.restore(ann, SYSTEM)).to.equal(`cn=ann,ou=folk,ou=there,${SUFFIX}`);
      expect(await fixture.counts(`ou=there,${SUFFIX}`)).to.deep.equal([1, 2]);
    });

    near('a restore is refused while the parent is missing or the name is taken', async () => {
      await fixture.delete(ANN);
      await fixture.delete(PEOPLE);
      await refused('noSuchObject', fixture.partition.restore(ann, SYSTEM), /parent .* is gone/);
      await fixture.unit('people');
      await refused('noSuchObject', fixture.partition.restore(ann, SYSTEM), /parent .* is gone/);
      await refused('entryAlreadyExists', fixture.partition.restore(people, SYSTEM), /there is an entry 'ou=people/);
      await fixture.delete(PEOPLE);
      await fixture.partition.restore(people, SYSTEM);
      await fixture.person('ann', PEOPLE);
      await refused('entryAlreadyExists', fixture.partition.restore(ann, SYSTEM));
      await refused('noSuchObject', fixture.partition.restore(Buffer.alloc(16, 3), SYSTEM), /no deleted entry/);
    });

    near('a deleted suffix can be restored', async () => {
      const { id } = await fixture.read(SUFFIX);
      for (const dn of [ANN, PEOPLE, SUFFIX]) await fixture.delete(dn);
      expect(await fixture.partition.restore(id, SYSTEM)).to.equal(SUFFIX);
      await fixture.partition.restore(people, SYSTEM);
      await fixture.partition.restore(ann, SYSTEM);
      expect(await fixture.find('(cn=ann)')).to.deep.equal([ANN]);
    });

    it('of two concurrent restores one succeeds', async () => {
      await fixture.delete(ANN);
      const both = await Promise.allSettled([
        fixture.partition.restore(ann, SYSTEM),
        fixture.partition.restore(ann, SYSTEM),
      ]);
      expect(both.filter((r) => r.status === 'fulfilled')).to.have.length(1);
      for (const r of both)
        if (r.status === 'rejected') expect(['noSuchObject', 'entryAlreadyExists']).to.include(r.reason.result);
    });

    near('of two deleted entries with one entryUUID the later one is restored', async () => {
      await fixture.delete(ANN);
      await fixture.add(ANN, { objectClass: 'person', sn: 'anew', entryUUID: uuidText(ann) }, SYSTEM);
      await refused('entryAlreadyExists', fixture.partition.restore(ann, SYSTEM));
      await fixture.delete(ANN);
      await fixture.expectClean();
      expect(await deleted()).to.have.length(1);
      await fixture.partition.restore(ann, SYSTEM);
      expect(await fixture.values(ANN, 'mail')).to.deep.equal([]);
      expect(await fixture.values(ANN, 'sn')).to.deep.equal(['anew']);
    });

    describe('restore of a subtree', () => {
      const B = `ou=b,ou=a,${PEOPLE}`;
      const all = [PEOPLE, `ou=a,${PEOPLE}`, B, ANN, `cn=x,ou=a,${PEOPLE}`, `cn=y,${B}`];

      beforeEach(async () => {
        await fixture.unit('other');
        await fixture.person('z', `ou=other,${SUFFIX}`);
        // The last entryUUIDs are those of the entries above.
        await fixture.person('y', PEOPLE);
        await fixture.person('x', PEOPLE);
        await fixture.unit('b', PEOPLE);
        await fixture.unit('a', PEOPLE);
        await fixture.rename(`ou=b,${PEOPLE}`, 'ou=b', { newSuperior: `ou=a,${PEOPLE}` });
        await fixture.rename(`cn=x,${PEOPLE}`, 'cn=x', { newSuperior: `ou=a,${PEOPLE}` });
        await fixture.rename(`cn=y,${PEOPLE}`, 'cn=y', { newSuperior: B });
      });

      const remove = async (dns: readonly string[]): Promise<void> => {
        for (const dn of dns.toReversed()) await fixture.delete(dn);
      };
      async function restored(id: Buffer, since?: number): Promise<{ back: string[]; left: string[] }> {
        const [back, left]: [string[], string[]] = [[], []];
        await fixture.partition.restoreSubtree(id, SYSTEM, {
          since: since ?? 0,
          onRestored: (dn) => void back.push(dn),
          onNotRestored: ({ dn }, { result }) => void left.push(`${dn} ${result}`),
        });
        return { back, left };
      }

      it('a subtree is restored parents first and without other entries, in any order of entryUUIDs', async () => {
        await remove([...all, `cn=z,ou=other,${SUFFIX}`]);
        const { back, left } = await restored(people);
        expect(left).to.deep.equal([]);
        expect(back).to.have.members(all);
        for (const [i, dn] of back.entries())
          if (dn !== PEOPLE) expect(back.indexOf(dn.slice(dn.indexOf(',') + 1)), dn).to.be.within(0, i - 1);
        expect(await fixture.counts(PEOPLE)).to.deep.equal([2, 5]);
        expect((await deleted()).map(({ dn }) => dn)).to.deep.equal([`cn=z,ou=other,${SUFFIX}`]);
        expect(await restored(people)).to.deep.equal({ back: [], left: [] });
        await refused('noSuchObject', restored(Buffer.alloc(16, 3)), /no deleted entry/);
      });

      near(
        'a restored subtree omits entries deleted before, and entries at names that are taken with their subtrees',
        async () => {
          await remove(all.slice(1));
          await fixture.unit('b', PEOPLE);
          await fixture.rename(`ou=b,${PEOPLE}`, 'ou=a');
          const a = `ou=a,${PEOPLE}`;
          expect(await restored(people, Date.now() + 60_000)).to.deep.equal({ back: [], left: [] });
          const { back, left } = await restored(people);
          expect(back).to.deep.equal([ANN]);
          expect(left).to.have.members([
            `${a} entryAlreadyExists`,
            `cn=x,${a} noSuchObject`,
            `${B} noSuchObject`,
            `cn=y,${B} noSuchObject`,
          ]);
          await fixture.rename(a, 'ou=c');
          expect((await restored(people)).left).to.deep.equal([]);
          expect(await fixture.counts(PEOPLE)).to.deep.equal([3, 6]);
        },
      );

      it('a restored subtree includes an entry that is examined while its parent is restored', async () => {
        const OTHER = `ou=other,${SUFFIX}`;
        const { id } = await fixture.read(OTHER);
        await remove([OTHER, `cn=z,${OTHER}`]);
        // So that the parent is looked for in the store.
        fixture.partition.context.nodes.clear();
        const { store } = fixture;
        let comesBack = () => {};
        const isBack = new Promise<void>((resolve) => {
          comesBack = resolve;
        });
        const getHead = store.getHead.bind(store);
        store.getHead = (table, key, only) => {
          const head = () => getHead(table, key, only);
          return table === DELETED_TABLE.name && key.equals(id) ? isBack.then(head) : head();
        };
        const back: string[] = [];
        const onRestored = (dn: string) => {
          back.push(dn);
          comesBack();
        };
        const top = (await fixture.read(SUFFIX)).id;
        await fixture.partition.restoreSubtree(top, SYSTEM, {
          onRestored,
          onNotRestored: () => expect.fail('none is left'),
        });
        expect(back).to.deep.equal([OTHER, `cn=z,${OTHER}`]);
      });

      it('a subtree can be restored by two clients at the same time', async () => {
        await remove(all);
        await fixture.partition.restore(people, SYSTEM);
        const both = await Promise.all([restored(people), restored(people)]);
        expect(both.flatMap(({ back }) => back)).to.have.members(all.slice(1));
        expect(await fixture.counts(PEOPLE)).to.deep.equal([2, 5]);
      });
    });

    near('deleted entries are purged after their time and cannot be restored then', async () => {
      await fixture.delete(ANN);
      expect(await fixture.partition.purge(Date.now() - 60_000)).to.equal(0);
      expect(await fixture.partition.purge(Date.now() + 60_000)).to.equal(1);
      expect(await deleted()).to.deep.equal([]);
      await refused('noSuchObject', fixture.partition.restore(ann, SYSTEM));
    });

    it('any number of deleted entries is purged, also while some are restored', async () => {
      const ids = await Promise.all(Array.from({ length: 300 }, (_, n) => fixture.person(`p${n}`, PEOPLE)));
      await Promise.all(ids.map((_, n) => fixture.delete(`cn=p${n},${PEOPLE}`)));
      const some = ids.slice(0, 10).map((id) => fixture.partition.restore(id, SYSTEM));
      const [purged] = await Promise.all([fixture.partition.purge(Date.now() + 60_000), Promise.allSettled(some)]);
      const back = (await Promise.allSettled(some)).filter((r) => r.status === 'fulfilled').length;
      expect(purged + back).to.equal(300);
      expect(await deleted()).to.deep.equal([]);
      expect((await fixture.counts(PEOPLE))[0]).to.equal(1 + back);
    });

    async function records(): Promise<Record<string, string>[]> {
      const found: Record<string, string>[] = [];
      const scan = fixture.store.scan(CHANGES_TABLE.name, {});
      for (let batch = await scan.next(); batch; batch = await scan.next()) {
        for (const row of batch.rows) {
          const cell = (name: string) => cellValue(row!, 0, Buffer.from(name))?.toString() ?? '';
          found.push({
            op: cell('op'),
            dn: cell('dn'),
            newDn: cell('newDn'),
            by: cell('by'),
            csn: cell('csn'),
            attributes: cell('attributes'),
          });
        }
      }
      return found;
    }

    near('change records describe the changes in the order of their entryCSNs', async () => {
      await fixture.modify(ANN, change('add', 'userPassword', 'very secret'));
      await fixture.rename(ANN, 'cn=anna');
      await fixture.delete(`cn=anna,${PEOPLE}`);
      await fixture.partition.restore(ann, SYSTEM);
      const found = (await records()).slice(-5);
      expect(found.map((r) => [r.op, r.dn, r.newDn])).to.deep.equal([
        ['add', ANN, ''],
        ['modify', ANN, ''],
        ['rename', ANN, `cn=anna,${PEOPLE}`],
        ['delete', `cn=anna,${PEOPLE}`, ''],
        ['restore', `cn=anna,${PEOPLE}`, ''],
      ]);
      const csns = found.map((r) => r.csn!);
      expect([...csns].sort()).to.deep.equal(csns);
      expect(found[1]!.attributes).to.match(/userPassword/);
      expect(JSON.stringify(found)).to.not.match(/very secret/);
    });

    it('change records are trimmed by time, except the last record', async () => {
      const all = await records();
      const { partition } = fixture;
      const day = 86_400_000;
      const now = Date.now();
      const yesterday = now - day;
      const tomorrow = now + day;
      expect(await partition.trimChanges(yesterday)).to.equal(0);
      expect(await partition.purge(yesterday)).to.equal(0);
      await fixture.delete(ANN);
      expect(await partition.purge(tomorrow)).to.equal(1);
      expect(await partition.trimChanges(tomorrow)).to.equal(all.length);
      expect((await records()).map((r) => r.op)).to.deep.equal(['delete']);
      await fixture.person('bob', PEOPLE);
      expect((await records()).map((r) => r.op)).to.deep.equal(['delete', 'add']);
    });
  });

  describe(`clock jumps (${engine})`, () => {
    const near = nearTests(engine);
    near('entryCSN rises although the clock goes back by a day, also across a restart', async () => {
      let now = Date.now();
      const fixture = await openFixture(engine, { now: () => now });
      const csns: string[] = [];
      for (const step of [0, -86_400_000, -1000, 2 * 86_400_000, -86_400_000]) {
        now += step;
        await fixture.modify(SUFFIX, change('replace', 'description', String(now)));
        csns.push((await fixture.values(SUFFIX, 'entryCSN'))[0]!);
      }
      expect([...new Set(csns)].sort()).to.deep.equal(csns);
      const { Partition } = await import('../../src/partition/index.js');
      const again = await Partition.open(fixture.store, fixture.partition.schema, { now: () => now });
      await again.modify(fixture.dn(SUFFIX), [change('replace', 'description', 'x')], { dn: '' });
      expect((await fixture.values(SUFFIX, 'entryCSN'))[0]! > csns.at(-1)!).to.equal(true);
      await fixture.close();
    });
  });
}
