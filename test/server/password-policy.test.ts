import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { generalizedTime } from '../../src/partition/model/csn.js';
import { STATE_TABLE } from '../../src/partition/model/tables.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { TOTP_SECRET } from '../../src/server/passwords/second-factor.js';
import type { Plan } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { costOfHashing } from '../password/cost-of-hashing.js';
import { seq, tlv } from '../protocol/bytes.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  PEOPLE,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';
import { POLICY_CONTROL, policyError, policyTold } from './suite/password-policy.js';

const POLICY = `cn=policy,${SUFFIX}`;
const SYSTEM = { dn: ADMIN.dn, system: true };
const DEFAULT = { ...CHEAP, 'passwords.policy': POLICY };

describe('server: password policy', () => {
  const running: Running[] = [];
  const folders: string[] = [];
  afterEach(async () => {
    for (const one of running.splice(0)) await one.stop();
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
  });

  async function addPolicy(partition: Partition, values: Readonly<Record<string, string>>): Promise<void> {
    const all = { objectClass: ['device', 'rowanPwdPolicy'], cn: 'policy', pwdAttribute: '2.5.4.35', ...values };
    await partition.add(testSchema().parseDn(POLICY), attributes(all), SYSTEM);
  }

  /** A server under this default policy; the users bring what they have as an import does. */
  async function begin(
    values: Readonly<Record<string, string>>,
    users: Record<string, Record<string, string | readonly string[]>>,
    rules?: string,
  ) {
    const one = await start(DEFAULT, 1, undefined, rules);
    running.push(one);
    await addPolicy(one.partition, values);
    for (const [uid, more] of Object.entries(users)) {
      const all = personAttributes(uid, { userPassword: '{CLEARTEXT}right', ...more });
      await one.partition.add(testSchema().parseDn(personDn(uid)), all, SYSTEM);
    }
    return one;
  }

  async function bind({ port }: Running, dn: string, password: string, asking = true) {
    const client = await RawClient.open(port);
    const answer = await client.request(simpleBind(dn, password), asking ? [POLICY_CONTROL] : []);
    client.close();
    return { code: answer.code, told: policyTold(answer)?.toString('hex'), controls: answer.controls };
  }

  const AGED = { pwdChangedTime: generalizedTime(Date.now() - 500_000_000) };
  const EXPIRED = { pwdMaxAge: '1000', pwdGraceAuthNLimit: '2' };
  const OLD = { pwdChangedTime: '20200101000000Z' };
  const grace = (left: number) => seq(tlv(0xa0, tlv(0x81, [left]))).toString('hex');

  it('numbers of a policy that make no sense are refused at an add and at a modify', async () => {
    const one = await begin({ pwdMaxLength: '20', pwdMaxAge: '1000' }, {});
    const client = await RawClient.open(one.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const all = { objectClass: ['device', 'rowanPwdPolicy'], cn: 'other', pwdAttribute: 'userPassword' };
    const add = (values: Readonly<Record<string, string>>) =>
      client.request({ op: 'add', dn: `cn=other,${SUFFIX}`, attributes: attributes({ ...all, ...values }) });
    const replace = (type: string, value: string) => {
      const attribute = { type, values: [Buffer.from(value)] };
      return client.request({ op: 'modify', dn: POLICY, changes: [{ operation: 'replace', attribute }] });
    };
    const { may } = testSchema().objectClass('pwdPolicy')!;
    const numbers = [...may].filter(({ syntax }) => syntax.oid === '1.3.6.1.4.1.1466.115.121.1.27');
    expect(numbers.length).to.be.above(10);
    for (const { name } of numbers) {
      const { code, final } = await replace(name, '-1');
      expect([code, final.message]).to.deep.equal([
        19,
        `'${name}' of a password policy is a number from 0 to ${name === 'pwdCheckQuality' ? 2 : 2_147_483_647}, not -1`,
      ]);
    }
    const pairs = [
      ['pwdMinLength', '21', 'pwdMaxLength', '20'],
      ['pwdMinAge', '1001', 'pwdMaxAge', '1000'],
      ['pwdMinDelay', '9', 'pwdMaxDelay', '8'],
    ] as const;
    for (const [low, lower, high, higher] of pairs) {
      const { code, final } = await add({ [low]: lower, [high]: higher });
      const message = `'${low}' is ${lower}, more than '${high}', which is ${higher}; lower it`;
      expect([code, final.message]).to.deep.equal([19, message]);
    }
    expect((await replace('pwdMinLength', '21')).code, 'the maximum is stored').to.equal(19);
    for (const values of [{ pwdCheckQuality: '3' }, { rowanPwdMinScore: '5' }])
      expect((await add(values)).code).to.equal(19);
    expect((await replace('pwdMinLength', '20')).code).to.equal(0);
    expect((await add({ pwdMinLength: '8', pwdMaxLength: '0', pwdMaxAge: '0', pwdMinAge: '7' })).code).to.equal(0);
    const late = { objectClass: ['device', 'extensibleObject'], cn: 'late', pwdMinAge: '9', pwdMaxAge: '8' };
    const dn = `cn=late,${SUFFIX}`;
    expect((await client.request({ op: 'add', dn, attributes: attributes(late) })).code, 'no policy').to.equal(0);
    for (const [type, value, code] of [
      ['pwdAttribute', 'userPassword', 19],
      ['description', 'no policy', 0],
    ] as const) {
      const attribute = { type, values: [Buffer.from(value)] };
      expect((await client.request({ op: 'modify', dn, changes: [{ operation: 'add', attribute }] })).code).to.equal(
        code,
      );
    }
    client.close();
  });

  it("a reset ends an imported lock by failed binds, and leaves an administrator's", async () => {
    const failures = { pwdFailureTime: '20260101000000Z' };
    const one = await begin(
      { pwdLockout: 'TRUE', pwdMaxFailure: '1' },
      {
        guessed: { ...failures, pwdAccountLockedTime: '20260101000000Z' },
        barred: { ...failures, pwdAccountLockedTime: '000001010000Z' },
      },
    );
    const client = await RawClient.open(one.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    for (const [uid, code] of [
      ['guessed', 0],
      ['barred', 49],
    ] as const) {
      expect((await bind(one, personDn(uid), 'right')).code).to.equal(49);
      const attribute = { type: 'userPassword', values: [Buffer.from('another')] };
      const change = { operation: 'replace', attribute } as const;
      expect((await client.request({ op: 'modify', dn: personDn(uid), changes: [change] })).code).to.equal(0);
      expect((await bind(one, personDn(uid), 'another')).code, uid).to.equal(code);
    }
    client.close();
  });

  it('an expired password takes its grace logins, and is refused as expired then', async () => {
    const one = await begin(EXPIRED, { old: OLD, used: { ...OLD, pwdGraceUseTime: '20260101000000Z' } });
    expect(await bind(one, personDn('old'), 'right')).to.include({ code: 0, told: grace(1) });
    expect(await bind(one, personDn('old'), 'right')).to.include({ code: 0, told: grace(0) });
    expect(await bind(one, personDn('old'), 'right')).to.include({ code: 49, told: policyError(0).toString('hex') });
    expect(await bind(one, personDn('old'), 'wrong')).to.include({ code: 49, told: '3000' });
    const { controls } = await bind(one, personDn('old'), 'right', false);
    expect(controls).to.deep.equal([{ oid: ControlOid.passwordExpired, critical: false, value: Buffer.from('0') }]);
    expect(await bind(one, personDn('used'), 'right'), 'one was used').to.include({ code: 0, told: grace(0) });
  });

  it('an expired password is refused at the cost of a wrong one, remembered or not', async () => {
    const one = await begin({ ...EXPIRED, pwdGraceAuthNLimit: '1' }, { old: OLD });
    expect((await bind(one, personDn('old'), 'right')).code).to.equal(0);
    const spent = (password: string): Promise<number> =>
      costOfHashing(async () => expect((await bind(one, personDn('old'), password)).code).to.equal(49));
    const wrong = await spent('wrong');
    expect(wrong).to.be.above(0);
    for (const again of [await spent('right'), await spent('right')]) expect(again).to.equal(wrong);
  });

  it('a policy without pwdGraceAuthNLimit allows no grace login (draft-behera-10 §5.2.9)', async () => {
    const one = await begin({ pwdMaxAge: '1000' }, { old: OLD });
    expect(await bind(one, personDn('old'), 'right')).to.include({ code: 49, told: policyError(0).toString('hex') });
  });

  it('grace logins are each counted when they are used at once', async () => {
    const one = await begin({ pwdMaxAge: '1000', pwdGraceAuthNLimit: '3' }, { old: OLD });
    const codes = await Promise.all(Array.from({ length: 8 }, () => bind(one, personDn('old'), 'right')));
    expect(codes.filter(({ code }) => code === 0)).to.have.length(3);
    expect((await bind(one, personDn('old'), 'right')).code).to.equal(49);
  });

  it('failures that an import brought count', async () => {
    const one = await begin(
      { pwdLockout: 'TRUE', pwdMaxFailure: '2' },
      { failed: { pwdFailureTime: '20260101000000Z' }, fresh: {} },
    );
    for (const uid of ['failed', 'fresh']) expect((await bind(one, personDn(uid), 'wrong')).code).to.equal(49);
    expect((await bind(one, personDn('failed'), 'right')).code).to.equal(49);
    expect((await bind(one, personDn('fresh'), 'right')).code).to.equal(0);
  });

  it('an account that was idle for too long binds when its lock is taken away, though it has none', async () => {
    const one = await begin({ pwdMaxIdle: '1000' }, { idle: { pwdLastSuccess: '20260101000000Z' } });
    expect((await bind(one, personDn('idle'), 'right')).code).to.equal(49);
    const unlock = { operation: 'replace', attribute: { type: 'pwdAccountLockedTime', values: [] } } as const;
    await one.partition.modify(testSchema().parseDn(personDn('idle')), [unlock], SYSTEM);
    expect((await bind(one, personDn('idle'), 'right')).code).to.equal(0);
  });

  it('each bind that fails writes once, whoever it names, and is locked or not', async () => {
    const one = await begin({ pwdLockout: 'TRUE', pwdMaxFailure: '2' }, { somebody: {} });
    const { store } = one.partition;
    const commit = store.commit.bind(store);
    let commits = 0;
    store.commit = (plan: Plan) => {
      commits++;
      return commit(plan);
    };
    const counts = async (dn: string) => {
      const found: number[] = [];
      for (let i = 0; i < 4; i++) {
        commits = 0;
        expect((await bind(one, dn, 'wrong')).code).to.equal(49);
        found.push(commits);
      }
      return found;
    };
    expect(await counts(personDn('somebody'))).to.deep.equal([1, 1, 1, 1]);
    expect(await counts(personDn('nobody')), 'nobody').to.deep.equal([1, 1, 1, 1]);
    expect(await counts(PEOPLE), 'no password').to.deep.equal([1, 1, 1, 1]);
    commits = 0;
    expect((await bind(one, personDn('p0'), 'secret-0')).code).to.equal(0);
    expect(commits, 'a clean success').to.equal(0);
  });

  it('a bind reads the state once under a policy, and not at all under none', async () => {
    const one = await begin({ pwdLockout: 'TRUE', pwdMaxFailure: '2' }, {});
    const { store } = one.partition;
    const get = store.get.bind(store);
    let reads = 0;
    store.get = (table: string, key: Buffer) => {
      if (table === STATE_TABLE.name) reads++;
      return get(table, key);
    };
    for (const running of [one, await start(CHEAP, 0, one.partition)]) {
      reads = 0;
      expect((await bind(running, personDn('p0'), 'secret-0')).code).to.equal(0);
      expect(reads).to.equal(running === one ? 1 : 0);
      if (running !== one) await running.stop();
    }
  });

  it('a lock holds at every process, whatever each of them remembers', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'rowan-policy-'));
    folders.push(folder);
    const first = await emptyPartition(await openLmdbStore(folder));
    await fill(first, 1);
    await addPolicy(first, { pwdLockout: 'TRUE', pwdMaxFailure: '6' });
    const second = await Partition.open(await openLmdbStore(folder), testSchema());
    const both = [await start(DEFAULT, 0, first), await start(DEFAULT, 0, second)];
    running.push(...both);
    try {
      for (const one of both) expect((await bind(one, personDn('p0'), 'secret-0')).code).to.equal(0);
      await Promise.all(both.flatMap((one) => [1, 2, 3].map(() => bind(one, personDn('p0'), 'wrong'))));
      for (const one of both) expect((await bind(one, personDn('p0'), 'secret-0')).code).to.equal(49);
    } finally {
      for (const one of running.splice(0)) await one.stop();
      await first.close();
      await second.close();
    }
  });

  it('a bind reports a lock where the policy says so, for any password, to clients that ask', async () => {
    const lock = { pwdLockout: 'TRUE', pwdMaxFailure: '2' };
    const closed = { locked: { pwdAccountLockedTime: '000001010000Z' }, ended: { pwdEndTime: '20200101000000Z' } };
    const one = await begin({ ...lock, rowanPwdTellLockout: 'TRUE' }, { guessed: {}, ...closed });
    const told = policyError(1).toString('hex');
    for (let i = 0; i < 2; i++)
      expect(await bind(one, personDn('guessed'), 'wrong')).to.include({ code: 49, told: '3000' });
    for (const uid of ['guessed', 'locked', 'ended'])
      for (const password of ['right', 'wrong'])
        expect(await bind(one, personDn(uid), password)).to.include({ code: 49, told });
    expect(await bind(one, personDn('nobody'), 'right')).to.include({ code: 49, told: '3000' });
    expect((await bind(one, personDn('guessed'), 'right', false)).controls).to.deep.equal([]);
    const silent = await begin(lock, closed);
    expect(await bind(silent, personDn('locked'), 'right')).to.include({ code: 49, told: '3000' });
  });

  it('sessions end when their password has expired and no grace is left, and go on with a new one', async () => {
    const { now } = Date;
    const time = now();
    const fresh = { pwdChangedTime: generalizedTime(time) };
    const limits: Record<string, Record<string, string>> = { none: {}, some: { pwdGraceAuthNLimit: '3' } };
    try {
      for (const [kind, limit] of Object.entries(limits)) {
        Date.now = () => time;
        const one = await begin(
          { pwdMaxAge: '1000', pwdGraceExpiry: '500', ...limit },
          { kept: fresh, changed: fresh },
        );
        const goesOn = async (client: RawClient) => {
          const answer = await client.search(personDn('kept'), { scope: 'base' }).catch(() => undefined);
          return answer?.code === 0;
        };
        const sessions = [];
        for (const uid of ['kept', 'changed']) {
          sessions.push(await RawClient.open(one.port));
          expect(await sessions.at(-1)!.bind(personDn(uid), 'right')).to.equal(0);
        }
        const [kept, changed] = sessions as [RawClient, RawClient];
        const end = kind === 'none' ? 1_000_000 : 1_500_000;
        Date.now = () => time + end - 2000;
        const attribute = { type: 'userPassword', values: [Buffer.from('another')] };
        const change = {
          op: 'modify',
          dn: personDn('changed'),
          changes: [{ operation: 'replace', attribute }],
        } as const;
        expect((await changed.request(change)).code).to.equal(0);
        expect([await goesOn(kept), await goesOn(changed)], kind).to.deep.equal([true, true]);
        Date.now = () => time + end;
        expect([await goesOn(kept), await goesOn(changed)], kind).to.deep.equal([false, true]);
        for (const session of sessions) session.close();
      }
    } finally {
      Date.now = now;
    }
  });

  it('helpdesk with the right locks, unlocks and resets over LDAP, and nobody else', async () => {
    const rules = `rules:
  - { name: own password, who: { self: true }, to: { attributes: [userPassword] }, allow: [write] }
  - { name: users read, who: { users: true }, allow: [view] }
  - name: helpdesk
    who: { dn: "${personDn('grace')}" }
    to: { subtree: "${PEOPLE}", attributes: [userPassword, pwdReset, pwdAccountLockedTime] }
    allow: [replace, add, delete]
`;
    const one = await begin({ pwdLockout: 'TRUE', pwdMaxFailure: '2' }, { grace: {}, ada: {}, hana: {} }, rules);
    const connect = async (uid: string) => {
      const client = await RawClient.open(one.port);
      expect(await client.bind(personDn(uid), 'right')).to.equal(0);
      return client;
    };
    const set = async (client: RawClient, type: string, ...values: string[]) => {
      const attribute = { type, values: values.map((value) => Buffer.from(value)) };
      const changes = [{ operation: 'replace', attribute }] as const;
      return (await client.request({ op: 'modify', dn: personDn('ada'), changes })).code;
    };
    const ada = async () => (await bind(one, personDn('ada'), 'right')).code;
    const [grace, hana, open] = [await connect('grace'), await connect('hana'), await connect('ada')];
    for (const [type, value] of [
      ['pwdAccountLockedTime', '000001010000Z'],
      ['pwdReset', 'TRUE'],
    ] as const)
      expect(await set(hana, type, value)).to.equal(50);
    expect(await set(grace, 'pwdAccountLockedTime', '000001010000Z')).to.equal(0);
    expect(await ada()).to.equal(49);
    expect((await open.search(personDn('ada')).catch(() => undefined))?.code ?? 8).to.equal(8);
    expect(await set(grace, 'pwdAccountLockedTime')).to.equal(0);
    expect(await ada()).to.equal(0);
    for (let i = 0; i < 2; i++) await bind(one, personDn('ada'), 'wrong');
    expect(await ada(), 'by failures').to.equal(49);
    expect(await set(grace, 'pwdAccountLockedTime')).to.equal(0);
    expect(await set(grace, 'pwdReset', 'TRUE')).to.equal(0);
    const reset = await connect('ada');
    expect((await reset.search(personDn('ada'))).code).to.equal(50);
    expect(await set(grace, 'pwdChangedTime', '19700101000000Z'), 'the server’s').to.be.oneOf([19, 50]);
    expect(await set(grace, 'userPassword', 'given')).to.equal(0);
    expect((await bind(one, personDn('ada'), 'given')).code).to.equal(0);
    for (const client of [grace, hana, open, reset]) client.close();
  });

  describe('password policy cannot be circumvented', () => {
    const RULES = `rules:
  - { name: own, who: { self: true }, to: { attributes: [userPassword] }, allow: [compare, write] }
  - { name: users read, who: { users: true }, allow: [view] }
  - { name: resets, who: { dn: "${personDn('grace')}" }, to: { attributes: [userPassword] }, allow: [replace] }
`;
    /** {SSHA} of `sesame`. */
    const HASH = '{SSHA}/VMpgt1++uV1ZatBjxlBFwbi8EYAMUZJUtCL0Q==';
    const clients: RawClient[] = [];
    afterEach(() => {
      for (const client of clients.splice(0)) client.close();
    });
    type Step = readonly ['add' | 'delete' | 'replace', ...string[]];

    async function as(uid: string, policy: Readonly<Record<string, string>>, ada: Record<string, string> = {}) {
      const one = await begin(policy, { grace: {}, ada }, RULES);
      const client = await RawClient.open(one.port);
      expect(await client.bind(personDn(uid), 'right')).to.equal(0);
      const modify = (dn: string, ...steps: Step[]) =>
        client.request({
          op: 'modify',
          dn,
          changes: steps.map(([operation, ...values]) => ({
            operation,
            attribute: { type: 'userPassword', values: values.map((value) => Buffer.from(value)) },
          })),
        });
      const passwordModify = (userIdentity: string, old: string | undefined, next: string) => {
        const oldPassword = old === undefined ? undefined : Buffer.from(old);
        const value = encodePasswordModify({ userIdentity, oldPassword, newPassword: Buffer.from(next) });
        return client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value });
      };
      const compare = async (value: string) => {
        const dn = personDn('ada');
        return (await client.request({ op: 'compare', dn, attribute: 'userPassword', value: Buffer.from(value) })).code;
      };
      const stored = async (type: string) => {
        const { attributes: all } = await one.partition.read(testSchema().parseDn(personDn('ada')));
        return all.find((attribute) => attribute.type.name === type)?.values.map(String);
      };
      clients.push(client);
      return { one, modify, passwordModify, compare, stored };
    }
    const ADA = personDn('ada');

    it('a value that the request has added itself is no old password', async () => {
      const { modify, one } = await as('ada', { pwdSafeModify: 'TRUE' });
      expect((await modify(ADA, ['add', HASH], ['delete', HASH], ['replace', 'new one'])).code).to.equal(50);
      expect((await modify(ADA, ['add', HASH], ['delete', HASH])).code).to.equal(50);
      expect((await modify(ADA, ['delete', 'wrong'], ['add', 'new one'])).code).to.equal(16);
      expect((await modify(ADA, ['delete', 'right'], ['add', 'new one'])).code).to.equal(0);
      expect((await bind(one, ADA, 'new one')).code).to.equal(0);
    });

    it('nobody is free of a reset, or of age, whose old password is left', async () => {
      const { modify, stored } = await as('ada', { pwdMaxAge: '1000000' }, { pwdReset: 'TRUE', ...AGED });
      const state = async () => [await stored('pwdReset'), await stored('pwdChangedTime')];
      const before = await state();
      expect((await modify(ADA, ['add', HASH], ['delete', HASH])).code).to.equal(19);
      expect((await modify(ADA, ['add', HASH])).code).to.equal(19);
      expect((await modify(ADA, ['add', 'another'])).code).to.equal(19);
      expect(await state()).to.deep.equal(before);
      expect(await stored('userPassword')).to.have.length(1);
      expect((await modify(ADA, ['replace', 'another'])).code).to.equal(0);
      expect((await state())[0]).to.equal(undefined);
    });

    it('several new passwords do not flush the old ones', async () => {
      const { modify } = await as('ada', { pwdInHistory: '5' });
      const seven = Array.from({ length: 7 }, (_, i) => `throwaway ${i}`);
      expect((await modify(ADA, ['replace', ...seven])).code).to.equal(19);
      expect((await modify(ADA, ...seven.map((one) => ['add', one] as const))).code).to.equal(19);
      expect((await modify(ADA, ['replace', 'second'])).code).to.equal(0);
      expect((await modify(ADA, ['replace', 'right'])).code).to.equal(19);
    });

    it('who resets passwords of others cannot try them', async () => {
      const { modify, passwordModify, one } = await as('grace', { pwdMinLength: '4', pwdInHistory: '5' });
      const messages = async (guess: string) => [
        (await modify(ADA, ['replace', guess, 'x'])).final.message,
        (await modify(ADA, ['replace', 'x', guess])).final.message,
        (await passwordModify(ADA, guess, 'x')).final.message,
      ];
      expect(await messages('right')).to.deep.equal(await messages('wrong'));
      expect((await modify(ADA, ['replace', 'right'])).code, 'no history is told').to.equal(0);
      expect((await bind(one, ADA, 'right')).code).to.equal(0);
    });

    it('who must change is told nothing of other entries', async () => {
      const { modify, passwordModify } = await as('ada', {}, { pwdReset: 'TRUE' });
      for (const dn of [personDn('grace'), personDn('nobody')]) {
        expect((await modify(dn, ['replace', 'another'])).code, dn).to.equal(50);
        expect((await passwordModify(dn, undefined, 'another')).code, dn).to.equal(50);
        expect((await passwordModify(`u:${dn.slice(4, dn.indexOf(','))}`, undefined, 'another')).code, dn).to.equal(50);
      }
      expect((await passwordModify(ADA, undefined, 'another')).code).to.equal(0);
    });

    it('guesses in a session count as binds that fail', async () => {
      const locks = { pwdLockout: 'TRUE', pwdMaxFailure: '3' };
      const { modify, passwordModify, compare, one } = await as('ada', locks);
      expect(await compare('right')).to.equal(6);
      expect(await compare('wrong')).to.equal(5);
      expect((await passwordModify(ADA, 'wrong', 'new one')).code).to.equal(49);
      expect((await modify(ADA, ['delete', 'wrong'], ['add', 'new one'])).code).to.equal(16);
      expect(await compare('right'), 'locked by now').to.equal(5);
      expect((await passwordModify(ADA, 'right', 'new one')).code).to.equal(49);
      expect((await bind(one, ADA, 'right')).code).to.equal(49);
    });
  });

  it('a hash that cannot be verified locks nobody: the log names its scheme, and the bind costs what others do', async () => {
    const foreign = '{CRYPT}$gy$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9';
    const dear = `{PBKDF2-SHA256}2000000$c2FsdHNhbHQ$${'A'.repeat(43)}`;
    const rules = `rules:
  - { name: users read, who: { users: true }, allow: [view] }
  - { name: users compare, who: { users: true }, to: { attributes: [userPassword] }, allow: [compare] }
`;
    const users = {
      gost: { userPassword: foreign },
      sasl: { userPassword: '{SASL}sasl@EXAMPLE.COM' },
      unknown: { userPassword: '{X-VENDOR}Hunter2' },
      broken: { userPassword: '{ARGON2}$argon2id$v=19$m=8' },
      dear: { userPassword: dear },
      all: { userPassword: [foreign, dear, '{SASL}all@EXAMPLE.COM'] },
      coded: { userPassword: foreign, [TOTP_SECRET]: '{AES256GCM}x' },
      some: { userPassword: [foreign, '{CLEARTEXT}right'] },
      plain: {},
    };
    const one = await begin({ pwdLockout: 'TRUE', pwdMaxFailure: '3' }, users, rules);
    const admin = await RawClient.open(one.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
    const failures = async (uid: string): Promise<number> => {
      const { entries } = await admin.search(personDn(uid), { scope: 'base', attributes: ['pwdFailureTime'] });
      return entries[0]!.attributes.get('pwdFailureTime')?.length ?? 0;
    };
    const plain = await RawClient.open(one.port);
    expect(await plain.bind(personDn('plain'), 'right')).to.equal(0);
    const value = Buffer.from('wrong');
    const counted: Record<string, number> = {};
    const costs = new Set<number>();
    for (const uid of Object.keys(users)) {
      const dn = personDn(uid);
      costs.add(await costOfHashing(async () => expect(await bind(one, dn, 'wrong')).to.include({ code: 49 })));
      const compare = { op: 'compare', dn, attribute: 'userPassword', value } as const;
      expect((await plain.request(compare)).code, uid).to.equal(5);
      counted[uid] = await failures(uid);
    }
    expect(counted).to.deep.equal({
      ...{ gost: 0, sasl: 0, unknown: 0, broken: 0, dear: 0, all: 0, coded: 0, some: 2, plain: 2 },
    });
    expect(costs.size).to.equal(1);
    const reasons = one.lines.flatMap((line) => /failed bind: ([^"]*)/.exec(line)?.[1] ?? []);
    expect(reasons).to.deep.equal([
      'scheme {CRYPT}$gy$ cannot be verified here',
      'scheme {SASL} cannot be verified here',
      'an unknown {SCHEME} cannot be verified here',
      'scheme {ARGON2} cannot be verified here',
      'scheme {PBKDF2-SHA256} costs more to verify than passwords.maxCost allows',
      'scheme {CRYPT}$gy$ cannot be verified here',
      'scheme {CRYPT}$gy$ cannot be verified here',
      'wrong password',
      'wrong password',
    ]);
    for (const client of [admin, plain]) client.close();
  });

  it('a missing password policy is reported once, when the server starts, and does not apply', async () => {
    const one = await start(DEFAULT, 1);
    running.push(one);
    const told = (): number => one.lines.filter((line) => line.includes('a password policy is not there')).length;
    expect(told()).to.equal(1);
    for (let i = 0; i < 3; i++) expect((await bind(one, personDn('p0'), 'secret-0')).code).to.equal(0);
    expect(told()).to.equal(1);
  });
});
