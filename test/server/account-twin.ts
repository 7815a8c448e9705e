import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { generalizedTime } from '../../src/partition/model/csn.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { change, type Random } from '../partition/fixture.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { AccountModel, FOR_GOOD, type ModelPolicy, type Verdict } from './account-model.js';
import { attributes, PEOPLE, personAttributes, personDn, SUFFIX } from './directory.js';
import { type Answer, RawClient, simpleBind } from './raw-client.js';
import { POLICY_CONTROL, policyTold } from './suite/password-policy.js';

/** Servers of one directory, and the clock of all their processes, in milliseconds. */
export interface Fronts {
  readonly ports: readonly number[];
  /** A connection to each, bound as the administrator. */
  readonly admins: readonly RawClient[];
  setClock(ms: number): void;
}

const FIRST = 'the first one';
const WORDS = [
  'ab',
  'abcd',
  'eight ch',
  'another',
  'one that is long',
  'one of twenty chars.',
  'one that is longer than most',
];
const POLICIES = ['strict', 'lax'] as const;
const USERS = ['ann', 'bob', 'cleo'] as const;
const STATE = [
  'pwdFailureTime',
  'pwdGraceUseTime',
  'pwdLastSuccess',
  'pwdChangedTime',
  'pwdReset',
  'pwdAccountLockedTime',
];
const policyDn = (name: string): string => `cn=${name},${SUFFIX}`;

/** Drives accounts of a directory and their models with the same random operations. */
export class AccountTwin {
  readonly #fronts: Fronts;
  readonly #random: Random;
  readonly #policies = new Map<string, ModelPolicy>();
  readonly #accounts = new Map<string, { readonly model: AccountModel; policy: string | undefined }>();
  /** Seconds since 1970. */
  #now: number;
  /** What was done, for the message of one that fails. */
  readonly #log: string[] = [];
  /** How often each answer was given. */
  readonly seen = new Map<string, number>();

  private constructor(fronts: Fronts, random: Random, begin: number) {
    this.#fronts = fronts;
    this.#random = random;
    this.#now = begin;
  }

  /** Fills a directory that has no entry yet; `begin`: the time, in seconds. */
  static async over(fronts: Fronts, random: Random, begin: number): Promise<AccountTwin> {
    const twin = new AccountTwin(fronts, random, begin);
    fronts.setClock(begin * 1000);
    await twin.#add(SUFFIX, { objectClass: ['dcObject', 'organization'], dc: 'example', o: 'Example' });
    await twin.#add(PEOPLE, { objectClass: 'organizationalUnit', ou: 'people' });
    for (const cn of POLICIES) {
      await twin.#add(policyDn(cn), { objectClass: ['device', 'pwdPolicy'], cn, pwdAttribute: 'userPassword' });
      await twin.#setPolicy(cn);
    }
    for (const uid of USERS) {
      const policy = random.pick([undefined, ...POLICIES]);
      const named = policy === undefined ? {} : { pwdPolicySubentry: policyDn(policy) };
      const more = personAttributes(uid, { userPassword: FIRST, ...named });
      expect((await twin.#admin().request({ op: 'add', dn: personDn(uid), attributes: more })).code).to.equal(0);
      twin.#accounts.set(uid, { model: new AccountModel(FIRST, policy === undefined ? undefined : begin), policy });
    }
    return twin;
  }

  async #add(dn: string, values: Readonly<Record<string, string | string[]>>): Promise<void> {
    expect((await this.#admin().request({ op: 'add', dn, attributes: attributes(values) })).code).to.equal(0);
  }

  #admin(): RawClient {
    return this.#random.pick(this.#fronts.admins);
  }

  async #modify(dn: string, ...changes: Modification[]): Promise<void> {
    const answer = await this.#admin().request({ op: 'modify', dn, changes });
    expect(answer.code, answer.final.message).to.equal(0);
  }

  async step(): Promise<void> {
    const uid = this.#random.pick(USERS);
    try {
      await this.#do(uid, this.#random.int(100));
      await this.#compare(uid);
    } catch (error) {
      const others = USERS.filter((other) => other !== uid).map((other) => ` ${other} (`);
      const lines = this.#log.filter((line) => !others.some((other) => line.includes(other))).slice(-200);
      if (error instanceof Error) error.message += `\n${uid}, after:\n${lines.join('\n')}`;
      throw error;
    }
  }

  #do(uid: string, dice: number): Promise<unknown> {
    if (dice < 20) return this.#bindRight(uid);
    if (dice < 45) return this.#bindWrong(uid);
    if (dice < 62) return this.#change(uid);
    if (dice < 67) return this.#reset(uid);
    if (dice < 69) return this.#demand(uid);
    if (dice < 76) return this.#lock(uid);
    if (dice < 79) return this.#setDates(uid);
    if (dice < 84) return this.#setPolicy(this.#random.pick(POLICIES));
    if (dice < 87) return this.#assign(uid);
    return this.#tick();
  }

  /** Every account as it is now. */
  async compareAll(): Promise<void> {
    for (const uid of USERS) await this.#compare(uid);
  }

  #note(uid: string, what: string): void {
    this.#log.push(`${this.#now} ${uid} (${this.#accounts.get(uid)?.policy ?? 'no policy'}): ${what}`);
  }

  #policyOf(uid: string): ModelPolicy | undefined {
    const { policy } = this.#accounts.get(uid)!;
    return policy === undefined ? undefined : this.#policies.get(policy);
  }

  #model(uid: string): AccountModel {
    return this.#accounts.get(uid)!.model;
  }

  #expect(what: string, answer: Answer, wanted: Verdict): void {
    const got = { code: answer.code, ...decoded(policyTold(answer)) };
    expect(got, `${what}: ${answer.final.message}`).to.deep.equal(wanted);
    const key = JSON.stringify({ ...wanted, ...(wanted.expiresIn !== undefined && { expiresIn: 'some' }) });
    this.seen.set(key, (this.seen.get(key) ?? 0) + 1);
  }

  async #bind(uid: string, password: string): Promise<RawClient> {
    const client = await RawClient.open(this.#random.pick(this.#fronts.ports));
    this.#note(uid, `bind with ${password}`);
    const wanted = this.#model(uid).bind(this.#policyOf(uid), password, this.#now);
    this.#expect('bind', await client.request(simpleBind(personDn(uid), password), [POLICY_CONTROL]), wanted);
    if (wanted.code === 0) return client;
    client.close();
    return client;
  }

  async #bindRight(uid: string): Promise<void> {
    const client = await this.#bind(uid, this.#model(uid).password);
    if (client.closed || client.socket.destroyed) return;
    this.#expect('search', await client.search(personDn(uid), {}, [POLICY_CONTROL]), this.#model(uid).other());
    client.close();
  }

  async #bindWrong(uid: string): Promise<void> {
    const times = this.#random.chance(0.2) ? 3 : 1;
    for (let n = 0; n < times; n++) (await this.#bind(uid, 'wrong')).close();
  }

  async #change(uid: string): Promise<void> {
    const model = this.#model(uid);
    const client = await this.#bind(uid, model.password);
    if (client.socket.destroyed) return;
    const next = this.#random.chance(0.1) ? model.password : this.#random.pick(WORDS);
    const old = this.#random.pick([undefined, undefined, model.password, model.password, 'wrong']);
    const isModify = this.#random.chance(0.5);
    this.#note(uid, `${isModify ? 'modify' : 'password modify'} to ${next}, old one: ${old}`);
    const dn = personDn(uid);
    const changes = old
      ? [change('delete', 'userPassword', old), change('add', 'userPassword', next)]
      : [change('replace', 'userPassword', next)];
    const [oldPassword, newPassword] = [old, next].map((text) => (text === undefined ? undefined : Buffer.from(text)));
    const value = encodePasswordModify({ userIdentity: dn, oldPassword, newPassword });
    const answer = isModify
      ? await client.request({ op: 'modify', dn, changes }, [POLICY_CONTROL])
      : await client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value }, [POLICY_CONTROL]);
    const wanted = model.change(this.#policyOf(uid), { old, next, isModify }, this.#now);
    this.#expect('change', answer, wanted);
    this.#expect('search', await client.search(dn, {}, [POLICY_CONTROL]), model.other());
    client.close();
  }

  async #reset(uid: string): Promise<void> {
    const next = this.#random.pick(WORDS);
    this.#note(uid, `reset to ${next}`);
    await this.#modify(personDn(uid), change('replace', 'userPassword', next));
    this.#model(uid).resetBy(this.#policyOf(uid), next, this.#now);
  }

  async #demand(uid: string): Promise<void> {
    this.#note(uid, 'has to change the password');
    await this.#modify(personDn(uid), change('replace', 'pwdReset', 'TRUE'));
    this.#model(uid).demandChange();
  }

  async #lock(uid: string): Promise<void> {
    const lock = this.#random.pick([FOR_GOOD, this.#now, undefined, undefined, undefined] as const);
    this.#note(uid, `lock: ${lock}`);
    const values = lock === undefined ? [] : [typeof lock === 'number' ? timeOf(lock) : lock];
    await this.#modify(personDn(uid), change('replace', 'pwdAccountLockedTime', ...values));
    this.#model(uid).setLock(lock, this.#now);
  }

  async #setDates(uid: string): Promise<void> {
    const one = (): number | undefined =>
      this.#random.chance(0.7) ? undefined : this.#now + this.#random.pick([-1000, -1, 0, 1, 60, 3600]);
    const [start, end] = [one(), one()];
    this.#note(uid, `from ${start} to ${end}`);
    const date = (type: string, time: number | undefined) =>
      change('replace', type, ...(time === undefined ? [] : [timeOf(time)]));
    await this.#modify(personDn(uid), date('pwdStartTime', start), date('pwdEndTime', end));
    this.#model(uid).setDates(start, end);
  }

  async #assign(uid: string): Promise<void> {
    const policy = this.#random.pick([...POLICIES, ...POLICIES, undefined]);
    this.#note(uid, `is now under ${policy}`);
    const values = policy === undefined ? [] : [policyDn(policy)];
    await this.#modify(personDn(uid), change('replace', 'pwdPolicySubentry', ...values));
    this.#accounts.get(uid)!.policy = policy;
  }

  async #setPolicy(name: string): Promise<void> {
    const policy = randomPolicy(this.#random);
    this.#note(name, JSON.stringify(policy));
    await this.#modify(policyDn(name), ...valuesOf(policy));
    this.#policies.set(name, policy);
  }

  async #tick(): Promise<void> {
    const around = this.#random.pick(LENGTHS) + this.#random.pick([-1, 0, 0, 1]);
    this.#now += this.#random.chance(0.1) ? 0 : around;
    this.#note('clock', `${around}`);
    this.#fronts.setClock(this.#now * 1000);
  }

  /** What is readable of the account. */
  async #compare(uid: string): Promise<void> {
    const answer = await this.#admin().search(personDn(uid), { attributes: STATE });
    expect(answer.code).to.equal(0);
    const [entry] = answer.entries;
    const wanted = this.#model(uid).attributes(this.#policyOf(uid), this.#now);
    const shown = Object.entries(wanted).map(([type, values]) => [
      type,
      values.map((value) => (typeof value === 'number' ? timeOf(value) : value)),
    ]);
    // Fractions of a second part those that are alike.
    const got = STATE.map((type) => [
      type,
      (entry!.attributes.get(type) ?? []).map((value) => value.toString().replace(/\.\d+/, '')),
    ]);
    expect(got, uid).to.deep.equal(shown);
    for (const type of STATE) {
      const values = (entry!.attributes.get(type) ?? []).map(String);
      expect(new Set(values).size, `${type}: each another`).to.equal(values.length);
    }
  }
}

const LENGTHS = [1, 2, 10, 20, 60, 600, 3600, 7200, 86_400];

function randomPolicy(random: Random): ModelPolicy {
  const often = (...from: readonly number[]): number => (random.chance(0.5) ? 0 : random.pick(from));
  const minDelay = random.chance(0.8) ? 0 : random.pick([1, 2, 10]);
  return {
    lockout: random.chance(0.7),
    maxFailure: random.pick([0, 1, 2, 3, 4]),
    lockoutDuration: often(10, 60, 600),
    failureCountInterval: often(10, 60, 3600),
    minDelay,
    maxDelay: minDelay === 0 ? 0 : random.pick([10, 20]),
    maxAge: often(3600, 7200, 86_400),
    expireWarning: often(600, 3600, 86_400),
    graceLimit: random.pick([undefined, 0, 1, 2]),
    graceExpiry: often(60, 3600),
    maxIdle: random.chance(0.8) ? 0 : random.pick([60, 7200, 86_400]),
    minLength: random.pick([0, 0, 3, 5]),
    maxLength: random.pick([0, 0, 20, 16]),
    inHistory: random.pick([0, 0, 1, 2, 4]),
    minAge: random.pick([0, 0, 0, 10, 600]),
    safeModify: random.chance(0.3),
    allowUserChange: random.chance(0.9),
    mustChange: random.chance(0.5),
  };
}

const GIVEN: Readonly<Record<keyof ModelPolicy, string>> = {
  lockout: 'pwdLockout',
  maxFailure: 'pwdMaxFailure',
  lockoutDuration: 'pwdLockoutDuration',
  failureCountInterval: 'pwdFailureCountInterval',
  minDelay: 'pwdMinDelay',
  maxDelay: 'pwdMaxDelay',
  maxAge: 'pwdMaxAge',
  expireWarning: 'pwdExpireWarning',
  graceLimit: 'pwdGraceAuthNLimit',
  graceExpiry: 'pwdGraceExpiry',
  maxIdle: 'pwdMaxIdle',
  minLength: 'pwdMinLength',
  maxLength: 'pwdMaxLength',
  inHistory: 'pwdInHistory',
  minAge: 'pwdMinAge',
  safeModify: 'pwdSafeModify',
  allowUserChange: 'pwdAllowUserChange',
  mustChange: 'pwdMustChange',
};

/** All attributes of the policy. */
export function valuesOf(policy: ModelPolicy): Modification[] {
  return Object.entries(GIVEN).map(([key, type]) => {
    const value = policy[key as keyof ModelPolicy];
    return change('replace', type, ...(value === undefined ? [] : [String(value).toUpperCase()]));
  });
}

function timeOf(seconds: number): string {
  return generalizedTime(seconds * 1000);
}

/** What the control tells, read byte by byte. */
function decoded(value: Buffer | undefined): Omit<Verdict, 'code'> {
  const told: { expiresIn?: number; grace?: number; error?: number } = {};
  if (!value) return told;
  for (let at = 2; at < value.length; at += 2 + value[at + 1]!) {
    const body = value.subarray(at + 2, at + 2 + value[at + 1]!);
    if (value[at] === 0x81) told.error = body[0]!;
    else if (body[0] === 0x80) told.expiresIn = body.readUIntBE(2, body[1]!);
    else told.grace = body[2]!;
  }
  return told;
}
