import { expect } from 'chai';
import type { Modification } from '../../../src/ldap/ldap-types.js';
import { attributes } from '../directory.js';
import type { Answer, RawClient } from '../raw-client.js';
import { type SuiteDirectory, texts } from './directory.js';

function change(operation: Modification['operation'], type: string, ...values: string[]): Modification {
  return { operation, attribute: { type, values: values.map((v) => Buffer.from(v)) } };
}

/** Add, modify, delete, modifyDN, compare; and who may. */
export function writeSuite(directory: SuiteDirectory): void {
  const modify = (client: RawClient, dn: string, ...changes: Modification[]): Promise<Answer> =>
    client.request({ op: 'modify', dn, changes });

  describe('writing', () => {
    it('add says what is wrong', async () => {
      const { people } = directory;
      const codes = async (dn: string, values: Record<string, string>): Promise<number> =>
        (await directory.tryAdd(dn, attributes(values))).code;
      const person = { objectClass: 'inetOrgPerson', cn: 'x', sn: 'x' };
      expect(await codes(`uid=x,${people}`, { ...person, uid: 'x', mial: 'x' })).to.equal(17);
      expect(await codes(`uid=x,ou=none,${people}`, { ...person, uid: 'x' })).to.equal(32);
      expect(await codes(`uid=x,${people}`, { objectClass: 'inetOrgPerson', cn: 'x', uid: 'x' })).to.equal(65);
      expect(await codes(people, { objectClass: 'organizationalUnit', ou: 'people' })).to.equal(68);
      expect(await codes(`uid=x,${people}`, {})).to.equal(2);
    });

    it('a name with a value that breaks its syntax is refused at every door', async () => {
      const { admin, people } = directory;
      const dn = `c=xyz,${people}`;
      const newNames = { deleteOldRdn: false, newSuperior: undefined } as const;
      const answers = [
        await directory.tryAdd(dn, attributes({ objectClass: 'country', c: 'xyz' })),
        await admin.search(dn),
        await admin.request({ op: 'compare', dn, attribute: 'c', value: Buffer.from('xyz') }),
        await admin.request({ op: 'delete', dn }),
        await modify(admin, dn, change('add', 'description', 'x')),
        await admin.request({ op: 'modifyDN', dn, newRdn: 'c=de', ...newNames }),
        await admin.request({ op: 'modifyDN', dn: people, newRdn: 'c=xyz', ...newNames }),
        await admin.request({ op: 'modifyDN', dn: people, newRdn: 'ou=x', ...newNames, newSuperior: dn }),
      ];
      expect(answers.map(({ code }) => code)).to.deep.equal(answers.map(() => 34));
      expect(answers[0]!.final.message).to.match(/the value of 'c'/);
      // A value that is such a name breaks the syntax of the attribute.
      const group = { objectClass: 'groupOfNames', cn: 'broken', member: dn };
      expect((await directory.tryAdd(`cn=broken,${people}`, attributes(group))).code).to.equal(21);
    });

    it('values of objectClass name classes, under options, too', async () => {
      const dn = await directory.addPerson('classes');
      expect((await modify(directory.admin, dn, change('add', 'objectClass;lang-de', 'nonsense'))).code).to.equal(21);
      expect((await modify(directory.admin, dn, change('add', 'objectClass;lang-de', 'person'))).code).to.equal(0);
      const person = { 'objectClass;lang-de': 'inetOrgPerson', objectClass: 'country', uid: 'y', cn: 'y', sn: 'y' };
      expect((await directory.tryAdd(`uid=y,${directory.people}`, attributes(person))).code).to.equal(65);
    });

    it('an attribute stands once in an add, whatever it is called', async () => {
      const list = attributes({ objectClass: 'inetOrgPerson', uid: 'twice', cn: 'one', sn: 'x' });
      for (const type of ['cn', 'CN', 'commonName', '2.5.4.3', 'cn;binary']) {
        const { code, final } = await directory.tryAdd(`uid=twice,${directory.people}`, [
          ...list,
          { type, values: [Buffer.from('two')] },
        ]);
        expect(code, type).to.equal(20);
        expect(final.message).to.match(/^attribute 'cn(;binary)?' is given twice/);
      }
      const option = [...list, { type: 'cn;lang-de', values: [Buffer.from('two')] }];
      expect((await directory.tryAdd(`uid=twice,${directory.people}`, option)).code).to.equal(0);
    });

    it('modify adds, deletes and replaces', async () => {
      const dn = await directory.addPerson('modified', { description: ['one', 'two'] });
      const answer = await modify(
        directory.admin,
        dn,
        change('add', 'mail', 'm@example.com'),
        change('delete', 'description', 'ONE'),
        change('replace', 'sn', 'New'),
      );
      expect(answer.code, answer.final.message).to.equal(0);
      const found = await directory.admin.search(dn);
      expect([texts(found, 'mail'), texts(found, 'description'), texts(found, 'sn')]).to.deep.equal([
        ['m@example.com'],
        ['two'],
        ['New'],
      ]);
      expect((await modify(directory.admin, dn, change('delete', 'description', 'three'))).code).to.equal(16);
      expect((await modify(directory.admin, dn, change('add', 'mail', 'M@example.com'))).code).to.equal(20);
    });

    it('modify increments', async function () {
      directory.needs(this, 'increment');
      const dn = await directory.addPerson('incremented');
      const account = change('add', 'objectClass', 'posixAccount');
      const posix = ['uidNumber', 'gidNumber'].map((name) => change('add', name, '41'));
      expect(
        (await modify(directory.admin, dn, account, ...posix, change('add', 'homeDirectory', '/home/m'))).code,
      ).to.equal(0);
      expect((await modify(directory.admin, dn, change('increment', 'uidNumber', '1'))).code).to.equal(0);
      expect(texts(await directory.admin.search(dn), 'uidNumber')).to.deep.equal(['42']);
    });

    it('modifyDN renames and moves with everything below', async () => {
      const from = `ou=from,${directory.suffix}`;
      await directory.add(from, { objectClass: 'organizationalUnit', ou: 'from' });
      await directory.add(`ou=inner,${from}`, { objectClass: 'organizationalUnit', ou: 'inner' });
      const rename = {
        op: 'modifyDN',
        dn: from,
        newRdn: 'ou=to',
        deleteOldRdn: true,
        newSuperior: directory.people,
      } as const;
      expect((await directory.admin.request(rename)).code).to.equal(0);
      expect((await directory.admin.search(`ou=inner,ou=to,${directory.people}`)).code).to.equal(0);
      expect((await directory.admin.search(from)).code).to.equal(32);
      const below = { op: 'modifyDN', dn: `ou=to,${directory.people}`, newRdn: 'ou=to', deleteOldRdn: true } as const;
      const answer = await directory.admin.request({ ...below, newSuperior: `ou=inner,ou=to,${directory.people}` });
      expect(answer.code).to.be.oneOf([53, 54]);
    });

    it('delete refuses what has children', async () => {
      const dn = `ou=to,${directory.people}`;
      expect((await directory.admin.request({ op: 'delete', dn })).code).to.equal(66);
      expect((await directory.admin.request({ op: 'delete', dn: `ou=inner,${dn}` })).code).to.equal(0);
      expect((await directory.admin.request({ op: 'delete', dn })).code).to.equal(0);
      expect((await directory.admin.request({ op: 'delete', dn })).code).to.equal(32);
    });

    it('compare', async () => {
      const dn = await directory.addPerson('compared', { description: 'Some Text', 'cn;lang-de': 'verglichen' });
      const compare = async (attribute: string, value: string, at = dn): Promise<number> =>
        (await directory.admin.request({ op: 'compare', dn: at, attribute, value: Buffer.from(value) })).code;
      expect(await compare('description', 'some  text')).to.equal(6);
      expect(await compare('description', 'other')).to.equal(5);
      expect(await compare('2.5.4.13', 'SOME TEXT')).to.equal(6);
      expect(await compare('name', 'verglichen')).to.equal(6);
      expect(await compare('cn;lang-de', 'Person compared')).to.equal(5);
      expect(await compare('mail', 'x@example.com')).to.equal(16);
      expect(await compare('nosuch', 'x')).to.equal(17);
      expect(await compare('cn', 'x', `uid=none,${directory.people}`)).to.equal(32);
      expect(await compare('entryDN', dn.toUpperCase())).to.equal(6);
    });

    it('an unknown attribute is refused with a similar one and the command that defines others', async () => {
      const changes = [{ operation: 'add', attribute: { type: 'mial', values: [Buffer.from('x')] } }] as const;
      const { code, final } = await directory.admin.request({ op: 'modify', dn: directory.people, changes });
      expect([code, final.message]).to.deep.equal([
        17,
        `attribute 'mial' is not in the schema; did you mean 'mail'? "rowan schema set" defines others`,
      ]);
    });

    it('a password under an option is never equal in a compare', async () => {
      const dn = await directory.addPerson('optioned', { userPassword: 'own' });
      const user = await directory.connectAs(dn, 'own');
      for (const [attribute, code] of [
        ['userPassword', 6],
        ['userPassword;x-a', 16],
      ] as const)
        expect((await user.request({ op: 'compare', dn, attribute, value: Buffer.from('own') })).code).to.equal(code);
    });

    it('an entry with the name of the administrator may have a password, which binds as the administrator', async () => {
      const { admin, served } = directory;
      const { code, final } = await directory.tryAdd(
        served.adminDn,
        attributes({
          objectClass: ['organizationalRole', 'simpleSecurityObject'],
          cn: 'admin',
          userPassword: 'second',
        }),
      );
      expect(code, final.message).to.equal(0);
      for (const password of ['second', served.adminPassword])
        expect(await (await directory.connect()).bind(served.adminDn, password)).to.equal(0);
      expect((await admin.request({ op: 'delete', dn: served.adminDn })).code).to.equal(0);
      expect(await (await directory.connect()).bind(served.adminDn, 'second')).to.equal(49);
    });

    it('a user reads, and changes its own password alone', async () => {
      const dn = await directory.addPerson('owner', { userPassword: 'mine' });
      const other = await directory.addPerson('other', { userPassword: 'theirs' });
      const user = await directory.connectAs(dn, 'mine');
      expect((await user.search(other)).entries).to.have.length(1);
      expect((await modify(user, dn, change('replace', 'sn', 'x'))).code).to.equal(50);
      expect((await modify(user, other, change('replace', 'userPassword', 'x'))).code).to.equal(50);
      expect((await user.request({ op: 'delete', dn: other })).code).to.equal(50);
      expect(
        (
          await user.request({
            op: 'add',
            dn: `uid=n,${directory.people}`,
            attributes: attributes({ objectClass: 'account' }),
          })
        ).code,
      ).to.equal(50);
      const own = { op: 'compare', dn, attribute: 'userPassword', value: Buffer.from('mine') } as const;
      expect((await user.request(own)).code).to.equal(6);
      expect((await user.request({ ...own, dn: other, value: Buffer.from('theirs') })).code).to.equal(50);
      const changed = await modify(
        user,
        dn,
        change('delete', 'userPassword', 'mine'),
        change('add', 'userPassword', 'newer'),
      );
      expect(changed.code, changed.final.message).to.equal(0);
      expect((await user.search(other)).code, 'the session that changed it goes on').to.equal(0);
      expect(await (await directory.connect()).bind(dn, 'mine')).to.equal(49);
      expect(await (await directory.connect()).bind(dn, 'newer')).to.equal(0);
      expect(
        (await modify(user, dn, change('delete', 'userPassword', 'mine'), change('add', 'userPassword', 'x'))).code,
      ).to.equal(16);
    });

    it('nobody writes or reads without a bind, and learns nothing of what is there', async () => {
      const stranger = await directory.connect();
      const there = await stranger.search(directory.people);
      const notThere = await stranger.search(`ou=none,${directory.suffix}`);
      expect(there.code).to.equal(50);
      expect(notThere.final).to.deep.equal(there.final);
      for (const dn of [directory.people, `ou=none,${directory.suffix}`]) {
        expect((await stranger.request({ op: 'delete', dn })).code).to.equal(50);
        expect((await modify(stranger, dn, change('replace', 'userPassword', 'x'))).code).to.equal(50);
        expect(
          (await stranger.request({ op: 'compare', dn, attribute: 'ou', value: Buffer.from('people') })).code,
        ).to.equal(50);
      }
    });

    it('DNs that are no DNs are refused with 34', async function () {
      directory.needs(this, 'strictParser');
      for (const dn of ['no dn', 'uid="x,dc=y', 'uid=x\\', '=x', 'uid=a\\zz,dc=x', `${'ou=x,'.repeat(10_000)}dc=x`]) {
        expect((await directory.admin.search(dn)).code, dn.slice(0, 50)).to.equal(34);
        expect((await directory.admin.request({ op: 'delete', dn })).code, dn.slice(0, 50)).to.equal(34);
      }
    });
  });
}
