import { expect } from 'chai';
import { encodePasswordModify } from '../../src/protocol/extended/password-modify.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import type { SettingValues } from '../../src/server/settings/index.js';
import { ADMIN, addPerson, attributes, personDn, type Running, start, testSchema } from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';

const CHEAP = { 'passwords.argon2.memoryKiB': 64, 'passwords.argon2.timeCost': 1 } as const;

describe('server: passwords', () => {
  let running: Running;
  let admin: RawClient;

  async function begin(settings: Partial<SettingValues> = {}): Promise<void> {
    running = await start({ ...CHEAP, ...settings }, 1);
    admin = await RawClient.open(running.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
  }
  afterEach(async () => {
    admin.close();
    await running.stop();
  });

  /** What is stored, read past the server. */
  async function stored(uid: string): Promise<string[]> {
    const entry = await running.partition.read(testSchema().parseDn(personDn(uid)));
    const values = entry.attributes.find((a) => a.description === 'userPassword')?.values ?? [];
    return values.map(String);
  }

  async function bindAs(uid: string, password: string | Buffer): Promise<number> {
    const client = await RawClient.open(running.port);
    const { code } = await client.request(simpleBind(personDn(uid), password));
    client.close();
    return code;
  }

  function modify(
    uid: string,
    operation: 'add' | 'delete' | 'replace',
    ...values: string[]
  ): Promise<{ code: number }> {
    const attribute = { type: 'userPassword', values: values.map((v) => Buffer.from(v)) };
    return admin.request({ op: 'modify', dn: personDn(uid), changes: [{ operation, attribute }] });
  }

  it('given in the clear are stored as argon2id; with a scheme as they are', async () => {
    await begin();
    const ssha = '{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0';
    const list = attributes({
      objectClass: 'inetOrgPerson',
      uid: 'new',
      cn: 'n',
      sn: 'n',
      userPassword: ['clear', ssha, '{CLEARTEXT}other'],
    });
    expect((await admin.request({ op: 'add', dn: personDn('new'), attributes: list })).code).to.equal(0);
    const values = await stored('new');
    expect(values[0]).to.match(/^\{ARGON2\}\$argon2id\$/);
    expect(values[1]).to.equal(ssha);
    expect(values[2]).to.match(/^\{ARGON2\}\$argon2id\$/);
    expect(await bindAs('new', 'clear')).to.equal(0);
    expect(await bindAs('new', 'other')).to.equal(0);
    expect(await bindAs('new', values[0]!)).to.equal(49);
  });

  it('an empty or overlong one is refused with 19', async () => {
    await begin();
    expect((await modify('p0', 'replace', '')).code).to.equal(19);
    expect((await modify('p0', 'replace', 'x'.repeat(2000))).code).to.equal(19);
    expect(await bindAs('p0', 'x'.repeat(100_000))).to.equal(49);
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
  });

  it('a weak one is upgraded at its owner’s bind, sessions of before go on', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    expect((await stored('p0'))[0]).to.match(/^\{SSHA512\}/);
    const session = await RawClient.open(running.port);
    expect(await session.bind(personDn('p0'), 'secret-0')).to.equal(0);
    await running.server.services.passwords.settled();
    expect((await stored('p0'))[0]).to.match(/^\{ARGON2\}/);
    expect((await session.search(personDn('p0'))).code).to.equal(0);
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    expect(await bindAs('p0', 'secret-1')).to.equal(49);
    session.close();
  });

  it('an upgrade loses against a change made meanwhile', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    expect((await modify('p0', 'replace', 'changed')).code).to.equal(0);
    await running.server.services.passwords.settled();
    expect(await stored('p0')).to.have.length(1);
    expect(await bindAs('p0', 'changed')).to.equal(0);
    expect(await bindAs('p0', 'secret-0')).to.equal(49);
  });

  it('the upgrade can be switched off', async () => {
    await begin({ 'passwords.upgradeAtBind': false });
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    await running.server.services.passwords.settled();
    expect((await stored('p0'))[0]).to.match(/^\{SSHA512\}/);
  });

  it('stored hashes that are malformed, unknown or ask for too much verify nothing', async () => {
    await begin();
    const values = [
      '{SSHA}x',
      '{NOSUCH}abc',
      '{PBKDF2-SHA256}1000000000$c2FsdA$aGFzaA',
      '{CRYPT}',
      '{ARGON2}$argon2id$v=19$m=99999999,t=99,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA',
    ];
    await addPerson(running.partition, 'odd', { userPassword: values });
    expect(await bindAs('odd', 'abc')).to.equal(49);
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
  });

  it('never come back and never reach the log', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    const secrets = ['Hunter2-clear', 'Hunter2-wrong', 'Hunter2-new'];
    await modify('p0', 'replace', secrets[0]!);
    const own = await RawClient.open(running.port);
    await own.bind(personDn('p0'), secrets[1]!);
    await own.bind(personDn('p0'), secrets[0]!);
    const change = {
      userIdentity: undefined,
      oldPassword: Buffer.from(secrets[0]!),
      newPassword: Buffer.from(secrets[2]!),
    };
    expect(
      (await own.request({ op: 'extended', oid: ExtendedOid.passwordModify, value: encodePasswordModify(change) }))
        .code,
    ).to.equal(0);
    for (const client of [own, admin]) {
      for (const names of [
        [],
        ['*', '+'],
        ['userPassword'],
        ['2.5.4.35'],
        ['@inetOrgPerson'],
        ['userPassword;x-option'],
      ]) {
        const { entries } = await client.search(personDn('p0'), { attributes: names });
        expect([...entries[0]!.attributes.keys()].filter((name) => /password|2\.5\.4\.35/i.test(name))).to.deep.equal(
          [],
        );
      }
    }
    expect(running.lines.join('')).not.to.contain('Hunter2');
    own.close();
  });
});
