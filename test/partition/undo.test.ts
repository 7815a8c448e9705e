import { expect } from 'chai';
import type { EntryChange } from '../../src/ldap/ldap-types.js';
import { ChangeReader } from '../../src/partition/feed/change-reader.js';
import { differenceBetween } from '../../src/partition/history/entry-change.js';
import { undoChanges } from '../../src/partition/history/undo.js';
import { rounds } from '../rounds.js';
import { Changer } from './changer.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX, SYSTEM, seeded } from './fixture.js';

/** Attributes that every write changes. */
const STAMPS = ['entryCSN', 'modifyTimestamp', 'modifiersName'];
const TOP = `ou=top,${SUFFIX}`;
const ANN = `cn=ann,${TOP}`;

/** The entries with their values, secret ones and the server's own included, except the stamps. */
async function stateOf(fixture: Fixture): Promise<string[]> {
  const entries: string[] = [];
  for (const dn of await fixture.find('(objectClass=*)')) {
    const { attributes, id } = await fixture.read(dn, true);
    const kept = attributes.filter(({ type }) => !STAMPS.includes(type.name));
    const lines = kept.flatMap(({ description, values }) => values.map((value) => `${description}: ${value}`));
    entries.push(`${dn} ${id.toString('hex')}\n${lines.sort().join('\n')}`);
  }
  return entries;
}

async function numbersAfter(fixture: Fixture, after: bigint): Promise<bigint[]> {
  const numbers: bigint[] = [];
  fixture.partition.renewReads();
  for await (const records of new ChangeReader(fixture.store, after).read())
    numbers.push(...records.map(({ number }) => number));
  return numbers;
}

/** Numbers of the changes that the work makes. */
async function changesOf(fixture: Fixture, work: () => Promise<unknown>): Promise<bigint[]> {
  const last = (await numbersAfter(fixture, 0n)).at(-1)!;
  await work();
  await fixture.partition.settleReferences();
  return numbersAfter(fixture, last);
}

async function undo(fixture: Fixture, ...numbers: bigint[]): Promise<EntryChange[]> {
  const writes: EntryChange[] = [];
  await undoChanges(fixture.partition, numbers, SYSTEM, (_record, more) => void writes.push(...more));
  return writes;
}

/** A moment between two changes: the next one has a later time. */
function moment(): number {
  const at = Date.now();
  while (Date.now() <= at);
  return at;
}

for (const engine of ENGINES) {
  describe(`undo of changes (${engine})`, () => {
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('top');
    });
    afterEach(() => fixture.close());

    it('brings back the state before the last changes, whatever they were', async () => {
      await seeded(async (random) => {
        const changer = new Changer(fixture, random);
        for (let round = 0; round < rounds(engine === 'hbase' ? 3 : 12, 60); round++) {
          for (let i = 0; i < 5; i++) await changer.change().catch(() => undefined);
          await fixture.partition.settleReferences();
          const before = await stateOf(fixture);
          const numbers = await changesOf(fixture, async () => {
            for (let i = 0; i < 15; i++) await changer.change().catch(() => undefined);
          });
          await undo(fixture, ...numbers);
          await fixture.partition.settleReferences();
          expect(await stateOf(fixture), `${numbers}`).to.deep.equal(before);
        }
        await fixture.expectClean();
      });
    });

    it('sets back what a change set, and nothing else', async () => {
      await fixture.person('ann', TOP, { mail: ['a@example.com', 'b@example.com'], title: 'boss' });
      const mail = change('delete', 'mail', 'a@example.com');
      const [modified] = await changesOf(fixture, () =>
        fixture.modify(ANN, mail, change('add', 'mail', 'c@example.com'), change('replace', 'l', 'Kiel')),
      );
      await fixture.modify(ANN, change('replace', 'title', 'clerk'));
      await fixture.rename(ANN, 'cn=lind', { newSuperior: SUFFIX });
      const [written] = await undo(fixture, modified!);
      expect(written).to.deep.include({ kind: 'modify', dn: `cn=lind,${SUFFIX}` });
      expect((await fixture.values(`cn=lind,${SUFFIX}`, 'mail')).sort()).to.deep.equal([
        'a@example.com',
        'b@example.com',
      ]);
      expect(await fixture.values(`cn=lind,${SUFFIX}`, 'l')).to.deep.equal([]);
      expect(await fixture.values(`cn=lind,${SUFFIX}`, 'title')).to.deep.equal(['clerk']);
    });

    it('refuses, with all reasons and before it changes anything, what later changes stand against', async () => {
      const [added] = await changesOf(fixture, () => fixture.person('ann', TOP, { title: 'boss' }));
      const [titled] = await changesOf(fixture, () => fixture.modify(ANN, change('replace', 'title', 'clerk')));
      const [renamed] = await changesOf(fixture, () => fixture.rename(ANN, 'cn=lind'));
      const [again] = await changesOf(fixture, () =>
        fixture.modify(`cn=lind,${TOP}`, change('add', 'title', 'boss'), change('replace', 'l', 'Kiel')),
      );
      const before = await stateOf(fixture);
      const { message } = await refused('unwillingToPerform', undo(fixture, added!, titled!));
      expect(message.split('\n')).to.deep.equal([
        `change ${titled} cannot be undone: change ${again} (modify) of the entry came later`,
        `change ${added} cannot be undone: change ${again} (modify) of the entry came later`,
        `change ${added} cannot be undone: change ${renamed} (rename) of the entry came later`,
      ]);
      const [deleted] = await changesOf(fixture, () => fixture.delete(`cn=lind,${TOP}`));
      await refused('unwillingToPerform', undo(fixture, again!), new RegExp(`change ${deleted} \\(delete\\)`));
      await undo(fixture, deleted!);
      expect(await stateOf(fixture)).to.deep.equal(before);
      await refused('unwillingToPerform', undo(fixture, deleted!), /\(restore\) of the entry came later/);
      await refused('noSuchObject', undo(fixture, 10_000n), /change 10000 is not kept/);
    });

    it('refuses what the directory refuses: children, a name that is taken, a parent that is gone', async () => {
      const [unit] = await changesOf(fixture, () => fixture.unit('below', TOP));
      await fixture.person('ann', `ou=below,${TOP}`);
      await refused('notAllowedOnNonLeaf', undo(fixture, unit!), new RegExp(`^change ${unit} cannot be undone: `));
      const [moved] = await changesOf(fixture, () =>
        fixture.rename(`cn=ann,ou=below,${TOP}`, 'cn=ann', { newSuperior: TOP }),
      );
      await fixture.person('ann', `ou=below,${TOP}`);
      await refused('entryAlreadyExists', undo(fixture, moved!));
      await fixture.delete(`cn=ann,ou=below,${TOP}`);
      await fixture.delete(`ou=below,${TOP}`);
      await refused('noSuchObject', undo(fixture, moved!), /former parent/);
    });

    it('refuses where the former values are not kept: secrets, values over 64 KiB, purged entries', async () => {
      const photo = Buffer.alloc(100_000, 1);
      await fixture.person('ann', TOP, { userPassword: 'secret', jpegPhoto: photo });
      const [hidden] = await changesOf(fixture, () =>
        fixture.modify(ANN, change('replace', 'userPassword', 'other'), change('replace', 'jpegPhoto')),
      );
      const { message } = await refused('unwillingToPerform', undo(fixture, hidden!));
      expect(message)
        .to.match(/not kept: jpegPhoto, long$/m)
        .and.match(/not kept: userPassword, secret$/m);
      const [deleted] = await changesOf(fixture, () => fixture.delete(ANN));
      await fixture.partition.purge(Date.now() + 1);
      await refused('unwillingToPerform', undo(fixture, deleted!), /is purged$/);
    });

    it('tells the difference between two moments, with the names that the entry and those above it had', async () => {
      const id = await fixture.person('ann', TOP, { title: 'boss' });
      const from = moment();
      await fixture.rename(ANN, 'cn=lind');
      await fixture.modify(`cn=lind,${TOP}`, change('replace', 'title', 'clerk'), change('add', 'cn', 'Ann Lind'));
      const to = moment();
      await fixture.rename(TOP, 'ou=high');
      await fixture.modify(`cn=lind,ou=high,${SUFFIX}`, change('replace', 'userPassword', 'secret'));
      await fixture.delete(`cn=lind,ou=high,${SUFFIX}`);
      const difference = async (a: number, b: number) => {
        const { changes, hidden } = await differenceBetween(fixture.partition, id, a, b);
        return [...hidden, ...changes];
      };
      const values = (type: string, value: string) => ({ type, values: [Buffer.from(value)] });
      expect(await difference(from, to)).to.deep.equal([
        { kind: 'modrdn', dn: ANN, newRdn: 'cn=lind', deleteOldRdn: true, newSuperior: undefined },
        {
          kind: 'modify',
          dn: `cn=lind,${TOP}`,
          changes: [
            { operation: 'delete', attribute: values('title', 'boss') },
            { operation: 'add', attribute: values('title', 'clerk') },
            { operation: 'add', attribute: values('cn', 'Ann Lind') },
          ],
        },
      ]);
      expect(await difference(from, from)).to.deep.equal([]);
      expect(await difference(to, Date.now())).to.deep.equal([
        'userPassword, secret',
        { kind: 'delete', dn: `cn=lind,${TOP}` },
      ]);
      await fixture.partition.purge(Date.now() + 1);
      await refused('adminLimitExceeded', difference(from, to), /purged/);
    });
  });
}
