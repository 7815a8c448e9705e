import { expect } from 'chai';
import { pino } from 'pino';
import { actorFor } from '../../src/dropfolder/identity.js';
import { LdapError, ResultCode } from '../../src/ldap/ldap-error.js';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { costOfHashing } from '../password/cost-of-hashing.js';
import { encodeApplicationPasswords, encodePasswordModify } from '../protocol/client-values.js';
import {
  attributes,
  CHEAP,
  fill,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { type Answer, RawClient } from './raw-client.js';

const IT = `ou=it,${SUFFIX}`;
const ADMIN = `cn=admin,${IT}`;
const OWN = 'set by rowan passwd';
const ENTRYS = 'of the entry';
const POLICY = `cn=policy,${SUFFIX}`;
/** Users may do everything that rules can allow. */
const EVERYTHING = `rules:
- name: users may do everything
  who: { users: true }
  to: { attributes: [entry, children, "*", "+", userPassword] }
  allow: [view, write, create, remove, rename, moveIn, moveOut, manage]
`;

const ROLE = { objectClass: ['organizationalRole', 'simpleSecurityObject'], cn: 'admin' };

function change(operation: Modification['operation'], type: string, ...values: string[]): Modification {
  return { operation, attribute: { type, values: values.map((value) => Buffer.from(value)) } };
}

describe("server: the entry with the administrator's DN", () => {
  let one: Running;
  let partition: Partition;
  const clients: RawClient[] = [];

  beforeEach(async () => {
    const store = openMemoryStore();
    const adminPassword = hashPasswordFast(Buffer.from(OWN));
    const names = { suffixes: [SUFFIX], adminDn: ADMIN, adminPassword, access: EVERYTHING };
    await initDirectory(store, names, testSchema());
    partition = await Partition.open(store, testSchema());
    await fill(partition, 2);
    await partition.add(testSchema().parseDn(IT), attributes({ objectClass: 'organizationalUnit', ou: 'it' }), {
      dn: ADMIN,
    });
    one = await start({ ...CHEAP, 'passwords.policy': POLICY }, 0, partition);
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await one.stop();
    await partition.close();
  });

  async function connect(): Promise<RawClient> {
    const client = await RawClient.open(one.port);
    clients.push(client);
    return client;
  }

  async function boundAs(dn: string, password: string): Promise<RawClient> {
    const client = await connect();
    expect(await client.bind(dn, password), `bind as ${dn}`).to.equal(0);
    return client;
  }

  const bind = async (password: string, dn = ADMIN): Promise<number> => (await connect()).bind(dn, password);
  const add = (client: RawClient, dn: string, values: Parameters<typeof attributes>[0]): Promise<Answer> =>
    client.request({ op: 'add', dn, attributes: attributes(values) });
  const modify = (client: RawClient, dn: string, ...changes: Modification[]): Promise<Answer> =>
    client.request({ op: 'modify', dn, changes });
  const rename = (client: RawClient, dn: string, newRdn: string, newSuperior?: string): Promise<Answer> =>
    client.request({ op: 'modifyDN', dn, newRdn, deleteOldRdn: false, newSuperior });
  const passwordModify = (client: RawClient, newPassword: string, oldPassword?: string, user?: string) =>
    client.request({
      op: 'extended',
      oid: ExtendedOid.passwordModify,
      value: encodePasswordModify({
        userIdentity: user,
        oldPassword: oldPassword === undefined ? undefined : Buffer.from(oldPassword),
        newPassword: Buffer.from(newPassword),
      }),
    });
  const isEnded = (client: RawClient): Promise<boolean> =>
    client.search(SUFFIX).then(
      () => false,
      () => client.closed,
    );
  const whoIs = async (client: RawClient): Promise<string> => {
    const { final } = await client.request({ op: 'extended', oid: ExtendedOid.whoAmI, value: undefined });
    return final.op === 'extendedResponse' ? final.value!.toString() : '';
  };

  async function addAdminEntry(): Promise<RawClient> {
    const admin = await boundAs(ADMIN, OWN);
    const { code, final } = await add(admin, ADMIN, { ...ROLE, userPassword: ENTRYS });
    expect(code, final.message).to.equal(0);
    return admin;
  }

  it('may have a password, and binds as the administrator with it or with the own one', async () => {
    await addAdminEntry();
    for (const [password, code] of [
      [ENTRYS, 0],
      [OWN, 0],
      ['neither', 49],
    ] as const)
      expect(await bind(password), password).to.equal(code);
    const admin = await boundAs(ADMIN.toUpperCase().replaceAll(',', ' , '), ENTRYS);
    expect(await whoIs(admin)).to.equal(`dn:${ADMIN}`);
    expect((await modify(admin, personDn('p0'), change('replace', 'sn', 'New'))).code).to.equal(0);
    for (const [value, code] of [
      [ENTRYS, 6],
      [OWN, 5],
    ] as const)
      expect(
        (await admin.request({ op: 'compare', dn: ADMIN, attribute: 'userPassword', value: Buffer.from(value) })).code,
      ).to.equal(code);
  });

  it('is under no policy: no failure and no lock keeps the administrator out', async () => {
    const admin = await addAdminEntry();
    const policy = { objectClass: ['device', 'pwdPolicy'], cn: 'policy', pwdAttribute: 'userPassword' };
    const lockout = { pwdLockout: 'TRUE', pwdMaxFailure: '1', pwdMaxAge: '1', pwdMustChange: 'TRUE' };
    expect((await add(admin, POLICY, { ...policy, ...lockout })).code).to.equal(0);
    for (let i = 0; i < 3; i++) expect(await bind('wrong')).to.equal(49);
    expect((await modify(admin, ADMIN, change('replace', 'pwdAccountLockedTime', '000001010000Z'))).code).to.equal(0);
    for (const password of [ENTRYS, OWN]) expect(await bind(password)).to.equal(0);
  });

  it('a bind that fails costs what it cost without the entry', async () => {
    const before = await costOfHashing(() => bind('wrong'));
    await addAdminEntry();
    const hashed = hashPasswordFast(Buffer.from(ENTRYS)).toString();
    expect((await modify(await boundAs(ADMIN, OWN), ADMIN, change('replace', 'userPassword', hashed))).code).to.equal(
      0,
    );
    const after = await costOfHashing(() => bind('wrong'));
    expect(after).to.equal(before);
  });

  it('a session ends with the password that it has bound with, and goes on with one that it sets itself', async () => {
    const own = await addAdminEntry();
    const [first, second] = [await boundAs(ADMIN, ENTRYS), await boundAs(ADMIN, ENTRYS)];
    expect((await modify(first, ADMIN, change('replace', 'userPassword', 'another'))).code).to.equal(0);
    expect((await first.search(SUFFIX)).code).to.equal(0);
    expect((await own.search(SUFFIX)).code).to.equal(0);
    expect(await isEnded(second)).to.equal(true);
    expect(await bind(ENTRYS)).to.equal(49);
    expect((await rename(own, ADMIN, 'cn=former')).code).to.equal(0);
    expect(await isEnded(first), 'the entry has another name').to.equal(true);
    expect([await bind('another'), await bind(OWN)]).to.deep.equal([49, 0]);
  });

  it("password modify sets the administrator's own password, and takes either as the old one", async () => {
    await addAdminEntry();
    const admin = await boundAs(ADMIN, ENTRYS);
    expect((await passwordModify(admin, 'x', 'wrong')).code).to.equal(49);
    expect((await passwordModify(admin, 'second own', ENTRYS)).code).to.equal(0);
    expect((await admin.search(SUFFIX)).code).to.equal(0);
    expect([await bind('second own'), await bind(OWN), await bind(ENTRYS)]).to.deep.equal([0, 49, 0]);
  });

  it('no password of an entry with a second factor binds as the administrator', async () => {
    await addAdminEntry();
    const system = { dn: ADMIN, system: true };
    const secret = change('add', 'rowanTotpSecret', 'x');
    await partition.modify(testSchema().parseDn(ADMIN), [secret], system);
    expect([await bind(ENTRYS), await bind(OWN)]).to.deep.equal([49, 0]);
  });

  describe('is given a password by nobody else, whatever rules allow', () => {
    let user: RawClient;
    const P0 = personDn('p0');
    const MESSAGE = "only the administrator may write passwords of the entry with the administrator's DN";
    const NAME = "only the administrator may give an entry the administrator's DN, or a DN above it";

    beforeEach(async () => {
      user = await boundAs(P0, 'secret-0');
    });
    afterEach(async () => {
      expect(await bind('known'), 'the attack').to.equal(49);
    });

    function expectRefused({ code, final }: Answer, message = MESSAGE): void {
      expect([code, final.message]).to.deep.equal([50, message]);
    }

    it('by an add, however the DN is written', async () => {
      for (const dn of [
        ADMIN,
        ADMIN.toUpperCase(),
        ADMIN.replace('cn=', '2.5.4.3 = '),
        ADMIN.replace('admin', '\\61dmin'),
      ])
        expectRefused(await add(user, dn, { ...ROLE, userPassword: 'known' }));
      expect((await add(user, ADMIN, { objectClass: 'organizationalRole', cn: 'admin' })).code).to.equal(0);
    });

    it('by a modify or a password modify, also when the entry was deleted and added again', async () => {
      await addAdminEntry();
      for (const changes of [
        [change('replace', 'userPassword', 'known')],
        [change('add', 'userPassword', 'known')],
        [change('delete', 'userPassword')],
        [change('delete', 'userPassword', ENTRYS), change('add', 'userPassword', 'known')],
      ])
        expectRefused(await modify(user, ADMIN, ...changes));
      expect((await passwordModify(user, 'known', undefined, ADMIN)).code).to.equal(50);
      const request = encodeApplicationPasswords({ action: 'add', name: 'x', entry: ADMIN });
      const application = { op: 'extended', oid: ExtendedOid.applicationPasswords, value: request } as const;
      expect((await user.request(application)).code).to.equal(50);
      expect((await modify(user, ADMIN, change('replace', 'description', 'x'))).code).to.equal(0);
      expect((await user.request({ op: 'delete', dn: ADMIN })).code).to.equal(0);
      expectRefused(await add(user, ADMIN, { ...ROLE, userPassword: 'known' }));
      expect(await bind(ENTRYS)).to.equal(49);
    });

    it('by a rename or a move to the DN', async () => {
      const person = (dn: string) =>
        add(user, dn, { objectClass: 'inetOrgPerson', cn: 'admin', sn: 'x', userPassword: 'known' });
      for (const dn of [`cn=mallory,${IT}`, `cn=admin,${SUFFIX}`]) expect((await person(dn)).code).to.equal(0);
      expectRefused(await rename(user, `cn=mallory,${IT}`, 'cn=admin'), NAME);
      expectRefused(await rename(user, `cn=mallory,${IT}`, 'CN=Admin'), NAME);
      expectRefused(await rename(user, `cn=admin,${SUFFIX}`, 'cn=admin', IT), NAME);
    });

    it('by a rename of an entry above', async () => {
      const shadow = `ou=shadow,${SUFFIX}`;
      expect((await add(user, shadow, { objectClass: 'organizationalUnit', ou: 'shadow' })).code).to.equal(0);
      const person = { objectClass: 'inetOrgPerson', cn: 'admin', sn: 'x', userPassword: 'known' };
      expect((await add(user, `cn=admin,${shadow}`, person)).code).to.equal(0);
      expect((await rename(user, IT, 'ou=away')).code).to.equal(0);
      expectRefused(await rename(user, shadow, 'ou=IT'), NAME);
      expectRefused(await rename(user, `ou=away,${SUFFIX}`, 'ou=it'), NAME);
      expect((await rename(await boundAs(ADMIN, OWN), `ou=away,${SUFFIX}`, 'ou=it')).code).to.equal(0);
    });

    it('by a session whose own entry the administrator has given the DN', async () => {
      const admin = await boundAs(ADMIN, OWN);
      expect((await rename(admin, P0, 'cn=admin', IT)).code).to.equal(0);
      expectRefused(await modify(user, ADMIN, change('replace', 'userPassword', 'known')));
      expect((await passwordModify(user, 'known')).code).to.equal(50);
      expect(await bind('secret-0')).to.equal(0);
    });

    it('by a drop folder with the rights of an entry', async () => {
      const silent = pino({ enabled: false });
      const actor = await actorFor(partition, testSchema().parseDn(P0), { shadow: false }, silent);
      const refused = async (work: Promise<unknown>): Promise<void> => {
        const error = await work.then(
          () => undefined,
          (reason: unknown) => reason,
        );
        expect(error).to.be.instanceOf(LdapError);
        expect((error as LdapError).code).to.equal(ResultCode.insufficientAccessRights);
      };
      const dn = testSchema().parseDn(ADMIN);
      const stored = hashPasswordFast(Buffer.from('known')).toString();
      await refused(partition.add(dn, attributes({ ...ROLE, userPassword: stored }), actor));
      await partition.add(testSchema().parseDn(personDn('x')), personAttributes('x', { userPassword: stored }), actor);
      const target = { newRdn: 'cn=admin', deleteOldRdn: false, newSuperior: IT };
      await refused(partition.rename(testSchema().parseDn(personDn('x')), target, actor));
      await partition.add(dn, attributes({ objectClass: 'organizationalRole', cn: 'admin' }), actor);
      const changes = [change('add', 'objectClass', 'simpleSecurityObject'), change('add', 'userPassword', stored)];
      await refused(partition.modify(dn, changes, actor));
    });
  });
});
