import { BUILD_KEY } from '../../src/partition/index/index-admin.js';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { GROUPS_KEY, GROUPS_STEP } from '../../src/partition/model/group-rows.js';
import { SCHEMA_KEY } from '../../src/partition/model/schema-row.js';
import {
  CHANGES_TABLE,
  DELETED_TABLE,
  equalityPrefix,
  gramPrefix,
  indexTable,
  MASTER_TABLE,
  META_TABLE,
  PURGE_TABLE,
  STATE_TABLE,
  TREE_TABLE,
  treeKey,
} from '../../src/partition/model/tables.js';
import { UNIQUE_TABLE } from '../../src/partition/model/unique-rows.js';
import { type Engine, Fixture, openStore, SYSTEM, testSchema } from './fixture.js';

/**
 * The directory of docs/formats/tables.md: a suffix, ou=a below it, cn=Ann below that, and cn=gone, which was deleted.
 */
export async function exampleDirectory(engine: Engine): Promise<Fixture> {
  const { store, folder } = await openStore(engine);
  const settings = { suffixes: ['o=x'], adminDn: 'cn=admin', adminPassword: Buffer.from('{SSHA512}…') };
  await initDirectory(store, settings, testSchema());
  const fixture = new Fixture(store, await Partition.open(store, testSchema()), folder);
  const time = '20260102030405Z';
  const system = (n: number) => ({
    entryUUID: UUIDS[n]!,
    entryCSN: `20260102030405.00000${n}Z#000000#000#000000`,
    createTimestamp: time,
    modifyTimestamp: time,
    creatorsName: 'cn=admin',
    modifiersName: 'cn=admin',
  });
  await fixture.add('o=x', { objectClass: 'organization', ...system(0) }, SYSTEM);
  await fixture.add('ou=a,o=x', { objectClass: 'organizationalUnit', ...system(1) }, SYSTEM);
  await fixture.add(
    'cn=Ann,ou=a,o=x',
    { objectClass: 'person', cn: ['Ann', 'Anna'], sn: 'Lee', 'sn;lang-de': 'Lie', ...system(2) },
    SYSTEM,
  );
  await fixture.add('cn=gone,ou=a,o=x', { objectClass: 'person', sn: 'x', ...system(3) }, SYSTEM);
  await fixture.delete('cn=gone,ou=a,o=x');
  await fixture.partition.changeAccountState(ids[2]!, () => ({
    failures: [1_767_323_045_000, 1_767_323_046_500],
    lockedUntil: Number.POSITIVE_INFINITY,
    lockedAt: 1_767_323_046_500,
    graceUses: [1_767_323_047_000],
    lastSuccess: 1_767_320_000_000,
    since: 1_767_310_000_000,
    uses: [{ id: '5eb3c0ffee0a17d4', time: 1_767_323_000_000 }],
    totpStep: 58_910_767,
  }));
  await fixture.partition.addIndex('sn', { substring: true });
  await fixture.partition.buildIndexes();
  await fixture.partition.addIndex('title');
  await fixture.partition.addUnique({ attributes: ['cn'] });
  await fixture.partition.finishUnique();
  // As the add of a group has it.
  await fixture.store.commit({ steps: [GROUPS_STEP], decisive: 0 });
  return fixture;
}

const UUIDS = [0, 1, 2, 3].map((n) => `019b7c5a-0000-7000-8000-00000000000${n}`);
const ids = UUIDS.map((uuid) => Buffer.from(uuid.replaceAll('-', ''), 'hex'));

/** The rows that the page shows, by the name it gives them; rows of index tables have no content. */
export async function exampleRows(
  fixture: Fixture,
): Promise<Record<string, { table: string; key: Buffer; row: Buffer | undefined }>> {
  const row = async (table: string, key: Buffer) => ({ table, key, row: (await fixture.store.get(table, key))! });
  const mark = (table: string, prefix: Buffer) => ({ table, key: Buffer.concat([prefix, ids[2]!]), row: undefined });
  const first = async (table: string, reverse = false) => {
    const scan = fixture.store.scan(table, {}, { reverse, limit: 1 });
    const batch = (await scan.next())!;
    return { table, key: batch.keys[0]!, row: batch.rows[0] };
  };
  const cn = indexTable('2.5.4.3').name;
  return {
    master: await row(MASTER_TABLE.name, ids[2]!),
    tree: await row(TREE_TABLE.name, treeKey(ids[0]!, Buffer.from('2.5.4.11=a'))),
    'tree of a suffix': await row(TREE_TABLE.name, treeKey(Buffer.alloc(16), Buffer.from('2.5.4.10=x'))),
    'index equality': mark(cn, equalityPrefix(Buffer.from('anna'))),
    'index presence': mark(cn, Buffer.from('*')),
    'index substring': mark(indexTable('2.5.4.4').name, gramPrefix(Buffer.from('lee'), 0)),
    changes: await first(CHANGES_TABLE.name, true),
    deleted: await row(DELETED_TABLE.name, ids[3]!),
    purge: { ...(await first(PURGE_TABLE.name)), row: undefined },
    state: await row(STATE_TABLE.name, ids[2]!),
    unique: await row(UNIQUE_TABLE.name, Buffer.from('0000000101616e6e', 'hex')),
    'meta shared': await row(META_TABLE.name, Buffer.from('shared')),
    'meta schema': await row(META_TABLE.name, SCHEMA_KEY),
    'meta building': await row(META_TABLE.name, BUILD_KEY),
    'meta groups': await row(META_TABLE.name, GROUPS_KEY),
  };
}
