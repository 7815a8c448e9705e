import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import type { LdapError } from '../../src/ldap/ldap-error.js';
import { BUILD_KEY, claimQualifier, cursorQualifier } from '../../src/partition/index/index-admin.js';
import { Partition, UNRESTRICTED } from '../../src/partition/index.js';
import { indexTable, META_TABLE, TREE_TABLE } from '../../src/partition/model/tables.js';
import { readUniqueState } from '../../src/partition/model/unique-rows.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { cellValue } from '../../src/store/row.js';
import { testSchema } from '../server/directory.js';
import { KILLED_CHILD } from './killed-child.js';
import { exited, heard, PEOPLE_SCRIPT, rowanDoes, run, Sandbox, SUFFIX, startRowan } from './rowan.js';

const CN = '2.5.4.3';
const SN = '2.5.4.4';
/** Two of the plans that a builder makes, and some more. */
const COUNT = 540;

/** Long commands that are killed in the middle, and given again. */
describe('cli: killed with -9', () => {
  const sandbox = new Sandbox();
  /** The same directory, looked at from here. */
  let partition: Partition;

  before(async () => {
    await sandbox.init();
    const { stdout } = await run(process.execPath, [PEOPLE_SCRIPT, String(COUNT)]);
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: stdout });
    partition = await Partition.open(await openLmdbStore(sandbox.data, { create: false }), testSchema());
  });
  after(async () => {
    await partition?.close();
    await sandbox.remove();
  });

  function killedAt(work: string): void {
    expect(spawnSync(process.execPath, [KILLED_CHILD, sandbox.data, work]).signal).to.equal('SIGKILL');
  }

  async function explain(filter: string): Promise<{ plan: string; entries: number }> {
    const limits = { sizeLimit: 0, deadline: Infinity, lookLimit: Infinity };
    const { plan, entries } = await partition.explain({
      ...{ base: testSchema().parseDn(SUFFIX), scope: 'sub', deref: 'never', manageDsaIT: false, viewer: UNRESTRICTED },
      ...limits,
      filter: parseFilter(filter),
    });
    return { plan, entries };
  }

  async function state(): Promise<string | undefined> {
    await partition.refresh();
    return partition.indexes().find(({ oid }) => oid === CN)?.state;
  }

  /** Last entryUUID that the builder of the index has noted. */
  async function cursor(): Promise<string | undefined> {
    partition.renewReads();
    const row = await partition.store.get(META_TABLE.name, BUILD_KEY);
    return row && cellValue(row, 0, cursorQualifier(CN))?.toString('hex');
  }

  async function breaches(): Promise<number> {
    partition.renewReads();
    return partition.check(() => undefined);
  }

  it('an index is built from where the builder died, and used only when it is complete', async () => {
    const command = ['index', 'add', 'cn', '--substring', '--data', sandbox.data];
    const filter = '(cn=*mon user.7*)';
    const byTable = { plan: 'table', entries: 11 };
    expect(await explain(filter)).to.deep.equal(byTable);
    let at = '';
    for (let kills = 0; kills < 2; kills++) {
      killedAt('index');
      const stopped = (await cursor()) ?? '';
      expect(stopped, 'where it was killed').to.match(/^[0-9a-f]{32}$/);
      expect(stopped > at, 'it went on from there').to.equal(true);
      at = stopped;
      expect(await state()).to.equal('building');
      expect(await explain(filter)).to.deep.equal(byTable);
    }
    expect(await breaches()).to.equal(0);
    const indexed = /ready \(([\d,]+) entries read\)/.exec(await rowanDoes(command))![1]!;
    expect(Number(indexed.replace(',', ''))).to.be.within(1, COUNT);
    expect(await state()).to.equal('ready');
    expect(await explain(filter)).to.deep.equal({ plan: 'index', entries: 11 });
    expect(await breaches()).to.equal(0);
  });

  it('a uniqueness constraint comes into force from where its command died', async () => {
    const command = ['unique', 'add', 'uid', '--data', sandbox.data];
    const constraint = async () => {
      partition.renewReads();
      await partition.refresh();
      return partition.uniqueConstraints()[0];
    };
    const done = async () => {
      const unique = await constraint();
      return (unique && (await readUniqueState(partition.store, unique)).doneId)?.toString('hex') ?? '';
    };
    let at = '';
    for (let kills = 0; kills < 2; kills++) {
      killedAt('unique');
      const stopped = await done();
      expect(stopped > at, 'it went on from there').to.equal(true);
      at = stopped;
      expect((await constraint())?.record.ready).to.equal(false);
    }
    expect(await breaches()).to.equal(0);
    const read = /in force \(([\d,]+) entries read\)/.exec(await rowanDoes(command))![1]!;
    expect(Number(read.replace(',', ''))).to.be.within(0, COUNT);
    expect((await constraint())?.record.ready).to.equal(true);
    expect(await breaches()).to.equal(0);
  });

  it('an index that was only begun is waited for until it is known that nobody is at it, and that is said', async () => {
    const [title, qualifier] = ['2.5.4.12', claimQualifier('2.5.4.12')];
    killedAt('begun');
    partition.renewReads();
    const row = await partition.store.get(META_TABLE.name, BUILD_KEY);
    const claim = Buffer.from(cellValue(row!, 0, qualifier)!);
    await partition.refresh();
    expect(
      partition.indexes().some(({ oid }) => oid === title),
      'listed',
    ).to.equal(false);
    const refusal = await partition.addIndex('title').catch((error: LdapError) => error);
    expect(refusal).to.include({ result: 'busy' });
    expect(refusal!.message).to.match(/^another is adding .* 'title', or died doing so: try again in \d\d s$/);
    const again = startRowan(['index', 'add', 'title', '--data', sandbox.data]);
    expect(await heard(again, 'at most')).to.match(
      /^index: another command is adding .* killed; waiting for it, \d\d s at most$/m,
    );
    const ready = heard(again, 'is ready');
    // A minute later.
    claim.writeBigUInt64BE(claim.readBigUInt64BE() - 60_000n);
    const put = [{ family: 0, qualifier, value: claim }];
    await partition.store.commit({ steps: [{ table: META_TABLE.name, key: BUILD_KEY, put }], decisive: 0 });
    expect(await ready).to.match(/index on title is ready/);
    expect(await exited(again)).to.equal(0);
    expect(await breaches()).to.equal(0);
  });

  it('references are brought up to date by another process, and are right before', async () => {
    killedAt('references');
    const pending = async () => {
      partition.renewReads();
      await partition.refresh();
      return partition.context.shared.nameChanges.records.length;
    };
    expect(await pending()).to.equal(1);
    const names = [`cn=nobody,ou=staff,${SUFFIX}`, `ou=staff,${SUFFIX}`].flatMap(
      (dn) => Array(40).fill(dn) as string[],
    );
    for (const filter of [['--filter', '(objectClass=groupOfNames)'], []]) {
      const text = await rowanDoes(['export', '--data', sandbox.data, ...filter]);
      const members = [...text.matchAll(/^member: (.*)$/gm)].map(([, dn]) => dn).sort();
      expect(members, filter.join(' ')).to.deep.equal(names);
    }
    const check = ['check', '--references', '--data', sandbox.data];
    const listed = await rowanDoes(check);
    expect(listed).to.contain(`note reference cn=g0,${SUFFIX}: member 'cn=nobody,ou=staff,${SUFFIX}' names no entry\n`);
    expect(listed).to.contain('references to entries that are not there: 40\n');
    expect(await pending()).to.equal(1);
    const repair = await rowanDoes(['repair', '--references', '--data', sandbox.data]);
    expect(repair).to.contain('references removed: 40\n');
    expect(await pending()).to.equal(0);
    expect((await explain(`(member=cn=nobody,ou=staff,${SUFFIX})`)).entries).to.equal(0);
    expect((await explain(`(member=ou=staff,${SUFFIX})`)).entries).to.equal(40);
    const to = { newRdn: 'ou=people', deleteOldRdn: true, newSuperior: undefined };
    await partition.rename(testSchema().parseDn(`ou=staff,${SUFFIX}`), to, { dn: 'cn=admin' });
    await partition.settleReferences();
    expect(await rowanDoes(check)).to.equal('references to entries that are not there: 0\nno breach found\n');
  });

  it('repair does the rest when it is given again', async () => {
    const { store } = partition;
    await store.dropTable(indexTable(SN).name);
    await store.createTable(indexTable(SN));
    const scan = store.scan(TREE_TABLE.name, {}, { keysOnly: true });
    for (let batch = await scan.next(); batch; batch = await scan.next()) {
      const steps = batch.keys.map((key) => ({ table: TREE_TABLE.name, key, deleteRow: true }));
      await store.commit({ steps, decisive: 0 });
    }
    scan.close();
    const broken = await breaches();
    const command = ['repair', '--data', sandbox.data];
    killedAt('repair');
    expect(await breaches(), 'when it was killed').to.be.within(1, broken - 1);
    expect(await rowanDoes(command)).to.match(/^repaired: /m);
    expect(await breaches()).to.equal(0);
    const found = await rowanDoes(['export', '--data', sandbox.data, '--no-operational']);
    expect(found.match(/^dn: uid=/gm)).to.have.length(COUNT);
  });
});
