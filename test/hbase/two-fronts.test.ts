import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { Schema } from '../../src/schema/index.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { addPerson, personDn, read, replace } from '../cli/workers.js';
import { change, Fixture, refused, SUFFIX } from '../partition/fixture.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, attributes, CHEAP, PEOPLE, type Running, start, testSchema } from '../server/directory.js';
import { type Answer, RawClient } from '../server/raw-client.js';
import { borrowTables, returnTables } from './recycled.js';

/** Of no password that anybody knows, and quickly stored. */
const HASHED = '{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';

const ROUNDS = 5;
const OWN_SCHEMA = `dn: cn=own
attributeTypes: ( 1.3.6.1.4.1.99999.1.1 NAME 'shoeSize' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
objectClasses: ( 1.3.6.1.4.1.99999.2.1 NAME 'shod' SUP top AUXILIARY MAY shoeSize )
`;
const uidIs = (uid: string) => ({ type: 'equal', attribute: 'uid', value: Buffer.from(uid) }) as const;

describe('two front ends over one HBase: what one has acknowledged the other honours', () => {
  let settings: HBaseSettings;
  const partitions: Partition[] = [];
  const servers: Running[] = [];
  const clients: RawClient[] = [];
  let a: RawClient;
  let b: RawClient;

  before(async function () {
    settings = await borrowTables(this);
    const first = await openHBaseStore(settings);
    const adminPassword = hashPasswordFast(Buffer.from(ADMIN.password));
    await initDirectory(first, { suffixes: [SUFFIX], adminDn: ADMIN.dn, adminPassword }, testSchema());
    for (const store of [first, await openHBaseStore(settings)]) {
      const partition = await Partition.open(store, testSchema());
      partitions.push(partition);
      servers.push(await start(CHEAP, 0, partition));
    }
    [a, b] = [await admin(0), await admin(1)];
    const suffix = attributes({ objectClass: ['dcObject', 'organization'], dc: 'example', o: 'Example' });
    expect((await a.request({ op: 'add', dn: SUFFIX, attributes: suffix })).code).to.equal(0);
    expect((await addUnit(a, 'people')).code).to.equal(0);
  });
  after(async () => {
    for (const client of clients) client.close();
    for (const server of servers) await server.stop();
    for (const partition of partitions) await partition.close();
    returnTables(settings);
  });

  async function connect(front: number): Promise<RawClient> {
    const client = await RawClient.open(servers[front]!.port);
    clients.push(client);
    return client;
  }

  async function admin(front: number): Promise<RawClient> {
    const client = await connect(front);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    return client;
  }

  const unit = (name: string): string => `ou=${name},${SUFFIX}`;
  function addUnit(client: RawClient, ou: string): Promise<Answer> {
    return client.request({
      op: 'add',
      dn: unit(ou),
      attributes: attributes({ objectClass: 'organizationalUnit', ou }),
    });
  }

  it('a rename, of a subtree too', async () => {
    await addUnit(a, 'one');
    const mover = `uid=mover,${unit('one')}`;
    await addPerson(a, 'mover');
    const move = { op: 'modifyDN', deleteOldRdn: true } as const;
    const moved = await a.request({ ...move, dn: personDn('mover'), newRdn: 'uid=mover', newSuperior: unit('one') });
    expect(moved.code).to.equal(0);
    expect((await b.search(mover)).entries).to.have.length(1);
    for (let round = 0; round < ROUNDS; round++) {
      const [from, to] = round % 2 === 0 ? ['one', 'two'] : ['two', 'one'];
      const [writer, reader] = round % 2 === 0 ? [a, b] : [b, a];
      const renamed = await writer.request({ ...move, dn: unit(from!), newRdn: `ou=${to}`, newSuperior: undefined });
      expect(renamed.code).to.equal(0);
      // The tree's version is a counter, which others see when it is folded. Until then it has its old name, and always
      // one.
      const named = async (): Promise<string> => {
        const found = await reader.search(SUFFIX, { scope: 'sub', filter: uidIs('mover') });
        expect(found.entries.map(({ dn }) => dn)).to.have.length(1);
        return found.entries[0]!.dn;
      };
      for (let dn = await named(); dn !== `uid=mover,${unit(to!)}`; dn = await named())
        expect(dn).to.equal(`uid=mover,${unit(from!)}`);
      expect((await reader.search(`uid=mover,${unit(to!)}`)).entries).to.have.length(1);
      expect((await reader.search(`uid=mover,${unit(from!)}`)).code).to.equal(32);
    }
  });

  it('a change and a delete', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const [writer, reader] = round % 2 === 0 ? [a, b] : [b, a];
      await addPerson(writer, 'brief', 'secret');
      const user = await connect(reader === a ? 0 : 1);
      expect(await user.bind(personDn('brief'), 'secret')).to.equal(0);
      await replace(writer, personDn('brief'), 'description', `${round}`);
      expect(await read(reader, personDn('brief'), 'description')).to.equal(`${round}`);
      expect((await writer.request({ op: 'delete', dn: personDn('brief') })).code).to.equal(0);
      expect((await reader.search(personDn('brief'))).code).to.equal(32);
      const late = await connect(reader === a ? 0 : 1);
      expect(await late.bind(personDn('brief'), 'secret')).to.equal(49);
      user.send({ op: 'extended', oid: ExtendedOid.whoAmI, value: undefined });
      expect((await user.notice())?.code, 'the session of one who is gone').to.equal(8);
    }
  });

  it('a password, remembered or not, and what was bound with the old one', async () => {
    await addPerson(a, 'ann', 'word 0');
    const dn = personDn('ann');
    for (let round = 0; round < ROUNDS; round++) {
      const [here, there] = [await connect(0), await connect(1)];
      expect(await here.bind(dn, `word ${round}`)).to.equal(0);
      expect(await there.bind(dn, `word ${round}`)).to.equal(0);
      const value = encodePasswordModify({
        userIdentity: dn,
        oldPassword: undefined,
        newPassword: Buffer.from(`word ${round + 1}`),
      });
      expect((await a.request({ op: 'extended', oid: ExtendedOid.passwordModify, value })).code).to.equal(0);
      const other = await connect(1);
      expect(await other.bind(dn, `word ${round}`), 'the old one').to.equal(49);
      expect(await other.bind(dn, `word ${round + 1}`), 'the new one').to.equal(0);
      there.send({ op: 'extended', oid: ExtendedOid.whoAmI, value: undefined });
      expect((await there.notice())?.code).to.equal(8);
    }
  });

  it("the administrator's password, suffixes and indexes", async () => {
    const [here, there] = partitions;
    await here!.setAdminPassword(hashPasswordFast(Buffer.from('another')));
    const other = await connect(1);
    expect(await other.bind(ADMIN.dn, ADMIN.password)).to.equal(49);
    expect(await other.bind(ADMIN.dn, 'another')).to.equal(0);
    await here!.setAdminPassword(hashPasswordFast(Buffer.from(ADMIN.password)));
    await here!.addSuffix('o=second');
    const values = attributes({ objectClass: 'organization', o: 'second' });
    const again = await admin(1);
    expect((await again.request({ op: 'add', dn: 'o=second', attributes: values })).code).to.equal(0);
    await here!.addIndex('employeeNumber', {});
    await here!.buildIndexes();
    // A writer that did not know of the index would leave its rows out.
    await replace(again, personDn('ann'), 'employeeNumber', '7');
    const found = await (await admin(0)).search(PEOPLE, {
      scope: 'sub',
      filter: { type: 'equal', attribute: 'employeeNumber', value: Buffer.from('7') },
    });
    expect(found.entries.map(({ dn }) => dn)).to.deep.equal([personDn('ann')]);
    expect(there!.indexes().map(({ attribute }) => attribute)).to.include('employeeNumber');
  });

  it('a schema, once it is started with it; until then it says so of entries that need it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'rowan-schema-'));
    writeFileSync(join(folder, 'own.ldif'), OWN_SCHEMA);
    const store = await openHBaseStore(settings);
    const schema = Schema.load({ extra: [folder] });
    const ahead = new Fixture(store, await Partition.open(store, schema), undefined);
    const behind = new Fixture(partitions[1]!.store, partitions[1]!, undefined);
    try {
      await ahead.person('shod', PEOPLE, { objectClass: ['inetOrgPerson', 'shod'], shoeSize: '43' });
      const dn = `cn=shod,${PEOPLE}`;
      await refused('other', behind.read(dn), /cannot be read/);
      await refused('other', behind.modify(dn, change('replace', 'description', 'd')), /cannot be read/);
      await refused('undefinedAttributeType', behind.person('bare', PEOPLE, { shoeSize: '44' }));
      const started = new Fixture(behind.store, await Partition.open(behind.store, schema), undefined);
      await started.modify(dn, change('replace', 'shoeSize', '44'));
      expect(await started.find('(shoeSize=44)')).to.deep.equal([dn]);
      await started.delete(dn);
    } finally {
      await ahead.close();
      rmSync(folder, { recursive: true });
    }
  });

  it('pages go on at the other', async () => {
    [a, b] = [await admin(0), await admin(1)];
    for (let n = 0; n < 9; n++) await addPerson(a, `page${n}`, HASHED);
    const wanted = (await a.search(PEOPLE, { scope: 'one' })).entries.map(({ dn }) => dn).sort();
    const found: string[] = [];
    let cookie: Buffer = Buffer.alloc(0);
    for (let n = 0; n === 0 || cookie.length > 0; n++) {
      const value = encodePagedResults({ size: 4, cookie });
      const control = { oid: ControlOid.pagedResults, critical: true, value };
      const answer = await (n % 2 === 0 ? a : b).search(PEOPLE, { scope: 'one' }, [control]);
      found.push(...answer.entries.map(({ dn }) => dn));
      cookie = decodePagedResults(answer.controls.find(({ oid }) => oid === ControlOid.pagedResults)?.value).cookie;
    }
    expect(found.sort()).to.deep.equal(wanted);
  });

  it('how many entries a parent has, when front ends come and go beside one that holds its row', async () => {
    const fixture = new Fixture(partitions[0]!.store, partitions[0]!, undefined);
    await fixture.person('held', PEOPLE);
    for (let n = 0; n < 3; n++) {
      const store = await openHBaseStore(settings);
      const guest = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      await guest.person(`guest${n}`, PEOPLE);
      await guest.close();
      await fixture.person(`host${n}`, PEOPLE);
      await fixture.modify(`cn=host${n},${PEOPLE}`, change('replace', 'description', 'd'));
    }
    await fixture.expectClean();
  });
});
