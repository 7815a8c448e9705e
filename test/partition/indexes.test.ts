import { expect } from 'chai';
import type { LdapError } from '../../src/ldap/ldap-error.js';
import { BUILD_KEY, claimQualifier } from '../../src/partition/index/index-admin.js';
import { Partition } from '../../src/partition/index.js';
import { gramPrefix, indexTable, META_TABLE } from '../../src/partition/model/tables.js';
import { planIndexes } from '../../src/partition/read/plan/index-plan.js';
import type { Store } from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX } from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;

for (const engine of ENGINES) {
  describe(`indexes (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    // More than a builder reads at once.
    const COUNT = 300;

    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.load(
        Array.from({ length: COUNT }, (_, n) => ({
          dn: `cn=p${n},${PEOPLE}`,
          values: { objectClass: 'inetOrgPerson', cn: `p${n}`, sn: `p${n}`, employeeNumber: String(n % 50) },
        })),
      );
    });
    // The next test meets the indexes of a new directory.
    afterEach(async () => {
      await fixture.expectClean();
      const { partition } = fixture;
      const added = partition.indexes().filter(({ attribute, substring }) => {
        return ['employeeNumber', 'title'].includes(attribute) || (attribute === 'sn' && substring);
      });
      for (const { attribute } of added) await partition.dropIndex(attribute);
      if (!state('sn')) await partition.addIndex('sn');
      await partition.buildIndexes();
    });
    after(() => fixture.close());

    const plan = async (filter: string) => (await fixture.partition.explain(fixture.params({ filter }))).plan;
    const state = (attribute: string) => fixture.partition.indexes().find((i) => i.attribute === attribute)?.state;

    it('an index is added, built, used and dropped', async () => {
      const wanted = await fixture.find('(employeeNumber=7)');
      expect(await plan('(employeeNumber=7)')).to.equal('table');
      await fixture.partition.addIndex('employeeNumber', {});
      expect(state('employeeNumber')).to.equal('building');
      expect(await plan('(employeeNumber=7)')).to.equal('table');
      const told: number[] = [];
      await fixture.partition.buildIndexes((done) => told.push(done));
      expect(told.at(-1)).to.equal(COUNT + 2);
      expect(state('employeeNumber')).to.equal('ready');
      expect(await plan('(employeeNumber=7)')).to.equal('index');
      expect(await fixture.find('(employeeNumber=7)')).to.deep.equal(wanted);
      await fixture.partition.dropIndex('EMPLOYEENUMBER');
      expect(await plan('(employeeNumber=7)')).to.equal('table');
      expect((await fixture.store.tables()).map((t) => t.name)).to.not.include(
        indexTable('2.16.840.1.113730.3.1.3').name,
      );
      await fixture.modify(`cn=p1,${PEOPLE}`, change('replace', 'employeeNumber', '99'));
    });

    it('an index is built while other clients write', async () => {
      let stop = false;
      let writes = 0;
      const writer = async (k: number): Promise<void> => {
        for (let n = k; !stop; n += 2) {
          const cn = `p${n % COUNT}`;
          const dn = `cn=${cn},${PEOPLE}`;
          await fixture.modify(dn, change('replace', 'employeeNumber', `w${n}`), change('replace', 'title', 't'));
          if (n % 5 === 0) await fixture.delete(dn).then(() => fixture.person(cn, PEOPLE, { employeeNumber: 'again' }));
          writes++;
          await new Promise((resolve) => setImmediate(resolve));
        }
      };
      const writers = [0, 1].map(writer);
      await fixture.partition.addIndex('employeeNumber', { substring: true });
      await Promise.all([fixture.partition.buildIndexes(), fixture.partition.buildIndexes()]);
      stop = true;
      await Promise.all(writers);
      expect(writes).to.be.greaterThan(0);
      expect(state('employeeNumber')).to.equal('ready');
    });

    it('an index build continues where a builder stopped', async () => {
      await fixture.partition.addIndex('employeeNumber', {});
      let seen = 0;
      const died = fixture.partition.buildIndexes((done) => {
        seen = done;
        throw new Error('the builder dies');
      });
      await died.then(
        () => expect.fail('it goes on'),
        (error) => expect(error.message).to.equal('the builder dies'),
      );
      expect(state('employeeNumber')).to.equal('building');
      const told: number[] = [];
      const again = await Partition.open(fixture.store, fixture.partition.schema);
      await again.buildIndexes();
      await again.buildIndexes((done) => told.push(done));
      expect(told).to.deep.equal([]);
      expect(seen).to.be.greaterThan(0);
      expect(again.indexes().find((i) => i.attribute === 'employeeNumber')?.state).to.equal('ready');
      await fixture.modify(`cn=p1,${PEOPLE}`, change('replace', 'employeeNumber', '98'));
      expect(await fixture.find('(employeeNumber=98)')).to.deep.equal([`cn=p1,${PEOPLE}`]);
    });

    it('an index is extended by substrings and stays in use meanwhile', async () => {
      await fixture.partition.addIndex('sn', { substring: true });
      expect(state('sn')).to.equal('building');
      expect(await plan('(sn=p7)')).to.equal('index');
      expect(await plan('(sn=*p29*)')).to.equal('table');
      await fixture.partition.buildIndexes();
      expect(await plan('(sn=*p29*)')).to.equal('index');
      expect(await fixture.find('(sn=*p29*)')).to.have.length(11);
      await refused('entryAlreadyExists', fixture.partition.addIndex('sn', { substring: true }));
    });

    it('an index is dropped and added again while it is built', async () => {
      const wanted = await fixture.find('(employeeNumber=*49*)');
      expect(wanted).to.not.deep.equal([]);
      await fixture.partition.addIndex('employeeNumber', {});
      let dropped: Promise<void> | undefined;
      await fixture.partition.buildIndexes(() => {
        dropped ??= fixture.partition
          .dropIndex('employeeNumber')
          .then(() => fixture.partition.addIndex('employeeNumber', { substring: true }));
      });
      await dropped;
      await fixture.partition.buildIndexes();
      expect(state('employeeNumber')).to.equal('ready');
      expect(await fixture.find('(employeeNumber=*49*)')).to.deep.equal(wanted);
    });

    near('of two concurrent builds of an index of one attribute one is refused as busy, or waits', async () => {
      const both = await Promise.allSettled([
        fixture.partition.addIndex('title', {}),
        fixture.partition.addIndex('title', {}),
      ]);
      expect(both.some((r) => r.status === 'fulfilled')).to.equal(true);
      for (const r of both) if (r.status === 'rejected') expect(r.reason.result).to.equal('busy');
      await fixture.partition.dropIndex('title');
      const waits: number[] = [];
      const onWait = (ms: number): void => void waits.push(ms);
      await Promise.all([
        fixture.partition.addIndex('title', {}),
        fixture.partition.addIndex('title', { onWait }),
        fixture.partition.addIndex('title', { onWait }),
      ]);
      expect(waits.length).to.be.at.most(2);
      for (const ms of waits) expect(ms).to.be.within(1, 60_000);
      await fixture.partition.buildIndexes();
      expect(state('title')).to.equal('ready');
      await refused('entryAlreadyExists', fixture.partition.addIndex('title', { onWait }));
    });

    near('concurrent builds of indexes of different attributes do not hinder each other', async () => {
      const { partition } = fixture;
      await Promise.all([partition.addIndex('title', {}), partition.addIndex('employeeNumber', {})]);
      await partition.buildIndexes();
      expect([state('title'), state('employeeNumber')]).to.deep.equal(['ready', 'ready']);
    });

    /** Of `title`, by a process that died. */
    const leaveClaim = async (store: Store) => {
      const died = Buffer.alloc(16);
      died.writeBigUInt64BE(BigInt(Date.now() - 61_000));
      const put = [{ family: 0, qualifier: claimQualifier('2.5.4.12'), value: died }];
      await store.commit({ steps: [{ table: META_TABLE.name, key: BUILD_KEY, put }], decisive: 0 });
    };

    /** Within `work` the store refuses to make or to drop tables. */
    const refusing = async (name: 'createTable' | 'dropTable', work: () => Promise<unknown>): Promise<void> => {
      const { store } = fixture.partition;
      const own = { [name]: store[name] };
      store[name] = () => Promise.reject(new StoreError('unavailable', 'there is no gateway'));
      try {
        await work();
      } finally {
        Object.assign(store, own);
      }
    };

    near('an index whose table cannot be dropped now is reported after the other indexes are built', async () => {
      const { partition } = fixture;
      await leaveClaim(partition.store);
      await partition.addIndex('employeeNumber', {});
      await refusing('dropTable', async () => {
        const { cause } = await refused('unavailable', partition.buildIndexes());
        expect((cause as Error).message).to.equal('there is no gateway');
      });
      expect(state('employeeNumber')).to.equal('ready');
    });

    it('an index whose table could not be created can be added again at once', async () => {
      const { partition } = fixture;
      for (const what of ['createTable', 'dropTable'] as const)
        await refusing(what, () => refused('unavailable', partition.addIndex('title')));
      await partition.addIndex('title');
      await partition.buildIndexes();
      expect(state('title')).to.equal('ready');
    });

    near('remains of an index whose table could not be created are dropped by the next builder', async () => {
      const { partition } = fixture;
      const { store } = partition;
      await refusing('createTable', () => refused('unavailable', partition.addIndex('title')));
      await store.createTable(indexTable('2.5.4.12'));
      await partition.buildIndexes();
      expect((await store.tables()).map(({ name }) => name)).to.not.include(indexTable('2.5.4.12').name);
      const row = await store.get(META_TABLE.name, BUILD_KEY);
      expect(row?.toString('latin1') ?? '').to.not.include('2.5.4.12:');
    });

    it('an index whose table could not be dropped is out of use, says so, and can be dropped or added at once', async () => {
      const { partition } = fixture;
      const { name } = indexTable('2.16.840.1.113730.3.1.3');
      const tables = async () => (await partition.store.tables()).map((table) => table.name);
      await partition.addIndex('employeeNumber');
      await partition.buildIndexes();
      await refusing('dropTable', async () => {
        const { cause } = await refused('unavailable', partition.dropIndex('employeeNumber'));
        expect((cause as Error).message).to.match(
          /^the index of 'employeeNumber' is out of use already, but its table is still there, .*: there is no gateway$/,
        );
        expect(state('employeeNumber')).to.equal(undefined);
        await refused('unavailable', partition.buildIndexes());
      });
      expect(await tables()).to.include(name);
      await partition.buildIndexes();
      expect(await tables()).to.not.include(name);
      await partition.addIndex('employeeNumber');
      await partition.buildIndexes();
      await refusing('dropTable', () => refused('unavailable', partition.dropIndex('employeeNumber')));
      await partition.addIndex('employeeNumber');
      await partition.buildIndexes();
      expect(state('employeeNumber')).to.equal('ready');
    });

    it('an index that a dead process was dropping is dropped once, and not when it is added again', async () => {
      const { partition } = fixture;
      const { store } = partition;
      await leaveClaim(store);
      const dropTable = store.dropTable.bind(store);
      let busy = false;
      store.dropTable = async (name) => {
        store.dropTable = dropTable;
        busy = await partition.addIndex('title').then(
          () => false,
          (error: LdapError) => error.result === 'busy',
        );
        await dropTable(name);
      };
      await partition.buildIndexes();
      expect(busy).to.equal(true);
      await partition.addIndex('title');
      await fixture.modify(`cn=p1,${PEOPLE}`, change('replace', 'title', 'Dr.'));
      await partition.buildIndexes();
      expect(await fixture.find('(title=dr.)')).to.have.length(1);
    });

    near('a useless index is refused', async () => {
      const { partition } = fixture;
      await refused('undefinedAttributeType', partition.addIndex('titel', {}), /did you mean/);
      await refused('entryAlreadyExists', partition.addIndex('cn', {}));
      await refused('entryAlreadyExists', partition.addIndex('entryUUID', {}));
      for (const name of ['userPassword', 'jpegPhoto', 'entryDN', 'hasSubordinates', 'cn;lang-de'])
        await refused('unwillingToPerform', partition.addIndex(name, {}), /cannot be indexed/);
      await refused('unwillingToPerform', partition.addIndex('seeAlso', { substring: true }), /substrings rule/);
      await refused('noSuchObject', partition.dropIndex('title'));
      for (const name of ['objectClass', 'entryUUID'])
        await refused('unwillingToPerform', partition.dropIndex(name), /needs/);
    });

    it('another front end of the same store uses a new index', async () => {
      const other = await Partition.open(fixture.store, fixture.partition.schema);
      await fixture.partition.addIndex('employeeNumber', {});
      await other.modify(fixture.dn(`cn=p1,${PEOPLE}`), [change('replace', 'employeeNumber', '97')], { dn: '' });
      await fixture.partition.buildIndexes();
      await other.modify(fixture.dn(`cn=p2,${PEOPLE}`), [change('replace', 'employeeNumber', '97')], { dn: '' });
      const found: string[] = [];
      await other.search(fixture.params({ filter: '(employeeNumber=97)' }), {
        entry: (hit) => void found.push(hit.dn.toString()),
        reference: () => undefined,
      });
      expect(found).to.have.length(2);
      await fixture.partition.dropIndex('employeeNumber');
      await other.modify(fixture.dn(`cn=p2,${PEOPLE}`), [change('replace', 'employeeNumber', '96')], { dn: '' });
    });

    near('an index with substrings intersects two parts of a pattern', async () => {
      const names = Array.from({ length: 60 }, (_, n) => `red-${n % 3}-green-${n % 20}`);
      for (const [n, sn] of names.entries()) await fixture.person(`c${n}`, PEOPLE, { sn });
      await fixture.partition.addIndex('sn', { substring: true });
      await fixture.partition.buildIndexes();
      const filter = '(sn=*red-0*green-1*)';
      const expected = names.filter((name) => /red-0.*green-1/.test(name)).length;
      expect(expected).to.be.greaterThan(5);
      expect(await fixture.find(filter)).to.have.length(expected);
      const explained = await fixture.partition.explain(fixture.params({ filter }));
      expect([explained.plan, explained.candidates]).to.deep.equal(['index', expected]);
    });

    near('an index with substrings finds every entry when lists are shorter than before', async () => {
      // More than are compared with others at once.
      const many = engine === 'hbase' ? 100 : 2100;
      await fixture.load(
        Array.from({ length: many }, (_, n) => ({
          dn: `cn=long-${n},${PEOPLE}`,
          values: { objectClass: 'inetOrgPerson', cn: `long-${n}`, sn: `long-${n}` },
        })),
      );
      await fixture.partition.addIndex('sn', { substring: true });
      await fixture.partition.buildIndexes();
      const { recentCounts: recent } = fixture.partition.context.shared.indexes;
      const table = indexTable('2.5.4.4').name;
      const grams = ['lon', 'ong', 'ng-', 'g-1', '-12'].map((text) => gramPrefix(Buffer.from(text), 0));
      const tell = (told: number): void => {
        for (const gram of grams) {
          recent.get(table, gram);
          recent.set(table, gram, told);
        }
      };
      for (const told of [0, 3, 1500, 1e6]) {
        tell(told);
        expect(await fixture.find('(sn=*long-*)'), String(told)).to.have.length(many);
        expect(await fixture.find('(sn=*long-12*)'), String(told)).to.have.length(many > 100 ? 111 : 1);
      }
      // The number of candidates, by which a search is judged, is of now.
      tell(2);
      const { compiler, shared, membersOf } = fixture.partition.context;
      const { filter, viewer } = fixture.params({ filter: '(sn=*long-*)' });
      const asking = { indexes: shared.indexes, reader: fixture.store, membersOf };
      const chosen = await planIndexes(compiler.compile(filter, viewer).filter, asking);
      expect(chosen?.count).to.equal(many);
    });
  });
}
