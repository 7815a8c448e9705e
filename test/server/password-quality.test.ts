import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, attributes, CHEAP, personDn, type Running, SUFFIX, start, testSchema } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';
import { NOTHING_TOLD, POLICY_CONTROL, policyError, policyTold } from './suite/password-policy.js';

const POLICY = `cn=policy,${SUFFIX}`;

describe('server: quality of new passwords', () => {
  const running: Running[] = [];
  let folder: string;
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-quality-'));
  });
  afterEach(async () => {
    for (const one of running.splice(0)) await one.stop();
    rmSync(folder, { recursive: true });
  });

  async function begin(
    values: Readonly<Record<string, string>>,
    settings: Parameters<typeof start>[0],
  ): Promise<{ one: Running; client: RawClient; change: (password: string) => Promise<Answer> }> {
    const one = await start({ ...CHEAP, 'passwords.policy': POLICY, ...settings }, 1);
    running.push(one);
    const all = { objectClass: ['device', 'rowanPwdPolicy'], cn: 'policy', pwdAttribute: 'userPassword', ...values };
    await one.partition.add(testSchema().parseDn(POLICY), attributes(all), { dn: ADMIN.dn });
    const client = await RawClient.open(one.port);
    expect(await client.bind(personDn('p0'), 'secret-0')).to.equal(0);
    const change = (password: string) => {
      const asked = { userIdentity: undefined, oldPassword: undefined, newPassword: Buffer.from(password) };
      const value = encodePasswordModify(asked);
      return client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value }, [POLICY_CONTROL]);
    };
    return { one, client, change };
  }

  function expectRefused(answer: Answer, message: RegExp): void {
    expect(answer.code).to.equal(19);
    expect(answer.final.message).to.match(message);
    expect(policyTold(answer)).to.deep.equal(policyError(5));
  }

  it('one that is easy to guess is refused with what to change, one that is not is taken', async () => {
    const { one, change } = await begin({ rowanPwdMinScore: '3' }, {});
    expectRefused(await change('qwertyuiop'), /too easy to guess \(\d of 4, 3 are needed\)/);
    expectRefused(await change('Person p0 1'), /names of its entry/);
    const taken = await change('correct horse battery staple');
    expect([taken.code, policyTold(taken)]).to.deep.equal([0, NOTHING_TOLD]);
    expect(one.lines.join('')).to.not.include('qwertyuiop');
  });

  it('names are words of four letters, of mail those before the @', async () => {
    const { one, change } = await begin({ pwdCheckQuality: '1', rowanPwdMinScore: '3' }, {});
    const replace = (type: string, value: string) =>
      ({ operation: 'replace', attribute: { type, values: [Buffer.from(value)] } }) as const;
    const names = [replace('cn', 'Kim Li Ng'), replace('mail', 'countess.lovelace@mail.example.com')];
    await one.partition.modify(testSchema().parseDn(personDn('p0')), names, { dn: ADMIN.dn });
    for (const password of ['velvet countess orbit', 'gasket LoveLace tulip'])
      expectRefused(await change(password), /^the password holds a name of its entry/);
    for (const password of ['comma Kimono 47 turnip', 'example email tornado 3'])
      expect((await change(password)).code, password).to.equal(0);
  });

  it('one that is known from breaches is refused', async () => {
    const sha1 = createHash('sha1').update('correct horse battery staple').digest('hex').toUpperCase();
    const breached = file('list.txt', `${sha1}:7\n`);
    const { change } = await begin({ pwdCheckQuality: '1' }, { 'passwords.breached': breached });
    expectRefused(await change('correct horse battery staple'), /known from breaches/);
    expect((await change('correct horse battery stapler')).code).to.equal(0);
  });

  it('the operator’s module is asked, and no policy without pwdCheckQuality asks', async () => {
    const check = file('check.mjs', "export default (p) => (/rowan/i.test(p) ? 'leave the company out' : undefined);");
    const { change } = await begin({ pwdCheckQuality: '1' }, { 'passwords.check': check });
    expectRefused(await change('my Rowan 1'), /^leave the company out$/);
    expect((await change('my elm 1')).code).to.equal(0);
    const free = await begin({ pwdMinLength: '3' }, { 'passwords.check': check });
    expect((await free.change('my Rowan 1')).code).to.equal(0);
  });

  it('where nobody can tell what a password is worth it is refused, and the log says why without it', async () => {
    const check = file('check.mjs', "export default (p) => { if (p !== '') throw new Error('found ' + p); };");
    const { one, change } = await begin({ pwdCheckQuality: '1' }, { 'passwords.check': check });
    const answer = await change('hush hush 7');
    expect(answer.code).to.equal(52);
    expect(answer.final.message).to.not.include('hush');
    const log = one.lines.join('');
    expect(log).to.include('check.mjs').and.not.include('hush');
  });

  it('a server whose list or module cannot be used does not start', async () => {
    const broken = { 'passwords.check': file('broken.mjs', 'export default 7;') };
    for (const settings of [broken, { 'passwords.breached': join(folder, 'none') }]) {
      let message = '';
      await start({ ...CHEAP, ...settings }, 0).catch((error: Error) => {
        message = error.message;
      });
      expect(message).to.include(Object.keys(settings)[0]!);
    }
  });

  it('a password of 100 KB is refused, and others are served meanwhile', async () => {
    const { one, client, change } = await begin({ rowanPwdMinScore: '4', pwdCheckQuality: '1' }, {});
    const other = await RawClient.open(one.port);
    const attribute = { type: 'userPassword', values: [Buffer.from('aB3!'.repeat(25_000))] };
    const replace = { operation: 'replace', attribute } as const;
    const asked = client.request({ op: 'modify', dn: personDn('p0'), changes: [replace] });
    const [long, dse] = await Promise.all([asked, other.search('')]);
    expect(long.code).to.equal(19);
    expect(dse.code).to.equal(0);
    expectRefused(await change('ab'.repeat(400)), /too easy/);
  });
});
