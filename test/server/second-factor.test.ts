import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { hotpCode, stepAt } from '../../src/password/totp.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { APPLICATION_PASSWORD, createApplicationPassword } from '../../src/server/passwords/application-password.js';
import { SecondFactor, TOTP_SECRET } from '../../src/server/passwords/second-factor.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { costOfHashing } from '../password/cost-of-hashing.js';
import { tlv } from '../protocol/bytes.js';
import {
  ADMIN,
  addPerson,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient } from './raw-client.js';

const POLICY = `cn=policy,${SUFFIX}`;
const ADA = personDn('ada');
const PASSWORD = 'right one';
const SYSTEM = { dn: ADMIN.dn, system: true };

describe('server: second factor', () => {
  const running: Running[] = [];
  const secret = randomBytes(20);
  let folder: string;
  let key: string;
  const { now } = Date;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-totp-'));
    key = join(folder, 'key');
    writeFileSync(key, randomBytes(32));
    // A code is right for the same steps from the beginning of a test to its end.
    const time = now();
    Date.now = () => time;
  });
  afterEach(async () => {
    Date.now = now;
    for (const one of running.splice(0)) await one.stop();
    rmSync(folder, { recursive: true });
  });

  const codeAt = (drift = 0): string => hotpCode(secret, stepAt(Date.now()) + drift);
  const wrongCode = (): string => {
    const right = [-1, 0, 1].map(codeAt);
    return ['000000', '000001', '000002', '000003'].find((code) => !right.includes(code))!;
  };
  const enroll = (partition: Partition, dn = ADA, sealedWith = key) => {
    const value = new SecondFactor(sealedWith, { error: () => undefined }).encryptSecret(secret);
    const change = { operation: 'replace', attribute: { type: TOTP_SECRET, values: [value] } } as const;
    return partition.modify(testSchema().parseDn(dn), [change], SYSTEM);
  };

  async function begin(
    values: Readonly<Record<string, string>> | undefined,
    settings: Parameters<typeof start>[0] = {},
  ): Promise<Running> {
    const policy = values ? { 'passwords.policy': POLICY } : {};
    const one = await start({ ...CHEAP, ...policy, 'passwords.totpKey': key, ...settings }, 1);
    running.push(one);
    if (values) {
      const all = { objectClass: ['device', 'rowanPwdPolicy'], cn: 'policy', pwdAttribute: 'userPassword', ...values };
      await one.partition.add(testSchema().parseDn(POLICY), attributes(all), { dn: ADMIN.dn });
    }
    // Argon2id, so that the credential is remembered.
    await addPerson(one.partition, 'ada');
    const admin = await RawClient.open(one.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
    const attribute = { type: 'userPassword', values: [Buffer.from(PASSWORD)] };
    const answer = await admin.request({ op: 'modify', dn: ADA, changes: [{ operation: 'replace', attribute }] });
    expect(answer.code).to.equal(0);
    admin.close();
    return one;
  }

  async function bind({ port }: Running, password: string, dn = ADA): Promise<number> {
    const client = await RawClient.open(port);
    const code = await client.bind(dn, password);
    client.close();
    return code;
  }

  it('the code follows the password: neither is enough, and none is another’s', async () => {
    const one = await begin(undefined);
    expect(await bind(one, PASSWORD)).to.equal(0);
    await enroll(one.partition);
    for (const password of [PASSWORD, codeAt(), PASSWORD + wrongCode(), `wrong${codeAt()}`, `${codeAt()}${PASSWORD}`])
      expect(await bind(one, password), password).to.equal(49);
    expect(await bind(one, PASSWORD + codeAt())).to.equal(0);
    expect(await bind(one, 'secret-0', personDn('p0')), 'others bind as ever').to.equal(0);
  });

  it('a code is taken once, and none before it', async () => {
    const one = await begin(undefined);
    await enroll(one.partition);
    expect(await bind(one, PASSWORD + codeAt(0))).to.equal(0);
    expect(await bind(one, PASSWORD + codeAt(0)), 'again').to.equal(49);
    expect(await bind(one, PASSWORD + codeAt(-1)), 'the one before').to.equal(49);
    expect(await bind(one, PASSWORD + codeAt(1)), 'the next').to.equal(0);
  });

  it('one step of drift is allowed, two are not', async () => {
    for (const [drift, expected] of [
      [-2, 49],
      [-1, 0],
      [1, 0],
      [2, 49],
    ] as const) {
      const one = await begin(undefined);
      await enroll(one.partition);
      expect(await bind(one, PASSWORD + codeAt(drift)), String(drift)).to.equal(expected);
    }
  });

  it('of many binds with one code at once, at two processes, one succeeds', async () => {
    const first = await emptyPartition(await openLmdbStore(join(folder, 'data')));
    await fill(first, 1);
    await enroll(first, personDn('p0'));
    const second = await Partition.open(await openLmdbStore(join(folder, 'data')), testSchema());
    const both = [await start({ ...CHEAP, 'passwords.totpKey': key }, 0, first)];
    both.push(await start({ ...CHEAP, 'passwords.totpKey': key }, 0, second));
    try {
      const password = `secret-0${codeAt()}`;
      const codes = await Promise.all(
        Array.from({ length: 16 }, (_, n) => bind(both[n % 2]!, password, personDn('p0'))),
      );
      expect(codes.filter((code) => code === 0)).to.have.length(1);
    } finally {
      for (const one of both) await one.stop();
      await first.close();
      await second.close();
    }
  });

  it('what is remembered of the password is not enough, and a wrong code costs what a wrong password does', async () => {
    const one = await begin(undefined);
    await enroll(one.partition);
    expect(await bind(one, PASSWORD + codeAt(-1))).to.equal(0);
    const spent = (password: string): Promise<number> =>
      costOfHashing(async () => expect(await bind(one, password)).to.equal(49));
    const [code, password, both, none] = [
      await spent(PASSWORD + wrongCode()),
      await spent(`wrong ${codeAt()}`),
      await spent(`wrong ${wrongCode()}`),
      await spent(PASSWORD),
    ];
    expect([password, both, none]).to.deep.equal([code, code, code]);
    expect(await spent(PASSWORD + codeAt(-1)), 'a code that was taken').to.equal(code);
    expect(code).to.be.above(0);
  });

  it('where a policy demands one, nobody binds without', async () => {
    const one = await begin({ rowanPwdSecondFactor: 'TRUE' });
    for (const password of [PASSWORD, PASSWORD + codeAt(), `${PASSWORD}000000`])
      expect(await bind(one, password)).to.equal(49);
    await enroll(one.partition);
    expect(await bind(one, PASSWORD)).to.equal(49);
    expect(await bind(one, PASSWORD + codeAt())).to.equal(0);
  });

  it('guessing codes locks, under a policy that says nothing of it and under none', async () => {
    for (const values of [undefined, { pwdMinLength: '3' }]) {
      const one = await begin(values);
      await enroll(one.partition);
      for (let i = 0; i < 9; i++) expect(await bind(one, PASSWORD + wrongCode())).to.equal(49);
      expect(await bind(one, PASSWORD + codeAt(-1)), 'not yet').to.equal(0);
      for (let i = 0; i < 10; i++) expect(await bind(one, PASSWORD + wrongCode())).to.equal(49);
      expect(await bind(one, PASSWORD + codeAt())).to.equal(49);
      const time = Date.now();
      Date.now = () => time + 16 * 60_000;
      expect(await bind(one, PASSWORD + codeAt()), 'for 15 minutes').to.equal(0);
    }
  });

  it('account usability tells of the lock, and of a second factor that is demanded and lacks', async () => {
    const usability = async ({ port }: Running) => {
      const admin = await RawClient.open(port);
      await admin.bind(ADMIN.dn, ADMIN.password);
      const control = { oid: ControlOid.accountUsability, critical: true, value: undefined };
      const { entries } = await admin.search(ADA, { scope: 'base', attributes: ['1.1'] }, [control]);
      admin.close();
      return entries[0]!.controls[0]?.value;
    };
    const usable = tlv(0x80, [0xff]);
    const inactive = (...more: Buffer[]) => tlv(0xa1, tlv(0x80, [255]), tlv(0x81, [0]), tlv(0x82, [0]), ...more);
    const free = await begin(undefined);
    await enroll(free.partition);
    expect(await usability(free)).to.deep.equal(usable);
    for (let i = 0; i < 10; i++) expect(await bind(free, PASSWORD + wrongCode())).to.equal(49);
    expect(await usability(free)).to.deep.equal(inactive(tlv(0x84, [900 >> 8, 900 & 0xff])));
    const strict = await begin({ rowanPwdSecondFactor: 'TRUE' });
    expect(await usability(strict)).to.deep.equal(inactive());
    await enroll(strict.partition);
    expect(await usability(strict)).to.deep.equal(usable);
  });

  it('a policy of its own counts as it says', async () => {
    const one = await begin({ pwdLockout: 'TRUE', pwdMaxFailure: '2' });
    await enroll(one.partition);
    for (let i = 0; i < 2; i++) expect(await bind(one, PASSWORD + wrongCode())).to.equal(49);
    expect(await bind(one, PASSWORD + codeAt())).to.equal(49);
  });

  it('a password that ends in digits is itself with the code behind it', async () => {
    const one = await begin(undefined);
    await enroll(one.partition, personDn('p0'));
    const attribute = { type: 'userPassword', values: [Buffer.from('{CLEARTEXT}123456')] };
    const changes = [{ operation: 'replace', attribute }] as const;
    await one.partition.modify(testSchema().parseDn(personDn('p0')), changes, SYSTEM);
    for (const password of ['123456', codeAt(), ''])
      expect(await bind(one, password, personDn('p0')), password).to.be.oneOf([49, 53]);
    expect(await bind(one, `123456${codeAt()}`, personDn('p0'))).to.equal(0);
  });

  it('a stronger hash that is put in the place of one is of the password without the code', async () => {
    const one = await begin(undefined, { 'passwords.upgradeAtBind': true });
    const dn = personDn('p0');
    await enroll(one.partition, dn);
    expect(await bind(one, `secret-0${codeAt(-1)}`, dn)).to.equal(0);
    await one.server.services.upgrades.waitForUpgrades();
    const { attributes: stored } = await one.partition.read(testSchema().parseDn(dn));
    const [value] = stored.find(({ description }) => description === 'userPassword')!.values;
    expect(value!.toString()).to.match(/^\{ARGON2\}/);
    expect(await bind(one, `secret-0${codeAt()}`, dn)).to.equal(0);
  });

  it('sessions go on when it is enrolled, and an application password binds without a code', async () => {
    const one = await begin({ rowanPwdSecondFactor: 'TRUE', pwdMinLength: '3' });
    const limits = { name: 'imap', networks: [], usedBy: undefined, expires: undefined };
    const { value, clearPassword: clear } = createApplicationPassword(limits, [], Date.now());
    const add = { operation: 'add', attribute: { type: APPLICATION_PASSWORD, values: [value] } } as const;
    await one.partition.modify(testSchema().parseDn(ADA), [add], SYSTEM);
    expect(await bind(one, PASSWORD), 'the policy demands a code').to.equal(49);
    expect(await bind(one, clear)).to.equal(0);
    const client = await RawClient.open(one.port);
    expect(await client.bind(ADA, clear)).to.equal(0);
    await enroll(one.partition);
    expect((await client.search(ADA)).code).to.equal(0);
    expect(await bind(one, clear)).to.equal(0);
    expect(await bind(one, clear + codeAt()), 'which takes none').to.equal(49);
    client.close();
  });

  it('without the key, or with another one, nobody binds, and the log says so once', async () => {
    const other = join(folder, 'other');
    writeFileSync(other, randomBytes(32));
    for (const settings of [{ 'passwords.totpKey': other }, { 'passwords.totpKey': undefined }]) {
      const one = await begin(undefined, settings);
      await enroll(one.partition);
      for (let i = 0; i < 2; i++) expect(await bind(one, PASSWORD + codeAt())).to.equal(49);
      expect(one.lines.filter((line) => line.includes('second factor'))).to.have.length(1);
    }
  });

  it('a key of another length, or none where one is said to be, stops the start', async () => {
    writeFileSync(key, 'short');
    for (const path of [key, join(folder, 'none')]) {
      const error = await start({ 'passwords.totpKey': path }, 0).catch((reason: Error) => reason);
      expect((error as Error).message)
        .to.include('passwords.totpKey')
        .and.include(path);
    }
  });

  it('the stored value tells nothing, and one that was changed is none', () => {
    const lines: string[] = [];
    const factor = new SecondFactor(key, { error: (line: unknown) => void lines.push(String(line)) });
    const value = factor.encryptSecret(secret);
    expect(factor.encryptSecret(secret).equals(value), 'another nonce').to.equal(false);
    expect(value.includes(secret)).to.equal(false);
    expect(factor.decryptSecret(value)).to.deep.equal(secret);
    const body = Buffer.from(value.toString('latin1', 11), 'base64');
    for (let at = 0; at < body.length; at++) {
      const changed = Buffer.from(body);
      changed[at]! ^= 1;
      expect(factor.decryptSecret(Buffer.from(`{AES256GCM}${changed.toString('base64')}`))).to.equal(undefined);
    }
    for (const text of ['', '{AES256GCM}', 'secret', `{AES256GCM}${body.subarray(0, 36).toString('base64')}`])
      expect(factor.decryptSecret(Buffer.from(text))).to.equal(undefined);
    expect(lines).to.have.length(1);
  });

  it('nobody reads it over LDAP, and nobody writes it', async () => {
    const one = await begin(undefined);
    await enroll(one.partition);
    for (const [dn, password] of [
      [ADA, PASSWORD + codeAt()],
      [ADMIN.dn, ADMIN.password],
    ] as const) {
      const client = await RawClient.open(one.port);
      expect(await client.bind(dn, password)).to.equal(0);
      const { entries } = await client.search(ADA, { attributes: ['*', '+', 'rowanTotpSecret'] });
      expect([...entries[0]!.attributes.keys()]).to.not.include('rowanTotpSecret');
      const found = await client.search(SUFFIX, {
        scope: 'sub',
        filter: { type: 'present', attribute: 'rowanTotpSecret' },
      });
      expect(found.entries).to.have.length(0);
      const attribute = { type: 'rowanTotpSecret', values: [] };
      const answer = await client.request({ op: 'modify', dn: ADA, changes: [{ operation: 'replace', attribute }] });
      expect(answer.code).to.be.oneOf([19, 50]);
      client.close();
    }
  });
});
