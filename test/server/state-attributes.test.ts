import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { NO_STATE } from '../../src/partition/model/account-state.js';
import { generalizedTimeMs } from '../../src/schema/time.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient } from './raw-client.js';
import { texts } from './suite/directory.js';

const POLICY = `cn=policy,${SUFFIX}`;
const SYSTEM = { dn: ADMIN.dn, system: true };
const RULES = `rules:
  - { name: users read, who: { users: true }, allow: [view] }
  - { name: not how often others failed, who: { users: true, not: { self: true } }, to: { attributes: [pwdFailureTime, pwdAccountLockedTime] }, deny: [view] }
`;

describe('server: attributes of account states', () => {
  let one: Running;
  let admin: RawClient;
  before(async () => {
    one = await start({ ...CHEAP, 'passwords.policy': POLICY }, 1, undefined, RULES);
    await add(POLICY, {
      objectClass: ['device', 'pwdPolicy'],
      cn: 'policy',
      pwdAttribute: 'userPassword',
      pwdLockout: 'TRUE',
      pwdMaxFailure: '3',
      pwdMaxAge: '1000',
      pwdGraceAuthNLimit: '3',
      pwdMaxIdle: '1000000000',
    });
    admin = await RawClient.open(one.port);
    expect(await admin.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
  });
  after(async () => {
    admin.close();
    await one.stop();
  });

  const add = (dn: string, values: Readonly<Record<string, string | readonly string[]>>) =>
    one.partition.add(testSchema().parseDn(dn), attributes(values), SYSTEM);

  async function person(uid: string, more: Readonly<Record<string, string | string[]>>): Promise<string> {
    const all = personAttributes(uid, { userPassword: '{CLEARTEXT}right', ...more });
    await one.partition.add(testSchema().parseDn(personDn(uid)), all, SYSTEM);
    return personDn(uid);
  }

  async function bind(dn: string, password: string): Promise<number> {
    const client = await RawClient.open(one.port);
    const code = await client.bind(dn, password);
    client.close();
    return code;
  }

  async function told(dn: string, type: string, asking = [type], client = admin): Promise<string[]> {
    return texts(await client.search(dn, { attributes: asking }), type) ?? [];
  }

  it('what an import brought is told until binds leave something behind', async () => {
    const brought = ['20260101000000Z', '20260102000000Z'];
    const dn = await person('brought', { pwdFailureTime: brought, pwdLastSuccess: '20260101000000Z' });
    expect(await told(dn, 'pwdFailureTime')).to.have.members(brought);
    expect(await bind(dn, 'right')).to.equal(0);
    expect(await told(dn, 'pwdFailureTime')).to.deep.equal([]);
    expect(await told(dn, 'pwdFailureTime', ['+'])).to.deep.equal([]);
    const [last, ...others] = await told(dn, 'pwdLastSuccess', ['+']);
    expect([last! > '20260102', others]).to.deep.equal([true, []]);
    expect(await bind(dn, 'wrong')).to.equal(49);
    expect(await told(dn, 'pwdFailureTime', ['*', '+'])).to.have.length(1);
    const answer = await admin.search(dn, { attributes: ['pwdFailureTime', 'cn'], typesOnly: true });
    const [entry] = answer.entries;
    expect([...entry!.attributes].map(([type, values]) => [type, values.length])).to.have.deep.members([
      ['cn', 0],
      ['pwdFailureTime', 0],
    ]);
  });

  it('grace logins, and a lock that failures made beside one of the administrator, which comes first', async () => {
    const dn = await person('grace', { pwdChangedTime: '20200101000000Z' });
    expect(await bind(dn, 'right')).to.equal(0);
    expect(await told(dn, 'pwdGraceUseTime')).to.have.length(1);
    for (let i = 0; i < 3; i++) expect(await bind(dn, 'wrong')).to.equal(49);
    const failures = await told(dn, 'pwdFailureTime');
    expect(failures).to.have.length(3);
    const [locked] = await told(dn, 'pwdAccountLockedTime');
    expect(locked, 'the time of the last failure').to.equal(failures.at(-1)!.replace(/000Z$/, 'Z'));
    const values = [Buffer.from('20260101000000Z')];
    const change = { operation: 'add', attribute: { type: 'pwdAccountLockedTime', values } } as const;
    await one.partition.modify(testSchema().parseDn(dn), [change], SYSTEM);
    expect(await told(dn, 'pwdAccountLockedTime', ['+'])).to.deep.equal(['20260101000000Z']);
  });

  it('are for who may read them, and compare them', async () => {
    const dn = await person('ruled', {});
    expect(await bind(dn, 'wrong')).to.equal(49);
    const [time] = await told(dn, 'pwdFailureTime');
    const other = await RawClient.open(one.port);
    expect(await other.bind(personDn('p0'), 'secret-0')).to.equal(0);
    const compare = { op: 'compare', dn, attribute: 'pwdFailureTime', value: Buffer.from(time!) } as const;
    for (const asking of ['pwdFailureTime', '+'])
      expect(await told(dn, 'pwdFailureTime', [asking], other)).to.deep.equal([]);
    expect((await other.request(compare)).code).to.equal(50);
    expect(await told(personDn('p0'), 'pwdLastSuccess', ['+'], other), 'other attributes').to.have.length(1);
    expect(await other.bind(dn, 'right')).to.equal(0);
    expect(await bind(dn, 'wrong')).to.equal(49);
    expect(await told(dn, 'pwdFailureTime', ['+'], other), 'of their own').to.have.length(1);
    other.close();
  });

  it('a lock of failed binds is found by filters, and deleted by its value', async () => {
    const dn = await person('filtered', {});
    const find = async (filter: string, client = admin) => {
      const { entries } = await client.search(SUFFIX, {
        scope: 'sub',
        filter: parseFilter(`(&(uid=filtered)${filter})`),
      });
      return entries.length;
    };
    expect(await find('(!(pwdAccountLockedTime=*))')).to.equal(1);
    for (let i = 0; i < 3; i++) expect(await bind(dn, 'wrong')).to.equal(49);
    const [time] = await told(dn, 'pwdAccountLockedTime');
    for (const filter of ['=*', '>=20260101000000Z', `=${time}`])
      expect(await find(`(pwdAccountLockedTime${filter})`), filter).to.equal(1);
    expect(await find('(!(pwdAccountLockedTime=*))')).to.equal(0);
    expect(await find('(pwdAccountLockedTime<=20260101000000Z)')).to.equal(0);
    const other = await RawClient.open(one.port);
    expect(await other.bind(personDn('p0'), 'secret-0')).to.equal(0);
    for (const filter of ['(pwdAccountLockedTime=*)', '(!(pwdAccountLockedTime=*))'])
      expect(await find(filter, other), 'of one who may not search by it').to.equal(0);
    other.close();
    const unlock = async (value: string, type = 'pwdAccountLockedTime') => {
      const attribute = { type, values: [Buffer.from(value)] };
      return (await admin.request({ op: 'modify', dn, changes: [{ operation: 'delete', attribute }] })).code;
    };
    expect(await unlock('20260101000000Z')).to.equal(16);
    expect(await unlock(time!, 'pwdAccountLockedTime;lang-de'), 'with an option').to.equal(16);
    expect(await bind(dn, 'right')).to.equal(49);
    expect(await unlock(time!)).to.equal(0);
    expect(await find('(pwdAccountLockedTime=*)')).to.equal(0);
    expect(await told(dn, 'pwdFailureTime')).to.deep.equal([]);
    expect(await bind(dn, 'right')).to.equal(0);
  });

  it('a lock of an earlier version, which has an end alone, has a time', async () => {
    const policy = `cn=quarter of an hour,${SUFFIX}`;
    const numbers = { pwdLockout: 'TRUE', pwdMaxFailure: '3', pwdLockoutDuration: '900' };
    await add(policy, {
      objectClass: ['device', 'pwdPolicy'],
      cn: 'quarter of an hour',
      pwdAttribute: 'userPassword',
      ...numbers,
    });
    const dn = await person('earlier', { pwdPolicySubentry: policy });
    const { id } = (await one.partition.findRow(testSchema().parseDn(dn)))!;
    const lockedUntil = Date.UTC(2100, 0, 1);
    await one.partition.changeAccountState(id, () => ({ ...NO_STATE, lockedUntil }));
    const [time] = await told(dn, 'pwdAccountLockedTime');
    expect(generalizedTimeMs(Buffer.from(time!))).to.equal(lockedUntil - 900_000);
  });
});
