import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { STATE_TABLE } from '../../src/partition/model/tables.js';
import { slowWork } from '../../src/password/index.js';
import { ControlOid } from '../../src/protocol/oids.js';
import type { Plan } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { seq, tlv } from '../protocol/bytes.js';
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
    const all = { objectClass: ['device', 'pwdPolicy'], cn: 'policy', pwdAttribute: '2.5.4.35', ...values };
    await partition.add(testSchema().parseDn(POLICY), attributes(all), SYSTEM);
  }

  /** A server under this default policy; the users bring what they have as an import does. */
  async function begin(values: Readonly<Record<string, string>>, users: Record<string, Record<string, string>>) {
    const one = await start(DEFAULT, 1);
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

  const EXPIRED = { pwdMaxAge: '1000', pwdGraceAuthNLimit: '2' };
  const OLD = { pwdChangedTime: '20200101000000Z' };
  const grace = (left: number) => seq(tlv(0xa0, tlv(0x81, [left]))).toString('hex');

  it('an expired password takes its grace logins, three unless said, and is refused as expired then', async () => {
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
    const spent = async (password: string): Promise<number> => {
      const before = slowWork.spent;
      expect((await bind(one, personDn('old'), password)).code).to.equal(49);
      return slowWork.spent - before;
    };
    const wrong = await spent('wrong');
    expect(wrong).to.be.above(0);
    expect([await spent('right'), await spent('right')]).to.deep.equal([wrong, wrong]);
  });

  it('grace logins are three unless the policy says so', async () => {
    const one = await begin({ pwdMaxAge: '1000' }, { old: OLD });
    for (const left of [2, 1, 0]) expect((await bind(one, personDn('old'), 'right')).told).to.equal(grace(left));
    expect((await bind(one, personDn('old'), 'right')).code).to.equal(49);
  });

  it('grace logins that are used at once are each counted', async () => {
    const one = await begin({ pwdMaxAge: '1000' }, { old: OLD });
    const codes = await Promise.all(Array.from({ length: 8 }, () => bind(one, personDn('old'), 'right')));
    expect(codes.filter(({ code }) => code === 0)).to.have.length(3);
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

  it('one that is not there is told once, and none', async () => {
    const one = await start(DEFAULT, 1);
    running.push(one);
    for (let i = 0; i < 3; i++) expect((await bind(one, personDn('p0'), 'secret-0')).code).to.equal(0);
    expect(one.lines.filter((line) => line.includes('a password policy is not there'))).to.have.length(1);
  });
});
