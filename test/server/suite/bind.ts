import { expect } from 'chai';
import { encodeRequest } from '../../../src/protocol/encode.js';
import { ExtendedOid } from '../../../src/protocol/oids.js';
import { int, seq, str, tlv } from '../../protocol/bytes.js';
import { encodePasswordModify } from '../../protocol/client-values.js';
import { type RawClient, simpleBind } from '../raw-client.js';
import { type SuiteDirectory, texts } from './directory.js';

async function whoIs(client: RawClient): Promise<string> {
  const { final } = await client.request({ op: 'extended', oid: ExtendedOid.whoAmI, value: undefined });
  return final.op === 'extendedResponse' ? String(final.value ?? '') : final.op;
}

function bindBytes(id: number, version: number, name: string | Buffer, authentication: Buffer): Buffer {
  return seq(int(id), tlv(0x60, int(version), str(name), authentication));
}

/** RFC 4511 §4.2, RFC 4513 §5.1. */
export function bindSuite(directory: SuiteDirectory): void {
  describe('bind', () => {
    let dn: string;
    let client: RawClient;
    before(async () => {
      dn = await directory.addPerson('binder', { userPassword: 'right' });
      client = await directory.connect();
    });

    it('as the administrator, in whatever spelling of its DN', async () => {
      const { adminDn, adminPassword } = directory.served;
      expect(await client.bind(adminDn.toUpperCase().replace(/,/g, ' , '), adminPassword)).to.equal(0);
      expect(await whoIs(client)).to.equal(`dn:${adminDn}`);
    });

    it('as a user', async () => {
      expect(await client.bind(dn, 'right')).to.equal(0);
      expect(await whoIs(client)).to.equal(`dn:${dn}`);
    });

    it('anonymously', async () => {
      await client.bind(dn, 'right');
      expect(await client.bind('', '')).to.equal(0);
      expect(await whoIs(client)).to.equal('');
    });

    it('with a wrong password, as nobody, or as an entry without a password: one and the same answer', async () => {
      const answers = [];
      for (const [name, password] of [
        [dn, 'wrong'],
        [`uid=nobody,${directory.people}`, 'right'],
        [directory.people, 'right'],
        [directory.served.adminDn, 'right'],
        ['dc=elsewhere', 'right'],
      ] as const) {
        answers.push((await client.request(simpleBind(name, password))).final);
      }
      expect(answers[0]!.code).to.equal(49);
      for (const answer of answers) expect(answer).to.deep.equal(answers[0]);
    });

    it('that fails leaves the connection anonymous', async () => {
      await client.bind(dn, 'right');
      await client.bind(dn, 'wrong');
      expect(await whoIs(client)).to.equal('');
      expect((await client.search(dn)).code).to.equal(50);
    });

    it('that is refused before it is looked at leaves the connection anonymous', async () => {
      const bind = simpleBind(dn, 'right');
      const simple = tlv(0x80, 'right');
      const unknown = { oid: '1.2.3.4', critical: true, value: undefined };
      const twice = Array.from({ length: 2 }, () => ({
        oid: '1.2.840.113556.1.4.319',
        critical: false,
        value: undefined,
      }));
      const many = Array.from({ length: 33 }, (_, n) => ({ oid: `1.2.3.${n}`, critical: false, value: undefined }));
      const tries: [string, (id: number) => Buffer][] = [
        ['an unknown critical control', (id) => encodeRequest({ id, request: bind, controls: [unknown] })],
        ['a control twice', (id) => encodeRequest({ id, request: bind, controls: twice })],
        ['33 controls', (id) => encodeRequest({ id, request: bind, controls: many })],
        ['a DN of bad UTF-8', (id) => bindBytes(id, 3, Buffer.from([0xff]), simple)],
        ['a DN that is none', (id) => bindBytes(id, 3, 'no dn', simple)],
        ['an unknown way to authenticate', (id) => bindBytes(id, 3, dn, tlv(0x84, 'x'))],
        ['a version that is none', (id) => bindBytes(id, 120, dn, simple)],
      ];
      for (const [what, bytesOf] of tries) {
        const bound = await directory.connectAs(dn, 'right');
        expect(await whoIs(bound), what).to.equal(`dn:${dn}`);
        const id = bound.nextId();
        bound.write(bytesOf(id));
        const answer = await bound.answer(id).catch(() => undefined);
        // ldapjs leaves out controls that it does not know, and the bind is a good one.
        if (answer?.code === 0 && directory.served.lacks?.includes('strictParser')) continue;
        expect(answer?.code, what).not.to.equal(0);
        // A connection that ends has no identity, either.
        expect(await whoIs(bound).catch(() => ''), what).to.equal('');
        expect((await bound.search(dn).catch(() => undefined))?.code ?? 50, what).to.equal(50);
      }
    });

    it('with a DN and no password is refused with 53', async () => {
      await client.bind(dn, 'right');
      expect(await client.bind(dn, '')).to.equal(53);
      expect(await whoIs(client)).to.equal('');
    });

    it('takes any of several passwords', async () => {
      const several = await directory.addPerson('several', { userPassword: ['first one', 'second one'] });
      expect(await client.bind(several, 'first one')).to.equal(0);
      expect(await client.bind(several, 'second one')).to.equal(0);
      expect(await client.bind(several, 'third one')).to.equal(49);
    });

    it('takes passwords of bytes that are not text', async function () {
      directory.needs(this, 'binaryValues');
      const bytes = Buffer.from([0xff, 0x00, 0x80, 0x7f]);
      const binary = await directory.addPerson('binary');
      const change = { operation: 'add', attribute: { type: 'userPassword', values: [bytes] } } as const;
      expect((await directory.admin.request({ op: 'modify', dn: binary, changes: [change] })).code).to.equal(0);
      expect((await client.request(simpleBind(binary, bytes))).code).to.equal(0);
    });

    it('with version 2 is a protocol error, with SASL not supported', async function () {
      directory.needs(this, 'strictParser');
      const simple = { method: 'simple', password: Buffer.from('right') } as const;
      expect((await client.request({ op: 'bind', version: 2, name: dn, authentication: simple })).code).to.equal(2);
      const sasl = { method: 'sasl', mechanism: 'X-UNKNOWN', credentials: undefined } as const;
      expect((await client.request({ op: 'bind', version: 3, name: '', authentication: sasl })).code).to.equal(7);
    });

    it('a password changed since ends what the bind may do', async () => {
      const other = await directory.addPerson('changed', { userPassword: 'before' });
      const bound = await directory.connectAs(other, 'before');
      expect((await bound.search(other)).code).to.equal(0);
      const change = {
        operation: 'replace',
        attribute: { type: 'userPassword', values: [Buffer.from('after')] },
      } as const;
      await directory.admin.request({ op: 'modify', dn: other, changes: [change] });
      const answer = await bound.search(other).catch(() => undefined);
      if (answer) expect(answer.code).to.equal(8);
      else expect((await bound.notice())?.code).to.equal(8);
    });

    for (const [attribute, value] of [
      ['pwdAccountLockedTime', '000001010000Z'],
      ['pwdAccountLockedTime', '20261101120000Z'],
      ['nsAccountLock', 'TRUE'],
    ] as const) {
      it(`to an account that is locked by ${attribute} ${value} is refused as a wrong password is`, async () => {
        const other = await directory.addPerson('locked', { userPassword: 'right' });
        const set = async (...values: string[]) => {
          const change = {
            operation: 'replace',
            attribute: { type: attribute, values: values.map((one) => Buffer.from(one)) },
          } as const;
          expect((await directory.admin.request({ op: 'modify', dn: other, changes: [change] })).code).to.equal(0);
        };
        // The credential is remembered.
        const bound = await directory.connectAs(other, 'right');
        await set(value);
        const [locked, wrong] = [
          await client.request(simpleBind(other, 'right')),
          await client.request(simpleBind(other, 'no')),
        ];
        expect(locked.final.code).to.equal(49);
        expect(locked.final).to.deep.equal(wrong.final);
        const answer = await bound.search(other).catch(() => undefined);
        if (answer) expect(answer.code, 'of the session that was open').to.equal(8);
        else expect((await bound.notice())?.code, 'of the session that was open').to.equal(8);
        await set();
        expect(await client.bind(other, 'right')).to.equal(0);
        await directory.admin.request({ op: 'delete', dn: other });
      });
    }

    it('to an account whose lock says false succeeds', async () => {
      const other = await directory.addPerson('unlocked', { userPassword: 'right', nsAccountLock: 'false' });
      expect(await client.bind(other, 'right')).to.equal(0);
    });

    it('a locked user changes no password with a bind from before', async () => {
      const other = await directory.addPerson('held', { userPassword: 'right' });
      const bound = await directory.connectAs(other, 'right');
      const lock = { type: 'pwdAccountLockedTime', values: [Buffer.from('000001010000Z')] };
      const change = { operation: 'replace', attribute: lock } as const;
      expect((await directory.admin.request({ op: 'modify', dn: other, changes: [change] })).code).to.equal(0);
      const value = encodePasswordModify({
        userIdentity: undefined,
        oldPassword: undefined,
        newPassword: Buffer.from('x'),
      });
      const answer = await bound
        .request({ op: 'extended', oid: ExtendedOid.passwordModify, value })
        .catch(() => undefined);
      expect(answer?.code).to.not.equal(0);
      await directory.admin.request({
        op: 'modify',
        dn: other,
        changes: [{ ...change, attribute: { ...lock, values: [] } }],
      });
      expect(await client.bind(other, 'right')).to.equal(0);
    });

    it('another attribute changed since does not', async () => {
      const other = await directory.addPerson('touched', { userPassword: 'same' });
      const bound = await directory.connectAs(other, 'same');
      const change = {
        operation: 'replace',
        attribute: { type: 'description', values: [Buffer.from('new')] },
      } as const;
      await directory.admin.request({ op: 'modify', dn: other, changes: [change] });
      expect(texts(await bound.search(other), 'description')).to.deep.equal(['new']);
      expect(await whoIs(bound)).to.equal(`dn:${other}`);
    });

    it('has the DN that the entry has, whatever is renamed above it', async () => {
      const unit = (name: string) => `ou=${name},${directory.suffix}`;
      const rename = (from: string, to: string) =>
        ({ op: 'modifyDN', dn: unit(from), newRdn: `ou=${to}`, deleteOldRdn: true, newSuperior: undefined }) as const;
      await directory.add(unit('before'), { objectClass: 'organizationalUnit', ou: 'before' });
      const person = { objectClass: 'inetOrgPerson', cn: 'c', sn: 's', userPassword: 'kept' };
      await directory.add(`uid=below,${unit('before')}`, { uid: 'below', ...person });
      const bound = await directory.connectAs(`UID = below , ${unit('BEFORE')}`, 'kept');
      expect(await whoIs(bound), 'as stored').to.equal(`dn:uid=below,${unit('before')}`);
      for (const [from, to] of [
        ['before', 'between'],
        ['between', 'after'],
      ] as const) {
        expect((await directory.admin.request(rename(from, to))).code).to.equal(0);
        expect(await whoIs(bound)).to.equal(`dn:uid=below,${unit(to)}`);
      }
      const value = encodePasswordModify({
        userIdentity: undefined,
        oldPassword: undefined,
        newPassword: Buffer.from('x'),
      });
      expect((await bound.request({ op: 'extended', oid: ExtendedOid.passwordModify, value })).code).to.equal(0);
      const below = `uid=below,${unit('after')}`;
      const answer = await directory.admin.search(below, { attributes: ['modifiersName'] });
      expect(texts(answer, 'modifiersName')).to.deep.equal([below]);
    });

    it('a user renamed stays bound, a user deleted does not', async () => {
      const other = await directory.addPerson('moving', { userPassword: 'kept' });
      const bound = await directory.connectAs(other, 'kept');
      const rename = {
        op: 'modifyDN',
        dn: other,
        newRdn: 'uid=moved',
        deleteOldRdn: true,
        newSuperior: undefined,
      } as const;
      expect((await directory.admin.request(rename)).code).to.equal(0);
      expect(await whoIs(bound)).to.equal(`dn:uid=moved,${directory.people}`);
      await directory.admin.request({ op: 'delete', dn: `uid=moved,${directory.people}` });
      const answer = await bound.search(directory.suffix).catch(() => undefined);
      if (answer) expect(answer.code).to.equal(8);
      else expect((await bound.notice())?.code).to.equal(8);
    });
  });
}
