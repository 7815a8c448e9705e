import { expect } from 'chai';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { isOutsideDates } from '../../src/server/passwords/account-status.js';
import {
  addValue,
  emptyAccount,
  mustChange,
  type RowAccount,
  warningSeconds,
  withShadow,
} from '../../src/server/passwords/row-account.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, attributes, CHEAP, personAttributes, personDn, type Running, start, testSchema } from './directory.js';
import { RawClient } from './raw-client.js';
import { texts } from './suite/directory.js';
import { POLICY_CONTROL, policyError, policyTold } from './suite/password-policy.js';

const DAY = 86_400_000;

/** An account with these attributes, read in this order. */
function account(values: Readonly<Record<string, string>>, names = Object.keys(values)) {
  const add = (known: RowAccount, name: string) => addValue(known, name.toLowerCase(), Buffer.from(values[name]!));
  return withShadow(names.reduce(add, emptyAccount() as RowAccount));
}

describe('server: attributes of shadow(5)', () => {
  // As check_shadow_expiry of pam_unix has it: day 100 is the last change, day 110 the last valid one.
  const aged = { shadowLastChange: '100', shadowMax: '10' };
  const cases: readonly (readonly [Readonly<Record<string, string>>, day: number, 'good' | 'change' | 'closed'])[] = [
    [aged, 110, 'good'],
    [aged, 111, 'change'],
    [aged, 9999, 'change'],
    [{ ...aged, shadowInactive: '5' }, 115, 'change'],
    [{ ...aged, shadowInactive: '5' }, 116, 'closed'],
    [{ ...aged, shadowInactive: '0' }, 110, 'good'],
    [{ ...aged, shadowInactive: '0' }, 111, 'closed'],
    [{ ...aged, shadowInactive: '-1' }, 116, 'change'],
    [{ ...aged, shadowMax: '0' }, 100, 'good'],
    [{ ...aged, shadowMax: '0' }, 101, 'change'],
    [{ ...aged, shadowMax: '-1' }, 9999, 'good'],
    [{ ...aged, shadowMax: '99999' }, 9999, 'good'],
    [{ shadowLastChange: '0' }, 100, 'change'],
    [{ shadowMax: '10' }, 9999, 'good'],
    [{ ...aged, pwdChangedTime: '19700415235959Z' }, 114, 'good'],
    [{ ...aged, pwdChangedTime: '19700415235959Z' }, 115, 'change'],
    [{ shadowExpire: '100' }, 99, 'good'],
    [{ shadowExpire: '100' }, 100, 'closed'],
    [{ ...aged, shadowExpire: '105', shadowInactive: '5' }, 105, 'closed'],
  ];
  for (const [values, day, wanted] of cases)
    it(`${JSON.stringify(values)} on day ${day}: ${wanted}`, () => {
      const names = Object.keys(values).sort();
      for (const row of [account(values, names), account(values, names.reverse())])
        for (const now of [day * DAY, (day + 1) * DAY - 1]) {
          const stands = isOutsideDates(row, now) ? 'closed' : mustChange(row, now) ? 'change' : 'good';
          expect(stands).to.equal(wanted);
        }
    });

  it('shadowWarning warns so many days before', () => {
    const row = account({ ...aged, shadowWarning: '3' });
    expect(warningSeconds(row, 108 * DAY - 1)).to.equal(undefined);
    expect(warningSeconds(row, 108 * DAY)).to.equal((3 * DAY) / 1000);
    expect(warningSeconds(account(aged), 110 * DAY)).to.equal(undefined);
  });
});

describe('server: shadow accounts', () => {
  const today = Math.floor(Date.now() / DAY);
  let one: Running;
  let admin: RawClient;
  before(async () => {
    one = await start({ ...CHEAP, 'passwords.shadow': true });
    admin = await RawClient.open(one.port);
    expect(await admin.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
  });
  after(async () => {
    admin.close();
    await one.stop();
  });

  async function person(uid: string, more: Readonly<Record<string, string | string[]>>): Promise<string> {
    const all = personAttributes(uid, { userPassword: 'right one', ...more });
    const attributesOfClass = attributes({ objectClass: ['inetOrgPerson', 'shadowAccount'] });
    const entry = [...attributesOfClass, ...all.filter(({ type }) => type !== 'objectClass')];
    await one.partition.add(testSchema().parseDn(personDn(uid)), entry, { dn: ADMIN.dn, system: true });
    return personDn(uid);
  }

  const simpleBind = (dn: string, password: string) =>
    ({
      op: 'bind',
      version: 3,
      name: dn,
      authentication: { method: 'simple', password: Buffer.from(password) },
    }) as const;

  async function change(client: RawClient, next: string) {
    const fields = { userIdentity: undefined, oldPassword: undefined, newPassword: Buffer.from(next) };
    const value = encodePasswordModify(fields);
    return client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value }, [POLICY_CONTROL]);
  }

  /** Days from `today`, the start of the suite, to shadowLastChange: 1 where the day ends while the suite runs. */
  async function daysSinceChange(dn: string): Promise<number> {
    const days = texts(await admin.search(dn, { attributes: ['*'] }), 'shadowLastChange');
    return Number(days![0]) - today;
  }

  it('shadowLastChange 0, and a password past shadowMax, have to be changed, which writes shadowLastChange', async () => {
    const reset = await person('reset', { userPassword: '{CLEARTEXT}right one', shadowLastChange: '0' });
    const aged = await person('aged', {
      userPassword: '{CLEARTEXT}right one',
      shadowLastChange: String(today - 31),
      shadowMax: '30',
    });
    for (const dn of [reset, aged]) {
      const client = await RawClient.open(one.port);
      const answer = await client.request(simpleBind(dn, 'right one'), [POLICY_CONTROL]);
      expect([answer.code, policyTold(answer)], dn).to.deep.equal([0, policyError(2)]);
      expect((await client.search(dn, {})).code).to.equal(50);
      expect((await change(client, 'another one')).code).to.equal(0);
      expect(await daysSinceChange(dn)).to.be.oneOf([0, 1]);
      expect((await client.search(dn, {})).code).to.equal(0);
      client.close();
    }
  });

  it('shadowMin holds for owners, shadowWarning is told, and a reset writes shadowLastChange', async () => {
    const dn = await person('young', {
      userPassword: '{CLEARTEXT}right one',
      shadowLastChange: String(today),
      shadowMin: '2',
      shadowMax: '3',
      shadowWarning: '5',
    });
    const client = await RawClient.open(one.port);
    const bound = await client.request(simpleBind(dn, 'right one'), [POLICY_CONTROL]);
    const told = policyTold(bound)!;
    // SEQUENCE, [0] warning, [0] timeBeforeExpiration.
    expect([bound.code, told[2], told[4]]).to.deep.equal([0, 0xa0, 0x80]);
    const seconds = told.readUIntBE(6, told[5]!);
    expect(Math.ceil(seconds / 86_400), 'today and three days more').to.be.oneOf([3, 4]);
    const refused = await change(client, 'another one');
    expect([refused.code, policyTold(refused)]).to.deep.equal([19, policyError(7)]);
    client.close();
    const replace = {
      operation: 'replace',
      attribute: { type: 'userPassword', values: [Buffer.from('next one')] },
    } as const;
    expect((await admin.request({ op: 'modify', dn, changes: [replace] })).code).to.equal(0);
    expect(await daysSinceChange(dn)).to.be.oneOf([0, 1]);
  });

  it('a change without a policy makes a pwdChangedTime from elsewhere new', async () => {
    const values = { userPassword: '{CLEARTEXT}right one', pwdChangedTime: '20200101000000Z', shadowMax: '30' };
    const dn = await person('moved', values);
    const client = await RawClient.open(one.port);
    expect(policyTold(await client.request(simpleBind(dn, 'right one'), [POLICY_CONTROL]))).to.deep.equal(
      policyError(2),
    );
    expect((await change(client, 'another one')).code).to.equal(0);
    const empty = Buffer.from('3000', 'hex');
    const again = await client.request(simpleBind(dn, 'another one'), [POLICY_CONTROL]);
    expect([again.code, policyTold(again)]).to.deep.equal([0, empty]);
    client.close();
  });

  it('a reset that writes shadowLastChange itself demands a change', async () => {
    const dn = await person('told', { shadowLastChange: String(today) });
    const replace = (type: string, value: string) =>
      ({ operation: 'replace', attribute: { type, values: [Buffer.from(value)] } }) as const;
    const changes = [replace('userPassword', 'right one'), replace('shadowLastChange', '0')];
    expect((await admin.request({ op: 'modify', dn, changes })).code).to.equal(0);
    const client = await RawClient.open(one.port);
    const bound = await client.request(simpleBind(dn, 'right one'), [POLICY_CONTROL]);
    expect([bound.code, policyTold(bound)]).to.deep.equal([0, policyError(2)]);
    client.close();
  });

  it('a change in the time to come forbids no other', async () => {
    const dn = await person('ahead', { userPassword: '{CLEARTEXT}right one', shadowLastChange: String(today + 1000) });
    const client = await RawClient.open(one.port);
    expect(await client.bind(dn, 'right one')).to.equal(0);
    expect((await change(client, 'another one')).code).to.equal(0);
    client.close();
  });

  it('attributes count in any spelling', async () => {
    const dn = await person('loud', {
      userPassword: '{CLEARTEXT}right one',
      SHADOWMAX: '30',
      shadowlastchange: String(today - 31),
    });
    const client = await RawClient.open(one.port);
    const bound = await client.request(simpleBind(dn, 'right one'), [POLICY_CONTROL]);
    expect([bound.code, policyTold(bound)]).to.deep.equal([0, policyError(2)]);
    client.close();
  });
});
