import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, MASTER_TABLE } from '../../src/partition/model/tables.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import type { SettingValues } from '../../src/server/settings/index.js';
import { hold } from '../password/hold.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, addPerson, CHEAP, PEOPLE, personDn, type Running, start, testSchema } from './directory.js';
import { RawClient } from './raw-client.js';

/** {SSHA} of `sesame`. */
const SSHA = '{SSHA}/VMpgt1++uV1ZatBjxlBFwbi8EYAMUZJUtCL0Q==';

function change(operation: Modification['operation'], type: string, ...values: string[]): Modification {
  return { operation, attribute: { type, values: values.map((value) => Buffer.from(value)) } };
}

function modify(uid: string, ...changes: Modification[]): Request {
  return { op: 'modify', dn: personDn(uid), changes };
}

function passwordModify(userIdentity: string | undefined, old: string | undefined, newer: string): Request {
  const oldPassword = old === undefined ? undefined : Buffer.from(old);
  const value = encodePasswordModify({ userIdentity, oldPassword, newPassword: Buffer.from(newer) });
  return { op: 'extended', oid: ExtendedOid.passwordModify, value };
}

function rename(uid: string, to: string): Request {
  return { op: 'modifyDN', dn: personDn(uid), newRdn: `uid=${to}`, deleteOldRdn: true, newSuperior: undefined };
}

describe('server: changes of passwords', () => {
  let running: Running;
  let admin: RawClient;
  const clients: RawClient[] = [];

  async function begin(settings: Partial<SettingValues> = {}): Promise<void> {
    running = await start({ ...CHEAP, ...settings }, 1);
    admin = await connectAs(ADMIN.dn, ADMIN.password);
  }
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await running.stop();
  });

  async function connectAs(dn: string, password: string): Promise<RawClient> {
    const client = await RawClient.open(running.port);
    clients.push(client);
    expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  async function bindAs(uid: string, password: string): Promise<number> {
    const client = await RawClient.open(running.port);
    const code = await client.bind(personDn(uid), password);
    client.close();
    return code;
  }

  async function stored(uid: string): Promise<string[]> {
    const { attributes } = await running.partition.read(testSchema().parseDn(personDn(uid)));
    return attributes.filter(({ type }) => type.name === 'userPassword').flatMap(({ values }) => values.map(String));
  }

  /** Stores a password under an option, behind the server's back, as older versions took it. */
  async function hide(uid: string, value: string): Promise<void> {
    const { id } = await running.partition.read(testSchema().parseDn(personDn(uid)));
    const qualifier = valueQualifier('userPassword;x-hid', 0);
    const put = [{ family: MASTER.upAttributes, qualifier, value: Buffer.from(value) }];
    await running.partition.store.commit({ steps: [{ table: MASTER_TABLE.name, key: id, put }], decisive: 0 });
  }

  it('changes of passwords with attribute options are refused', async () => {
    await begin();
    const own = await connectAs(personDn('p0'), 'secret-0');
    for (const client of [own, admin]) {
      for (const type of ['userPassword;x-hid', '2.5.4.35;x-hid']) {
        const answer = await client.request(modify('p0', change('add', type, 'hidden')));
        expect(answer.code, type).to.equal(19);
        expect(answer.final.message).to.match(/takes no options/);
      }
    }
    expect(await bindAs('p0', 'hidden')).to.equal(49);
  });

  it('a hidden second password binds nobody, and goes with the first', async () => {
    await begin();
    const resets: ((uid: string) => Promise<unknown>)[] = [
      (uid) => admin.request(modify(uid, change('replace', 'userPassword', 'fresh'))),
      (uid) => admin.request(passwordModify(personDn(uid), undefined, 'fresh')),
      async (uid) => (await connectAs(personDn(uid), 'sesame')).request(passwordModify(undefined, 'sesame', 'fresh')),
    ];
    for (const [i, reset] of resets.entries()) {
      const uid = `hidden${i}`;
      await addPerson(running.partition, uid, { userPassword: [SSHA, '{CLEARTEXT}second'] });
      await hide(uid, '{CLEARTEXT}hidden');
      expect(await bindAs(uid, 'hidden')).to.equal(49);
      expect(await bindAs(uid, 'second')).to.equal(0);
      expect(await reset(uid)).to.include({ code: 0 });
      expect(await stored(uid), uid).to.have.length(1);
      for (const gone of ['hidden', 'sesame', 'second']) expect(await bindAs(uid, gone)).to.equal(49);
      expect(await bindAs(uid, 'fresh')).to.equal(0);
    }
  });

  for (const [name, request] of [
    ['modify', modify('p0', change('replace', 'userPassword', 'taken'))],
    ['password modify', passwordModify(personDn('p0'), undefined, 'taken')],
    ['password modify of one’s own', passwordModify(undefined, undefined, 'taken')],
  ] as const) {
    it(`${name}: a rename while it hashes does not lead it to another entry`, async () => {
      await begin();
      const user = await connectAs(personDn('p0'), 'secret-0');
      const held = hold();
      const asked = user.request(request);
      await held.until(() => held.waiting > 0);
      expect((await admin.request(rename('p0', 'moved'))).code).to.equal(0);
      await addPerson(running.partition, 'p0', { userPassword: SSHA });
      held.goOn();
      expect((await asked).code).to.equal(50);
      expect(await stored('p0')).to.deep.equal([SSHA]);
      expect(await bindAs('p0', 'taken')).to.equal(49);
      expect(await bindAs('moved', 'secret-0')).to.equal(0);
    });
  }

  /** The codes of the user's `requests`, when the administrator does `reset` while all wait to be hashed. */
  async function beside(user: RawClient, requests: readonly Request[], reset: Request): Promise<number[]> {
    const held = hold();
    const ids = user.sendTogether(requests);
    await held.until(() => held.waiting >= requests.length);
    expect((await admin.request(reset)).code).to.equal(0);
    held.goOn();
    return Promise.all(ids.map(async (id) => (await user.answer(id)).code));
  }

  async function isEnded(user: RawClient): Promise<boolean> {
    return user.search(PEOPLE).then(
      () => false,
      () => true,
    );
  }

  const words = Array.from({ length: 8 }, (_, n) => `taken-${n}`);
  for (const [name, requests] of [
    ['modify of eight', [modify('p0', change('replace', 'userPassword', ...words))]],
    ['password modify', [passwordModify(undefined, undefined, 'taken-0')]],
    ['password modifies, pipelined', words.map((word) => passwordModify(undefined, undefined, word))],
    ['modifies, pipelined', words.map((word) => modify('p0', change('add', 'userPassword', word)))],
  ] as const) {
    it(`${name}: an administrator’s reset in the meantime is not undone`, async () => {
      await begin();
      const user = await connectAs(personDn('p0'), 'secret-0');
      const codes = await beside(user, requests, modify('p0', change('replace', 'userPassword', SSHA)));
      expect(codes).to.deep.equal(requests.map(() => 50));
      expect(await stored('p0')).to.deep.equal([SSHA]);
      for (const word of [...words, 'secret-0']) expect(await bindAs('p0', word)).to.equal(49);
      expect(await bindAs('p0', 'sesame')).to.equal(0);
      expect(await isEnded(user)).to.equal(true);
    });
  }

  it('a password that was taken away meanwhile does not come back', async () => {
    await begin();
    const user = await connectAs(personDn('p0'), 'secret-0');
    const add = modify('p0', change('add', 'userPassword', 'taken'));
    expect(await beside(user, [add], modify('p0', change('delete', 'userPassword')))).to.deep.equal([50]);
    expect(await stored('p0')).to.deep.equal([]);
    expect(await isEnded(user)).to.equal(true);
  });

  it('a change of something else meanwhile hinders nobody', async () => {
    await begin();
    const user = await connectAs(personDn('p0'), 'secret-0');
    const own = words.map((word) => passwordModify(undefined, undefined, word));
    const codes = await beside(user, own, modify('p0', change('replace', 'description', 'new')));
    expect(codes).to.deep.equal(own.map(() => 0));
    expect(await isEnded(user)).to.equal(false);
    expect(await stored('p0')).to.have.length(1);
  });

  it('one request may replace a password twice, and requests may do so side by side', async () => {
    await begin();
    const user = await connectAs(personDn('p0'), 'secret-0');
    const twice = modify('p0', change('replace', 'userPassword', 'one'), change('replace', 'userPassword', 'two'));
    const same = modify('p0', change('replace', 'userPassword', 'two'));
    const ids = user.sendTogether([twice, same, twice, same]);
    expect(await Promise.all(ids.map(async (id) => (await user.answer(id)).code))).to.deep.equal([0, 0, 0, 0]);
    expect(await isEnded(user)).to.equal(false);
    expect(await bindAs('p0', 'one')).to.equal(49);
    expect(await bindAs('p0', 'two')).to.equal(0);
  });

  it('an upgrade of the hash meanwhile hinders nobody', async () => {
    await begin({ 'passwords.upgradeAtBind': true });
    await addPerson(running.partition, 'weak', { userPassword: [SSHA] });
    const held = hold();
    const user = await connectAs(personDn('weak'), 'sesame');
    // The upgrade is of another source, and has been waiting for longer.
    const own = user.request(modify('weak', change('add', 'userPassword', 'second')));
    await held.until(2);
    held.goOn();
    expect((await own).code).to.equal(0);
    await running.server.services.upgrades.waitForUpgrades();
    expect(await stored('weak')).to.have.length(2);
    expect(await isEnded(user)).to.equal(false);
    expect(await bindAs('weak', 'sesame')).to.equal(0);
    expect(await bindAs('weak', 'second')).to.equal(0);
  });

  it('the administrator’s own change does not undo what another has made of it', async () => {
    await begin();
    const thief = await connectAs(ADMIN.dn, ADMIN.password);
    const held = hold();
    const ids = thief.sendTogether([
      passwordModify(undefined, undefined, 'taken'),
      modify('p0', change('replace', 'userPassword', 'taken')),
    ]);
    // One that has not begun by then finds that the session has ended.
    await held.until(2);
    await running.partition.setAdminPassword(Buffer.from(SSHA));
    held.goOn();
    for (const id of ids) expect((await thief.answer(id)).code).to.equal(50);
    expect(await isEnded(thief)).to.equal(true);
    expect(await bindAs('p0', 'secret-0')).to.equal(0);
    await connectAs(ADMIN.dn, 'sesame');
  });

  it('a session goes on after its own change, not after another’s at the same time', async () => {
    await begin();
    const user = await connectAs(personDn('p0'), 'secret-0');
    for (let n = 0; n < 20; n++) {
      // Those behind the change are begun while it is under way.
      const ids = user.sendTogether([
        passwordModify(undefined, undefined, `own-${n}`),
        ...Array.from(
          { length: 5 },
          () => ({ op: 'compare', dn: PEOPLE, attribute: 'ou', value: Buffer.from('people') }) as const,
        ),
      ]);
      const codes = await Promise.all(ids.map(async (id) => (await user.answer(id)).code));
      expect(codes).to.deep.equal([0, 6, 6, 6, 6, 6]);
    }
    expect(await bindAs('p0', 'own-19')).to.equal(0);
  });

  it('a session ends when somebody else changes its password behind its own change', async () => {
    await begin();
    let password = 'secret-0';
    for (let n = 0; n < 20; n++) {
      const user = await connectAs(personDn('p0'), password);
      const own = user.request(passwordModify(undefined, undefined, `own-${n}`)).then(
        ({ code }) => code,
        () => 8,
      );
      const reset = admin.request(modify('p0', change('replace', 'userPassword', `reset-${n}`)));
      expect((await reset).code).to.equal(0);
      expect(await own).to.be.oneOf([0, 8, 50]);
      const isOwn = (await bindAs('p0', `own-${n}`)) === 0;
      password = isOwn ? `own-${n}` : `reset-${n}`;
      const holds = await user.search(PEOPLE).then(
        () => true,
        () => false,
      );
      expect(holds).to.equal(isOwn);
    }
  });

  for (const [name, request] of [
    ['password modify', (_: string) => passwordModify(undefined, 'sesame', 'fresh')],
    [
      'delete and add',
      (uid: string) => modify(uid, change('delete', 'userPassword', 'sesame'), change('add', 'userPassword', 'fresh')),
    ],
    ['replace', (uid: string) => modify(uid, change('replace', 'userPassword', 'fresh'))],
  ] as const) {
    it(`${name}: right after the first bind with a weak hash succeeds 20 times of 20`, async () => {
      await begin({ 'passwords.upgradeAtBind': true });
      const codes: number[] = [];
      for (let n = 0; n < 20; n++) {
        await addPerson(running.partition, `u${n}`, { userPassword: SSHA });
        const user = await connectAs(personDn(`u${n}`), 'sesame');
        codes.push((await user.request(request(`u${n}`))).code);
        expect((await user.search(PEOPLE)).code).to.equal(0);
      }
      await running.server.services.upgrades.waitForUpgrades();
      expect(codes).to.deep.equal(codes.map(() => 0));
      for (let n = 0; n < 20; n++) {
        expect(await stored(`u${n}`)).to.have.length(1);
        expect(await bindAs(`u${n}`, 'fresh')).to.equal(0);
        expect(await bindAs(`u${n}`, 'sesame')).to.equal(49);
      }
      expect(running.lines.filter((line) => line.includes('not upgraded'))).to.deep.equal([]);
    });
  }
});
