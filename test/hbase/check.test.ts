import { expect } from 'chai';
import { checkIndexes, checkStore } from '../../src/cli/doctor/directory.js';
import type { LdapError } from '../../src/ldap/ldap-error.js';
import { CHANGES_TABLE, indexTable, PURGE_TABLE, TREE_TABLE } from '../../src/partition/model/tables.js';
import type { TableSpec } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { TableAdmin } from '../../src/store/hbase/schema/admin.js';
import { tableHandle } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { MARK } from '../../src/store/row.js';
import { type Fixture, SUFFIX, testSchema } from '../partition/fixture.js';
import { openOver, prepare } from '../partition/kill.js';
import { borrowTables, returnTables } from './recycled.js';

describe('check over HBase beside a front end that stops in the midst of a plan', () => {
  let settings: HBaseSettings | undefined;
  let store: HBaseStore;
  let writer: Fixture;
  let reader: Fixture;
  /** Lets the writer go on; undefined while it does not stand. */
  let release: (() => void) | undefined;
  let stands: () => void = () => undefined;
  let stopAt: string | undefined;

  before(async function () {
    settings = await borrowTables(this);
    await prepare(await openHBaseStore(settings));
    const failpoint = async (name: string): Promise<void> => {
      if (name !== stopAt) return;
      stopAt = undefined;
      await new Promise<void>((resolve) => {
        release = resolve;
        stands();
      });
    };
    store = await openHBaseStore(settings, { failpoint });
    writer = await openOver(store);
    reader = await openOver(await openHBaseStore(settings));
  });
  after(async () => {
    await Promise.all([writer?.close(), reader?.close()]);
    returnTables(settings);
  });

  for (const point of ['row 0 before', 'row 0 after', 'go 0 before'])
    it(`at "${point}": what is half done is no breach`, async () => {
      const dn = `ou=half ${point},${SUFFIX}`;
      const changes = { objectClass: 'organizationalUnit', ou: `half ${point}` };
      const standing = new Promise<void>((resolve) => {
        stands = resolve;
      });
      if (point === 'go 0 before') await writer.add(dn, changes);
      stopAt = point;
      const writing = point === 'go 0 before' ? writer.delete(dn) : writer.add(dn, changes);
      await standing;
      const breaches: string[] = [];
      let seen = 0;
      const count = await reader.partition.check(
        ({ invariant, where, message }) => breaches.push(`${invariant} ${where}: ${message}`),
        (_done, table) => {
          // The last table of a pass: what was half done has been seen so.
          if (table !== 'changes') return;
          seen++;
          release?.();
        },
      );
      await writing;
      expect(breaches).to.deep.equal([]);
      expect([count, seen]).to.deep.equal([0, 2]);
    });

  it('a breach that stays is told, once', async () => {
    const [table] = (await store.tables()).filter(({ name }) => name === 'purge');
    await store.commit({ steps: [{ table: table!.name, key: Buffer.alloc(24, 1), put: [MARK] }], decisive: 0 });
    const breaches: string[] = [];
    expect(await reader.partition.check(({ invariant }) => void breaches.push(invariant))).to.equal(1);
    expect(breaches).to.deep.equal(['purge']);
  });
});

describe('a directory over HBase of which an operator has dropped tables', () => {
  let settings: HBaseSettings | undefined;
  let front: Fixture;
  let other: Fixture;
  let told: string[];

  before(async function () {
    settings = await borrowTables(this);
    await prepare(await openHBaseStore(settings));
    [front, other] = [await open(), await open()];
  });
  after(async () => {
    await Promise.all([front?.close(), other?.close()]);
    returnTables(settings);
  });
  beforeEach(() => {
    told = [];
    const listener = { onOutage: () => undefined, onRecovery: () => undefined, onMissing: (t: string) => told.push(t) };
    front.partition.outage.listener = listener;
  });

  async function open(): Promise<Fixture> {
    return openOver(await openHBaseStore(settings!));
  }

  /** As an operator does it in HBase's shell: Rowan's list of tables keeps the table. */
  async function drop(...tables: readonly TableSpec[]): Promise<void> {
    const admin = new TableAdmin(settings!, (method, request) => client(front).callMaster(method, request));
    for (const table of tables) await admin.drop(tableHandle(settings!, table).name);
  }

  const opened = () => ({ ...other, address: 'hbase://', schema: testSchema(), close: () => other.close() });
  const client = ({ store }: Fixture) => (store as HBaseStore).client;
  const broken = async (): Promise<string[]> =>
    (await other.breaches()).map(({ invariant, where }) => `${invariant} ${where}`);

  it('does without an index, and is told so once; repair builds it anew', async () => {
    const table = indexTable(testSchema().attribute('cn')!.oid);
    const states = ({ partition }: Fixture) =>
      partition.indexes().flatMap(({ attribute, state }) => (state === 'ready' ? [] : [`${attribute} ${state}`]));
    await front.person('before');
    expect(await front.find('(cn=before)')).to.have.length(1);
    await drop(table);
    await front.person('after');
    const found = await Promise.all([front, other].map((one) => one.find('(|(cn=before)(cn=after))')));
    expect(found.map(({ length }) => length)).to.deep.equal([2, 2]);
    expect([states(front), told]).to.deep.equal([['cn lost'], [table.name]]);
    await other.person('later');
    expect(await front.find('(cn=later)')).to.have.length(1);
    expect(await broken()).to.deep.equal([`table ${table.name}`]);
    const fault = { state: 'fault', text: 'the index on cn is lost, and out of use', remedy: 'run "rowan repair"' };
    expect(await checkIndexes(opened())).to.deep.include(fault);
    const repaired: string[] = [];
    expect(await other.partition.repair(({ where }) => void repaired.push(where))).to.equal(1);
    expect(repaired).to.deep.equal([table.name]);
    const search = await front.search({ filter: '(|(cn=before)(cn=after)(cn=later))' });
    expect([states(front), search.dns.length, search.outcome.plan]).to.deep.equal([[], 3, 'index']);
    await other.expectClean();
  });

  it('refuses what the indexes of references and of objectClass answer, until repair has built them anew', async () => {
    const [named, group] = [`cn=named,${SUFFIX}`, `cn=team,${SUFFIX}`];
    await front.person('named');
    await front.add(group, { objectClass: 'groupOfNames', cn: 'team', member: named });
    await drop(...['member', 'objectClass'].map((name) => indexTable(testSchema().attribute(name)!.oid)));
    for (const write of [() => front.rename(named, 'cn=moved'), () => other.delete(named)]) {
      const error = await write().catch((reason: LdapError) => reason);
      expect(error).to.include({ result: 'unavailable' });
      expect((error as LdapError).message)
        .to.contain('index on member')
        .and.to.contain('rowan repair');
    }
    const searched = await front.find('(cn=named)').catch(({ message }: LdapError) => message);
    expect(searched).to.contain('index on objectClass').and.to.contain('rowan repair');
    await other.partition.repair();
    await front.rename(named, 'cn=moved');
    await front.partition.settleReferences();
    expect(await other.values(group, 'member')).to.deep.equal([`cn=moved,${SUFFIX}`]);
    await other.expectClean();
  });

  it('refuses what needs another table, until repair has made it anew', async () => {
    const tables = [PURGE_TABLE, CHANGES_TABLE, TREE_TABLE];
    for (const name of ['kept', 'gone', 'next']) await front.unit(name);
    await front.delete(`ou=gone,${SUFFIX}`);
    await drop(...tables);
    // At the start, and for who serves already.
    await other.close();
    other = await open();
    await front.partition.noteMissingTables();
    expect(told).to.have.members(tables.map(({ name }) => name));
    const refused = await front.delete(`ou=next,${SUFFIX}`).catch((error: LdapError) => error);
    expect(refused).to.include({ result: 'unavailable' });
    expect(await broken()).to.have.members(tables.map(({ name }) => `table ${name}`));
    const faults = await checkStore(opened());
    expect(faults.map(({ state, remedy }) => `${state} ${/"rowan repair" makes it anew/.test(remedy)}`)).to.deep.equal(
      tables.map((table) => `fault ${table !== TREE_TABLE}`),
    );
    const stopped = await other.partition.repair().catch(({ message }: Error) => message);
    expect(stopped).to.contain('stop all servers').and.contain('rowan hbase verify');
    await other.store.createTable(TREE_TABLE);
    await other.partition.repair();
    await other.expectClean();
    await front.delete(`ou=next,${SUFFIX}`);
    expect(await front.partition.purge(Date.now() + 1000)).to.equal(2);
    expect(await front.find('(ou=kept)')).to.have.length(1);
  });
});
