import { expect } from 'chai';
import type { Control } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { ADMIN, addPerson, PEOPLE, personDn, type Running, SUFFIX, start, testSchema } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';
import { cookieOf, pageControl, sortControl, sortResult, windowControl, windowResult } from './sort-requests.js';

const NONE = Buffer.alloc(0);
const PERSONS = 300;

const uids = (answer: Answer): string[] => answer.entries.map(({ dn }) => /^uid=(\w+),/.exec(dn)![1]!);

describe('server: sorted searches', () => {
  let running: Running;
  let admin: RawClient;

  before(async () => {
    running = await start({ 'limits.search.sizeLimit': 50 });
    const { partition } = running;
    for (let n = 0; n < PERSONS; n++)
      await addPerson(partition, `p${n}`, {
        sn: `Sn ${String((n * 7) % PERSONS).padStart(3, '0')}`,
        ...(n % 10 === 0 && { title: `T${n}` }),
      });
    admin = await RawClient.open(running.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
  });

  after(async () => {
    admin.close();
    await running.stop();
  });

  function ask(controls: readonly Control[], client = admin, filter = 'inetOrgPerson', sizeLimit = 0): Promise<Answer> {
    const asked = { type: 'equal', attribute: 'objectClass', value: Buffer.from(filter) } as const;
    return client.search(SUFFIX, { scope: 'sub', filter: asked, attributes: ['1.1'], sizeLimit }, controls);
  }

  it('are not sorted by an unknown attribute, a secret or an unsuitable rule: 12, or unsorted with the reason', async () => {
    for (const [keys, code, attribute] of [
      ['nosuch', 16, 'nosuch'],
      ['sn/userPassword', 18, 'userPassword'],
      ['sn:integerOrderingMatch', 18, 'sn'],
    ] as const) {
      const critical = await ask([sortControl(keys)]);
      expect([critical.code, critical.entries.length]).to.deep.equal([12, 0]);
      expect(sortResult(critical)).to.deep.equal({ code, attribute });
      const other = await ask([sortControl(keys, false)]);
      expect([other.code, other.entries.length]).to.deep.equal([0, PERSONS]);
      expect(sortResult(other)).to.deep.equal({ code, attribute });
    }
    const rootDse = await admin.search('', { scope: 'base' }, [sortControl('cn', false)]);
    expect([rootDse.code, rootDse.entries.length, sortResult(rootDse)?.code]).to.deep.equal([0, 1, 53]);
  });

  it('refuse malformed values', async () => {
    for (const value of [undefined, NONE, Buffer.from('3000', 'hex'), Buffer.from('30023000', 'hex')])
      expect((await ask([{ oid: ControlOid.sortRequest, critical: true, value }])).code).to.equal(2);
    for (const hex of ['3000', '3006020100020100', '300b020100020100a003020101', '3009020100020100a2010100']) {
      const window = { oid: ControlOid.virtualListRequest, critical: true, value: Buffer.from(hex, 'hex') };
      expect((await ask([sortControl('sn'), window])).code, hex).to.equal(2);
    }
    const list = await RawClient.open(running.port);
    await list.bind(ADMIN.dn, ADMIN.password);
    expect((await ask([sortControl(Array(11).fill('sn').join('/'))], list)).code).to.equal(2);
    list.close();
  });

  it('many windows at a time are all sent, those of orders that are dropped meanwhile, too', async () => {
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    const keys = ['sn', 'cn', 'uid', 'title', 'mail', 'objectClass'].flatMap((key) => [key, `-${key}`, `${key}/sn`]);
    const asked = [...keys, ...keys].map((key) => ask([sortControl(key), windowControl(0, 9, [1, 0])], client));
    expect((await Promise.all(asked)).map(({ code }) => code)).to.deep.equal(asked.map(() => 0));
    client.close();
  });

  it('a window needs the sort control, has no pages, and lies in the list', async () => {
    const unsorted = await ask([windowControl(0, 5, [1, 0])]);
    expect([unsorted.code, windowResult(unsorted)?.code]).to.deep.equal([60, 60]);
    const paged = await ask([sortControl('sn'), windowControl(0, 5, [1, 0]), pageControl(5, NONE)]);
    expect([paged.code, windowResult(paged)?.code]).to.deep.equal([76, 53]);
    for (const target of [
      [0, 0],
      [PERSONS + 1, 0],
      [11, 10],
    ] as [number, number][]) {
      const outside = await ask([sortControl('sn'), windowControl(0, 5, target)]);
      expect([outside.code, outside.entries.length]).to.deep.equal([76, 0]);
      expect(windowResult(outside)).to.deep.equal({ position: 0, count: PERSONS, code: 61 });
    }
    const none = await ask([sortControl('sn'), windowControl(3, 5, [1, 0])], admin, 'device');
    expect([none.code, windowResult(none)]).to.deep.equal([0, { position: 0, count: 0, code: 0 }]);
  });

  it('an offset in a list of another length is a part of the list', async () => {
    for (const [target, position] of [
      [[5, 10], PERSONS / 2],
      [[10, 10], PERSONS],
      [[1, 77], 1],
      [[30, 3000], 3],
    ] as [[number, number], number][])
      expect(windowResult(await ask([sortControl('sn'), windowControl(0, 0, target)]))?.position).to.equal(position);
  });

  it('a window is of the directory as it is: a change makes another list', async () => {
    const window = () => ask([sortControl('uid'), windowControl(0, 0, [1, 0])]);
    expect(uids(await window())).to.deep.equal(['p0']);
    await addPerson(running.partition, 'a0');
    const after = await window();
    expect([uids(after), windowResult(after)?.count]).to.deep.equal([['a0'], PERSONS + 1]);
    await running.partition.delete(testSchema().parseDn(personDn('a0')), { dn: ADMIN.dn });
    expect(uids(await window())).to.deep.equal(['p0']);
  });

  it('the first entries of an indexed attribute are found without the others', async () => {
    const { partition } = running;
    for (const [keys, isShort] of [
      ['sn', true],
      ['title', false],
      ['-sn', false],
    ] as const) {
      let examined = 0;
      const search = partition.search.bind(partition);
      partition.search = (params, sink) => {
        const outcome = search(params, sink);
        void Promise.resolve(outcome).then(({ rowsExamined }) => (examined += rowsExamined));
        return outcome;
      };
      const answer = await ask([sortControl(keys), pageControl(10, NONE)]);
      partition.search = search;
      expect(answer.entries).to.have.length(10);
      if (isShort) expect(examined).to.be.lessThan(60);
      else expect(examined).to.be.greaterThan(PERSONS);
    }
  });

  it('a cookie goes on in the same order only, and not where the order is no longer kept', async () => {
    const cookie = cookieOf(await ask([sortControl('sn'), pageControl(10, NONE)]));
    expect((await ask([sortControl('-sn'), pageControl(10, cookie)])).code).to.equal(53);
    expect((await ask([pageControl(10, cookie)])).code).to.equal(53);
    const second = await ask([sortControl('sn'), pageControl(10, cookie)]);
    const again = await ask([sortControl('sn'), pageControl(10, cookie)]);
    expect(uids(again)).to.deep.equal(uids(second));
    for (let n = 0; n < 8; n++) await ask([sortControl('sn'), pageControl(10, NONE)]);
    expect((await ask([sortControl('sn'), pageControl(10, cookieOf(second))])).code).to.equal(53);
    const ended = cookieOf(await ask([sortControl('sn'), pageControl(10, NONE)]));
    expect((await ask([sortControl('sn'), pageControl(0, ended)])).code).to.equal(0);
    expect((await ask([sortControl('sn'), pageControl(10, ended)])).code).to.equal(53);
  });

  it('what is deleted, moved away or changed between two pages is left out, or comes once', async () => {
    const { partition } = running;
    const dn = (uid: string) => testSchema().parseDn(personDn(uid));
    const actor = { dn: ADMIN.dn };
    for (const uid of ['x1', 'x2', 'x3', 'x4', 'x5']) await addPerson(partition, uid, { sn: `A ${uid}` });
    const below = { type: 'equal', attribute: 'objectClass', value: Buffer.from('person') } as const;
    for (const scope of ['one', 'sub'] as const) {
      const page = (cookie: Buffer) =>
        admin.search(PEOPLE, { scope, filter: below, attributes: ['1.1'] }, [
          sortControl('sn'),
          pageControl(2, cookie),
        ]);
      const first = await page(NONE);
      expect(uids(first)).to.deep.equal(['x1', 'x2']);
      const second = await page(cookieOf(first));
      expect(uids(second)).to.deep.equal(['x3', 'x4']);
      const changes = [{ operation: 'replace' as const, attribute: { type: 'sn', values: [Buffer.from('Sn 299 z')] } }];
      await partition.modify(dn('x1'), changes, actor);
      await partition.rename(dn('x5'), { newRdn: 'uid=x5', deleteOldRdn: true, newSuperior: SUFFIX }, actor);
      const third = await page(cookieOf(second));
      expect(third.code).to.equal(0);
      expect(uids(third)).to.not.include.members(['x5', 'x1']);
      const back = { newRdn: 'uid=x5', deleteOldRdn: true, newSuperior: PEOPLE };
      await partition.rename(testSchema().parseDn(`uid=x5,${SUFFIX}`), back, actor);
      const undo = [{ operation: 'replace' as const, attribute: { type: 'sn', values: [Buffer.from('A x1')] } }];
      await partition.modify(dn('x1'), undo, actor);
    }
    for (const uid of ['x1', 'x2', 'x3', 'x4', 'x5']) await partition.delete(dn(uid), actor);
  });

  it('beside controls that tell of changes are refused where critical, and else not sorted', async () => {
    const sync = { oid: ControlOid.syncRequest, critical: true, value: Buffer.from('30030a0101', 'hex') };
    expect((await ask([sortControl('sn'), sync])).code).to.equal(12);
    expect((await ask([sortControl('sn', false), sync])).code).to.equal(0);
  });

  it('limits of size count as in other searches', async () => {
    const user = await RawClient.open(running.port);
    const userPassword = 'reader secret 1';
    await addPerson(running.partition, 'reader', { userPassword: `{CLEARTEXT}${userPassword}` });
    expect(await user.bind(personDn('reader'), userPassword)).to.equal(0);
    const cut = await ask([sortControl('-title')], user);
    expect([cut.code, cut.entries.length, sortResult(cut)?.code]).to.deep.equal([4, 50, 0]);
    const page = await ask([sortControl('title'), pageControl(1000, NONE)], user);
    expect([page.code, page.entries.length, cookieOf(page).length > 0]).to.deep.equal([0, 50, true]);
    const last = await ask([sortControl('sn'), pageControl(20, NONE)], admin, 'inetOrgPerson', 30);
    const beyond = await ask([sortControl('sn'), pageControl(20, cookieOf(last))], admin, 'inetOrgPerson', 30);
    expect([last.entries.length, beyond.entries.length, beyond.code]).to.deep.equal([20, 10, 4]);
    user.close();
  });
});
