import { expect } from 'chai';
import { shownRow } from '../../src/partition/history/former-rows.js';
import { MASTER, Q } from '../../src/partition/model/tables.js';
import { packSorted, unpackRow } from '../../src/store/row.js';
import { rounds } from '../rounds.js';
import { Changer } from './changer.js';
import {
  change,
  ENGINES,
  type Fixture,
  hiding,
  openFixture,
  refused,
  type SearchGiven,
  SUFFIX,
  seeded,
  viewedDn,
} from './fixture.js';

const FILTERS = ['(objectClass=*)', '(sn=a)', '(!(sn=a))', '(description=*)', '(|(cn=n1*)(title=x))', '(member=*)'];

/** Entries by DN: their rows as they may be shown. */
type Snapshot = ReadonlyMap<string, string>;

/** The row without its version, which an image does not tell. */
function textOf(row: Buffer): string {
  const isKept = (family: number, qualifier: Buffer) => family !== MASTER.treeInfo || !qualifier.equals(Q.version);
  const kept = unpackRow(row).filter(({ family, qualifier }) => isKept(family, qualifier));
  return packSorted(kept).toString('latin1');
}

async function now(fixture: Fixture, given: SearchGiven): Promise<Snapshot> {
  const found = new Map<string, string>();
  await fixture.partition.search(fixture.params({ ...given, manageDsaIT: true }), {
    entry: ({ dn, row }) => void found.set(dn.toString(), textOf(shownRow(fixture.partition.descriptions, row))),
    reference: () => undefined,
  });
  return found;
}

async function asOf(fixture: Fixture, at: number, given: SearchGiven): Promise<Snapshot> {
  const found = new Map<string, string>();
  await fixture.partition.searchAsOf(fixture.params(given), at, ({ dn, row }) => {
    expect(found.has(dn.toString()), dn.toString()).to.equal(false);
    found.set(dn.toString(), textOf(row));
  });
  return found;
}

function lines(snapshot: Snapshot): string[] {
  return [...snapshot].map(([dn, row]) => `${dn} ${JSON.stringify(row)}`).sort();
}

/** A moment between two changes: the next one has a later time. */
function moment(): number {
  const at = Date.now();
  while (Date.now() <= at);
  return at;
}

for (const engine of ENGINES) {
  describe(`search as of a moment (${engine})`, () => {
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('top');
    });
    afterEach(() => fixture.close());

    it('answers as the directory did, whatever was renamed, moved, deleted and restored since', async () => {
      await seeded(async (random) => {
        const changer = new Changer(fixture, random);
        const kept: { at: number; given: SearchGiven; found: Snapshot }[] = [];
        const moments = engine === 'memory' ? 200 : rounds(engine === 'lmdb' ? 50 : 15, 200);
        while (kept.length < moments) {
          // What the schema or the tree refuses is no change.
          await changer.change().catch(() => undefined);
          // Values of references follow names by changes of their own.
          await fixture.partition.settleReferences();
          const bases = [SUFFIX, ...(await fixture.find('(objectClass=*)'))];
          const scope = random.pick(['sub', 'sub', 'one', 'base', 'subordinate'] as const);
          const given = { base: random.pick(bases), scope, filter: random.pick(FILTERS) };
          kept.push({ given, found: await now(fixture, given), at: moment() });
        }
        for (const { at, given, found } of kept)
          expect(lines(await asOf(fixture, at, given)), JSON.stringify(given)).to.deep.equal(lines(found));
      });
    });

    it('tells what is not kept: moments before the first change record, and purged entries', async () => {
      const dn = `cn=ann,ou=top,${SUFFIX}`;
      const before = Date.now() - 60_000;
      await refused('unwillingToPerform', asOf(fixture, before, {}), /change records are kept since 20/);
      await fixture.person('ann', `ou=top,${SUFFIX}`);
      const at = moment();
      await refused('noSuchObject', asOf(fixture, at, { base: `cn=nobody,${SUFFIX}` }));
      await fixture.delete(dn);
      expect([...(await asOf(fixture, at, { filter: '(cn=ann)' })).keys()]).to.deep.equal([dn]);
      await fixture.partition.purge(Date.now() + 1);
      await refused('adminLimitExceeded', asOf(fixture, at, {}), /purged/);
      expect((await asOf(fixture, at, { base: dn.replace('cn=ann,', ''), scope: 'base' })).size).to.equal(1);
    });

    it('shows no entry and no value that the client may not see today, no secret, and nothing beyond its limits', async () => {
      const people = `ou=top,${SUFFIX}`;
      await fixture.person('ann', people, { title: 'boss', userPassword: 'secret' });
      await fixture.person('bob', people);
      const at = moment();
      await fixture.modify(`cn=ann,${people}`, change('replace', 'title', 'clerk'));
      await fixture.rename(`cn=bob,${people}`, 'cn=hidden');
      const viewer = hiding(({ name }) => name === 'title');
      expect((await asOf(fixture, at, { viewer, filter: '(title=boss)' })).size).to.equal(0);
      expect((await asOf(fixture, at, { filter: '(title=boss)' })).size).to.equal(1);
      const found = await asOf(fixture, at, { viewer });
      expect(JSON.stringify([...found]))
        .to.contain('cn=bob')
        .and.not.match(/boss|clerk|secret/);
      const blind = {
        sightOf: (entry: Parameters<typeof viewedDn>[0]) =>
          viewedDn(entry).includes('hidden') ? undefined : { all: () => true, allows: () => true },
      };
      expect([...(await asOf(fixture, at, { viewer: blind })).keys()]).to.not.include(`cn=bob,${people}`);
      const seen = await asOf(fixture, at, {});
      expect(seen.has(`cn=bob,${people}`)).to.equal(true);
      await refused('sizeLimitExceeded', asOf(fixture, at, { sizeLimit: 1 }));
      await refused('adminLimitExceeded', asOf(fixture, at, { lookLimit: 1 }));
      await refused('timeLimitExceeded', asOf(fixture, at, { deadline: 0 }));
    });

    it('shows whoever does not see all no entry that is gone, whose former place is hidden, or that is not known as a whole', async () => {
      const top = `ou=top,${SUFFIX}`;
      await fixture.unit('vault');
      await fixture.add(`ou=merger,ou=vault,${SUFFIX}`, { objectClass: 'organizationalUnit', ou: 'merger' });
      for (const name of ['still', 'changed']) await fixture.person(name, `ou=merger,ou=vault,${SUFFIX}`);
      await fixture.person('gone', top);
      await fixture.person('long', top, { description: 'x'.repeat(70_000), title: 'former' });
      const at = moment();
      await fixture.rename(`ou=merger,ou=vault,${SUFFIX}`, 'ou=sales', { newSuperior: top });
      await fixture.modify(`cn=changed,ou=sales,${top}`, change('replace', 'title', 'x'));
      await fixture.delete(`cn=gone,${top}`);
      await fixture.modify(`cn=long,${top}`, change('delete', 'description'), change('replace', 'title', 'x'));
      const names = ['still', 'changed', 'gone', 'long'];
      const find = async (given: SearchGiven): Promise<string[]> => {
        const found = [...(await asOf(fixture, at, given)).keys()].map((dn) => /cn=(\w+)/.exec(dn)?.[1] ?? dn);
        return names.filter((name) => found.includes(name));
      };
      expect(await find({})).to.deep.equal(names);
      const viewer = {
        sightOf: (entry: Parameters<typeof viewedDn>[0]) =>
          viewedDn(entry).includes('vault') ? undefined : { all: () => true, allows: () => true },
      };
      expect(await find({ viewer })).to.deep.equal([]);
      await refused('noSuchObject', asOf(fixture, at, { viewer, base: `cn=gone,${top}` }));
      await fixture.partition.purge(Date.now() + 1);
      expect(await find({ viewer })).to.deep.equal([]);
    });
  });
}
