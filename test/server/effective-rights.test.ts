import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { hashPasswordFast } from '../../src/password/index.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { seq, str } from '../protocol/bytes.js';
import { needs } from '../require.js';
import { turns } from '../turns.js';
import { ADMIN, addPerson, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';

const [ADA, BRAM, CARA] = [personDn('ada'), personDn('bram'), personDn('cara')];

const RULES = `rules:
  - name: users read
    who: { users: true }
    allow: [view]
  - name: own telephone
    who: { self: true }
    to: { attributes: [telephoneNumber] }
    allow: [write]
  - name: bram administers people
    who: { dn: "${BRAM}" }
    to: { subtree: "${PEOPLE}", attributes: [entry, children, "*"] }
    allow: [manage]
  - name: no mail for cara
    who: { dn: "${CARA}" }
    to: { attributes: [mail] }
    deny: [read]
  - name: ada is hidden from cara
    who: { dn: "${CARA}" }
    to: { base: "${ADA}" }
    deny: [view]
`;

const asked = (value?: Buffer) => ({ oid: ControlOid.effectiveRights, critical: true, value });
const about = (dn: string, ...attributes: string[]) =>
  asked(seq(str(`dn:${dn}`), ...(attributes.length > 0 ? [seq(...attributes.map(str))] : [])));

describe('server: effective rights', () => {
  let server: Running;
  before(async () => {
    server = await start({}, 0, undefined, RULES);
    const userPassword = hashPasswordFast(Buffer.from('pw')).toString();
    for (const uid of ['ada', 'bram', 'cara'])
      await addPerson(server.partition, uid, { mail: `${uid}@example.com`, userPassword });
  });
  after(() => server.stop());

  async function bound(dn: string, password = 'pw'): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    if (dn !== '') expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  /** The flags of an attribute of the first entry; undefined: it is not there. */
  function flags({ entries }: Answer, type: string): Record<string, string> | undefined {
    const [value] = entries[0]!.attributes.get(type) ?? [];
    return (
      value &&
      Object.fromEntries(
        value
          .toString()
          .split(',')
          .map((flag) => flag.split(':') as [string, string]),
      )
    );
  }

  async function ask(who: string, of: string, control: ReturnType<typeof asked>, ...attributes: string[]) {
    const client = who === ADMIN.dn ? await bound(ADMIN.dn, ADMIN.password) : await bound(who);
    try {
      return await client.search(of, { attributes: attributes.length > 0 ? attributes : ['aclRights'] }, [control]);
    } finally {
      client.close();
    }
  }

  it('tells users of their own, in the words of other servers and in those of rules', async () => {
    const own = await ask(ADA, ADA, asked(), 'aclRights', 'mail', 'telephoneNumber');
    expect(own.code).to.equal(0);
    const entry = { read: '1', add: '0', delete: '0', write: '1', proxy: '0' };
    expect(flags(own, 'aclRights;entryLevel')).to.include({ ...entry, see: '1', create: '0', remove: '0' });
    const telephone = { search: '1', read: '1', compare: '1', write: '1', selfwrite_add: '1', selfwrite_delete: '1' };
    expect(flags(own, 'aclRights;attributeLevel;telephoneNumber')).to.include({ ...telephone, proxy: '0' });
    expect(flags(own, 'aclRights;attributeLevel;mail')).to.include({ read: '1', write: '0', selfwrite_add: '0' });
    expect(own.entries[0]!.attributes.has('mail')).to.equal(true);
    for (const control of [asked(Buffer.alloc(0)), asked(Buffer.from(`dn:${ADA.toUpperCase()}`)), about(ADA)])
      expect(flags(await ask(ADA, BRAM, control), 'aclRights;entryLevel')).to.include({ read: '1', write: '0' });
  });

  it('tells of the attributes that the control names, and of all that are there for *', async () => {
    const named = await ask(ADA, ADA, about(ADA, 'sn', 'userPassword'));
    const types = [...named.entries[0]!.attributes.keys()];
    expect(types).to.have.members([
      'aclRights;entryLevel',
      'aclRights;attributeLevel;sn',
      'aclRights;attributeLevel;userPassword',
    ]);
    expect(flags(named, 'aclRights;attributeLevel;userPassword')).to.include({ read: '0', search: '0', write: '0' });
    const all = await ask(ADA, ADA, asked(), 'aclRights', '*');
    expect(flags(all, 'aclRights;attributeLevel;sn')).to.include({ read: '1' });
    expect(flags(all, 'aclRights;attributeLevel;userPassword')).to.equal(undefined);
    expect((await ask(ADA, ADA, about(ADA, 'noSuchThing'))).code).to.equal(17);
  });

  it('tells nothing that is not asked for', async () => {
    const answer = await ask(ADA, ADA, asked(), 'mail');
    expect([...answer.entries[0]!.attributes.keys()]).to.deep.equal(['mail']);
    const client = await bound(ADA);
    const without = await client.search(ADA, { attributes: ['aclRights', '*'] });
    expect([...without.entries[0]!.attributes.keys()].filter((type) => /^acl/i.test(type))).to.deep.equal([]);
    const typesOnly = await client.search(ADA, { attributes: ['aclRights'], typesOnly: true }, [asked()]);
    expect(typesOnly.entries[0]!.attributes.get('aclRights;entryLevel')).to.deep.equal([]);
    client.close();
  });

  it('tells of others who may manage an entry, and the administrator; others it refuses', async () => {
    expect((await ask(ADA, CARA, about(CARA))).code).to.equal(50);
    expect((await ask(ADA, CARA, about(`uid=nobody,${PEOPLE}`))).code).to.equal(50);
    expect((await ask(ADA, CARA, asked(Buffer.from('u:cara')))).code).to.equal(50);
    for (const who of [BRAM, ADMIN.dn])
      for (const control of [about(CARA), asked(Buffer.from(`dn:${CARA}`)), asked(Buffer.from('u:cara'))]) {
        const seen = await ask(who, BRAM, control, 'aclRights', 'mail');
        expect(flags(seen, 'aclRights;entryLevel'), who).to.include({ see: '1' });
        expect(flags(seen, 'aclRights;attributeLevel;mail'), who).to.include({ read: '0', search: '1' });
        const hidden = await ask(who, ADA, control, 'aclRights', 'sn');
        expect(flags(hidden, 'aclRights;entryLevel'), who).to.include({ see: '0', read: '0' });
        expect(flags(hidden, 'aclRights;attributeLevel;sn'), who).to.include({ read: '0' });
        const elsewhere = flags(await ask(who, SUFFIX, control), 'aclRights;entryLevel');
        expect(elsewhere === undefined, who).to.equal(who === BRAM);
      }
  });

  it('tells of who is not bound, and that the administrator may do all', async () => {
    const anonymous = await ask(BRAM, ADA, asked(Buffer.from('dn:')));
    expect(flags(anonymous, 'aclRights;entryLevel')).to.include({ see: '0' });
    expect(flags(await ask(BRAM, ADA, about(ADMIN.dn)), 'aclRights;entryLevel')).to.include({ remove: '1', add: '1' });
    expect(flags(await ask(ADMIN.dn, ADA, asked()), 'aclRights;entryLevel')).to.include({ remove: '1', manage: '1' });
  });

  it('names the rules that decide to who may manage the entry alone', async () => {
    const text = ({ entries }: Answer, type: string) => entries[0]!.attributes.get(type)?.[0]?.toString();
    const info = await ask(BRAM, BRAM, about(CARA), 'aclRightsInfo', 'mail');
    expect(text(info, 'aclRightsInfo;logs;entryLevel;see')).to.equal("given by 'users read'");
    expect(text(info, 'aclRightsInfo;logs;entryLevel;remove')).to.equal('not given: no rule grants it');
    const mail = 'aclRightsInfo;logs;attributeLevel';
    expect(text(info, `${mail};read;mail`)).to.equal("not given, for 'no mail for cara'");
    expect(info.entries[0]!.attributes.has('aclRights;entryLevel')).to.equal(false);
    const hidden = await ask(BRAM, ADA, about(CARA), 'aclRightsInfo', 'sn');
    expect(text(hidden, `${mail};read;sn`)).to.equal("not given: 'see' is not");
    const own = await ask(ADA, ADA, asked(), 'aclRightsInfo');
    expect(own.entries[0]!.attributes.size).to.equal(0);
  });

  it('refuses what names nobody, and values that are none', async () => {
    for (const control of [about(`uid=nobody,${PEOPLE}`), asked(Buffer.from('u:nobody'))])
      expect((await ask(BRAM, ADA, control)).code).to.equal(123);
    const broken = [
      Buffer.from('cn=x'),
      Buffer.from([0x30, 0x05]),
      seq(),
      seq(str('dn:'), str('x')),
      Buffer.from('dn:\xff', 'latin1'),
    ];
    for (const value of broken) expect((await ask(BRAM, ADA, asked(value))).code, value.toString('hex')).to.equal(2);
    expect((await ask(BRAM, ADA, asked(Buffer.from('dn:no dn')))).code).to.equal(34);
  });

  it('lets others through after every attribute of which it tells', async () => {
    const client = await bound(BRAM);
    const types = ['cn', ...Array.from({ length: 60 }, (_, n) => `cn;lang-x${n}`)];
    const control = about(CARA, ...types);
    for (const attribute of ['aclRights', 'aclRightsInfo']) {
      const asking = async () => {
        expect((await client.search(BRAM, { attributes: [attribute] }, [control])).code).to.equal(0);
      };
      expect(await turns(asking), attribute).to.be.at.least(types.length);
    }
    client.close();
  });

  it('is asked for by ldapsearch', async function () {
    needs(this, 'ldap-utils');
    const url = `ldap://127.0.0.1:${server.port}`;
    const bind = ['-x', '-LLL', '-o', 'ldif-wrap=no', '-H', url, '-D', BRAM, '-w', 'pw', '-b', CARA];
    const control = ['-E', `!${ControlOid.effectiveRights}=:dn:${ADA}`];
    const found = await promisify(execFile)('ldapsearch', [...bind, ...control, '(objectClass=*)', 'aclRights']);
    expect(found.stdout).to.match(/^aclRights;entryLevel: add:0,delete:0,read:1,write:0,/m);
  });
});
