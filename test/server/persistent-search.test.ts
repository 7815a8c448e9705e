import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import { writeSequence } from '../../src/protocol/asn1.js';
import type { Control, ResponseMessage } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { Reader } from '../../src/protocol/reader.js';
import { BOOLEAN, INTEGER, OCTET_STRING, SEQUENCE } from '../../src/protocol/tags.js';
import {
  ADMIN,
  addPerson,
  attributes,
  PEOPLE,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient, searchRequest, simpleBind } from './raw-client.js';

const ACTOR = { dn: ADMIN.dn };

function control(changeTypes: number, changesOnly: boolean, returnECs: boolean): Control {
  const value = writeSequence((writer) => {
    writer.integer(INTEGER, changeTypes);
    writer.boolean(BOOLEAN, changesOnly);
    writer.boolean(BOOLEAN, returnECs);
  });
  return { oid: ControlOid.persistentSearch, critical: true, value };
}

/** `TYPE DN`, with the previous DN of a rename; the DN alone without the control. */
function shown(message: ResponseMessage | undefined): string {
  const { response, controls = [] } = message!;
  if (response.op !== 'searchEntry') return response.op;
  const value = controls.find(({ oid }) => oid === ControlOid.entryChange)?.value;
  if (!value) return response.dn;
  const reader = new Reader(value, 0, value.length);
  reader.enter(SEQUENCE, 'change');
  const type = reader.enumerated('type', 8);
  const previous = reader.peek() === OCTET_STRING ? ` from ${reader.text('previousDN')}` : '';
  expect(reader.integer('changeNumber')).to.be.greaterThan(0);
  return `${type} ${response.dn}${previous}`;
}

describe('server: persistent search', () => {
  let running: Running;
  const clients: RawClient[] = [];
  const parse = (dn: string) => testSchema().parseDn(dn);

  before(async () => {
    running = await start({ 'limits.requestsInFlight': 4, 'limits.followedSearches': 6 }, 2);
  });
  after(() => running.stop());
  afterEach(() => {
    for (const client of clients.splice(0)) client.close();
  });

  async function connect(dn = ADMIN.dn, password = ADMIN.password): Promise<RawClient> {
    const client = await RawClient.open(running.port);
    clients.push(client);
    expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  /** Waits until the search follows: it tells of a change that is made again and again. */
  async function take(client: RawClient, id: number, count: number): Promise<string[]> {
    const taken: string[] = [];
    while (taken.length < count) taken.push(shown(await client.take(id)));
    return taken;
  }

  const modify = (dn: string, type: string, value: string): Promise<void> =>
    running.partition.modify(
      parse(dn),
      [{ operation: 'replace', attribute: { type, values: [Buffer.from(value)] } }],
      ACTOR,
    );

  it('sends entries at first, and then each change with its kind', async () => {
    const client = await connect();
    const id = client.send(searchRequest(PEOPLE, { scope: 'one', deref: 'always' }), [control(15, false, true)]);
    expect((await take(client, id, 2)).sort()).to.deep.equal([personDn('p0'), personDn('p1')]);
    await addPerson(running.partition, 'x1', { jpegPhoto: 'x'.repeat(70_000) });
    await modify(personDn('x1'), 'l', 'here');
    await running.partition.rename(
      parse(personDn('x1')),
      { newRdn: 'uid=x2', deleteOldRdn: true, newSuperior: undefined },
      ACTOR,
    );
    await running.partition.delete(parse(personDn('x2')), ACTOR);
    const told = await take(client, id, 1);
    // An entry is sent as it is now; one that is gone by then is told by its deletion alone.
    while (told.at(-1) !== `2 ${personDn('x2')}`) told.push(...(await take(client, id, 1)));
    expect(told.every((text) => /^(?:1|2|4|8) /.test(text))).to.equal(true);
  });

  it('tells of adds, modifies and renames one by one', async () => {
    const client = await connect();
    const id = client.send(searchRequest(PEOPLE, { scope: 'sub' }), [control(15, true, true)]);
    await client.search('');
    await addPerson(running.partition, 'y1');
    expect(await take(client, id, 1)).to.deep.equal([`1 ${personDn('y1')}`]);
    await modify(personDn('y1'), 'l', 'here');
    expect(await take(client, id, 1)).to.deep.equal([`4 ${personDn('y1')}`]);
    await running.partition.rename(
      parse(personDn('y1')),
      { newRdn: 'uid=y2', deleteOldRdn: true, newSuperior: undefined },
      ACTOR,
    );
    expect(await take(client, id, 1)).to.deep.equal([`8 ${personDn('y2')} from ${personDn('y1')}`]);
    await running.partition.delete(parse(personDn('y2')), ACTOR);
    expect(await take(client, id, 1)).to.deep.equal([`2 ${personDn('y2')}`]);
    client.send({ op: 'abandon', target: id });
    expect((await client.search(SUFFIX)).code).to.equal(0);
  });

  it('tells the previous name of a rename only to whoever may see the entry under it', async () => {
    const { partition } = running;
    const unit = attributes({ objectClass: 'organizationalUnit', ou: 'hidden' });
    await partition.add(parse(`ou=hidden,${SUFFIX}`), unit, ACTOR);
    await partition.setAccess(
      `${PRESETS['users-read']}
  - name: a branch is hidden
    who: { users: true }
    to: { subtree: "ou=hidden,${SUFFIX}", attributes: ["*", "+", entry] }
    deny: [view]
`,
      'test',
      partition.accessVersion,
    );
    await addPerson(partition, 'w1');
    const user = await connect(personDn('p0'), 'secret-0');
    const id = user.send(searchRequest(PEOPLE, { scope: 'sub' }), [control(8, true, true)]);
    await user.search('');
    const move = (dn: string, rdn: string, newSuperior?: string): Promise<void> =>
      partition.rename(parse(dn), { newRdn: rdn, deleteOldRdn: true, newSuperior }, ACTOR);
    await move(personDn('w1'), 'uid=w2');
    expect(await take(user, id, 1)).to.deep.equal([`8 ${personDn('w2')} from ${personDn('w1')}`]);
    await move(personDn('w2'), 'uid=w3', `ou=hidden,${SUFFIX}`);
    await move(`uid=w3,ou=hidden,${SUFFIX}`, 'uid=w4', PEOPLE);
    // An entry is sent as it is now, so that the first move may be told, too.
    const told = await take(user, id, 1);
    while (told.at(-1) !== `8 ${personDn('w4')}`) told.push(...(await take(user, id, 1)));
    expect(told.join()).to.not.contain('w3');
  });

  it('only of the kinds that are asked for, within scope and filter, and without the control', async () => {
    const client = await connect();
    const filter = { type: 'equal', attribute: 'l', value: Buffer.from('here') } as const;
    const id = client.send(searchRequest(PEOPLE, { scope: 'sub', filter }), [control(4 + 2, true, false)]);
    await client.search('');
    await addPerson(running.partition, 'z1', { l: 'here' });
    await addPerson(running.partition, 'z2', { l: 'there' });
    await modify(personDn('z2'), 'mail', 'z2@example.com');
    await running.partition.delete(parse(personDn('z2')), ACTOR);
    await modify(personDn('z1'), 'mail', 'z1@example.com');
    expect(await take(client, id, 1)).to.deep.equal([personDn('z1')]);
    await running.partition.delete(parse(personDn('z1')), ACTOR);
    expect(await take(client, id, 1)).to.deep.equal([personDn('z1')]);
  });

  it('a connection is read however many follow, and whatever memory is left', async () => {
    const { requestBudget, services } = running.server;
    const count = (): number => [...services.followedSearches.values()].reduce((total, one) => total + one, 0);
    const client = await connect();
    const ids = Array.from({ length: 6 }, () => client.send(searchRequest(PEOPLE), [control(15, true, true)]));
    expect((await client.search(SUFFIX)).code).to.equal(0);
    while (requestBudget.usedBytes > 0) await new Promise(setImmediate);
    const { freeBytes } = requestBudget;
    requestBudget.reserve(freeBytes);
    try {
      expect((await client.search(SUFFIX)).code).to.equal(0);
      const refused = await client.search(PEOPLE, {}, [control(15, true, true)]);
      expect([refused.code, refused.final.message]).to.deep.equal([
        11,
        '6 searches of this user wait for changes; no more are allowed (limits.followedSearches)',
      ]);
      client.send({ op: 'abandon', target: ids[0]! });
      while (count() === 6) await new Promise(setImmediate);
      client.send(searchRequest(PEOPLE), [control(15, true, true)]);
      expect((await client.search(SUFFIX)).code).to.equal(0);
      client.close();
      while (services.statistics.connectionsCurrent > 0) await new Promise(setImmediate);
      while (count() > 0) await new Promise(setImmediate);
    } finally {
      requestBudget.release(freeBytes);
    }
  });

  it('a bind ends it, malformed values are refused', async () => {
    const client = await connect();
    const id = client.send(searchRequest(PEOPLE), [control(15, true, true)]);
    await client.search('');
    const bind = client.send(simpleBind(ADMIN.dn, ADMIN.password));
    expect((await client.answer(id)).code).to.equal(118);
    expect((await client.answer(bind)).code).to.equal(0);
    for (const value of [undefined, Buffer.from([0x30, 0]), Buffer.from([0x30, 3, 2, 1, 1]), Buffer.from('nonsense')])
      expect(
        (await client.search(PEOPLE, {}, [{ oid: ControlOid.persistentSearch, critical: true, value }])).code,
      ).to.equal(2);
    expect((await client.search('cn=Monitor', {}, [control(15, true, true)])).code).to.equal(53);
  });
});
