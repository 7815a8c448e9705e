import { expect } from 'chai';
import { slowWork } from '../../src/password/index.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import type { SettingValues } from '../../src/server/settings/index.js';
import { hold } from '../password/hold.js';
import { SLAPD_ARGON2 } from '../password/vectors.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, addPerson, attributes, CHEAP, personDn, type Running, start, testSchema } from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';

const SSHA = '{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0';

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

  /** How many slow verifications and hashes the work takes. */
  async function slowPieces(work: () => Promise<unknown>): Promise<number> {
    const run = slowWork.run.bind(slowWork);
    let pieces = 0;
    slowWork.run = (piece) => {
      pieces++;
      return run(piece);
    };
    try {
      await work();
    } finally {
      slowWork.run = run;
    }
    return pieces;
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
    const list = attributes({
      objectClass: 'inetOrgPerson',
      uid: 'new',
      cn: 'n',
      sn: 'n',
      userPassword: ['clear', SSHA, '{CLEARTEXT}other'],
    });
    expect((await admin.request({ op: 'add', dn: personDn('new'), attributes: list })).code).to.equal(0);
    const values = await stored('new');
    expect(values[0]).to.match(/^\{ARGON2\}\$argon2id\$/);
    expect(values[1]).to.equal(SSHA);
    expect(values[2]).to.match(/^\{ARGON2\}\$argon2id\$/);
    expect(await bindAs('new', 'clear')).to.equal(0);
    expect(await bindAs('new', 'other')).to.equal(0);
    expect(await bindAs('new', values[0]!)).to.equal(49);
  });

  it('wrong ones cost one argon2 verification and get one answer, whoever the bind names', async () => {
    await begin();
    await addPerson(running.partition, 'none');
    await addPerson(running.partition, 'foreign', { userPassword: '{X-VENDOR}abc' });
    await addPerson(running.partition, 'broken', { userPassword: '{ARGON2}broken' });
    await addPerson(running.partition, 'strong');
    expect((await modify('strong', 'add', 'right')).code).to.equal(0);
    const client = await RawClient.open(running.port);
    const known = ['p0', 'none', 'foreign', 'broken', 'strong'].map(personDn);
    const unknown = [personDn('nobody'), 'uid=x,ou=nowhere,dc=example,dc=com', 'o=elsewhere'];
    const answers: unknown[] = [];
    for (const dn of [...known, ADMIN.dn, ...unknown]) {
      const pieces = await slowPieces(async () => answers.push((await client.request(simpleBind(dn, 'wrong'))).final));
      expect(pieces, dn).to.equal(1);
    }
    expect(answers[0]).to.include({ code: 49 });
    for (const answer of answers) expect(answer).to.deep.equal(answers[0]);
    client.close();
  });

  it('verified are remembered for a while, until they change, or not at all', async () => {
    for (const enabled of [true, false]) {
      await begin({ 'credentialCache.enabled': enabled });
      expect((await modify('p0', 'replace', 'right')).code).to.equal(0);
      const bind = (password: string, code: number) =>
        slowPieces(async () => expect(await bindAs('p0', password)).to.equal(code));
      expect(await bind('right', 0), 'first').to.equal(1);
      expect(await bind('right', 0), 'again').to.equal(enabled ? 0 : 1);
      expect(await bind('wrong', 49), 'wrong').to.equal(1);
      expect((await modify('p0', 'replace', 'other')).code).to.equal(0);
      expect(await bind('right', 49), 'after a change').to.equal(1);
      expect((await modify('p0', 'replace', 'right')).code).to.equal(0);
      expect(await bind('right', 0), 'changed back').to.equal(1);
      const attribute = { type: 'description', values: [Buffer.from('changed')] };
      const changes = [{ operation: 'replace', attribute }] as const;
      expect((await admin.request({ op: 'modify', dn: personDn('p0'), changes })).code).to.equal(0);
      expect(await bind('right', 0), 'after another change').to.equal(1);
      expect((await admin.request({ op: 'delete', dn: personDn('p0') })).code).to.equal(0);
      expect(await bind('right', 49), 'deleted').to.equal(1);
      if (enabled) {
        admin.close();
        await running.stop();
      }
    }
  });

  it('of a scheme that is not known are kept as they are, bind nobody, and the log says so once', async () => {
    await begin();
    const values = ['{X-VENDOR}Hunter2', '{SASL}ann@EXAMPLE.COM'];
    expect((await modify('p0', 'replace', ...values)).code).to.equal(0);
    expect(await stored('p0')).to.deep.equal(values);
    for (const tried of [...values, 'Hunter2', 'secret-0']) expect(await bindAs('p0', tried)).to.equal(49);
    const warnings = running.lines.filter((line) => line.includes('not verified here'));
    expect(warnings).to.have.length(1);
    expect(running.lines.join('')).not.to.match(/Hunter2|X-VENDOR/);
    expect((await modify('p0', 'delete', values[0]!)).code).to.equal(0);
    expect(await stored('p0')).to.deep.equal([values[1]]);
  });

  it('of slapd’s argon2 end at a NUL, when they are stored and when they are deleted', async () => {
    await begin();
    const { stored: sent, clear } = SLAPD_ARGON2;
    expect((await modify('p0', 'replace', sent)).code).to.equal(0);
    expect(await stored('p0')).to.deep.equal([sent.slice(0, -2)]);
    expect(await bindAs('p0', clear)).to.equal(0);
    expect((await modify('p0', 'delete', sent)).code).to.equal(0);
    expect(await bindAs('p0', clear)).to.equal(49);
  });

  it('of a user are given in the clear by the user, unless passwords.allowHashed lets them be hashed', async () => {
    for (const [allowHashed, code] of [
      [false, 19],
      [true, 0],
    ] as const) {
      await begin({ 'passwords.allowHashed': allowHashed });
      for (const value of [SSHA, '{SASL}ann@EXAMPLE.COM', '{CRYPT}$y$j9T$abc$def', '{X-VENDOR}abc']) {
        await modify('p0', 'replace', 'mine');
        const user = await RawClient.open(running.port);
        expect(await user.bind(personDn('p0'), 'mine')).to.equal(0);
        const attribute = { type: 'userPassword', values: [Buffer.from(value)] };
        const change = { op: 'modify', dn: personDn('p0'), changes: [{ operation: 'replace', attribute }] } as const;
        const answer = await user.request(change);
        expect(answer.code, value).to.equal(code);
        if (code === 0) expect(await stored('p0')).to.deep.equal([value]);
        else expect(answer.final.message).to.match(/^give your new password itself, .*passwords\.allowHashed\)$/);
        expect((await modify('p0', 'replace', value)).code, 'by the administrator').to.equal(0);
        expect(await bindAs('p0', 'mine')).to.equal(49);
        user.close();
      }
      await modify('p0', 'replace', 'mine');
      const user = await RawClient.open(running.port);
      await user.bind(personDn('p0'), 'mine');
      const attribute = { type: 'userPassword', values: [Buffer.from('{CLEARTEXT}other')] };
      const changes = [{ operation: 'replace', attribute }] as const;
      expect((await user.request({ op: 'modify', dn: personDn('p0'), changes })).code).to.equal(0);
      expect((await stored('p0'))[0]).to.match(/^\{ARGON2\}/);
      user.close();
      if (allowHashed) continue;
      admin.close();
      await running.stop();
    }
  });

  it('an empty or overlong one is refused with 19', async () => {
    await begin();
    expect((await modify('p0', 'replace', '')).code).to.equal(19);
    expect((await modify('p0', 'replace', 'x'.repeat(2000))).code).to.equal(19);
    expect(await bindAs('p0', 'x'.repeat(50_000))).to.equal(49);
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
  });

  it('a weak one is upgraded at its owner’s bind, sessions of before go on', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    expect((await stored('p0'))[0]).to.match(/^\{SSHA512\}/);
    const session = await RawClient.open(running.port);
    expect(await session.bind(personDn('p0'), 'secret-0')).to.equal(0);
    await running.server.services.upgrades.waitForUpgrades();
    expect((await stored('p0'))[0]).to.match(/^\{ARGON2\}/);
    expect((await session.search(personDn('p0'))).code).to.equal(0);
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    expect(await bindAs('p0', 'secret-1')).to.equal(49);
    session.close();
  });

  it('a second bind that has read the weak one is valid after the upgrade for the first one, too', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    const { upgrades } = running.server.services;
    const weak = Buffer.from((await stored('p0'))[0]!);
    const { id } = (await running.partition.findRow(testSchema().parseDn(personDn('p0'))))!;
    const session = await RawClient.open(running.port);
    expect(await session.bind(personDn('p0'), 'secret-0')).to.equal(0);
    await upgrades.waitForUpgrades();
    // As a bind does that began before the upgrade and ends after it.
    upgrades.enqueueIfWeak(personDn('p0'), id, weak, Buffer.from('secret-0'), [weak]);
    await upgrades.waitForUpgrades();
    expect((await session.search(personDn('p0'))).code).to.equal(0);
    session.close();
  });

  it('an upgrade loses against a change made meanwhile', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    const held = hold();
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    await held.until(1);
    expect((await modify('p0', 'replace', SSHA)).code).to.equal(0);
    held.goOn();
    await running.server.services.upgrades.waitForUpgrades();
    expect(await stored('p0')).to.deep.equal([SSHA]);
    expect(await bindAs('p0', 'secret-0')).to.equal(49);
  });

  it('the upgrade can be switched off', async () => {
    await begin({ 'passwords.upgradeAtBind': false });
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    await running.server.services.upgrades.waitForUpgrades();
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
