import { expect } from 'chai';
import { generalizedTime } from '../../src/partition/model/csn.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { tlv } from '../protocol/bytes.js';
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
import { RawClient } from './raw-client.js';

const POLICY = `cn=policy,${SUFFIX}`;
const SYSTEM = { dn: ADMIN.dn, system: true };
const CONTROL = { oid: ControlOid.accountUsability, critical: true, value: undefined };
const DAY = 86_400_000;

const ago = (ms: number) => generalizedTime(Date.now() - ms);
const flags = (inactive: number, reset: number, expired: number, ...more: Buffer[]) =>
  tlv(0xa1, tlv(0x80, [inactive]), tlv(0x81, [reset]), tlv(0x82, [expired]), ...more);

describe('server: account usability', () => {
  let server: Running;
  before(async () => {
    server = await start({ 'passwords.policy': POLICY });
    const policy = {
      objectClass: ['device', 'pwdPolicy'],
      cn: 'policy',
      pwdAttribute: 'userPassword',
      pwdMaxAge: '864000',
      pwdLockout: 'TRUE',
      pwdMaxFailure: '2',
      pwdLockoutDuration: '600',
      pwdGraceAuthNLimit: '2',
    };
    const { partition } = server;
    await partition.add(testSchema().parseDn(POLICY), attributes(policy), SYSTEM);
    const userPassword = hashPasswordFast(Buffer.from('right')).toString();
    const users: Record<string, Record<string, string>> = {
      good: { pwdChangedTime: ago(DAY) },
      unknown: {},
      locked: { pwdAccountLockedTime: '000001010000Z' },
      guessed: {},
      reset: { pwdReset: 'TRUE' },
      expired: { pwdChangedTime: ago(20 * DAY) },
      ended: { pwdEndTime: ago(DAY) },
    };
    for (const [uid, more] of Object.entries(users))
      await partition.add(
        testSchema().parseDn(personDn(uid)),
        attributes({ objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid, userPassword, ...more }),
        SYSTEM,
      );
    await addPerson(partition, 'without', {});
    const client = await RawClient.open(server.port);
    for (let i = 0; i < 2; i++) await client.bind(personDn('guessed'), 'wrong');
    expect(await client.bind(personDn('expired'), 'right')).to.equal(0);
    client.close();
  });
  after(() => server.stop());

  async function told(client: RawClient, base: string) {
    const { entries } = await client.search(base, { scope: 'base', attributes: ['1.1'] }, [CONTROL]);
    expect(entries).to.have.length(1);
    const [control, ...more] = entries[0]!.controls;
    expect(more).to.deep.equal([]);
    if (control) expect(control).to.include({ oid: ControlOid.accountUsability, critical: false });
    return control?.value;
  }

  it('account usability is returned for every entry that has a password', async () => {
    const admin = await RawClient.open(server.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
    const of = (uid: string) => told(admin, personDn(uid));
    const good = (await of('good'))!;
    expect(good[0]).to.equal(0x80);
    expect(good.readIntBE(2, good[1]!)).to.be.within(9 * 86_400 - 600, 9 * 86_400);
    expect(await of('unknown')).to.deep.equal(tlv(0x80, [0xff]));
    expect(await of('locked')).to.deep.equal(flags(255, 0, 0));
    expect(await of('ended')).to.deep.equal(flags(255, 0, 0));
    expect(await of('reset')).to.deep.equal(flags(0, 255, 0));
    expect(await of('expired')).to.deep.equal(flags(0, 0, 255, tlv(0x83, [1])));
    const guessed = (await of('guessed'))!;
    const left = guessed.readUInt16BE(guessed.length - 2);
    expect(guessed).to.deep.equal(flags(255, 0, 0, tlv(0x84, [left >> 8, left & 0xff])));
    expect(left).to.be.within(400, 600);
    expect(await of('without')).to.equal(undefined);
    expect(await told(admin, PEOPLE)).to.equal(undefined);
    admin.close();
  });

  it('account usability is returned to users for their own entries only', async () => {
    const user = await RawClient.open(server.port);
    expect(await user.bind(personDn('good'), 'right')).to.equal(0);
    expect((await told(user, personDn('good')))?.[0]).to.equal(0x80);
    expect(await told(user, personDn('locked'))).to.equal(undefined);
    const many = await user.search(PEOPLE, { scope: 'one' }, [CONTROL]);
    expect(many.entries.filter(({ controls }) => controls.length > 0).map(({ dn }) => dn)).to.deep.equal([
      personDn('good'),
    ]);
    user.close();
  });
});
