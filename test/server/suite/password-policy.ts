import { expect } from 'chai';
import { generalizedTime } from '../../../src/partition/model/csn.js';
import { ControlOid, ExtendedOid } from '../../../src/protocol/oids.js';
import { int, seq, tlv } from '../../protocol/bytes.js';
import { encodePasswordModify } from '../../protocol/client-values.js';
import { type Answer, type RawClient, simpleBind } from '../raw-client.js';
import { type SuiteDirectory, texts } from './directory.js';

export const POLICY_CONTROL = { oid: ControlOid.passwordPolicy, critical: true, value: undefined };

/** The value of the control with this error. */
export const policyError = (error: number): Buffer => seq(tlv(0x81, [error]));
export const NOTHING_TOLD = seq();

/** What the answer's password policy control has; undefined: there is none. */
export function policyTold({ controls }: Answer): Buffer | undefined {
  return controls.find(({ oid }) => oid === ControlOid.passwordPolicy)?.value;
}

/** draft-behera-ldap-password-policy-10. */
export function passwordPolicySuite(directory: SuiteDirectory): void {
  describe('password policy', () => {
    let client: RawClient;
    let n = 0;
    before(async () => {
      client = await directory.connect();
    });

    async function policy(values: Readonly<Record<string, string>>): Promise<string> {
      const dn = `cn=policy ${++n},${directory.suffix}`;
      await directory.add(dn, {
        objectClass: ['device', 'pwdPolicy'],
        cn: `policy ${n}`,
        pwdAttribute: 'userPassword',
        ...values,
      });
      return dn;
    }

    async function set(dn: string, type: string, ...values: string[]): Promise<void> {
      const attribute = { type, values: values.map((value) => Buffer.from(value)) };
      const change = { operation: 'replace', attribute } as const;
      expect((await directory.admin.request({ op: 'modify', dn, changes: [change] })).code).to.equal(0);
    }

    /** A user under a policy of these values. */
    async function user(values: Readonly<Record<string, string>>): Promise<{ dn: string; under: string }> {
      const under = await policy(values);
      const dn = await directory.addPerson(`user${n}`, { userPassword: 'right', pwdPolicySubentry: under });
      return { dn, under };
    }

    const LOCKOUT = { pwdLockout: 'TRUE', pwdMaxFailure: '3' };

    it('locks after so many failures, whatever was remembered of a bind; a success begins anew', async () => {
      const { dn } = await user(LOCKOUT);
      for (const password of ['no', 'no', 'right', 'no', 'no', 'right'])
        expect(await client.bind(dn, password), password).to.equal(password === 'right' ? 0 : 49);
      const csn = texts(await directory.admin.search(dn, { attributes: ['entryCSN'] }), 'entryCSN');
      for (let i = 0; i < 3; i++) expect(await client.bind(dn, 'no')).to.equal(49);
      const locked = await client.request(simpleBind(dn, 'right'));
      const nobody = await client.request(simpleBind(`uid=nobody,${directory.people}`, 'right'));
      expect(locked.final).to.deep.equal(nobody.final);
      expect(locked.code).to.equal(49);
      expect(texts(await directory.admin.search(dn, { attributes: ['entryCSN'] }), 'entryCSN')).to.deep.equal(csn);
    });

    it('the state of an account is told by attributes that are named, or by +, and compared', async () => {
      const { dn } = await user({ ...LOCKOUT, pwdLockoutDuration: '1000' });
      const told = async (...attributes: string[]) => {
        const answer = await directory.admin.search(dn, { attributes });
        return ['pwdFailureTime', 'pwdAccountLockedTime'].map((type) => texts(answer, type)?.length ?? 0);
      };
      const compares = async (type: string, value: string) =>
        (await directory.admin.request({ op: 'compare', dn, attribute: type, value: Buffer.from(value) })).code;
      expect(await told('+')).to.deep.equal([0, 0]);
      expect(await compares('pwdFailureTime', '20260101000000Z')).to.equal(16);
      await Promise.all([0, 1].map(async () => (await directory.connect()).bind(dn, 'no')));
      expect(await told('+')).to.deep.equal([2, 0]);
      expect(await told('pwdFailureTime')).to.deep.equal([2, 0]);
      expect(await told('*')).to.deep.equal([0, 0]);
      const one = async (type: string) => texts(await directory.admin.search(dn, { attributes: [type] }), type)![0]!;
      const time = await one('pwdFailureTime');
      expect(time).to.match(/^20\d{12}\.\d{6}Z$/);
      expect(await compares('pwdFailureTime', time)).to.equal(6);
      expect(await compares('pwdFailureTime', '20260101000000Z')).to.equal(5);
      expect(await compares('pwdFailureTime', 'never')).to.equal(21);
      const before = generalizedTime(Date.now());
      await client.bind(dn, 'no');
      expect(await told('+'), 'the failures that made the lock, too').to.deep.equal([3, 1]);
      const locked = await one('pwdAccountLockedTime');
      expect(locked >= before.slice(0, 14)).to.equal(true);
      expect(await compares('pwdAccountLockedTime', locked)).to.equal(6);
      await set(dn, 'pwdAccountLockedTime');
      expect(await told('+')).to.deep.equal([0, 0]);
      expect(await compares('pwdAccountLockedTime', locked)).to.equal(16);
    });

    it('of one who is locked ends when the password is reset', async () => {
      const { dn } = await user(LOCKOUT);
      for (let i = 0; i < 3; i++) await client.bind(dn, 'no');
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(dn, 'userPassword', 'other');
      expect(await client.bind(dn, 'other')).to.equal(0);
    });

    it('of one who is locked ends when pwdAccountLockedTime is replaced by nothing', async () => {
      const { dn } = await user(LOCKOUT);
      for (let i = 0; i < 3; i++) await client.bind(dn, 'no');
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(dn, 'pwdAccountLockedTime');
      expect(await client.bind(dn, 'right')).to.equal(0);
    });

    it('of one who is locked ends when pwdAccountLockedTime is deleted, though the entry has none', async () => {
      const { dn } = await user(LOCKOUT);
      for (let i = 0; i < 3; i++) await client.bind(dn, 'no');
      const attribute = { type: 'pwdAccountLockedTime', values: [] };
      const change = { operation: 'delete', attribute } as const;
      expect((await directory.admin.request({ op: 'modify', dn, changes: [change] })).code).to.equal(0);
      expect(await client.bind(dn, 'right')).to.equal(0);
    });

    it('of one who has a time of a lock ends after pwdLockoutDuration, and one for good never', async () => {
      const { dn, under } = await user({ ...LOCKOUT, pwdLockoutDuration: '600' });
      await set(dn, 'pwdAccountLockedTime', generalizedTime(Date.now() - 500_000));
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(dn, 'pwdAccountLockedTime', generalizedTime(Date.now() - 700_000));
      expect(await client.bind(dn, 'right')).to.equal(0);
      await set(under, 'pwdLockoutDuration');
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(under, 'pwdLockoutDuration', '600');
      await set(dn, 'pwdAccountLockedTime', '000001010000Z');
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(dn, 'pwdAccountLockedTime', generalizedTime(Date.now() - 700_000));
      await set(dn, 'pwdPolicySubentry');
      expect(await client.bind(dn, 'right')).to.equal(49);
    });

    it('counts what many connections try at once', async () => {
      const { dn } = await user(LOCKOUT);
      const clients = await Promise.all(Array.from({ length: 12 }, () => directory.connect()));
      await Promise.all(clients.map((one) => one.bind(dn, 'no')));
      expect(await client.bind(dn, 'right')).to.equal(49);
      for (const one of clients) one.close();
    });

    it('delays the next try after a failure', async () => {
      const { dn } = await user({ pwdMinDelay: '3600' });
      expect(await client.bind(dn, 'right')).to.equal(0);
      expect(await client.bind(dn, 'no')).to.equal(49);
      expect(await client.bind(dn, 'right')).to.equal(49);
    });

    it('holds as it is now, and as the entry says now', async () => {
      const { dn, under } = await user(LOCKOUT);
      await client.bind(dn, 'no');
      await set(under, 'pwdMaxFailure', '2');
      await client.bind(dn, 'no');
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(dn, 'pwdPolicySubentry');
      expect(await client.bind(dn, 'right')).to.equal(0);
    });

    it('that is not there is none', async () => {
      const dn = await directory.addPerson('lost', {
        userPassword: 'right',
        pwdPolicySubentry: `cn=no policy,${directory.suffix}`,
      });
      expect(await client.bind(dn, 'right')).to.equal(0);
      await set(dn, 'pwdPolicySubentry', directory.people);
      expect(await client.bind(dn, 'right')).to.equal(0);
    });

    it('tells of expiry to come: by the older control, or by its own to those who ask', async function () {
      const { dn } = await user({ pwdMaxAge: '5000', pwdExpireWarning: '5000' });
      const [old, ...more] = (await client.request(simpleBind(dn, 'right'))).controls;
      expect(more).to.deep.equal([]);
      expect(old).to.include({ oid: ControlOid.passwordExpiring, critical: false });
      expect(Number(old!.value!.toString())).to.be.within(1, 5000);
      directory.needs(this, 'policyControl');
      const told = policyTold(await client.request(simpleBind(dn, 'right'), [POLICY_CONTROL]))!;
      expect(told.subarray(0, 6).toString('hex')).to.equal('3006a0048002');
      expect(told.readUInt16BE(6)).to.be.within(1, 5000);
    });

    it('lets a password begin and end at its dates', async () => {
      const { dn } = await user({});
      await set(dn, 'pwdStartTime', '20990101000000Z');
      expect(await client.bind(dn, 'right')).to.equal(49);
      await set(dn, 'pwdStartTime', '20200101000000Z');
      const bound = await directory.connectAs(dn, 'right');
      await set(dn, 'pwdEndTime', '20210101000000Z');
      expect(await client.bind(dn, 'right')).to.equal(49);
      const answer = await bound.search(dn).catch(() => undefined);
      expect(answer?.code ?? 8, 'of the session that was open').to.equal(8);
    });

    it('control tells nothing where a bind fails, whoever it names', async function () {
      directory.needs(this, 'policyControl');
      const { dn } = await user({ ...LOCKOUT, pwdMaxFailure: '2' });
      const names = [dn, `uid=nobody,${directory.people}`, directory.people, 'dc=elsewhere', directory.served.adminDn];
      for (const name of names) {
        for (const attempt of [1, 2, 3]) {
          const answer = await client.request(simpleBind(name, 'no'), [POLICY_CONTROL]);
          expect([answer.code, policyTold(answer)], `${name}, ${attempt}`).to.deep.equal([49, NOTHING_TOLD]);
        }
      }
    });

    describe('at a change', () => {
      /** By password modify, and by a modify that replaces. */
      const WAYS = ['password modify', 'modify'] as const;
      type Way = (typeof WAYS)[number];

      function changeBy(way: Way, bound: RawClient, dn: string, to: string, old?: string): Promise<Answer> {
        const asking = directory.served.lacks?.includes('policyControl') ? [] : [POLICY_CONTROL];
        const [newPassword, oldPassword] = [to, old].map((text) =>
          text === undefined ? undefined : Buffer.from(text),
        );
        if (way === 'password modify') {
          const value = encodePasswordModify({ userIdentity: dn, oldPassword, newPassword });
          return bound.request({ op: 'extended', oid: ExtendedOid.passwordModify, value }, asking);
        }
        const change = (operation: 'add' | 'delete' | 'replace', value: Buffer) =>
          ({ operation, attribute: { type: 'userPassword', values: [value] } }) as const;
        const changes = oldPassword
          ? [change('delete', oldPassword), change('add', newPassword!)]
          : [change('replace', newPassword!)];
        return bound.request({ op: 'modify', dn, changes }, asking);
      }

      /** Refused with this code, and this error where the control goes through. */
      function expectRefused(answer: Answer, code: number, error: number): void {
        expect(answer.code, answer.final.message).to.equal(code);
        if (!directory.served.lacks?.includes('policyControl'))
          expect(policyTold(answer)).to.deep.equal(policyError(error));
      }

      for (const way of WAYS) {
        it(`${way}: length, names and history`, async () => {
          const { dn } = await user({ pwdMinLength: '8', pwdMaxLength: '20', pwdCheckQuality: '2', pwdInHistory: '2' });
          const bound = await directory.connectAs(dn, 'right');
          const change = (to: string) => changeBy(way, bound, dn, to);
          expectRefused(await change('1234567'), 19, 6);
          expectRefused(await change('äöüäöüä'), 19, 6);
          expectRefused(await change('123456789012345678901'), 19, 9);
          expectRefused(await change(`my-${/^uid=([^,]*)/.exec(dn)![1]!.toUpperCase()}-secret`), 19, 5);
          if (way === 'modify') expectRefused(await change('{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0'), 19, 5);
          for (const to of ['first one', 'second one']) expect((await change(to)).code, to).to.equal(0);
          for (const to of ['first one', 'second one']) expectRefused(await change(to), 19, 8);
          expect((await change('third one')).code).to.equal(0);
          expect((await change('fourth one')).code).to.equal(0);
          expect((await change('first one')).code, 'no more remembered').to.equal(0);
          expect(await client.bind(dn, 'first one')).to.equal(0);
        });

        it(`${way}: too early, without the old one, or not at all`, async () => {
          const { dn, under } = await user({ pwdMinAge: '3600' });
          const bound = await directory.connectAs(dn, 'right');
          expectRefused(await changeBy(way, bound, dn, 'second'), 19, 7);
          await set(under, 'pwdMinAge');
          expect((await changeBy(way, bound, dn, 'second')).code).to.equal(0);
          await set(under, 'pwdMinAge', '3600');
          expectRefused(await changeBy(way, bound, dn, 'third'), 19, 7);
          await set(under, 'pwdMinAge');
          await set(under, 'pwdSafeModify', 'TRUE');
          expectRefused(await changeBy(way, bound, dn, 'third'), 50, 4);
          expect((await changeBy(way, bound, dn, 'third', 'second')).code).to.equal(0);
          await set(under, 'pwdAllowUserChange', 'FALSE');
          expectRefused(await changeBy(way, bound, dn, 'fourth', 'third'), 50, 3);
          expect((await changeBy(way, directory.admin, dn, 'fourth')).code, 'the administrator').to.equal(0);
          expect(await client.bind(dn, 'fourth')).to.equal(0);
        });

        it(`${way}: a reset has to be followed by a change`, async function () {
          const { dn } = await user({ pwdMustChange: 'TRUE', pwdMinAge: '3600' });
          expect((await changeBy(way, directory.admin, dn, 'given out')).code).to.equal(0);
          const reset = () => directory.admin.search(dn, { attributes: ['pwdReset'] });
          expect(texts(await reset(), 'pwdReset')).to.deep.equal(['TRUE']);
          const bound = await directory.connect();
          const first = await bound.request(simpleBind(dn, 'given out'));
          expect([first.code, first.controls[0]?.oid]).to.deep.equal([0, ControlOid.passwordExpired]);
          const whoAmI = { op: 'extended', oid: ExtendedOid.whoAmI, value: undefined } as const;
          expect((await bound.request(whoAmI)).code).to.equal(0);
          expect((await bound.search(dn)).code).to.equal(50);
          expect((await bound.request({ op: 'delete', dn })).code).to.equal(50);
          const deletes = { operation: 'delete', attribute: { type: 'userPassword', values: [] } } as const;
          expect((await bound.request({ op: 'modify', dn, changes: [deletes] })).code).to.equal(50);
          expect((await changeBy(way, bound, dn, 'chosen')).code).to.equal(0);
          expect((await bound.search(dn)).code).to.equal(0);
          expect(texts(await reset(), 'pwdReset')).to.equal(undefined);
          expect(await client.bind(dn, 'chosen')).to.equal(0);
          expect((await client.search(dn)).code).to.equal(0);
          directory.needs(this, 'policyControl');
          expect((await changeBy(way, directory.admin, dn, 'again')).code).to.equal(0);
          expect(policyTold(await bound.request(simpleBind(dn, 'again'), [POLICY_CONTROL]))).to.deep.equal(
            policyError(2),
          );
          expectRefused(await bound.search(dn, {}, [POLICY_CONTROL]), 50, 2);
        });
      }

      it('a replacement by no value is refused to everybody, a deletion is not', async () => {
        const { dn, under } = await user({ pwdMustChange: 'TRUE' });
        const without = (bound: RawClient, operation: 'delete' | 'replace') => {
          const attribute = { type: 'userPassword', values: [] };
          return bound.request({ op: 'modify', dn, changes: [{ operation, attribute }] });
        };
        const bound = await directory.connectAs(dn, 'right');
        for (const by of [bound, directory.admin]) expect((await without(by, 'replace')).code).to.equal(19);
        expect((await changeBy('modify', directory.admin, dn, 'given out')).code).to.equal(0);
        const reset = await directory.connectAs(dn, 'given out');
        const refused = await without(reset, 'replace');
        expect([refused.code, refused.final.message]).to.deep.equal([
          19,
          'the change leaves no password; give the new one, or delete userPassword alone to leave the entry without one',
        ]);
        const changes = [
          { operation: 'add', attribute: { type: 'userPassword', values: [Buffer.from('for a moment')] } },
          { operation: 'delete', attribute: { type: 'userPassword', values: [] } },
        ] as const;
        expect((await reset.request({ op: 'modify', dn, changes })).code, 'added and deleted').to.equal(19);
        expect(await client.bind(dn, 'given out')).to.equal(0);
        expect((await without(directory.admin, 'delete')).code).to.equal(0);
        expect((await without(directory.admin, 'replace')).code, 'there is none').to.equal(0);
        expect(await client.bind(dn, 'given out')).to.equal(49);
        await set(dn, 'userPassword', 'under no policy');
        await set(under, 'pwdAttribute', '2.5.4.3');
        expect((await without(directory.admin, 'replace')).code).to.equal(0);
      });

      it('by a user to whom pwdReset was given needs no policy', async () => {
        const dn = await directory.addPerson('reset', { userPassword: 'right', pwdReset: 'TRUE' });
        const bound = await directory.connectAs(dn, 'right');
        expect((await bound.search(dn)).code).to.equal(50);
        expect((await changeBy('modify', bound, dn, 'other')).code).to.equal(0);
        expect((await bound.search(dn)).code).to.equal(0);
      });

      it('keeps when it was, and shows nobody what was before', async () => {
        const { dn } = await user({ pwdInHistory: '3' });
        const bound = await directory.connectAs(dn, 'right');
        expect((await changeBy('modify', bound, dn, 'second')).code).to.equal(0);
        const answer = await directory.admin.search(dn, { attributes: ['*', '+', 'pwdHistory'] });
        expect(texts(answer, 'pwdChangedTime')![0]).to.match(/^\d{14}Z$/);
        expect(texts(answer, 'pwdHistory')).to.equal(undefined);
      });
    });

    it('control with a value is refused', async function () {
      directory.needs(this, 'policyControl');
      const answer = await client.request(simpleBind('', ''), [{ ...POLICY_CONTROL, value: seq(int(1)) }]);
      expect(answer.code).to.equal(2);
    });
  });
}
