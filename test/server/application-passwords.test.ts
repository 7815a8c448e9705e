import { expect } from 'chai';
import { STATE_TABLE } from '../../src/partition/model/tables.js';
import type { ApplicationPasswordsRequest } from '../../src/protocol/extended/application-passwords.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import type { Plan } from '../../src/store/contract.js';
import { costOfHashing } from '../password/cost-of-hashing.js';
import { decodeAddedPassword, encodeApplicationPasswords, encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, attributes, CHEAP, PEOPLE, personDn, type Running, SUFFIX, start, testSchema } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';
import { policyError, policyTold } from './suite/password-policy.js';

const P0 = personDn('p0');
const P1 = personDn('p1');
const POLICY = `cn=policy,${SUFFIX}`;

function valueIn({ final }: Answer): Buffer | undefined {
  return final.op === 'extendedResponse' ? final.value : undefined;
}

describe('server: application passwords', () => {
  const running: Running[] = [];
  const clients: RawClient[] = [];
  let one: Running;
  beforeEach(async () => {
    one = await begin();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    for (const server of running.splice(0)) await server.stop();
  });

  async function begin(settings: Parameters<typeof start>[0] = {}, access?: string): Promise<Running> {
    const server = await start({ ...CHEAP, ...settings }, 2, undefined, access);
    running.push(server);
    return server;
  }

  async function connect(server = one): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    clients.push(client);
    return client;
  }

  async function boundAs(dn: string, password: string, server = one): Promise<RawClient> {
    const client = await connect(server);
    expect(await client.bind(dn, password), `bind as ${dn}`).to.equal(0);
    return client;
  }

  async function code(dn: string, password: string, server = one): Promise<number> {
    return (await connect(server)).bind(dn, password);
  }

  function ask(client: RawClient, request: ApplicationPasswordsRequest): Promise<Answer> {
    const value = encodeApplicationPasswords(request);
    return client.request({ op: 'extended', oid: ExtendedOid.applicationPasswords, value });
  }

  async function made(client: RawClient, more: Omit<ApplicationPasswordsRequest & { action: 'add' }, 'action'>) {
    const answer = await ask(client, { action: 'add', ...more });
    expect(answer.code, answer.final.message).to.equal(0);
    return decodeAddedPassword(valueIn(answer));
  }

  const modify = (client: RawClient, dn: string, type: string, ...values: string[]): Promise<Answer> => {
    const attribute = { type, values: values.map((value) => Buffer.from(value)) };
    return client.request({ op: 'modify', dn, changes: [{ operation: 'replace', attribute }] });
  };

  const passwordModify = (client: RawClient, oldPassword: string | undefined, newPassword: string): Promise<Answer> => {
    const value = encodePasswordModify({
      userIdentity: undefined,
      oldPassword: oldPassword === undefined ? undefined : Buffer.from(oldPassword),
      newPassword: Buffer.from(newPassword),
    });
    return client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value });
  };

  const listed = async (client: RawClient, entry?: string): Promise<string> => {
    const answer = await ask(client, { action: 'list', entry });
    expect(answer.code).to.equal(0);
    return valueIn(answer)!.toString('latin1');
  };

  it('users make some, bind with each, and remove one of them', async () => {
    const user = await boundAs(P0, 'secret-0');
    const imap = await made(user, { name: 'imap' });
    const calendar = await made(user, { name: 'Kalender, zu Hause' });
    expect(imap)
      .to.match(/^[a-z2-9]{6}(-[a-z2-9]{6}){3}$/)
      .and.not.equal(calendar);
    for (const password of [imap, calendar, 'secret-0']) expect(await code(P0, password)).to.equal(0);
    expect((await ask(user, { action: 'remove', name: 'imap' })).code).to.equal(0);
    expect(await code(P0, imap)).to.equal(49);
    for (const password of [calendar, 'secret-0']) expect(await code(P0, password)).to.equal(0);
    expect((await ask(user, { action: 'remove', name: 'imap' })).code).to.equal(16);
    expect((await user.search(P0)).code, 'the session that made them goes on').to.equal(0);
  });

  it('one is of its entry alone, and taken with and without hyphens, in any case of letters', async () => {
    const password = await made(await boundAs(P0, 'secret-0'), { name: 'imap' });
    const letters = password.replaceAll('-', '');
    expect(await code(P1, password)).to.equal(49);
    for (const same of [password, letters, password.toUpperCase(), letters.toUpperCase()])
      expect(await code(P0, same), same).to.equal(0);
    for (const other of [`${password} `, password.slice(0, -1), `${letters}a`, letters.slice(1), '-'.repeat(27)])
      expect(await code(P0, other), other).to.equal(49);
  });

  it('a session that has bound with one changes no password and makes none', async () => {
    const user = await boundAs(P0, 'secret-0');
    const password = await made(user, { name: 'imap' });
    const client = await boundAs(P0, password);
    for (const answer of [
      await modify(client, P0, 'userPassword', 'mine now'),
      await passwordModify(client, undefined, 'mine now'),
      await passwordModify(client, 'secret-0', 'mine now'),
      await passwordModify(client, password, 'mine now'),
      await ask(client, { action: 'add', name: 'more' }),
      await ask(client, { action: 'list' }),
      await ask(client, { action: 'remove', name: 'imap' }),
    ]) {
      expect(answer.code).to.equal(50);
      expect(answer.final.message).to.match(/application password changes no passwords/);
    }
    for (const guess of ['wrong', 'secret-0']) {
      const asked = { op: 'compare', dn: P0, attribute: 'userPassword', value: Buffer.from(guess) } as const;
      expect((await client.request(asked)).code, 'nor compares any').to.equal(50);
    }
    expect((await client.search(P0)).code, 'all else goes on').to.equal(0);
    const proxied = { oid: ControlOid.proxiedAuthorization, critical: true, value: Buffer.from(`dn:${P0}`) };
    expect((await client.search(P0, {}, [proxied])).code, 'nor acts as anybody').to.equal(123);
    expect(await code(P0, 'secret-0')).to.equal(0);
    expect((await passwordModify(user, password, 'other')).code, 'it is no old password').to.equal(49);
    const deleted = {
      operation: 'delete',
      attribute: { type: 'userPassword', values: [Buffer.from(password)] },
    } as const;
    expect((await user.request({ op: 'modify', dn: P0, changes: [deleted] })).code, 'nor deleted as one').to.equal(16);
  });

  it('its sessions end when it is removed, others go on; those of the password do so, too', async () => {
    const user = await boundAs(P0, 'secret-0');
    const [first, second] = [await made(user, { name: 'first' }), await made(user, { name: 'second' })];
    const [one, other] = [await boundAs(P0, first), await boundAs(P0, second)];
    for (const client of [one, other]) expect((await client.search(P0)).code).to.equal(0);
    await ask(user, { action: 'remove', name: 'first' });
    const answer = await one.search(P0).catch(() => undefined);
    expect(answer?.code ?? 8).to.equal(8);
    for (const client of [other, user]) expect((await client.search(P0)).code).to.equal(0);
  });

  it('it outlives a change of the password, and its sessions do', async () => {
    const user = await boundAs(P0, 'secret-0');
    const password = await made(user, { name: 'imap' });
    const client = await boundAs(P0, password);
    expect((await passwordModify(user, 'secret-0', 'another one')).code).to.equal(0);
    expect((await client.search(P0)).code).to.equal(0);
    expect(await code(P0, password)).to.equal(0);
    expect(await code(P0, 'secret-0')).to.equal(49);
  });

  it('it binds from its networks alone', async () => {
    const user = await boundAs(P0, 'secret-0');
    const near = await made(user, { name: 'near', networks: '10.0.0.0/8 127.0.0.0/8' });
    const far = await made(user, { name: 'far', networks: '10.0.0.0/8 2001:db8::/32' });
    expect(await code(P0, near)).to.equal(0);
    expect(await code(P0, far)).to.equal(49);
    expect((await ask(user, { action: 'add', name: 'x', networks: '10.0.0.0/33' })).code).to.equal(19);
  });

  it('it ends at its time, and so does a session with it', async () => {
    const user = await boundAs(P0, 'secret-0');
    const later = new Date(Date.now() + 86_400_000).toISOString().replace(/[-:T]|\.\d+/g, '');
    const password = await made(user, { name: 'for a day', expires: later });
    const client = await boundAs(P0, password);
    expect(await listed(user)).to.include(later);
    for (const [expires, message] of [
      ['20200101000000Z', /expired already/],
      ['tomorrow', /expires is no time/],
    ] as const) {
      const answer = await ask(user, { action: 'add', name: 'x', expires });
      expect(answer.code).to.equal(19);
      expect(answer.final.message).to.match(message);
    }
    const { now } = Date;
    Date.now = () => now() + 2 * 86_400_000;
    try {
      expect(await code(P0, password)).to.equal(49);
      const answer = await client.search(P0).catch(() => undefined);
      expect(answer?.code ?? 8).to.equal(8);
    } finally {
      Date.now = now;
    }
  });

  it('it is good only behind a bind as whom it is used by', async () => {
    const user = await boundAs(P0, 'secret-0');
    const password = await made(user, { name: 'mail', usedBy: P1.toUpperCase() });
    expect(await code(P0, password)).to.equal(49);
    const service = await boundAs(P1, 'secret-1');
    expect(await service.bind(P0, password), 'on the connection that looked it up').to.equal(0);
    expect(await service.bind(P0, password), 'and not after').to.equal(49);
    const stale = await boundAs(P1, 'secret-1');
    const admin = await boundAs(ADMIN.dn, ADMIN.password);
    expect((await modify(admin, P1, 'userPassword', 'changed')).code).to.equal(0);
    expect(await stale.bind(P0, password), 'a bind that holds no more').to.equal(49);
  });

  it('nobody reads them, names an entry by them, searches for them or writes them', async () => {
    const user = await boundAs(P0, 'secret-0');
    await made(user, { name: 'imap' });
    const admin = await boundAs(ADMIN.dn, ADMIN.password);
    for (const client of [user, admin]) {
      for (const list of [['*', '+'], ['rowanAppPassword'], ['2.5.4.0', 'rowanapppassword']]) {
        const { entries } = await client.search(P0, { attributes: list });
        expect([...entries[0]!.attributes.keys()].join().toLowerCase()).to.not.include('rowanapppassword');
      }
      for (const value of ['x', '*'])
        expect(
          (
            await client.search(PEOPLE, {
              scope: 'sub',
              filter:
                value === '*'
                  ? { type: 'present', attribute: 'rowanAppPassword' }
                  : { type: 'equal', attribute: 'rowanAppPassword', value: Buffer.from(value) },
            })
          ).entries,
        ).to.have.length(0);
      expect((await modify(client, P0, 'rowanAppPassword', '{}')).code).to.be.oneOf([19, 50]);
      expect((await modify(client, P0, 'rowanAppPassword')).code).to.be.oneOf([19, 50]);
      const compare = { op: 'compare', dn: P0, attribute: 'rowanAppPassword', value: Buffer.from('x') } as const;
      expect((await client.request(compare)).code).to.equal(50);
    }
    const named = {
      op: 'add',
      dn: `rowanAppPassword=x,${PEOPLE}`,
      attributes: attributes({ objectClass: 'inetOrgPerson', cn: 'x', sn: 'x', rowanAppPassword: 'x' }),
    } as const;
    expect((await admin.request(named)).code).to.be.oneOf([19, 64]);
  });

  it('no rule gives them to anybody', async () => {
    const rules = `rules:
  - name: all
    who: { users: true }
    to: { attributes: ["*", "+", entry, cn, rowanAppPassword, userPassword] }
    allow: [view]
`;
    one = await begin({}, rules);
    const dn = testSchema().parseDn(P0);
    const attribute = { type: 'rowanAppPassword', values: [Buffer.from('{"id":"hidden"}')] };
    const system = { dn: ADMIN.dn, system: true };
    await one.partition.modify(dn, [{ operation: 'add', attribute }], system);
    const user = await boundAs(P0, 'secret-0');
    const { entries } = await user.search(P0, { attributes: ['*', '+', 'rowanAppPassword'] });
    expect([...entries[0]!.attributes.keys()].join())
      .to.include('cn')
      .and.not.include('rowanAppPassword');
    expect(await code(P0, 'hidden'), 'a value that is none gives none').to.equal(49);
  });

  it('users have none of others, nor where they may not change their password; the administrator has anybody’s', async () => {
    const user = await boundAs(P0, 'secret-0');
    for (const entry of [P1, personDn('nobody'), ADMIN.dn])
      for (const request of [
        { action: 'add', name: 'x' },
        { action: 'list' },
        { action: 'remove', name: 'x' },
      ] as const) {
        const answer = await ask(user, { ...request, entry });
        expect(answer.code).to.equal(50);
        expect(answer.final.message).to.match(/only the administrator/);
      }
    const anonymous = await connect();
    expect((await ask(anonymous, { action: 'add', name: 'x', entry: P0 })).code).to.equal(50);
    const admin = await boundAs(ADMIN.dn, ADMIN.password);
    const password = await made(admin, { entry: P1, name: 'given' });
    expect(await code(P1, password)).to.equal(0);
    expect(await listed(admin, P1)).to.include('given');
    expect((await ask(admin, { action: 'add', name: 'x' })).code, 'has none itself').to.equal(53);
    expect((await ask(admin, { action: 'add', name: 'x', entry: personDn('nobody') })).code).to.equal(32);
    const closed = await begin({}, 'rules: []\n');
    const bound = await boundAs(P0, 'secret-0', closed);
    expect((await ask(bound, { action: 'add', name: 'x' })).code).to.be.oneOf([32, 50]);
  });

  it('names and number are bounded, and each name is there once, also where many are made at once', async () => {
    const user = await boundAs(P0, 'secret-0');
    for (const name of ['', ' x', 'x ', 'a\nb', 'a\u0000', 'x'.repeat(65)])
      expect((await ask(user, { action: 'add', name })).code, JSON.stringify(name)).to.equal(19);
    for (const more of [{ usedBy: `cn=${'x'.repeat(2000)}` }, { networks: '10.0.0.0/8 '.repeat(17) }])
      expect((await ask(user, { action: 'add', name: 'x', ...more })).code).to.equal(19);
    const same = await Promise.all(Array.from({ length: 4 }, () => ask(user, { action: 'add', name: 'same' })));
    expect(same.map((answer) => answer.code).sort()).to.deep.equal([0, 20, 20, 20]);
    const codes = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => (await ask(user, { action: 'add', name: `n${n}` })).code),
    );
    expect(codes.filter((one) => one === 0)).to.have.length(15);
    expect(codes.filter((one) => one === 19)).to.have.length(5);
  });

  it('what is malformed is refused with 2', async () => {
    const user = await boundAs(P0, 'secret-0');
    for (const hex of [undefined, '', '3000', '30030a0103', '30030a0100', '30060a01008901ff', '30060a01018101ff'])
      expect(
        (
          await user.request({
            op: 'extended',
            oid: ExtendedOid.applicationPasswords,
            value: hex === undefined ? undefined : Buffer.from(hex, 'hex'),
          })
        ).code,
        String(hex),
      ).to.equal(2);
  });

  it('the last use is kept once an hour, beside the entry', async () => {
    const user = await boundAs(P0, 'secret-0');
    const password = await made(user, { name: 'imap' });
    const csn = async () =>
      (await user.search(P0, { attributes: ['entryCSN'] })).entries[0]!.attributes.get('entryCSN');
    const before = await csn();
    const { store } = one.partition;
    const commit = store.commit.bind(store);
    const tables: string[] = [];
    store.commit = (plan: Plan) => {
      tables.push(...plan.steps.filter((step) => 'put' in step && step.put).map((step) => step.table));
      return commit(plan);
    };
    const lastUse = '\u0086\u000f';
    expect(await listed(user)).to.not.include(lastUse);
    for (let i = 0; i < 3; i++) expect(await code(P0, password)).to.equal(0);
    expect(tables).to.deep.equal([STATE_TABLE.name]);
    expect(await listed(user)).to.include(lastUse);
    const { now } = Date;
    Date.now = () => now() + 3_700_000;
    try {
      expect(await code(P0, password)).to.equal(0);
      expect(tables).to.have.length(2);
    } finally {
      Date.now = now;
    }
    expect(await csn()).to.deep.equal(before);
  });

  describe('under a policy', () => {
    async function under(values: Readonly<Record<string, string>>): Promise<void> {
      one = await begin({ 'passwords.policy': POLICY });
      const all = { objectClass: ['device', 'pwdPolicy'], cn: 'policy', pwdAttribute: 'userPassword', ...values };
      await one.partition.add(testSchema().parseDn(POLICY), attributes(all), { dn: ADMIN.dn });
    }

    it('nobody binds with one to a locked account', async () => {
      await under({ pwdLockout: 'TRUE', pwdMaxFailure: '3' });
      const password = await made(await boundAs(P0, 'secret-0'), { name: 'imap' });
      for (let i = 0; i < 3; i++) expect(await code(P0, 'wrong')).to.equal(49);
      expect(await code(P0, password)).to.equal(49);
    });

    it('a bind with one does not make failures be forgotten: nobody guesses between two of them', async () => {
      await under({ pwdLockout: 'TRUE', pwdMaxFailure: '3' });
      const password = await made(await boundAs(P0, 'secret-0'), { name: 'imap' });
      for (let i = 0; i < 3; i++) {
        expect(await code(P0, password)).to.equal(0);
        expect(await code(P0, 'wrong')).to.equal(49);
      }
      for (const text of [password, 'secret-0']) expect(await code(P0, text)).to.equal(49);
    });

    it('a wrong one counts, and so does a right one from where it is not good', async () => {
      await under({ pwdLockout: 'TRUE', pwdMaxFailure: '2' });
      const user = await boundAs(P0, 'secret-0');
      const far = await made(user, { name: 'far', networks: '10.0.0.0/8' });
      expect(await code(P0, far)).to.equal(49);
      expect(await code(P0, 'aaaaaa-aaaaaa-aaaaaa-aaaaaa')).to.equal(49);
      expect(await code(P0, 'secret-0')).to.equal(49);
    });

    it('it neither expires with the password nor has to be changed with it', async () => {
      await under({ pwdMaxAge: '1000', pwdGraceAuthNLimit: '0' });
      const user = await boundAs(P0, 'secret-0');
      const password = await made(user, { name: 'imap' });
      const system = { dn: ADMIN.dn, system: true };
      const set = (type: string, value: string) =>
        one.partition.modify(
          testSchema().parseDn(P0),
          [{ operation: 'replace', attribute: { type, values: [Buffer.from(value)] } }],
          system,
        );
      await set('pwdChangedTime', '20200101000000Z');
      expect(await code(P0, 'secret-0')).to.equal(49);
      expect(await code(P0, password)).to.equal(0);
      await set('pwdReset', 'TRUE');
      const client = await boundAs(P0, password);
      expect((await client.search(P0)).code).to.equal(0);
    });

    it('what is refused is told by the control', async () => {
      await under({ pwdMinLength: '3' });
      const password = await made(await boundAs(P0, 'secret-0'), { name: 'imap' });
      const client = await boundAs(P0, password);
      const attribute = { type: 'userPassword', values: [Buffer.from('another')] };
      const answer = await client.request({ op: 'modify', dn: P0, changes: [{ operation: 'replace', attribute }] }, [
        { oid: '1.3.6.1.4.1.42.2.27.8.5.1', critical: true, value: undefined },
      ]);
      expect(policyTold(answer)).to.deep.equal(policyError(3));
    });
  });

  it('a bind that fails does the same work with some and without', async () => {
    const user = await boundAs(P0, 'secret-0');
    for (let n = 0; n < 16; n++) await made(user, { name: `n${n}` });
    const spent = (dn: string, password: string): Promise<number> =>
      costOfHashing(async () => expect(await code(dn, password)).to.equal(49));
    for (const password of ['wrong', 'aaaaaa-aaaaaa-aaaaaa-aaaaaa'])
      expect(await spent(P0, password))
        .to.equal(await spent(P1, password))
        .and.be.above(0);
  });

  it('no password and no hash reaches the log', async () => {
    const password = await made(await boundAs(P0, 'secret-0'), { name: 'imap' });
    await code(P0, password);
    expect(one.lines.join('')).to.not.include(password).and.not.include('SSHA512');
  });
});
