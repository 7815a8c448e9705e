import { expect } from 'chai';
import type { ResultName } from '../../src/ldap/ldap-error.js';
import { largeList, valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, MASTER_TABLE, Q } from '../../src/partition/model/tables.js';
import { unpackRow } from '../../src/store/row.js';
import { ACTOR, attributes, change, type Fixture, openFixture, refused, SUFFIX, SYSTEM } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const ANN = `cn=ann,${SUFFIX}`;
const STATE = /stands under an option that another server keeps of a value's changes; give '/;
const OPERATIONAL = /is operational and takes no options; give '/;

for (const engine of NEAR_ENGINES) {
  describe(`options of attributes (${engine})`, () => {
    let fixture: Fixture;
    let ann: Buffer;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      ann = await fixture.person('ann', SUFFIX);
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

    async function descriptions(): Promise<string[]> {
      const { attributes: found } = await fixture.read(ANN);
      return found.map(({ description }) => description);
    }

    /** What `check` finds of options; then all of it is mended. */
    async function mended(): Promise<string[]> {
      const breaches = await fixture.breaches();
      await fixture.partition.repair();
      await fixture.expectClean();
      return breaches.filter(({ invariant }) => invariant === 'options').map(({ message }) => message);
    }

    const refusals: [description: string, result: ResultName, why: RegExp][] = [
      ['description;deleted', 'undefinedAttributeType', STATE],
      ['description;lang-de;VDCSN-5f00000000000000', 'undefinedAttributeType', STATE],
      ['2.5.4.13;adcsn-5f', 'undefinedAttributeType', STATE],
      ['description;mdcsn-5f;deletedattribute', 'undefinedAttributeType', STATE],
      ['modifyTimestamp;vucsn-5f', 'undefinedAttributeType', STATE],
      ['modifyTimestamp;lang-de', 'constraintViolation', OPERATIONAL],
      ['pwdAccountLockedTime;x-other', 'constraintViolation', OPERATIONAL],
    ];
    for (const [description, result, why] of refusals) {
      it(`${description} is refused, whoever brings it`, async () => {
        const values = { objectClass: 'person', cn: 'x', sn: 'x', [description]: '20200101000000Z' };
        // Others than the system are told before that they may not write it at all.
        for (const actor of description.startsWith('modify') ? [SYSTEM] : [ACTOR, SYSTEM]) {
          await refused(result, fixture.add(`cn=x,${SUFFIX}`, values, actor), why);
          for (const operation of ['add', 'replace'] as const) {
            const made = fixture.partition.modify(fixture.dn(ANN), [change(operation, description, 'x')], actor);
            await refused(result, made, why);
          }
        }
        const reasons: string[] = [];
        async function* chunks() {
          yield [{ line: 1, dn: `cn=x,${SUFFIX}`, attributes: attributes(values) }];
        }
        const onReject = ({ reason }: { reason: string }) => void reasons.push(reason);
        await fixture.partition.load(chunks(), SYSTEM, { continue: true, onReject });
        expect(reasons).to.have.length(1);
        expect(reasons[0]).to.match(why);
        await fixture.expectClean();
      });
    }

    it('that are stored can be deleted by name', async () => {
      await fixture.modify(ANN, change('replace', 'description', 'live'));
      await store('description;deleted;vdcsn-5f', 'live');
      await fixture.modify(ANN, change('delete', 'description;deleted;vdcsn-5f'));
      expect(await descriptions()).not.to.include('description;deleted;vdcsn-5f');
      await fixture.expectClean();
    });

    it('which say that a value is deleted are found, and repair removes the values', async () => {
      await store('description;deleted;vdcsn-5f', 'gone', 'too');
      await store('modifyTimestamp;lang-de', '20200101000000Z');
      const [message, ...more] = await mended();
      expect(more).to.deep.equal([]);
      expect(message).to.match(
        /^description;deleted;vdcsn-5f: .* removes 2 values; modifyTimestamp;lang-de: .* removes 1 values$/,
      );
      expect((await descriptions()).join()).not.to.include(';');
      expect(await fixture.values(ANN, 'description')).to.deep.equal([]);
    });

    it('which say that a value was changed are found, and repair keeps the values without them', async () => {
      await fixture.modify(ANN, change('replace', 'description', 'one'));
      await store('description;vucsn-5f', 'two', 'ONE');
      await store('description;lang-de;vucsn-5f', 'drei');
      await store('modifyTimestamp;adcsn-5f;vucsn-5f', '20200101000000Z');
      // Stored before `manager`, which is corrected, too.
      await store('Manager;vucsn-5f', 'cn=b');
      await store('manager', 'CN = a');
      const [time] = await fixture.values(ANN, 'modifyTimestamp');
      expect(await mended()).to.have.length(1);
      expect((await descriptions()).filter((one) => one.includes(';'))).to.deep.equal(['description;lang-de']);
      expect(await fixture.values(ANN, 'description')).to.deep.equal(['one', 'two']);
      expect(await fixture.values(ANN, 'manager')).to.deep.equal(['CN=a', 'cn=b']);
      expect(await fixture.values(ANN, 'description;lang-de')).to.deep.equal(['drei']);
      expect(await fixture.values(ANN, 'modifyTimestamp')).to.deep.equal([time]);
    });

    for (const state of ['deleted', 'vucsn-5f']) {
      it(`a value over 64 KiB under ;${state} is ${state === 'deleted' ? 'removed' : 'reported and left'}`, async () => {
        const photo = Buffer.alloc(300_000, 7);
        await fixture.modify(ANN, change('replace', 'jpegPhoto;x-old', photo), change('add', 'jpegPhoto', photo));
        await renameLarge(valueQualifier('jpegPhoto;x-old', 0), valueQualifier(`jpegPhoto;${state}`, 0));
        await fixture.modify(ANN, change('delete', 'jpegPhoto'));
        if (state === 'deleted') {
          expect((await mended())[0]).to.match(/^jpegPhoto;deleted: .* repair removes 1 values/);
          expect((await descriptions()).join()).not.to.include('jpegPhoto');
          return;
        }
        expect((await fixture.breaches())[0]!.message).to.match(/repair leaves values over 64 KiB: add them without/);
        expect(await fixture.partition.repair()).to.equal(0);
        expect(await descriptions()).to.include('jpegPhoto;vucsn-5f');
      });
    }

    /** Gives the cells of a large value another name, which stands where the old one stood. */
    async function renameLarge(from: Buffer, to: Buffer): Promise<void> {
      const { name: table } = MASTER_TABLE;
      const row = unpackRow((await fixture.store.get(table, ann))!);
      const chunks = unpackRow((await fixture.store.getCells(table, ann, MASTER.largeValues, from))!);
      const pointer = row.find(({ family, qualifier }) => family === MASTER.upAttributes && qualifier.equals(from))!;
      const renamed = [pointer, ...chunks].map((cell) => ({
        ...cell,
        qualifier: Buffer.concat([to, cell.qualifier.subarray(from.length)]),
      }));
      const list = largeList([valueQualifier('jpegPhoto', 0), to]);
      const put = [...renamed, { family: MASTER.treeInfo, qualifier: Q.large, value: list }];
      await fixture.store.commit({ steps: [{ table, key: ann, delete: [pointer, ...chunks], put }], decisive: 0 });
    }
  });
}
