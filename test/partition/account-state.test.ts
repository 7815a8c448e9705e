import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { Partition } from '../../src/partition/index.js';
import { type AccountState, NO_STATE } from '../../src/partition/model/account-state.js';
import { CHANGES_TABLE, STATE_TABLE } from '../../src/partition/model/tables.js';
import { newUuid } from '../../src/partition/model/uuid.js';
import { UNLIMITED_SEARCH } from '../../src/partition/read/search-params.js';
import type { Hit } from '../../src/partition/read/sink.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { scanAll } from '../store/suite/fixture.js';
import { change, ENGINES, type Fixture, openFixture, SUFFIX, SYSTEM, testSchema, uuidText } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const ANN = `cn=ann,${SUFFIX}`;
const LOCKED: AccountState = {
  failures: [1_000, 2_000],
  lockedUntil: Number.POSITIVE_INFINITY,
  lockedAt: 2_000,
  graceUses: [3_000],
  lastSuccess: 4_000,
  since: 5_000,
  uses: [
    { id: '0123456789abcdef', time: 6_000 },
    { id: 'ffffffffffffffff', time: 7_000 },
  ],
  totpStep: 8_000,
};

for (const engine of NEAR_ENGINES) {
  describe(`account states (${engine})`, () => {
    let fixture: Fixture;
    let ann: Buffer;
    const state = () => fixture.partition.accountState(ann);
    const set = (to: AccountState) => fixture.partition.changeAccountState(ann, () => to);
    beforeEach(async () => {
      fixture = await openFixture(engine);
      ann = await fixture.person('ann', SUFFIX, { userPassword: '{SSHA}x' });
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    it('account states are stored and read, and do not change the entry', async () => {
      const before = await fixture.read(ANN);
      const records = await fixture.store.count(CHANGES_TABLE.name, {}, 1000);
      expect(await state()).to.equal(undefined);
      await set(LOCKED);
      expect(await state()).to.deep.equal(LOCKED);
      await set(NO_STATE);
      expect(await state()).to.deep.equal(NO_STATE);
      expect((await fixture.read(ANN)).row.equals(before.row)).to.equal(true);
      expect(await fixture.store.count(CHANGES_TABLE.name, {}, 1000)).to.equal(records);
    });

    it('every one of many concurrent changes of an account state by several processes counts', async () => {
      const other = await Partition.open(fixture.store, testSchema());
      const one = (partition: Partition, n: number) =>
        partition.changeAccountState(ann, (known = NO_STATE) => ({ ...known, failures: [...known.failures, n] }));
      await Promise.all(Array.from({ length: 40 }, (_, n) => one(n % 2 ? other : fixture.partition, n)));
      const { failures } = (await state())!;
      expect([...failures].sort((a, b) => a - b)).to.deep.equal(Array.from({ length: 40 }, (_, n) => n));
    });

    it('an account state is deleted with its entry, and a restored entry has a new state', async () => {
      await set(LOCKED);
      await fixture.delete(ANN);
      expect(await fixture.store.get(STATE_TABLE.name, ann)).to.equal(undefined);
      await set(LOCKED);
      expect(await fixture.store.get(STATE_TABLE.name, ann), 'of an entry that has gone').to.equal(undefined);
      await fixture.partition.restore(ann, SYSTEM);
      expect(await state()).to.equal(undefined);
    });

    it("an account state forgets failures when the password or the administrator's lock changes", async () => {
      for (const [type, value] of [
        ['userPassword', '{SSHA}y'],
        ['pwdAccountLockedTime', '000001010000Z'],
      ] as const) {
        await set(LOCKED);
        await fixture.modify(ANN, change('replace', 'description', `before ${type}`));
        expect(await state()).to.deep.equal(LOCKED);
        await fixture.modify(ANN, change('replace', type, value));
        const { lastSuccess, uses, totpStep } = LOCKED;
        const after = (await state())!;
        expect(after).to.deep.equal({ ...NO_STATE, lastSuccess, uses, totpStep, since: after.since });
        expect(after.since > 0, 'counts as used').to.equal(type === 'pwdAccountLockedTime');
      }
      await set(LOCKED);
      await fixture.partition.clearAccountState(ann);
      const { since, ...rest } = (await state())!;
      expect(rest).to.deep.include({ failures: [], lockedUntil: 0, graceUses: [], lastSuccess: LOCKED.lastSuccess });
      expect(since, 'it counts as used').to.be.greaterThan(LOCKED.since);
    });

    it('filters on pwdAccountLockedTime find the locks of failed binds, with an index and without', async () => {
      await fixture.person('bob', SUFFIX, { pwdAccountLockedTime: '20250101000000Z' });
      await fixture.person('carl', SUFFIX);
      await set(LOCKED);
      let candidates: readonly Buffer[] | undefined;
      const readLockTimes = async (_: unknown, few: readonly Buffer[] | undefined) => {
        candidates = few;
        const locked = await fixture.partition.lockedAccounts(Date.now(), () => undefined);
        const ids = locked.filter((id) => !few || few.some((candidate) => candidate.equals(id)));
        return new Map(ids.map((id) => [id.toString('latin1'), Buffer.from('20260101000000.123Z')]));
      };
      const find = async (filter: string, pageSize?: number): Promise<string[]> => {
        const names: string[] = [];
        const base = testSchema().parseDn(SUFFIX);
        const params = { ...UNLIMITED_SEARCH, base, scope: 'one', filter: parseFilter(filter), readLockTimes } as const;
        const entry = ({ dn }: Hit) => void names.push(dn.toString().slice(3, 6));
        let resume: Buffer | undefined;
        do {
          const page = { ...params, pageSize, resume };
          ({ resume } = await fixture.partition.search(page, { entry, reference: () => undefined }));
        } while (resume);
        return names.sort();
      };
      const found = async (filter: string): Promise<string[]> => {
        const names = await find(filter);
        expect(await find(filter, 1), `${filter}, in pages`).to.deep.equal(names);
        return names;
      };
      const expectFound = async (): Promise<void> => {
        expect(await found('(pwdAccountLockedTime=*)')).to.deep.equal(['ann', 'bob']);
        expect(candidates, 'all accounts').to.equal(undefined);
        expect(await found('(&(cn=ann)(pwdAccountLockedTime=*))')).to.deep.equal(['ann']);
        expect(candidates, 'one account').to.deep.equal([ann]);
        expect(await found('(&(cn=carl)(!(pwdAccountLockedTime=*)))')).to.deep.equal(['car']);
        expect(await found('(&(cn=ann)(!(pwdAccountLockedTime=*)))')).to.deep.equal([]);
        expect(await found('(|(cn=carl)(&(cn=ann)(pwdAccountLockedTime=*)))')).to.deep.equal(['ann', 'car']);
        expect(await found('(&(cn=*)(!(pwdAccountLockedTime=*)))')).to.deep.equal(['car']);
        expect(await found('(pwdAccountLockedTime>=20250601000000Z)')).to.deep.equal(['ann']);
        expect(await found('(pwdAccountLockedTime<=20250601000000Z)')).to.deep.equal(['bob']);
        expect(await found('(pwdAccountLockedTime=20260101000000.123Z)')).to.deep.equal(['ann']);
        expect(await found('(&(sn=*)(!(pwdAccountLockedTime=20260101000000.123Z)))')).to.deep.equal(['bob', 'car']);
        expect(await found('(|(cn=carl)(pwdAccountLockedTime=*))')).to.deep.equal(['ann', 'bob', 'car']);
      };
      await expectFound();
      await fixture.partition.addIndex('pwdAccountLockedTime');
      await fixture.partition.buildIndexes();
      await expectFound();
      await fixture.modify(ANN, change('add', 'pwdAccountLockedTime', '20250101000000Z'));
      await expectFound();
      await set({ ...LOCKED, lockedUntil: Date.now() - 1 });
      expect(await found('(pwdAccountLockedTime>=20250601000000Z)'), 'after its end').to.deep.equal([]);
      expect(await found('(pwdAccountLockedTime=*)')).to.deep.equal(['ann', 'bob']);
    });

    it('a lock of failed binds is deleted by its value, and by no other', async () => {
      const unlock = (value: string) =>
        fixture.modify(ANN, change('delete', 'pwdAccountLockedTime', value)).then(
          () => 0,
          ({ code }) => code,
        );
      expect(await unlock('19700101000002.000Z'), 'no state').to.equal(16);
      await set(LOCKED);
      for (const value of ['19700101000002.001Z', '000001010000Z', 'no time']) expect(await unlock(value)).to.equal(16);
      expect(await state()).to.deep.equal(LOCKED);
      expect(await unlock('19700101000002.000Z')).to.equal(0);
      expect(await state()).to.deep.include({ failures: [], lockedUntil: 0 });
      expect(await unlock('19700101000002.000Z'), 'not again').to.equal(16);
      await set({ ...LOCKED, failures: [], lockedAt: 0 });
      expect(await unlock('000001010000Z'), 'of an earlier version').to.equal(0);
      await set(LOCKED);
      await fixture.modify(ANN, change('add', 'pwdAccountLockedTime', '20250101000000Z'));
      expect(await unlock('20250101000000Z'), "the administrator's").to.equal(0);
      expect(await state()).to.deep.include({ failures: [], lockedUntil: 0 });
    });

    it('account states of no entry and unreadable states are reported and removed', async () => {
      const lost = newUuid();
      const put = [{ family: 0, qualifier: Buffer.from('failures'), value: Buffer.alloc(7) }];
      const steps = [
        { table: STATE_TABLE.name, key: lost, put: [{ ...put[0]!, value: Buffer.alloc(8) }] },
        { table: STATE_TABLE.name, key: ann, put },
      ];
      await fixture.partition.changeDecoyState();
      await fixture.store.commit({ steps, decisive: 0 });
      const told = (await fixture.breaches()).map(({ invariant, where }) => `${invariant} ${where}`);
      expect(told).to.have.members([`state ${uuidText(lost)}`, `state ${uuidText(ann)}`]);
      expect(await fixture.partition.repair()).to.equal(2);
      await fixture.expectClean();
      expect((await scanAll(fixture.store, STATE_TABLE.name, {})).keys).to.have.length(1);
    });

    it('a directory of an older version gets the table of account states when it is opened for writing', async () => {
      await fixture.store.dropTable(STATE_TABLE.name);
      const reading = await Partition.open(fixture.store, testSchema(), { readOnly: true });
      expect(await reading.accountState(ann)).to.equal(undefined);
      expect(await reading.check(() => undefined)).to.equal(0);
      expect((await fixture.store.tables()).map(({ name }) => name)).to.not.include(STATE_TABLE.name);
      const writing = await Partition.open(fixture.store, testSchema());
      await writing.changeAccountState(ann, () => LOCKED);
      expect(await writing.accountState(ann)).to.deep.equal(LOCKED);
    });
  });
}

describe('account states', () => {
  it('account states survive the process (lmdb)', async function () {
    if (!ENGINES.includes('lmdb')) this.skip();
    const fixture = await openFixture('lmdb');
    const ann = await fixture.person('ann', SUFFIX);
    await fixture.partition.changeAccountState(ann, () => LOCKED);
    await fixture.partition.close();
    const store = await openLmdbStore(fixture.folder!, { readOnly: true });
    const partition = await Partition.open(store, testSchema(), { readOnly: true });
    expect(await partition.accountState(ann)).to.deep.equal(LOCKED);
    await fixture.close();
    await partition.close();
  });
});
