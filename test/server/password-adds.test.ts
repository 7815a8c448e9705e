import { expect } from 'chai';
import { generalizedTime } from '../../src/partition/model/csn.js';
import { hashPassword } from '../../src/password/index.js';
import { APPLICATION_PASSWORD, createApplicationPassword } from '../../src/server/passwords/application-password.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  PEOPLE,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { type Answer, RawClient } from './raw-client.js';
import { POLICY_CONTROL, policyError, policyTold } from './suite/password-policy.js';

type Values = Readonly<Record<string, string | readonly string[]>>;

/** {SSHA} of `sesame`. */
const HASH = '{SSHA}/VMpgt1++uV1ZatBjxlBFwbi8EYAMUZJUtCL0Q==';
const SYSTEM = { dn: ADMIN.dn, system: true };
const GROUP = `cn=employees,${SUFFIX}`;

function policyDn(name: string): string {
  return `cn=${name},${SUFFIX}`;
}

const RULES = `rules:
  - { name: users read, who: { users: true }, allow: [view] }
  - { name: own password, who: { self: true }, to: { attributes: [userPassword] }, allow: [write] }
  - { name: accounts, who: { dn: "${personDn('p0')}" }, to: { subtree: "${PEOPLE}" }, allow: [create, write] }
  - name: their passwords
    who: { dn: "${personDn('p0')}" }
    to: { subtree: "${PEOPLE}", attributes: [userPassword, pwdPolicySubentry] }
    allow: [add]
passwordPolicies:
  - { name: near, policy: "${policyDn('near')}", to: { subtree: "ou=near,${PEOPLE}" } }
  - { name: visitors, policy: "${policyDn('visitors')}", to: { filter: "(employeeType=visitor)" } }
  - { name: named, policy: "${policyDn('named')}", to: { filter: "(uid=named*)" } }
  - { name: staff, policy: "${policyDn('staff')}", group: "${GROUP}" }
`;

describe('server: adds with passwords (draft-behera-ldap-password-policy-10 §8.2)', () => {
  let one: Running;
  /** May create accounts and give them passwords. */
  let creator: RawClient;
  let admin: RawClient;
  const { now } = Date;

  before(async () => {
    one = await start({ ...CHEAP, 'passwords.policy': policyDn('default') }, 2, undefined, RULES);
    const lengths = { default: 8, near: 10, visitors: 12, named: 13, staff: 14, own: 16 };
    for (const [name, length] of Object.entries(lengths)) await addPolicy(name, { pwdMinLength: String(length) });
    const dn = (text: string) => testSchema().parseDn(text);
    const staff = { objectClass: 'groupOfNames', cn: 'employees', member: personDn('member') };
    await one.partition.add(dn(GROUP), attributes(staff), SYSTEM);
    await one.partition.add(
      dn(`ou=near,${PEOPLE}`),
      attributes({ objectClass: 'organizationalUnit', ou: 'near' }),
      SYSTEM,
    );
    creator = await bound(personDn('p0'), 'secret-0');
    admin = await bound(ADMIN.dn, ADMIN.password);
  });
  afterEach(() => {
    Date.now = now;
  });
  after(async () => {
    for (const client of [creator, admin]) client.close();
    await one.stop();
  });

  async function addPolicy(name: string, values: Values): Promise<void> {
    const all = { objectClass: ['device', 'rowanPwdPolicy'], cn: name, pwdAttribute: 'userPassword', ...values };
    await one.partition.add(testSchema().parseDn(policyDn(name)), attributes(all), SYSTEM);
  }

  async function bound(dn: string, password: string): Promise<RawClient> {
    const client = await RawClient.open(one.port);
    expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  async function bind(uid: string, password: string): Promise<number> {
    const client = await RawClient.open(one.port);
    const code = await client.bind(personDn(uid), password);
    client.close();
    return code;
  }

  function add(by: RawClient, uid: string, values: Values, dn = personDn(uid)): Promise<Answer> {
    return by.request({ op: 'add', dn, attributes: personAttributes(uid, values) }, [POLICY_CONTROL]);
  }

  async function stored(uid: string, type: string): Promise<string[] | undefined> {
    const { attributes: all } = await one.partition.read(testSchema().parseDn(personDn(uid)));
    return all.find((attribute) => attribute.type.name === type)?.values.map(String);
  }

  function expectRefused(answer: Answer, error: number): void {
    expect([answer.code, policyTold(answer)], answer.final.message).to.deep.equal([19, policyError(error)]);
  }

  const accounts: readonly [uid: string, length: number, values?: Values, dn?: string][] = [
    ['somebody', 8],
    ['near', 10, {}, `uid=near,ou=near,${PEOPLE}`],
    ['visitor', 12, { employeeType: 'visitor' }],
    ['named by its name', 13],
    ['member', 14],
    ['own', 16, { pwdPolicySubentry: policyDn('own') }],
    ['lost', 8, { pwdPolicySubentry: policyDn('nowhere') }],
  ];
  for (const [uid, length, values = {}, dn = personDn(uid)] of accounts)
    it(`the policy that the new entry will have decides: ${uid}`, async () => {
      expectRefused(await add(creator, uid, { ...values, userPassword: 'x'.repeat(length - 1) }, dn), 6);
      const added = await add(creator, uid, { ...values, userPassword: 'x'.repeat(length) }, dn);
      expect([added.code, policyTold(added)?.toString('hex')], added.final.message).to.deep.equal([0, '3000']);
      const client = await bound(dn, 'x'.repeat(length));
      client.close();
    });

  it('a session that has bound with an application password makes no account with a password', async () => {
    const options = { name: 'imap', networks: [], usedBy: undefined, expires: undefined };
    const made = createApplicationPassword(options, [], Date.now());
    const attribute = { type: APPLICATION_PASSWORD, values: [made.value] };
    await one.partition.modify(testSchema().parseDn(personDn('p0')), [{ operation: 'add', attribute }], SYSTEM);
    const application = await bound(personDn('p0'), made.clearPassword);
    expect((await add(application, 'made', { userPassword: 'long enough' })).code).to.equal(50);
    expect((await add(application, 'plain', {})).code, 'without a password').to.equal(0);
    application.close();
  });

  it('passwords of an add that is refused are not taken up: nothing is hashed, and the log does not tell of any', async () => {
    const foreign = { userPassword: '{FOREIGN}value' };
    const said = () => one.lines.filter((line) => line.includes('a password was stored as it came')).length;
    const other = await bound(personDn('p1'), 'secret-1');
    const refusals = [
      add(other, 'refused', foreign),
      add(creator, 'refused', foreign, `uid=refused,${SUFFIX}`),
      add(creator, 'refused', foreign, `uid=refused,ou=none,${PEOPLE}`),
      add(creator, 'p1', foreign),
      add(creator, 'refused', { ...foreign, objectClass: 'nothing' }),
      // Longer than a password that is hashed may be: this answer would come from the hashing.
      add(creator, 'p1', { userPassword: 'x'.repeat(5000) }),
      add(other, 'refused', { userPassword: 'x'.repeat(5000) }),
    ];
    expect((await Promise.all(refusals)).map(({ code }) => code)).to.deep.equal([50, 50, 32, 68, 65, 68, 50]);
    expect(said()).to.equal(0);
    expect((await add(admin, 'foreign', foreign)).code).to.equal(0);
    expect([said(), await stored('foreign', 'userPassword')]).to.deep.equal([1, ['{FOREIGN}value']]);
    other.close();
  });

  it('a wrong old password is told before what is wrong with the new one', async () => {
    expect(
      (await add(admin, 'dear', { userPassword: (await hashPassword(Buffer.from('right'))).toString() })).code,
    ).to.equal(0);
    const client = await bound(personDn('dear'), 'right');
    const costly = `{ARGON2}$argon2id$v=19$m=25000,t=63,p=1$${'A'.repeat(22)}$${'A'.repeat(43)}`;
    const change = (operation: 'delete' | 'add', text: string) =>
      ({ operation, attribute: { type: 'userPassword', values: [Buffer.from(text)] } }) as const;
    const changes = [change('delete', 'wrong'), change('add', costly)];
    expect((await client.request({ op: 'modify', dn: personDn('dear'), changes })).code).to.equal(16);
    client.close();
  });

  it('length, quality and number of values are asked of everybody but the administrator', async () => {
    await addPolicy('strict', { pwdMaxLength: '20', pwdCheckQuality: '2', rowanPwdMinScore: '3' });
    const refused: readonly [string | string[], number][] = [
      ['x'.repeat(21), 9],
      [HASH, 5],
      ['the-lovelace-orbit', 5],
      ['qwertyuiop', 5],
      [['velvet orbit 7731', 'gasket tulip 9182'], 5],
    ];
    const values = { sn: 'Lovelace', pwdPolicySubentry: policyDn('strict') };
    for (const [userPassword, error] of refused)
      expectRefused(await add(creator, 'strict', { ...values, userPassword }), error);
    expect((await add(creator, 'strict', { ...values, userPassword: 'velvet orbit 7731' })).code).to.equal(0);
    for (const [i, [userPassword]] of refused.entries())
      expect((await add(admin, `strict${i}`, { ...values, userPassword })).code).to.equal(0);
  });

  it('who may not create the entry is told of rights, not of the password', async () => {
    const other = await bound(personDn('p1'), 'secret-1');
    expect((await add(other, 'forbidden', { userPassword: 'short' })).code).to.equal(50);
    const outside = `uid=outside,${SUFFIX}`;
    expect((await add(creator, 'outside', { userPassword: 'short' }, outside)).code).to.equal(50);
    other.close();
  });

  it('pwdChangedTime is stored, found and compared, whoever adds; pwdReset is not', async () => {
    await addPolicy('resets', { pwdMustChange: 'TRUE' });
    const values = { userPassword: 'velvet orbit', pwdPolicySubentry: policyDn('resets') };
    for (const [uid, by] of [
      ['timed', creator],
      ['timed too', admin],
    ] as const) {
      const before = generalizedTime(Date.now());
      expect((await add(by, uid, values)).code).to.equal(0);
      const [time] = (await stored(uid, 'pwdChangedTime'))!;
      expect(time! >= before && time! <= generalizedTime(Date.now())).to.equal(true);
      expect(await stored(uid, 'pwdReset')).to.equal(undefined);
      const value = Buffer.from(time!);
      const filter = { type: 'lessOrEqual', attribute: 'pwdChangedTime', value } as const;
      const found = await admin.search(personDn(uid), { scope: 'base', filter });
      expect(found.entries).to.have.length(1);
      const compare = { op: 'compare', dn: personDn(uid), attribute: 'pwdChangedTime', value } as const;
      expect((await admin.request(compare)).code).to.equal(6);
    }
    const own = { ...values, pwdChangedTime: '20200101000000Z' };
    expect((await add(admin, 'brought', own)).code, 'the server’s').to.equal(19);
  });

  it('a password expires and may be changed so long after the add, before any bind', async () => {
    await addPolicy('aging', { pwdMaxAge: '2000', pwdMinAge: '1000' });
    const time = now();
    Date.now = () => time;
    const values = { userPassword: 'velvet orbit', pwdPolicySubentry: policyDn('aging') };
    for (const uid of ['aging', 'expired']) expect((await add(admin, uid, values)).code).to.equal(0);
    const client = await bound(personDn('aging'), 'velvet orbit');
    const replace = (value: string) => {
      const attribute = { type: 'userPassword', values: [Buffer.from(value)] };
      const changes = [{ operation: 'replace', attribute } as const];
      return client.request({ op: 'modify', dn: personDn('aging'), changes }, [POLICY_CONTROL]);
    };
    Date.now = () => time + 998_000;
    expectRefused(await replace('gasket tulip'), 7);
    Date.now = () => time + 1_001_000;
    expect((await replace('gasket tulip')).code).to.equal(0);
    Date.now = () => time + 2_001_000;
    expect([await bind('expired', 'velvet orbit'), await bind('aging', 'gasket tulip')]).to.deep.equal([49, 0]);
    client.close();
  });

  it('under no policy nothing is asked and nothing written, nor without a password', async () => {
    expect((await add(creator, 'bare', {})).code).to.equal(0);
    expect(await stored('bare', 'pwdChangedTime')).to.equal(undefined);
    const free = await start(CHEAP, 0, one.partition);
    const client = await RawClient.open(free.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    expect((await add(client, 'free', { userPassword: ['x', HASH] })).code).to.equal(0);
    expect(await stored('free', 'pwdChangedTime')).to.equal(undefined);
    client.close();
    await free.stop();
  });

  it('shadowLastChange tells the age of the password where the setting says so', async () => {
    const settings = { ...CHEAP, 'passwords.policy': policyDn('default'), 'passwords.shadow': true };
    const shadow = await start(settings, 0, one.partition);
    const client = await RawClient.open(shadow.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const values = { objectClass: ['inetOrgPerson', 'shadowAccount'], userPassword: 'velvet orbit' };
    expect((await add(client, 'shadow', { ...values, shadowLastChange: '19000' })).code).to.equal(0);
    expect((await add(client, 'no date', values)).code).to.equal(0);
    expect(await stored('shadow', 'pwdChangedTime')).to.equal(undefined);
    expect(await stored('no date', 'pwdChangedTime')).to.have.length(1);
    client.close();
    await shadow.stop();
  });
});
