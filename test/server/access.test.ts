import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { ADMIN, attributes, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { RawClient } from './raw-client.js';

const PERSON = { op: 'compare', dn: personDn('p0'), attribute: 'uid', value: Buffer.from('p0') } as const;
const EVERYBODY = { scope: 'sub', attributes: ['*', '+', 'userPassword'] } as const;

describe('server: who may what', () => {
  let running: Running;
  let nobody: RawClient;
  afterEach(async () => {
    nobody.close();
    await running.stop();
  });

  async function begin(settings = {}, access?: string): Promise<void> {
    running = await start(settings, 3, undefined, access);
    nobody = await RawClient.open(running.port);
  }

  /** Everything but reading. */
  async function expectNoMore(): Promise<void> {
    const changes = [{ operation: 'add', attribute: { type: 'description', values: [Buffer.from('x')] } }] as const;
    const rename = { newRdn: 'uid=x', deleteOldRdn: true, newSuperior: undefined } as const;
    for (const request of [
      { op: 'add', dn: personDn('x'), attributes: [] },
      { op: 'modify', dn: personDn('p0'), changes },
      { op: 'modifyDN', dn: personDn('p0'), ...rename },
      { op: 'delete', dn: personDn('p0') },
      { ...PERSON, attribute: 'userPassword', value: Buffer.from('secret-0') },
    ] as const) {
      expect((await nobody.request(request)).code, request.op).to.equal(50);
    }
    expect((await nobody.search('')).code).to.equal(0);
  }

  it('a rule about the subtree cn=Monitor holds for what is below, one about its base does not', async () => {
    const rule = (scope: string) =>
      `rules:\n  - { name: monitor, who: {}, to: { ${scope}: "cn=Monitor" }, allow: [view] }\n`;
    await begin({}, rule('subtree'));
    const seen = await nobody.search('cn=Monitor', { scope: 'sub' });
    expect(seen.entries.map(({ dn }) => dn)).to.include.members(['cn=Monitor', 'cn=Uptime,cn=Time,cn=Monitor']);
    expect((await nobody.search(PEOPLE, EVERYBODY)).entries).to.have.length(0);
    nobody.close();
    await running.stop();
    await begin({}, rule('base'));
    const base = await nobody.search('cn=Monitor', { scope: 'sub' });
    expect(base.entries.map(({ dn }) => dn)).to.deep.equal(['cn=Monitor']);
    // What a client may not see is not there, with the nearest entry above that it may see.
    const jobs = await nobody.search('cn=Jobs,cn=Monitor');
    expect([jobs.code, jobs.final.matchedDN]).to.deep.equal([32, 'cn=Monitor']);
    const compare = { op: 'compare', dn: 'cn=Jobs,cn=Monitor', attribute: 'cn', value: Buffer.from('Jobs') } as const;
    expect((await nobody.request(compare)).code).to.equal(32);
    expect((await nobody.request({ ...compare, dn: 'cn=Monitor' })).code).to.equal(5);
    nobody.close();
    await running.stop();
    await begin({}, `rules:\n  - { name: people, who: {}, to: { subtree: "${PEOPLE}" }, allow: [view] }\n`);
    for (const dn of ['cn=Monitor', 'cn=Jobs,cn=Monitor', 'cn=none,cn=Monitor']) {
      const hidden = await nobody.search(dn, { scope: 'sub' });
      expect([hidden.code, hidden.final.matchedDN], dn).to.deep.equal([32, '']);
    }
  });

  it('without a bind only the root DSE is readable, unless the access rules allow more', async () => {
    await begin();
    expect((await nobody.search(PEOPLE, EVERYBODY)).code).to.equal(50);
    expect((await nobody.request(PERSON)).code).to.equal(50);
    await expectNoMore();
  });

  it('anonymous clients read where the access rules allow it, but no passwords and nothing else', async () => {
    await begin({}, PRESETS['anybody-reads']);
    const { code, entries } = await nobody.search(PEOPLE, EVERYBODY);
    expect([code, entries.length]).to.deep.equal([0, 4]);
    for (const { attributes } of entries) expect([...attributes.keys()]).not.to.include('userPassword');
    expect((await nobody.request(PERSON)).code).to.equal(6);
    await expectNoMore();
  });

  it('a client that may replace passwords of others can do so, however often their entries have changed', async () => {
    const who = `who: { dn: "${personDn('p0')}" }`;
    const rules = `rules:\n  - { name: all read, who: { users: true }, allow: [view] }\n  - { name: resets, ${who}, to: { attributes: [userPassword] }, allow: [replace] }\n`;
    await begin({}, rules);
    const helper = await RawClient.open(running.port);
    expect(await helper.bind(personDn('p0'), 'secret-0')).to.equal(0);
    const replace = (type: string, value: string) =>
      ({ operation: 'replace', attribute: { type, values: [Buffer.from(value)] } }) as const;
    const dn = running.partition.schema.parseDn(personDn('p1'));
    for (let n = 0; n < 3; n++) {
      await running.partition.modify(dn, [replace('description', `${n}`)], { dn: '' });
      const changes = [replace('userPassword', `first ${n}`)];
      expect((await helper.request({ op: 'modify', dn: personDn('p1'), changes })).code).to.equal(0);
      expect(await nobody.bind(personDn('p1'), `first ${n}`)).to.equal(0);
      const asked = { userIdentity: personDn('p1'), oldPassword: undefined, newPassword: Buffer.from(`second ${n}`) };
      const value = encodePasswordModify(asked);
      expect((await helper.request({ op: 'extended', oid: ExtendedOid.passwordModify, value })).code).to.equal(0);
      expect(await nobody.bind(personDn('p1'), `second ${n}`)).to.equal(0);
    }
    helper.close();
  });

  it('groups in access rules apply with their current members, in existing and in new sessions', async () => {
    const allow = (group: string, attribute: string): string =>
      `  - { name: ${group}, who: { group: "cn=${group},${PEOPLE}" }, to: { attributes: [${attribute}] }, allow: [read] }\n`;
    const seeing =
      '  - { name: all see, who: { users: true }, to: { attributes: [entry, objectClass] }, allow: [see, search] }\n';
    const rules = `rules:\n${seeing}${allow('named', 'mail')}${allow('bosses', 'cn')}`;
    await begin({}, rules);
    const { partition } = running;
    const dn = (text: string) => partition.schema.parseDn(text);
    const change = (of: string, operation: 'add' | 'delete', type: string, value: string) =>
      partition.modify(dn(of), [{ operation, attribute: { type, values: [Buffer.from(value)] } }], ADMIN);
    const [named, bosses] = [`cn=named,${PEOPLE}`, `cn=bosses,${PEOPLE}`];
    const memberURL = `ldap:///${PEOPLE}??sub?(title=boss)`;
    await partition.add(dn(named), attributes({ objectClass: 'groupOfNames', cn: 'named', member: SUFFIX }), ADMIN);
    await partition.add(dn(bosses), attributes({ objectClass: 'groupOfURLs', cn: 'bosses', memberURL }), ADMIN);
    let user = personDn('p0');
    const old = await RawClient.open(running.port);
    expect(await old.bind(user, 'secret-0')).to.equal(0);
    const expectRead = async (...wanted: string[]): Promise<void> => {
      const fresh = await RawClient.open(running.port);
      expect(await fresh.bind(user, 'secret-0')).to.equal(0);
      for (const client of [old, fresh]) {
        const { entries } = await client.search(user, { scope: 'base', attributes: ['mail', 'cn'] });
        expect([...entries[0]!.attributes.keys()]).to.have.members(wanted);
      }
      fresh.close();
    };
    await expectRead();
    await change(named, 'add', 'member', user);
    await expectRead('mail');
    await change(user, 'add', 'title', 'boss');
    await expectRead('mail', 'cn');
    await change(named, 'delete', 'member', user);
    await expectRead('cn');
    await change(user, 'delete', 'title', 'boss');
    await expectRead();
    await change(named, 'add', 'member', personDn('renamed'));
    await expectRead();
    await partition.rename(dn(user), { newRdn: 'uid=renamed', deleteOldRdn: true, newSuperior: undefined }, ADMIN);
    user = personDn('renamed');
    await expectRead('mail');
    await partition.setAccess(`rules:\n${seeing}${allow('named', 'cn')}`, ADMIN.dn, partition.accessVersion);
    await expectRead('cn');
    old.close();
  });

  it('passwords.requireTls applies to compare, too', async () => {
    await begin({ 'passwords.requireTls': true }, PRESETS['anybody-reads']);
    for (const attribute of ['userPassword', 'userPassword;x-hid', 'authPassword']) {
      const secret = { ...PERSON, attribute, value: Buffer.from('secret-0') };
      expect((await nobody.request(secret)).code, attribute).to.equal(13);
    }
    expect((await nobody.request(PERSON)).code).to.equal(6);
  });
});
