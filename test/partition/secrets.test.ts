import { expect } from 'chai';
import { initDirectory } from '../../src/partition/index.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, MASTER_TABLE, Q } from '../../src/partition/model/tables.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import {
  ACTOR,
  attributes,
  change,
  type Fixture,
  openFixture,
  refused,
  SUFFIX,
  SYSTEM,
  testSchema,
  uuidText,
} from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const CLASSES = ['inetOrgPerson', 'authPasswordObject'];
const ANN = `cn=ann,${SUFFIX}`;
const OPTIONED = [
  'userPassword;x-hid',
  '2.5.4.35;x-hid',
  'userpassword;lang-de;x-hid',
  'authPassword;x-hid',
  'userPassword;binary',
  'authPassword;binary',
];

for (const engine of NEAR_ENGINES) {
  describe(`secrets (${engine})`, () => {
    let fixture: Fixture;
    let ann: Buffer;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      ann = await fixture.person('ann', SUFFIX, { objectClass: CLASSES, userPassword: '{SSHA}one' });
    });
    afterEach(() => fixture.close());

    /** Stores values behind the partition's back. */
    async function store(description: string, ...values: string[]): Promise<void> {
      const put = values.map((value, i) => ({
        family: MASTER.upAttributes,
        qualifier: valueQualifier(description, i),
        value: Buffer.from(value),
      }));
      await fixture.store.commit({ steps: [{ table: MASTER_TABLE.name, key: ann, put }], decisive: 0 });
    }

    /** Descriptions of the stored secrets. */
    async function secrets(): Promise<string[]> {
      const { attributes: found } = await fixture.read(ANN);
      return found.filter(({ type }) => type.secret).map(({ description }) => description);
    }

    /** Loads one entry in bulk; why it was refused. */
    async function load(dn: string, values: Readonly<Record<string, string | string[]>>): Promise<string[]> {
      const reasons: string[] = [];
      async function* chunks() {
        yield [{ line: 1, dn, attributes: attributes({ objectClass: CLASSES, cn: 'x', sn: 'x', ...values }) }];
      }
      await fixture.partition.load(chunks(), SYSTEM, {
        continue: true,
        onReject: ({ reason }) => void reasons.push(reason),
      });
      return reasons;
    }

    for (const description of OPTIONED) {
      it(`${description} is refused from any client`, async () => {
        const why = /holds secrets and takes no options/;
        for (const actor of [ACTOR, SYSTEM]) {
          const values = { objectClass: CLASSES, cn: 'x', sn: 'x', [description]: 's' };
          await refused('constraintViolation', fixture.add(`cn=x,${SUFFIX}`, values, actor), why);
          for (const operation of ['add', 'replace'] as const) {
            const changes = [change('delete', 'userPassword'), change(operation, description, 's')];
            const made = fixture.partition.modify(fixture.dn(ANN), changes, actor);
            await refused('constraintViolation', made, why);
          }
        }
        expect(await load(`cn=x,${SUFFIX}`, { [description]: 's' }))
          .to.have.length(1)
          .and.to.match(why);
        expect(await secrets()).to.deep.equal(['userPassword']);
      });
    }

    it('values of secrets stored under options are deleted with the secret, and block no other change', async () => {
      for (const last of [change('replace', 'userPassword', '{SSHA}two'), change('delete', 'userPassword')]) {
        await fixture.modify(ANN, change('replace', 'userPassword', '{SSHA}one'));
        await store('userPassword;x-hid', 'hidden', 'more');
        await store('userPassword;x-other', 'other');
        await fixture.modify(ANN, change('replace', 'description', 'x'));
        expect(await secrets()).to.have.length(3);
        await fixture.modify(ANN, last);
        expect(await secrets()).to.deep.equal(last.operation === 'delete' ? [] : ['userPassword']);
        await fixture.expectClean();
      }
    });

    it('values of secrets stored under options are found by check and removed by repair', async () => {
      await store('userPassword;x-hid', 'hidden', 'more');
      const [breach, ...more] = await fixture.breaches();
      expect(more).to.deep.equal([]);
      expect(breach).to.include({ invariant: 'secret', where: uuidText(ann) });
      expect(breach!.message).to.match(/^userPassword;x-hid: secrets take no options; repair removes 2 values$/);
      const before = (await fixture.read(ANN)).version;
      expect(await fixture.partition.repair()).to.equal(1);
      expect(await secrets()).to.deep.equal(['userPassword']);
      expect((await fixture.read(ANN)).version > before).to.equal(true);
      await fixture.expectClean();
    });

    it(';binary is refused for a secret, too', async () => {
      const why = /holds secrets and takes no options/;
      const values = { objectClass: CLASSES, cn: 'x', sn: 'x', userPassword: 'a', 'userPassword;binary': 'b' };
      await refused('constraintViolation', fixture.add(`cn=x,${SUFFIX}`, values), why);
      for (const operation of ['add', 'replace'] as const)
        await refused('constraintViolation', fixture.modify(ANN, change(operation, 'userPassword;binary', 'b')), why);
      expect(await load(`cn=x,${SUFFIX}`, { userPassword: 'a', 'userPassword;binary': 'b' }))
        .to.have.length(1)
        .and.to.match(why);
      expect(await fixture.values(ANN, 'userPassword')).to.deep.equal(['{SSHA}one']);
    });

    it('secrets stored as ;binary lose the option with the next change, and can be replaced and deleted', async () => {
      const changes: [ReturnType<typeof change>, string[]][] = [
        [change('add', 'userPassword', 'more'), ['hidden', 'more']],
        [change('replace', 'userPassword', 'two'), ['two']],
        [change('delete', 'userPassword', 'hidden'), []],
        [change('delete', 'userPassword;binary', 'hidden'), []],
        [change('delete', 'userPassword'), []],
      ];
      for (const [last, left] of changes) {
        if ((await secrets()).length > 0) await fixture.modify(ANN, change('delete', 'userPassword'));
        await store('userPassword;binary', 'hidden');
        await fixture.modify(ANN, change('replace', 'description', 'x'));
        expect(await secrets()).to.deep.equal(['userPassword;binary']);
        await fixture.modify(ANN, last);
        expect(await secrets()).to.deep.equal(left.length > 0 ? ['userPassword'] : []);
        expect(await fixture.values(ANN, 'userPassword')).to.deep.equal(left);
        await fixture.expectClean();
      }
    });

    it('secrets stored as ;binary are found by check, and repair removes the option', async () => {
      await fixture.modify(ANN, change('delete', 'userPassword'));
      await store('userPassword;binary', 'one', 'two');
      await store('userPassword;binary;x-hid', 'hidden');
      const breaches = await fixture.breaches();
      expect(breaches.map(({ invariant }) => invariant)).to.deep.equal(['secret']);
      expect(breaches[0]!.message).to.equal(
        'userPassword;binary: secrets take no options; repair keeps the values without them; ' +
          'userPassword;binary;x-hid: secrets take no options; repair removes 1 values',
      );
      expect(await fixture.partition.repair()).to.equal(1);
      expect(await secrets()).to.deep.equal(['userPassword']);
      expect(await fixture.values(ANN, 'userPassword')).to.deep.equal(['one', 'two']);
      await fixture.expectClean();
    });

    it('an entry has at most eight passwords, in whatever way they are added', async () => {
      const many = Array.from({ length: 9 }, (_, n) => `{SSHA}${n}`);
      const why = /would have 9 values; an entry has 8 passwords at most/;
      const values = { objectClass: CLASSES, cn: 'x', sn: 'x', userPassword: many };
      for (const actor of [ACTOR, SYSTEM])
        await refused('constraintViolation', fixture.add(`cn=x,${SUFFIX}`, values, actor), why);
      expect(await load(`cn=x,${SUFFIX}`, { userPassword: many }))
        .to.have.length(1)
        .and.to.match(why);
      await fixture.modify(ANN, change('replace', 'userPassword', ...many.slice(1)));
      await refused('constraintViolation', fixture.modify(ANN, change('add', 'userPassword', many[0]!)), why);
      // Those that are stored already hinder no other change, and are taken away as others are.
      await store('userPassword', ...Array.from({ length: 12 }, (_, n) => `{SSHA}more ${n}`));
      await fixture.modify(ANN, change('replace', 'description', 'x'));
      await fixture.modify(ANN, change('replace', 'userPassword', '{SSHA}one'));
      expect(await fixture.values(ANN, 'userPassword')).to.deep.equal(['{SSHA}one']);
      await fixture.expectClean();
    });

    it('a secret cannot be in an RDN', async () => {
      const why = /'userPassword' holds secrets and cannot name an entry/;
      const values = { objectClass: CLASSES, cn: 'x', sn: 'x' };
      for (const rdn of ['userPassword=s3cr3t', 'cn=x+userPassword=s3cr3t', '2.5.4.35=s3cr3t']) {
        for (const actor of [ACTOR, SYSTEM]) {
          await refused('namingViolation', fixture.add(`${rdn},${SUFFIX}`, values, actor), why);
          const to = { newRdn: rdn, deleteOldRdn: false, newSuperior: undefined };
          await refused('namingViolation', fixture.partition.rename(fixture.dn(ANN), to, actor), why);
        }
        expect(await load(`${rdn},${SUFFIX}`, {}))
          .to.have.length(1)
          .and.to.match(why);
        await refused('namingViolation', fixture.partition.addSuffix(`${rdn},o=new`), why);
      }
      expect(await fixture.values(ANN, 'userPassword')).to.deep.equal(['{SSHA}one']);
      await fixture.expectClean();
    });

    it('check reports secrets in RDNs without repeating the values', async () => {
      const put = [
        { family: MASTER.treeInfo, qualifier: Q.upRdn, value: Buffer.from('userPassword=s3cr3t') },
        { family: MASTER.treeInfo, qualifier: Q.normRdn, value: Buffer.from('2.5.4.35=s3cr3t') },
      ];
      await store('userPassword', 's3cr3t');
      await fixture.store.commit({ steps: [{ table: MASTER_TABLE.name, key: ann, put }], decisive: 0 });
      await fixture.partition.repair();
      const breaches = await fixture.breaches();
      expect(breaches.map(({ invariant, where }) => [invariant, where])).to.deep.equal([['secret', uuidText(ann)]]);
      expect(breaches[0]!.message).to.match(/'userPassword', which holds secrets, names the entry/);
      expect(breaches[0]!.message).not.to.contain('s3cr3t');
      await fixture.rename(`userPassword=s3cr3t,${SUFFIX}`, 'cn=ann');
      expect(await fixture.values(ANN, 'userPassword')).to.deep.equal([]);
      await fixture.expectClean();
    });
  });
}

describe('secrets', () => {
  it('a secret cannot be in the name of a suffix', async () => {
    const settings = { adminDn: 'cn=admin', adminPassword: Buffer.from('{SSHA}x') };
    for (const suffix of ['userPassword=s3cr3t', 'o=x,userPassword=s3cr3t'])
      await refused(
        'namingViolation',
        initDirectory(openMemoryStore(), { ...settings, suffixes: [suffix] }, testSchema()),
      );
  });
});
