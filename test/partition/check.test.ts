import { expect } from 'chai';
import type { Breach } from '../../src/partition/model/directory-types.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { chunkQualifier } from '../../src/partition/model/large.js';
import {
  CHANGES_TABLE,
  DELETED,
  DELETED_TABLE,
  DELETION,
  equalityPrefix,
  gramPrefix,
  indexTable,
  MASTER,
  MASTER_TABLE,
  PURGE_TABLE,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  treeKey,
} from '../../src/partition/model/tables.js';
import type { RowStep } from '../../src/store/contract.js';
import { cellValue, counterBytes, MARK } from '../../src/store/row.js';
import { change, ENGINES, type Fixture, openFixture, SUFFIX, SYSTEM, uuidText } from './fixture.js';
import { nearTests } from './near-engines.js';

const CN = indexTable('2.5.4.3').name;
const norm = (text: string) => Buffer.from(`2.5.4.3=${text}`);

/** Writes to the store behind the partition's back. */
async function raw(fixture: Fixture, ...steps: RowStep[]): Promise<void> {
  await fixture.store.commit({ steps, decisive: 0 });
}

/** Puts a row that is no packed row in the place of one. */
async function damaged(fixture: Fixture, table: string, key: Buffer): Promise<void> {
  const rows = [{ key, row: Buffer.from([0, 0, 5, 0, 0, 0, 0]) }];
  await fixture.store.ingest([{ table, rows }], { steps: [], decisive: 0 });
}

async function master(fixture: Fixture, id: Buffer): Promise<Buffer> {
  return (await fixture.store.get(MASTER_TABLE.name, id))!;
}

for (const engine of ENGINES) {
  describe(`check and repair (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    let people: Buffer;
    let ann: Buffer;
    let bob: Buffer;
    let suffix: Buffer;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      suffix = (await fixture.read(SUFFIX)).id;
      people = await fixture.unit('people');
      ann = await fixture.person('ann', `ou=people,${SUFFIX}`, { mail: 'ann@example.com' });
      bob = await fixture.person('bob', `ou=people,${SUFFIX}`, { jpegPhoto: Buffer.alloc(300_000, 7) });
      await fixture.expectClean();
    });
    afterEach(() => fixture.close());

    /** Breaks something, expects these breaches (invariant, where), repairs, expects none; gives what repair told. */
    async function mends(steps: RowStep[], wanted: readonly [string, string][], said: RegExp): Promise<Breach[]> {
      await raw(fixture, ...steps);
      const found = await fixture.breaches();
      expect(found.map((b) => [b.invariant, b.where])).to.have.deep.members(wanted.map((w) => [...w]));
      expect(found.map((b) => b.message).join('\n')).to.match(said);
      const told: Breach[] = [];
      const mended = await fixture.partition.repair((b) => told.push(b));
      expect(mended).to.equal(told.length).and.to.be.greaterThan(0);
      await fixture.expectClean();
      return told;
    }

    const annKey = () => treeKey(people, norm('ann'));

    near('repair of a clean directory changes nothing', async () => {
      const before = await fixture.read(`cn=ann,ou=people,${SUFFIX}`);
      expect(await fixture.partition.repair(() => expect.fail('nothing to tell'))).to.equal(0);
      expect((await fixture.read(`cn=ann,ou=people,${SUFFIX}`)).row.equals(before.row)).to.equal(true);
    });

    /** Expects these breaches (invariant, where), repairs, expects none. */
    async function expectMended(wanted: readonly [string, string][]): Promise<void> {
      const found = await fixture.breaches();
      expect(found.map((b) => [b.invariant, b.where])).to.have.deep.members(wanted.map((w) => [...w]));
      await fixture.partition.repair();
      await fixture.expectClean();
    }

    it('check finds, and repair restores, a missing tree row', async () => {
      await mends(
        [{ table: TREE_TABLE.name, key: annKey(), deleteRow: true }],
        [['treeRow', uuidText(ann)]],
        /no tree row.*repair makes it/,
      );
      expect(await fixture.find('(mail=ann@example.com)')).to.deep.equal([`cn=ann,ou=people,${SUFFIX}`]);
    });

    near('check finds, and repair restores, the missing tree row of an entry with children', async () => {
      await mends(
        [{ table: TREE_TABLE.name, key: treeKey(suffix, Buffer.from('2.5.4.11=people')), deleteRow: true }],
        [['treeRow', uuidText(people)]],
        /no tree row/,
      );
      expect(await fixture.counts(`ou=people,${SUFFIX}`)).to.deep.equal([2, 2]);
    });

    near('check finds, and repair corrects, a tree row with a wrong id', async () => {
      const put = [{ family: TREE.treeInfo, qualifier: Q.id, value: Buffer.alloc(16, 9) }];
      await mends([{ table: TREE_TABLE.name, key: annKey(), put }], [['id', uuidText(ann)]], /leads to 0909/);
    });

    near('check finds, and repair corrects, a tree row without an id', async () => {
      const gone = [{ family: TREE.treeInfo, qualifier: Q.id }];
      await mends([{ table: TREE_TABLE.name, key: annKey(), delete: gone }], [['id', uuidText(ann)]], /leads to no id/);
    });

    near('check finds, and repair removes, a surplus tree row of an entry that is elsewhere', async () => {
      const key = treeKey(people, norm('nobody'));
      const put = [{ family: TREE.treeInfo, qualifier: Q.id, value: ann }];
      await mends(
        [{ table: TREE_TABLE.name, key, put }],
        [['treeRow', `tree ${shownKey(key)}`]],
        /stands elsewhere; repair removes it/,
      );
    });

    near('check finds, and repair removes, a surplus tree row of no entry', async () => {
      const key = treeKey(people, norm('nobody'));
      const put = [{ family: TREE.treeInfo, qualifier: Q.id, value: Buffer.alloc(16, 5) }];
      await mends([{ table: TREE_TABLE.name, key, put }], [['treeRow', `tree ${shownKey(key)}`]], /is no entry/);
    });

    it('check finds, and repair corrects, wrong counters', async () => {
      const put = [
        { family: TREE.treeInfo, qualifier: Q.oneLevelCount, value: counterBytes(7n) },
        { family: TREE.treeInfo, qualifier: Q.subLevelCount, value: counterBytes(8n) },
      ];
      const key = treeKey(suffix, Buffer.from('2.5.4.11=people'));
      await mends(
        [{ table: TREE_TABLE.name, key, put }],
        [['count', uuidText(people)]],
        /oneLevelCount is 7 and subLevelCount 8, 2 and 2/,
      );
      await fixture.delete(`cn=ann,ou=people,${SUFFIX}`);
      await fixture.expectClean();
    });

    near('check finds, and repair corrects, a counter that is not a number', async () => {
      const put = [{ family: TREE.treeInfo, qualifier: Q.subLevelCount, value: Buffer.from('x') }];
      await mends(
        [{ table: TREE_TABLE.name, key: treeKey(suffix, Buffer.from('2.5.4.11=people')), put }],
        [['count', uuidText(people)]],
        /repair sets them/,
      );
    });

    near('check finds, and repair corrects, missing, surplus and wrong cells of normAttributes', async () => {
      const gone = [{ family: TREE.normAttributes, qualifier: norm('ann') }];
      const put = [
        { family: TREE.normAttributes, qualifier: norm('zoe'), value: Buffer.alloc(4) },
        { family: TREE.normAttributes, qualifier: Buffer.from('2.5.4.4=ann'), value: Buffer.from([0, 0, 0, 3]) },
      ];
      await mends(
        [{ table: TREE_TABLE.name, key: annKey(), delete: gone, put }],
        [['normAttributes', uuidText(ann)]],
        /2 cells .* missing or wrong and 1 are too many/,
      );
    });

    it('check finds, and repair restores, a missing equality row', async () => {
      const key = Buffer.concat([equalityPrefix(Buffer.from('ann')), ann]);
      await mends(
        [{ table: CN, key, deleteRow: true }],
        [['index', uuidText(ann)]],
        /row =ann.* of the index of cn is missing/,
      );
      expect(await fixture.find('(cn=ann)')).to.have.length(1);
    });

    near('check finds, and repair restores, a missing presence row', async () => {
      await mends(
        [{ table: CN, key: Buffer.concat([Buffer.from('*'), ann]), deleteRow: true }],
        [['index', uuidText(ann)]],
        /row \* of the index/,
      );
    });

    it('check finds, and repair corrects, missing and surplus rows of a substring index', async () => {
      await fixture.partition.addIndex('sn', { substring: true });
      await fixture.partition.buildIndexes();
      await fixture.expectClean();
      const table = indexTable('2.5.4.4').name;
      const gone = Buffer.concat([gramPrefix(Buffer.from('ann'), 0), ann]);
      const extra = Buffer.concat([gramPrefix(Buffer.from('xyz'), 0), ann]);
      const both: [string, string][] = [
        ['index', uuidText(ann)],
        ['index', uuidText(ann)],
      ];
      await mends(
        [
          { table, key: gone, deleteRow: true },
          { table, key: extra, put: [MARK] },
        ],
        both,
        /~ann.*missing[\s\S]*~xyz.*too many/,
      );
    });

    it('check finds, and repair removes, surplus index rows of a value that an entry lacks, and of no entry', async () => {
      const wrong = Buffer.concat([equalityPrefix(Buffer.from('zoe')), ann]);
      const lost = Buffer.concat([equalityPrefix(Buffer.from('ann')), Buffer.alloc(16, 5)]);
      await mends(
        [
          { table: CN, key: wrong, put: [MARK] },
          { table: CN, key: lost, put: [MARK] },
        ],
        [
          ['index', uuidText(ann)],
          ['index', uuidText(Buffer.alloc(16, 5))],
        ],
        /does not imply it[\s\S]*no such entry|no such entry[\s\S]*does not imply it/,
      );
    });

    it('repair moves an entry without a parent below the suffix, with its subtree', async () => {
      await raw(fixture, { table: MASTER_TABLE.name, key: people, deleteRow: true });
      const found = await fixture.breaches();
      expect(found.filter((b) => b.invariant === 'parent').map((b) => b.where)).to.have.members([
        uuidText(ann),
        uuidText(bob),
      ]);
      expect(found.find((b) => b.invariant === 'parent')!.message).to.match(/does not exist; repair puts it/);
      expect(found.filter((b) => b.where === uuidText(people)).map((b) => b.invariant)).to.include('index');
      await fixture.partition.repair();
      await fixture.expectClean();
      const dns = await fixture.find('(sn=*)');
      expect(dns).to.deep.equal([
        `cn=ann+entryUUID=${uuidText(ann)},${SUFFIX}`,
        `cn=bob+entryUUID=${uuidText(bob)},${SUFFIX}`,
      ]);
      expect(
        (await fixture.read(dns[1]!, true)).attributes.find((a) => a.description === 'jpegPhoto')!.values[0]!.length,
      ).to.equal(300_000);
    });

    near('check finds, and repair resolves, entries that are their own ancestors', async () => {
      const inner = await fixture.unit('inner', `ou=people,${SUFFIX}`);
      const put = [{ family: MASTER.treeInfo, qualifier: Q.parentId, value: inner }];
      await raw(fixture, { table: MASTER_TABLE.name, key: people, put });
      const found = await fixture.breaches();
      const cycles = found.filter((b) => b.invariant === 'cycle').map((b) => b.where);
      await fixture.partition.repair();
      await fixture.expectClean();
      // The one of the two whose UUID is the smaller is put below the suffix.
      const first = Buffer.compare(people, inner) < 0 ? people : inner;
      expect(cycles).to.deep.equal([uuidText(first)]);
      const unit = first === people ? 'people' : 'people,ou=inner';
      expect(await fixture.find('(cn=ann)')).to.deep.equal([
        `cn=ann,ou=${unit}+entryUUID=${uuidText(first)},${SUFFIX}`,
      ]);
    });

    it('check finds, and repair resolves, two entries with one name', async () => {
      const row = await master(fixture, bob);
      const put = [
        { family: MASTER.treeInfo, qualifier: Q.normRdn, value: norm('ann') },
        { family: MASTER.treeInfo, qualifier: Q.upRdn, value: Buffer.from('cn=Ann') },
      ];
      expect(cellValue(row, MASTER.treeInfo, Q.normRdn)!.equals(norm('bob'))).to.equal(true);
      await raw(fixture, { table: MASTER_TABLE.name, key: bob, put });
      const found = await fixture.breaches();
      expect(found.map((b) => b.invariant)).to.include('name');
      await fixture.partition.repair();
      await fixture.expectClean();
      expect(await fixture.find('(sn=*)')).to.deep.equal(
        [`cn=Ann+entryUUID=${uuidText(bob)},ou=people,${SUFFIX}`, `cn=ann,ou=people,${SUFFIX}`].sort(),
      );
    });

    near('check finds, and repair corrects, a normRdn that is not the normal form of upRdn', async () => {
      const put = [{ family: MASTER.treeInfo, qualifier: Q.upRdn, value: Buffer.from('cn=Anna') }];
      await mends([{ table: MASTER_TABLE.name, key: ann, put }], [['name', uuidText(ann)]], /is not the normal form/);
      expect(await fixture.find('(cn=ann)')).to.deep.equal([`cn=Anna,ou=people,${SUFFIX}`]);
    });

    near('check finds, and repair moves, an entry at the root that is not a suffix', async () => {
      const dn = Buffer.from('cn=ann,o=gone');
      const put = [
        { family: MASTER.treeInfo, qualifier: Q.parentId, value: ROOT_ID },
        { family: MASTER.treeInfo, qualifier: Q.upRdn, value: dn },
        { family: MASTER.treeInfo, qualifier: Q.normRdn, value: fixture.dn(dn.toString()).norm },
      ];
      await raw(fixture, { table: MASTER_TABLE.name, key: ann, put });
      expect((await fixture.breaches()).map((b) => b.invariant)).to.include('parent');
      await fixture.partition.repair();
      await fixture.expectClean();
      expect(await fixture.find('(cn=ann)')).to.deep.equal([`cn=ann+entryUUID=${uuidText(ann)},${SUFFIX}`]);
    });

    near('check finds, and repair corrects, a wrong entryUUID attribute', async () => {
      const put = [
        { family: MASTER.upAttributes, qualifier: valueQualifier('entryUUID', 0), value: Buffer.from(uuidText(bob)) },
      ];
      await raw(fixture, { table: MASTER_TABLE.name, key: ann, put });
      expect((await fixture.breaches()).map((b) => b.invariant)).to.include('id');
      await fixture.partition.repair();
      await fixture.expectClean();
      expect(await fixture.values(`cn=ann,ou=people,${SUFFIX}`, 'entryUUID')).to.deep.equal([uuidText(ann)]);
    });

    it('surplus chunks are removed by repair', async () => {
      const put = [
        {
          family: MASTER.largeValues,
          qualifier: chunkQualifier(valueQualifier('jpegPhoto', 5), 0),
          value: Buffer.from('x'),
        },
      ];
      await mends([{ table: MASTER_TABLE.name, key: bob, put }], [['large', uuidText(bob)]], /belong to no value/);
      await mends([{ table: MASTER_TABLE.name, key: ann, put }], [['large', uuidText(ann)]], /belong to no value/);
    });

    it('chunks of entries that are gone are removed by repair, also of deleted entries', async () => {
      const lost = [Buffer.alloc(16, 1), Buffer.alloc(16, 2)];
      const chunk = { qualifier: chunkQualifier(valueQualifier('jpegPhoto', 0), 0), value: Buffer.alloc(9) };
      const put = [{ family: MASTER.largeValues, ...chunk }];
      await mends(
        [
          { table: MASTER_TABLE.name, key: lost[0]!, put },
          { table: DELETED_TABLE.name, key: lost[1]!, put },
        ],
        lost.map((id) => ['large', uuidText(id)]),
        /in table master, but no entry.*\n.*in table deleted, but no entry/,
      );
      expect(await fixture.store.keysOfCells(MASTER_TABLE.name, MASTER.largeValues, 10)).to.deep.equal([bob]);
      expect(await fixture.store.keysOfCells(DELETED_TABLE.name, MASTER.largeValues, 10)).to.deep.equal([]);
    });

    it('a missing or changed chunk is reported and cannot be repaired', async () => {
      const qualifier = chunkQualifier(valueQualifier('jpegPhoto', 0), 1);
      for (const step of [
        {
          table: MASTER_TABLE.name,
          key: bob,
          put: [{ family: MASTER.largeValues, qualifier, value: Buffer.alloc(131_072, 8) }],
        },
        { table: MASTER_TABLE.name, key: bob, delete: [{ family: MASTER.largeValues, qualifier }] },
      ]) {
        await raw(fixture, step);
        const told: Breach[] = [];
        expect(await fixture.partition.repair((b) => told.push(b))).to.equal(0);
        expect(told.map((b) => [b.invariant, b.where])).to.deep.equal([['large', uuidText(bob)]]);
        expect(told[0]!.message).to.match(/cannot be restored/);
      }
    });

    near('an unreadable master row is reported, and its other rows are kept', async () => {
      const put = [
        { family: MASTER.upAttributes, qualifier: valueQualifier('noSuchAttribute', 0), value: Buffer.from('x') },
      ];
      await raw(fixture, { table: MASTER_TABLE.name, key: ann, put });
      const told: Breach[] = [];
      expect(await fixture.partition.repair((b) => told.push(b))).to.equal(0);
      expect(told.map((b) => [b.invariant, b.where])).to.deep.equal([['row', uuidText(ann)]]);
      expect(told[0]!.message).to.match(/noSuchAttribute.*not in the schema/);
      await raw(fixture, { table: MASTER_TABLE.name, key: ann, delete: put });
      await fixture.expectClean();
    });

    near('a master row without parentId is reported', async () => {
      await raw(fixture, {
        table: MASTER_TABLE.name,
        key: ann,
        delete: [{ family: MASTER.treeInfo, qualifier: Q.parentId }],
      });
      const found = await fixture.breaches();
      expect(found.filter((b) => b.where === uuidText(ann)).map((b) => b.invariant)).to.deep.equal(['row']);
    });

    it('check finds, and repair corrects, a purge order that does not match the deleted entries', async () => {
      await fixture.delete(`cn=ann,ou=people,${SUFFIX}`);
      await fixture.delete(`cn=bob,ou=people,${SUFFIX}`);
      await fixture.expectClean();
      const deleted = [];
      for await (const entry of fixture.partition.deletedEntries()) deleted.push(entry);
      const time = Buffer.alloc(8);
      time.writeBigUInt64BE(BigInt(deleted[0]!.time));
      const gone = Buffer.concat([time, deleted[0]!.id]);
      const extra = Buffer.concat([Buffer.alloc(8, 1), deleted[1]!.id]);
      await mends(
        [
          { table: PURGE_TABLE.name, key: gone, deleteRow: true },
          { table: PURGE_TABLE.name, key: extra, put: [MARK] },
        ],
        [
          ['purge', uuidText(deleted[0]!.id)],
          ['purge', uuidText(deleted[1]!.id)],
        ],
        /no purge row[\s\S]*belongs to no deleted entry/,
      );
      await fixture.partition.restore(bob, SYSTEM);
      await fixture.expectClean();
    });

    near('check finds values of objectClass that name no class, and repair removes those under an option', async () => {
      const attribute = (text: string, value: string) => ({
        family: MASTER.upAttributes,
        qualifier: valueQualifier(text, 7),
        value: Buffer.from(value),
      });
      await mends(
        [{ table: MASTER_TABLE.name, key: ann, put: [attribute('objectClass;lang-de', 'nonsense')] }],
        [['objectClass', uuidText(ann)]],
        /'nonsense' of objectClass;lang-de names no object class/,
      );
    });

    near('check finds, and repair removes, deleted entries that have no time or are unreadable', async function () {
      // LMDB takes no packed row that is cut.
      if (engine !== 'memory' && engine !== 'delayed') this.skip();
      await fixture.delete(`cn=ann,ou=people,${SUFFIX}`);
      await mends(
        [{ table: DELETED_TABLE.name, key: ann, delete: [{ family: DELETED.deletion, qualifier: DELETION.time }] }],
        [
          ['deleted', uuidText(ann)],
          ['purge', uuidText(ann)],
        ],
        /no DN or time/,
      );
      const ids = async (): Promise<Buffer[]> => {
        const found: Buffer[] = [];
        for await (const { id } of fixture.partition.deletedEntries()) found.push(id);
        return found;
      };
      expect(await ids()).to.deep.equal([ann]);
      await damaged(fixture, DELETED_TABLE.name, ann);
      await expectMended([
        ['deleted', uuidText(ann)],
        ['purge', uuidText(ann)],
      ]);
      expect(await ids()).to.deep.equal([]);
    });

    it('check reports an unreadable change record', async function () {
      // HBase keeps cells, not packed rows, and LMDB takes no packed row that is cut.
      if (engine !== 'memory' && engine !== 'delayed') this.skip();
      const scan = fixture.store.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1 });
      const [key] = (await scan.next())!.keys;
      scan.close();
      await damaged(fixture, CHANGES_TABLE.name, key!);
      await expectMended([['change', `change ${key!.toString('hex')}`]]);
      expect(await fixture.store.get(CHANGES_TABLE.name, key!)).to.equal(undefined);
    });

    it('repair restores all tree and index rows after their loss', async () => {
      const before = await fixture.find('(objectClass=*)');
      await fixture.partition.addIndex('description', {});
      for (const { name } of await fixture.store.tables()) {
        if (name !== TREE_TABLE.name && !name.startsWith('index_')) continue;
        const scan = fixture.store.scan(name, {}, { keysOnly: true });
        for (let batch = await scan.next(); batch; batch = await scan.next()) {
          await raw(fixture, ...batch.keys.map((key) => ({ table: name, key, deleteRow: true })));
        }
        scan.close();
      }
      await fixture.partition.repair();
      await fixture.expectClean();
      expect(await fixture.find('(objectClass=*)')).to.deep.equal(before);
      await fixture.modify(`cn=ann,ou=people,${SUFFIX}`, change('add', 'description', 'x'));
      await fixture.expectClean();
    });
  });
}

function shownKey(key: Buffer): string {
  return key.toString('latin1').replace(/[^\x20-\x7e]/g, (c) => `\\${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
