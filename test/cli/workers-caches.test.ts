import { expect } from 'chai';
import { hashPasswordFast } from '../../src/password/index.js';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { rounds } from '../rounds.js';
import type { Answer, RawClient } from '../server/raw-client.js';
import { PEOPLE, rowanDoes, Sandbox, SUFFIX } from './rowan.js';
import { addPerson, personDn, read, replace, TwoWorkers } from './workers.js';

const uidIs = (uid: string) => ({ type: 'equal', attribute: 'uid', value: Buffer.from(uid) }) as const;

describe('cli: two workers, what one writes the other knows', () => {
  const sandbox = new Sandbox();
  let two: TwoWorkers;
  let a: RawClient;
  let b: RawClient;

  before(async () => {
    await sandbox.initSample();
    two = await TwoWorkers.start(sandbox, ['--passwords-argon2-memory-kib', '64', '--passwords-argon2-time-cost', '1']);
    [a, b] = await two.both();
  });
  after(async () => {
    two?.close();
    await sandbox.remove();
  });

  it('a read after an acknowledged write is never older than it, while the worker reads all the time', async () => {
    const PAIRS = rounds(4, 8);
    const ROUNDS = rounds(50, 250);
    const busy = await two.admin(2);
    let done = false;
    const reading = (async () => {
      while (!done) await Promise.all([1, 2, 3, 4].map(() => busy.search(PEOPLE, { scope: 'one' })));
    })();
    const pair = async (n: number): Promise<void> => {
      const [writer, reader] = await two.both();
      const uid = `pair${n}`;
      expect((await addPerson(writer, uid)).code).to.equal(0);
      for (let round = 0; round < ROUNDS; round++) {
        // Something is on its way already when the read is sent.
        if (round % 2 === 0) reader.send({ op: 'compare', dn: PEOPLE, attribute: 'ou', value: Buffer.from('people') });
        expect((await replace(writer, personDn(uid), 'description', `${round}`)).code).to.equal(0);
        expect(await read(reader, personDn(uid), 'description'), `${uid}, round ${round}`).to.equal(`${round}`);
      }
    };
    try {
      await Promise.all(Array.from({ length: PAIRS }, (_, n) => pair(n)));
    } finally {
      done = true;
      await reading;
    }
  });

  it('a renamed subtree has its new name, and the old one is free', async () => {
    const unit = (name: string): string => `ou=${name},${SUFFIX}`;
    const attributes = [
      { type: 'objectClass', values: [Buffer.from('organizationalUnit')] },
      { type: 'ou', values: [Buffer.from('one')] },
    ];
    expect((await a.request({ op: 'add', dn: unit('one'), attributes })).code).to.equal(0);
    expect((await addPerson(a, 'mover')).code).to.equal(0);
    const move = { op: 'modifyDN', deleteOldRdn: true } as const;
    expect(
      (await a.request({ ...move, dn: personDn('mover'), newRdn: 'uid=mover', newSuperior: unit('one') })).code,
    ).to.equal(0);
    for (let round = 0; round < rounds(12, 50); round++) {
      const [from, to] = round % 2 === 0 ? ['one', 'two'] : ['two', 'one'];
      // The other worker has the names of before in its cache.
      expect((await b.search(`uid=mover,${unit(from!)}`)).entries).to.have.length(1);
      const [writer, reader] = round % 3 === 0 ? [b, a] : [a, b];
      const renamed = await writer.request({ ...move, dn: unit(from!), newRdn: `ou=${to}`, newSuperior: undefined });
      expect(renamed.code, `round ${round}`).to.equal(0);
      const found = await reader.search(SUFFIX, { scope: 'sub', filter: uidIs('mover') });
      expect(found.entries.map(({ dn }) => dn)).to.deep.equal([`uid=mover,${unit(to!)}`]);
      expect((await reader.search(`uid=mover,${unit(to!)}`)).entries).to.have.length(1);
      expect((await reader.search(`uid=mover,${unit(from!)}`)).code).to.equal(32);
    }
  });

  it('an entry that was deleted is gone, and one of its name is another', async () => {
    for (let round = 0; round < rounds(12, 50); round++) {
      const [writer, reader] = round % 2 === 0 ? [a, b] : [b, a];
      expect((await addPerson(writer, 'brief')).code).to.equal(0);
      expect(await read(reader, personDn('brief'), 'uid')).to.equal('brief');
      expect((await reader.request({ op: 'delete', dn: personDn('brief') })).code).to.equal(0);
      expect((await writer.search(personDn('brief'))).code).to.equal(32);
      expect((await writer.search(SUFFIX, { scope: 'sub', filter: uidIs('brief') })).entries).to.deep.equal([]);
    }
  });

  /** A connection to that worker that nobody has bound yet. */
  async function stranger(worker: number): Promise<RawClient> {
    const client = await two.admin(worker);
    expect(await client.bind('', '')).to.equal(0);
    return client;
  }

  it('a changed password counts at once, remembered or not', async () => {
    await addPerson(a, 'ann', 'word 0');
    const dn = personDn('ann');
    const [one, other] = [await stranger(1), await stranger(2)];
    for (let round = 0; round < 10; round++) {
      // Both workers remember the credential.
      expect(await one.bind(dn, `word ${round}`)).to.equal(0);
      expect(await other.bind(dn, `word ${round}`)).to.equal(0);
      expect((await replace(a, dn, 'userPassword', `word ${round + 1}`)).code).to.equal(0);
      expect(await other.bind(dn, `word ${round}`), 'old').to.equal(49);
      expect(await other.bind(dn, `word ${round + 1}`), 'new').to.equal(0);
    }
  });

  it('a session ends that was bound with what another worker has changed', async () => {
    await addPerson(a, 'eve', 'before');
    const session = await stranger(2);
    expect(await session.bind(personDn('eve'), 'before')).to.equal(0);
    const value = encodePasswordModify({
      userIdentity: personDn('eve'),
      oldPassword: undefined,
      newPassword: Buffer.from('after'),
    });
    expect((await a.request({ op: 'extended', oid: ExtendedOid.passwordModify, value })).code).to.equal(0);
    session.send({ op: 'extended', oid: ExtendedOid.whoAmI, value: undefined });
    expect((await session.notice())?.code).to.equal(8);
  });

  it('a hash that another worker has made stronger ends no session', async () => {
    await addPerson(a, 'weak', hashPasswordFast(Buffer.from('password')).toString());
    const dn = personDn('weak');
    const [one, other] = [await stranger(1), await stranger(2)];
    const codes = await Promise.all([one, other].map((client) => client.bind(dn, 'password')));
    expect(codes).to.deep.equal([0, 0]);
    const upgraded = async (): Promise<boolean> => {
      const ldif = await rowanDoes(['export', '--data', sandbox.data, '--base', dn]);
      return /^userPassword: \{ARGON2\}/m.test(ldif);
    };
    while (!(await upgraded()));
    for (const session of [one, other])
      expect((await session.request({ op: 'extended', oid: ExtendedOid.whoAmI, value: undefined })).code).to.equal(0);
    expect(await other.bind(dn, 'password')).to.equal(0);
  });

  it('an upgrade at both and a change by the owner at one never make each other fail', async () => {
    const stored = hashPasswordFast(Buffer.from('first')).toString();
    const codes: number[] = [];
    for (let n = 0; n < rounds(6, 20); n++) {
      const dn = personDn(`moving${n}`);
      await addPerson(a, `moving${n}`, stored);
      const [one, other] = [await stranger(1), await stranger(2)];
      expect(await Promise.all([one, other].map((client) => client.bind(dn, 'first')))).to.deep.equal([0, 0]);
      const [oldPassword, newPassword] = [Buffer.from('first'), Buffer.from('second')];
      const value = encodePasswordModify({ userIdentity: undefined, oldPassword, newPassword });
      const { code } = await (n % 2 === 0
        ? one.request({ op: 'extended', oid: ExtendedOid.passwordModify, value })
        : one.request({
            op: 'modify',
            dn,
            changes: [
              { operation: 'delete', attribute: { type: 'userPassword', values: [oldPassword] } },
              { operation: 'add', attribute: { type: 'userPassword', values: [newPassword] } },
            ],
          }));
      codes.push(code);
      expect((await one.search(PEOPLE)).code).to.equal(0);
      for (const client of [one, other]) client.close();
    }
    expect(codes).to.deep.equal(codes.map(() => 0));
    const check = await stranger(2);
    for (let n = 0; n < rounds(6, 20); n++) {
      expect(await check.bind(personDn(`moving${n}`), 'second')).to.equal(0);
      expect(await check.bind(personDn(`moving${n}`), 'first')).to.equal(49);
    }
  });

  it('pages go on at another worker', async () => {
    const page = (client: RawClient, cookie: Buffer): Promise<Answer> => {
      const value = encodePagedResults({ size: 4, cookie });
      return client.search(PEOPLE, { scope: 'one' }, [{ oid: ControlOid.pagedResults, critical: true, value }]);
    };
    const found: string[] = [];
    let cookie = Buffer.alloc(0);
    for (let n = 0; n === 0 || cookie.length > 0; n++) {
      const answer = await page(n % 2 === 0 ? a : b, cookie);
      expect(answer.code).to.equal(0);
      found.push(...answer.entries.map(({ dn }) => dn));
      const control = answer.controls.find(({ oid }) => oid === ControlOid.pagedResults);
      cookie = Buffer.from(decodePagedResults(control?.value).cookie);
    }
    const all = (await a.search(PEOPLE, { scope: 'one' })).entries.map(({ dn }) => dn);
    expect(found.sort()).to.deep.equal(all.sort());
    expect(found.length).to.be.greaterThan(12);
  });

  it('an index that is added beside them is kept and used by both', async () => {
    await rowanDoes(['index', 'add', 'employeeNumber', '--data', sandbox.data]);
    for (const [n, [writer, reader]] of [
      [a, b],
      [b, a],
    ].entries()) {
      await addPerson(writer!, `numbered${n}`);
      await replace(writer!, personDn(`numbered${n}`), 'employeeNumber', `new ${n}`);
      const filter = { type: 'equal', attribute: 'employeeNumber', value: Buffer.from(`new ${n}`) } as const;
      const { entries } = await reader!.search(SUFFIX, { scope: 'sub', filter });
      expect(entries.map(({ dn }) => dn)).to.deep.equal([personDn(`numbered${n}`)]);
    }
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });
});
