import { expect } from 'chai';
import type { PasswordModify } from '../../../src/protocol/extended/password-modify.js';
import { ExtendedOid } from '../../../src/protocol/oids.js';
import { int, seq, tlv } from '../../protocol/bytes.js';
import { decodeGeneratedPassword, encodeCancel, encodePasswordModify } from '../../protocol/client-values.js';
import type { Answer, RawClient } from '../raw-client.js';
import type { SuiteDirectory } from './directory.js';

function passwordModify(client: RawClient, parts: { user?: string; old?: string; new?: string }): Promise<Answer> {
  const value: PasswordModify = {
    userIdentity: parts.user,
    oldPassword: parts.old === undefined ? undefined : Buffer.from(parts.old),
    newPassword: parts.new === undefined ? undefined : Buffer.from(parts.new),
  };
  return client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value: encodePasswordModify(value) });
}

/** RFC 4511 §4.12, RFC 4532, RFC 3062, RFC 3909. */
export function extendedSuite(directory: SuiteDirectory): void {
  describe('extended operations', () => {
    it('an unknown one is refused with 2', async () => {
      expect((await directory.admin.request({ op: 'extended', oid: '1.2.3.4', value: undefined })).code).to.equal(2);
    });

    it('password modify: a user its own', async () => {
      const dn = await directory.addPerson('pw1', { userPassword: 'first' });
      const user = await directory.connectAs(dn, 'first');
      expect((await passwordModify(user, { old: 'wrong', new: 'second' })).code).to.equal(49);
      expect((await passwordModify(user, { old: 'first', new: 'second' })).code).to.equal(0);
      expect((await user.search(dn)).code, 'the session that changed it goes on').to.equal(0);
      expect((await passwordModify(user, { user: `dn:${dn}`, new: 'third' })).code).to.equal(0);
      expect(await (await directory.connect()).bind(dn, 'first')).to.equal(49);
      expect(await (await directory.connect()).bind(dn, 'third')).to.equal(0);
    });

    it('password modify: the administrator anybody’s, by DN or uid', async () => {
      const dn = await directory.addPerson('pw2');
      expect((await passwordModify(directory.admin, { user: dn, new: 'by dn' })).code).to.equal(0);
      expect(await (await directory.connect()).bind(dn, 'by dn')).to.equal(0);
      expect((await passwordModify(directory.admin, { user: 'u:pw2', new: 'by uid' })).code).to.equal(0);
      expect(await (await directory.connect()).bind(dn, 'by uid')).to.equal(0);
      expect((await passwordModify(directory.admin, { user: `uid=none,${directory.people}`, new: 'x' })).code).to.equal(
        32,
      );
    });

    it('password modify: nobody another’s', async () => {
      const dn = await directory.addPerson('pw3', { userPassword: 'own' });
      const other = await directory.addPerson('pw4', { userPassword: 'other' });
      const user = await directory.connectAs(dn, 'own');
      for (const named of [other, `uid=none,${directory.people}`, 'u:pw4', 'u:none']) {
        const { code, final } = await passwordModify(user, { user: named, new: 'x' });
        expect([code, final.message]).to.deep.equal([50, `'${named}' is no entry whose password you may change`]);
      }
      expect((await passwordModify(await directory.connect(), { user: dn, old: 'own', new: 'x' })).code).to.equal(50);
      expect((await passwordModify(user, { user: directory.served.adminDn, new: 'x' })).code).to.equal(50);
    });

    it('password modify: an empty identity is none', async () => {
      const dn = await directory.addPerson('pw6', { userPassword: 'own' });
      const user = await directory.connectAs(dn, 'own');
      expect((await passwordModify(user, { user: '', new: 'x' })).code).to.equal(2);
      expect((await passwordModify(user, { user: 'dn:', new: 'x' })).code).to.equal(50);
      expect((await passwordModify(directory.admin, { user: '', new: 'x' })).code).to.equal(2);
      expect(await (await directory.connect()).bind(dn, 'own')).to.equal(0);
    });

    it('a value under an unknown tag is not taken for none', async () => {
      const dn = await directory.addPerson('pw7', { userPassword: 'own' });
      const user = await directory.connectAs(dn, 'own');
      for (const [oid, tag] of [
        [ExtendedOid.passwordModify, 0x82],
        [ExtendedOid.passwordModify, 0xa1],
        [ExtendedOid.passwordModify, 0x04],
        [ExtendedOid.whoAmI, 0x82],
      ] as const) {
        // ldapjs says nothing of it, and it does no harm.
        if (oid === ExtendedOid.whoAmI && directory.served.lacks?.includes('strictParser')) continue;
        const id = user.nextId();
        user.write(seq(int(id), tlv(0x77, tlv(0x80, oid), tlv(tag, 'value'))));
        expect((await user.answer(id)).code, `${oid} ${tag}`).to.equal(2);
      }
      expect(await (await directory.connect()).bind(dn, 'own')).to.equal(0);
    });

    it('password modify makes one up', async () => {
      const dn = await directory.addPerson('pw5');
      const { final } = await passwordModify(directory.admin, { user: dn });
      const made = final.op === 'extendedResponse' ? decodeGeneratedPassword(final.value) : undefined;
      expect(made!.length).to.be.at.least(12);
      expect(await (await directory.connect()).bind(dn, made!.toString())).to.equal(0);
    });

    it('the administrator changes its own and stays bound', async () => {
      const { adminDn, adminPassword } = directory.served;
      expect((await passwordModify(directory.admin, { old: adminPassword, new: 'another' })).code).to.equal(0);
      expect((await directory.admin.search(directory.suffix)).code).to.equal(0);
      expect(await (await directory.connect()).bind(adminDn, adminPassword)).to.equal(49);
      expect(await (await directory.connect()).bind(adminDn, 'another')).to.equal(0);
      expect((await passwordModify(directory.admin, { new: adminPassword })).code).to.equal(0);
    });

    it('cancel of itself, and of what is not there', async function () {
      directory.needs(this, 'cancel');
      const id = directory.admin.nextId() + 1;
      const cancel = (target: number): Promise<Answer> =>
        directory.admin.request({ op: 'extended', oid: ExtendedOid.cancel, value: encodeCancel(target) });
      expect((await cancel(id)).code).to.equal(121);
      expect((await cancel(id - 1)).code).to.equal(119);
      expect((await cancel(123_456)).code).to.equal(119);
    });

    it('values that are garbage are refused with 2', async function () {
      directory.needs(this, 'strictParser');
      for (const oid of [ExtendedOid.passwordModify, ExtendedOid.cancel, ExtendedOid.whoAmI]) {
        const value = Buffer.from('garbage');
        expect((await directory.admin.request({ op: 'extended', oid, value })).code, oid).to.equal(2);
      }
    });
  });
}
