import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import type { Partition } from '../../src/partition/index.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ABORTED_TRANSACTION, ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { change, ENGINES, openStore } from '../partition/fixture.js';
import { abortedIdentifier, ClientTransaction, failedId, modifyRequest } from './client-transaction.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { type Answer, RawClient } from './raw-client.js';

const IN_HBASE = 120_000;
const GROUP = `cn=group,${SUFFIX}`;
const WRITERS = `cn=writers,${SUFFIX}`;
/** User p0 may join and leave the group whose members may write descriptions. */
const RULES = `rules:
  - { name: all read, who: { users: true }, allow: [view] }
  - { name: writers, who: { group: "${WRITERS}" }, to: { attributes: [description] }, allow: [write] }
  - { name: joins, who: { dn: "${personDn('p0')}" }, to: { attributes: [member] }, allow: [write] }
`;

for (const engine of ENGINES) {
  describe(`server: transactions (${engine})`, function () {
    this.timeout(IN_HBASE);
    let running: Running;
    let partition: Partition;
    let client: RawClient;
    const clients: RawClient[] = [];

    before(async () => {
      const { store } = await openStore(engine);
      partition = await emptyPartition(store, RULES);
      await fill(partition, 3);
      await partition.addIndex('employeeNumber');
      await partition.buildIndexes();
      await partition.addUnique({ attributes: ['employeeNumber'], subtree: SUFFIX });
      await partition.finishUnique();
      await partition.setNumbers('uidNumber', 7000, 7999);
      const group = attributes({ objectClass: 'groupOfNames', cn: 'writers', member: SUFFIX });
      await partition.add(testSchema().parseDn(WRITERS), group, { dn: ADMIN.dn });
      running = await start(CHEAP, 0, partition);
    });
    after(async () => {
      await running.stop();
      await partition.close();
    });
    beforeEach(async () => {
      client = await connect();
    });
    afterEach(async () => {
      for (const one of clients.splice(0)) one.close();
      const breaches: unknown[] = [];
      await partition.check((breach) => breaches.push(breach));
      expect(breaches).to.deep.equal([]);
    });

    async function connect(dn = ADMIN.dn, password = ADMIN.password): Promise<RawClient> {
      const made = await RawClient.open(running.port);
      clients.push(made);
      expect(await made.bind(dn, password)).to.equal(0);
      return made;
    }

    const addRequest = (uid: string, extra: Record<string, string | string[]> = {}): Request => ({
      op: 'add',
      dn: personDn(uid),
      attributes: personAttributes(uid, extra),
    });
    const deleteRequest = (dn: string): Request => ({ op: 'delete', dn });
    const modify = (uid: string, ...changes: Modification[]): Request => modifyRequest(personDn(uid), ...changes);

    async function exists(dn: string): Promise<boolean> {
      return (await client.search(dn)).entries.length === 1;
    }

    async function valuesOf(dn: string, type: string): Promise<string[]> {
      const { entries } = await client.search(dn, { attributes: [type] });
      return (entries[0]?.attributes.get(type) ?? []).map(String);
    }

    /** Expects that the operation at `place` has failed, and nothing is changed. */
    function expectFailure(answer: Answer, transaction: ClientTransaction, place: number, code: number): void {
      expect(answer.final.code, answer.final.message).to.equal(code);
      expect(failedId(answer)).to.equal(transaction.ids[place]);
    }

    it('carries out operations of all kinds, each of which sees those before it', async () => {
      const transaction = await ClientTransaction.begin(client);
      const box = `ou=box,${SUFFIX}`;
      const objectClass = ['groupOfNames'];
      await transaction.add({
        op: 'add',
        dn: box,
        attributes: attributes({ objectClass: 'organizationalUnit', ou: 'box' }),
      });
      await transaction.add(addRequest('t1'));
      await transaction.add(modify('t1', change('add', 'mail', 't1@example.com')));
      await transaction.add({
        op: 'add',
        dn: GROUP,
        attributes: attributes({ objectClass, cn: 'group', member: personDn('t1') }),
      });
      await transaction.add({
        op: 'modifyDN',
        dn: personDn('t1'),
        newRdn: 'uid=t2',
        deleteOldRdn: true,
        newSuperior: box,
      });
      await transaction.add(modifyRequest(`uid=t2,${box}`, change('replace', 'mail', 't2@example.com')));
      await transaction.add(modify('p0', change('replace', 'description', 'one')));
      await transaction.add(modify('p0', change('delete', 'description', 'one'), change('add', 'description', 'two')));
      await transaction.add(addRequest('t3'));
      await transaction.add(deleteRequest(personDn('t3')));
      expect(await exists(box), 'nothing is done before the end').to.equal(false);
      await transaction.commit();
      expect(await valuesOf(`uid=t2,${box}`, 'mail')).to.deep.equal(['t2@example.com']);
      expect(await valuesOf(personDn('p0'), 'description')).to.deep.equal(['two']);
      expect(await exists(personDn('t3'))).to.equal(false);
      expect(await valuesOf(GROUP, 'member')).to.deep.equal([`uid=t2,${box}`]);
      for (const dn of [GROUP, `uid=t2,${box}`, box])
        expect((await client.request(deleteRequest(dn))).code).to.equal(0);
    });

    it('changes nothing when an operation fails, and names it', async () => {
      const failures: [Request, number][] = [
        [addRequest('p1'), 68],
        [deleteRequest(personDn('nobody')), 32],
        [modify('p1', change('delete', 'mail', 'none@example.com')), 16],
        [modify('p1', change('add', 'noSuchThing', 'x')), 17],
        [modify('p1', change('delete', 'sn')), 65],
        [deleteRequest(SUFFIX), 66],
        [{ op: 'modifyDN', dn: personDn('p1'), newRdn: 'uid=p2', deleteOldRdn: true, newSuperior: undefined }, 68],
      ];
      for (const [request, code] of failures) {
        const transaction = await ClientTransaction.begin(client);
        await transaction.add(addRequest('lost'));
        await transaction.add(modify('p1', change('replace', 'description', 'lost')));
        await transaction.add(request);
        await transaction.add(addRequest('later'));
        expectFailure(await transaction.end(), transaction, 2, code);
        expect(await exists(personDn('lost'))).to.equal(false);
        expect(await valuesOf(personDn('p1'), 'description')).to.deep.equal([]);
      }
    });

    it('aborts a transaction when the client asks for it, binds again, or ends its connection', async () => {
      const aborted = await ClientTransaction.begin(client);
      await aborted.add(addRequest('aborted'));
      expect((await aborted.end(false)).code).to.equal(0);
      expect((await aborted.end()).code, 'it is over').to.equal(53);
      expect((await aborted.send(addRequest('aborted'))).code).to.equal(53);

      const bound = await ClientTransaction.begin(client);
      await bound.add(addRequest('aborted'));
      expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
      expect((await bound.end()).code).to.equal(53);

      const other = await connect();
      const left = await ClientTransaction.begin(other);
      await left.add(addRequest('aborted'));
      other.close();
      const stolen = new ClientTransaction(await connect(), left.identifier);
      expect((await stolen.end()).code, 'it belongs to another connection').to.equal(53);
      expect(await exists(personDn('aborted'))).to.equal(false);
    });

    it('keeps several transactions of one connection apart', async () => {
      const [first, second] = [await ClientTransaction.begin(client), await ClientTransaction.begin(client)];
      await first.add(modify('p1', change('add', 'description', 'first')));
      await second.add(modify('p1', change('add', 'description', 'second')));
      expect((await client.request(modify('p1', change('add', 'description', 'alone')))).code).to.equal(0);
      await second.commit();
      expect(await valuesOf(personDn('p1'), 'description')).to.have.members(['alone', 'second']);
      await first.commit();
      expect(await valuesOf(personDn('p1'), 'description')).to.have.members(['alone', 'first', 'second']);
      expect((await client.request(modify('p1', change('replace', 'description')))).code).to.equal(0);
    });

    it('commits transactions that others overtake, each on the state that it finds', async () => {
      const entry = {
        objectClass: ['inetOrgPerson', 'posixAccount'],
        uidNumber: '0',
        gidNumber: '1',
        homeDirectory: '/',
      };
      for (const uid of ['even', 'odd']) expect((await client.request(addRequest(uid, entry))).code).to.equal(0);
      const plusOne = change('increment', 'uidNumber', '1');
      const rounds = Array.from({ length: 6 }, async (_, n) => {
        const own = await connect();
        const uids = n % 2 === 0 ? ['even', 'odd'] : ['odd', 'even'];
        for (let round = 0; round < 4; round++) {
          const transaction = await ClientTransaction.begin(own);
          for (const uid of uids) await transaction.add(modify(uid, plusOne));
          await transaction.commit();
        }
      });
      await Promise.all(rounds);
      for (const uid of ['even', 'odd']) {
        expect(await valuesOf(personDn(uid), 'uidNumber')).to.deep.equal(['24']);
        expect((await client.request(deleteRequest(personDn(uid)))).code).to.equal(0);
      }
    });

    it('checks the rights of each operation with the groups that those before it leave', async () => {
      const user = await connect(personDn('p0'), 'secret-0');
      const group = (operation: 'add' | 'delete'): Request =>
        modifyRequest(WRITERS, change(operation, 'member', personDn('p0')));
      const write = (text: string): Request => modify('p1', change('replace', 'description', text));
      expect((await user.request(write('alone'))).code).to.equal(50);
      const joining = await ClientTransaction.begin(user);
      for (const request of [group('add'), write('joined')]) await joining.add(request);
      await joining.commit();
      const leaving = await ClientTransaction.begin(user);
      for (const request of [group('delete'), write('left')]) await leaving.add(request);
      expectFailure(await leaving.end(), leaving, 1, 50);
      expect((await user.request(write('still a member'))).code, 'the trial is forgotten').to.equal(0);
      expect(await valuesOf(personDn('p1'), 'description')).to.deep.equal(['still a member']);
      expect((await client.request(group('delete'))).code).to.equal(0);
      expect((await user.request(write('alone'))).code).to.equal(50);
      expect((await client.request(modify('p1', change('replace', 'description')))).code).to.equal(0);
    });

    it('ends with the operation in which the bound entry is no longer there', async () => {
      expect((await client.request(addRequest('gone', { userPassword: 'secret' }))).code).to.equal(0);
      const user = await connect(personDn('gone'), 'secret');
      const rights = await ClientTransaction.begin(client);
      await rights.add(modifyRequest(WRITERS, change('add', 'member', personDn('gone'))));
      await rights.add(deleteRequest(personDn('gone')));
      const transaction = await ClientTransaction.begin(user);
      await transaction.add(modify('p1', change('replace', 'description', 'gone')));
      await rights.commit();
      user.send({ op: 'extended', oid: ExtendedOid.endTransaction, value: transaction.endValue() });
      expect((await user.notice())?.code, 'a session whose entry is gone').to.equal(8);
      expect(await valuesOf(WRITERS, 'member')).to.deep.equal([SUFFIX]);
    });

    it('adds entries with passwords, and changes no password of an entry', async () => {
      const transaction = await ClientTransaction.begin(client);
      await transaction.add(addRequest('secret', { userPassword: 'a secret' }));
      await transaction.commit();
      const user = await connect(personDn('secret'), 'a secret');
      const refused = await ClientTransaction.begin(client);
      await refused.add(addRequest('refused'));
      const { final } = await refused.send(modify('secret', change('replace', 'userPassword', 'another')));
      expect([final.code, final.message]).to.deep.equal([
        53,
        'passwords are not changed in a transaction; change them alone',
      ]);
      const notice = await client.notice();
      expect(notice).to.include({ oid: ABORTED_TRANSACTION, code: 53 });
      expect((await refused.end()).code).to.equal(53);
      expect(await exists(personDn('refused'))).to.equal(false);
      user.close();
      expect((await client.request(deleteRequest(personDn('secret')))).code).to.equal(0);
    });

    it('refuses the control when it is not critical, malformed, or on an operation that changes nothing', async () => {
      const { control } = await ClientTransaction.begin(client);
      expect((await client.request(addRequest('x'), [{ ...control, critical: false }])).code).to.equal(2);
      expect((await client.request(addRequest('x'), [{ ...control, value: undefined }])).code).to.equal(2);
      expect((await client.request(addRequest('x'), [{ ...control, value: Buffer.from('no') }])).code).to.equal(53);
      expect((await client.search(SUFFIX, {}, [control])).code).to.equal(12);
      const anonymous = await RawClient.open(running.port);
      clients.push(anonymous);
      const start = { op: 'extended', oid: ExtendedOid.startTransaction, value: undefined } as const;
      expect((await anonymous.request(start)).code).to.equal(50);
      const malformed = { op: 'extended', oid: ExtendedOid.endTransaction, value: Buffer.from('30', 'hex') } as const;
      expect((await client.request(malformed)).code).to.equal(2);
    });

    it('tells of changes in the order of the operations', async () => {
      const transaction = await ClientTransaction.begin(client);
      await transaction.add(addRequest('told'));
      await transaction.add(modify('told', change('replace', 'description', 'told')));
      await transaction.add({
        op: 'modifyDN',
        dn: personDn('told'),
        newRdn: 'uid=retold',
        deleteOldRdn: true,
        newSuperior: undefined,
      });
      await transaction.add(deleteRequest(personDn('retold')));
      await transaction.commit();
      const options = { scope: 'one', attributes: ['changeNumber', 'changeType', 'targetDN'] } as const;
      const { entries } = await client.search('cn=changelog', options);
      const changes = entries.slice(-4).map(({ attributes: a }) => `${a.get('changeType')} ${a.get('targetDN')}`);
      const [told, retold] = [personDn('told'), personDn('retold')];
      expect(changes).to.deep.equal([`add ${told}`, `modify ${told}`, `modrdn ${told}`, `delete ${retold}`]);
    });

    it('keeps values unique and gives numbers within a transaction', async () => {
      const entry = { objectClass: ['inetOrgPerson', 'posixAccount'], gidNumber: '1', homeDirectory: '/' };
      const transaction = await ClientTransaction.begin(client);
      await transaction.add(addRequest('n1', { ...entry, uidNumber: 'auto' }));
      await transaction.add(addRequest('n2', { ...entry, uidNumber: 'auto' }));
      await transaction.commit();
      expect(await valuesOf(personDn('n1'), 'uidNumber')).to.deep.equal(['7000']);
      expect(await valuesOf(personDn('n2'), 'uidNumber')).to.deep.equal(['7001']);
      const twice = await ClientTransaction.begin(client);
      await twice.add(deleteRequest(personDn('n1')));
      await twice.add(addRequest('n3', { employeeNumber: '1' }));
      await twice.add(addRequest('n4', { employeeNumber: '1' }));
      expectFailure(await twice.end(), twice, 2, 19);
      const moved = await ClientTransaction.begin(client);
      await moved.add(addRequest('n3', { employeeNumber: '1' }));
      await moved.add(modify('n3', change('delete', 'employeeNumber')));
      await moved.add(addRequest('n4', { employeeNumber: '1' }));
      await moved.commit();
      for (const uid of ['n1', 'n2', 'n3', 'n4'])
        expect((await client.request(deleteRequest(personDn(uid)))).code).to.equal(0);
    });

    it('changes large values, up to a limit', async () => {
      const photo = Buffer.alloc(200_000, 'x').toString();
      const transaction = await ClientTransaction.begin(client);
      await transaction.add(addRequest('large', { jpegPhoto: photo }));
      await transaction.add({
        op: 'modifyDN',
        dn: personDn('large'),
        newRdn: 'uid=larger',
        deleteOldRdn: true,
        newSuperior: undefined,
      });
      await transaction.add(modify('larger', change('replace', 'jpegPhoto', `${photo}y`)));
      await transaction.commit();
      expect(await valuesOf(personDn('larger'), 'jpegPhoto')).to.deep.equal([`${photo}y`]);
      const huge = Buffer.alloc(9 * 1024 * 1024, 'x').toString();
      expect((await client.request(modify('larger', change('replace', 'jpegPhoto', huge)))).code).to.equal(0);
      const refused = await ClientTransaction.begin(client);
      await refused.add(modify('p1', change('replace', 'description', 'lost')));
      await refused.add(deleteRequest(personDn('larger')));
      expectFailure(await refused.end(), refused, 1, 53);
      expect(await valuesOf(personDn('p1'), 'description')).to.deep.equal([]);
      expect((await client.request(deleteRequest(personDn('larger')))).code).to.equal(0);
    });
  });
}

describe('server: transactions of one server', () => {
  let running: Running;
  let client: RawClient;
  before(async () => {
    const limits = {
      'limits.transactionOperations': 3,
      'limits.transactionBytes': 4096,
      'limits.transactionIdleSeconds': 1,
    };
    running = await start({ ...CHEAP, ...limits }, 2, undefined, RULES);
    client = await RawClient.open(running.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  const remove: Request = { op: 'delete', dn: personDn('nobody') };

  it('what a failed transaction has seen of groups is not taken for what they are later', async () => {
    const group = attributes({ objectClass: 'groupOfNames', cn: 'writers', member: [SUFFIX, personDn('p0')] });
    expect((await client.request({ op: 'add', dn: WRITERS, attributes: group })).code).to.equal(0);
    const user = await RawClient.open(running.port);
    expect(await user.bind(personDn('p0'), 'secret-0')).to.equal(0);
    const write = modifyRequest(personDn('p1'), change('replace', 'description', 'text'));
    const leaving = await ClientTransaction.begin(user);
    await leaving.add(modifyRequest(WRITERS, change('delete', 'member', personDn('p0'))));
    await leaving.add(write);
    expect((await leaving.end()).code).to.equal(50);
    // The groups have changed as often as in the transaction.
    const other = modifyRequest(WRITERS, change('add', 'member', personDn('p1')));
    expect((await client.request(other)).code).to.equal(0);
    expect((await user.request(write)).code).to.equal(0);
    user.close();
  });

  it('the root DSE lists the operations and the control', async () => {
    const { entries } = await client.search('', { attributes: ['supportedExtension', 'supportedControl'] });
    const listed = [...entries[0]!.attributes.values()].flat().map(String);
    expect(listed).to.include.members(['1.3.6.1.1.21.1', '1.3.6.1.1.21.2', '1.3.6.1.1.21.3']);
  });

  it('too many operations, and too many bytes, abort a transaction', async () => {
    const many = await ClientTransaction.begin(client);
    for (let n = 0; n < 3; n++) await many.add(remove);
    expect((await many.send(remove)).code).to.equal(11);
    expect(await abortedIdentifier(client)).to.deep.equal(many.identifier);
    const long = await ClientTransaction.begin(client);
    const text = 'x'.repeat(3000);
    await long.add(modifyRequest(personDn('nobody'), change('replace', 'description', text)));
    expect((await long.send(modifyRequest(personDn('nobody'), change('replace', 'description', text)))).code).to.equal(
      11,
    );
    expect(await abortedIdentifier(client)).to.deep.equal(long.identifier);
    for (const { code } of [await many.end(), await long.end()]) expect(code).to.equal(53);
  });

  it('the limits are those of all transactions of a connection', async () => {
    const [one, other] = [await ClientTransaction.begin(client), await ClientTransaction.begin(client)];
    await one.add(remove);
    for (let n = 0; n < 2; n++) await other.add(remove);
    expect((await one.send(remove)).code).to.equal(11);
    expect(await abortedIdentifier(client)).to.deep.equal(one.identifier);
    expect((await other.end(false)).code).to.equal(0);
  });

  it('does not begin as another user', async () => {
    const authzId = Buffer.from(`dn:${personDn('p0')}`);
    const proxied = { oid: ControlOid.proxiedAuthorization, critical: true, value: authzId };
    const start = { op: 'extended', oid: ExtendedOid.startTransaction, value: undefined } as const;
    expect((await client.request(start, [proxied])).code).to.equal(53);
  });

  it('is dropped when the client leaves before its turn', async () => {
    const leaver = await RawClient.open(running.port);
    expect(await leaver.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const sent = await Promise.all(Array.from({ length: 16 }, () => ClientTransaction.begin(leaver)));
    await sent[0]!.add(modifyRequest(personDn('p0'), change('replace', 'title', 'left')));
    for (const transaction of sent)
      leaver.send({ op: 'extended', oid: ExtendedOid.endTransaction, value: transaction.endValue() }, []);
    leaver.close();
    const after = await ClientTransaction.begin(client);
    await after.add(modifyRequest(personDn('p0'), change('replace', 'title', 'stays')));
    await after.commit();
    const { entries } = await client.search(personDn('p0'), { attributes: ['title'] });
    expect(String(entries[0]!.attributes.get('title'))).to.equal('stays');
  });

  it('a request that is too long to be decoded at once is no part of a transaction', async () => {
    const transaction = await ClientTransaction.begin(client);
    const values = Array.from({ length: 1100 }, (_, n) => `${n}`);
    const { final } = await transaction.send(modifyRequest(personDn('p0'), change('add', 'mail', ...values)));
    const told = 'the request is too long for a transaction; send it alone';
    expect([final.code, final.message]).to.deep.equal([53, told]);
    expect((await transaction.end(false)).code).to.equal(0);
  });

  it('a client that begins and leaves holds nothing', async () => {
    const idle = await ClientTransaction.begin(client);
    await idle.add(remove);
    expect(await abortedIdentifier(client)).to.deep.equal(idle.identifier);
    expect((await idle.end()).code).to.equal(53);
  });

  it('a connection has a limited number of transactions', async () => {
    const open = await Promise.all(Array.from({ length: 16 }, () => ClientTransaction.begin(client)));
    const start = { op: 'extended', oid: ExtendedOid.startTransaction, value: undefined } as const;
    expect((await client.request(start)).code).to.equal(11);
    for (const transaction of open) expect((await transaction.end(false)).code).to.equal(0);
  });
});
