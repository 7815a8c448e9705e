import { expect } from 'chai';
import type { Filter } from '../../../src/ldap/ldap-types.js';
import { decodePagedResults, encodePagedResults } from '../../../src/protocol/controls/paged-results.js';
import { ControlOid } from '../../../src/protocol/oids.js';
import { CERTIFICATE, ISSUER, SERIAL } from '../../schema/certificate-sample.js';
import type { Answer } from '../raw-client.js';
import { names, type SuiteDirectory, texts } from './directory.js';

const equal = (attribute: string, value: string): Filter => ({ type: 'equal', attribute, value: Buffer.from(value) });

function dns(answer: Answer): string[] {
  expect(answer.code).to.equal(0);
  return answer.entries.map((entry) => entry.dn).sort();
}

/** RFC 4511 §4.5. */
export function searchSuite(directory: SuiteDirectory): void {
  describe('search', () => {
    let team: string;
    let ada: string;
    before(async () => {
      team = `ou=team,${directory.suffix}`;
      await directory.add(team, { objectClass: 'organizationalUnit', ou: 'team' });
      ada = `uid=ada,${team}`;
      for (const uid of ['ada', 'bea', 'cleo']) {
        const extra = { mail: `${uid}@example.com`, 'sn;lang-de': `${uid} auf Deutsch`, userPassword: `of ${uid}` };
        await directory.add(`uid=${uid},${team}`, {
          objectClass: 'inetOrgPerson',
          uid,
          cn: `The ${uid}`,
          sn: uid,
          ...extra,
        });
      }
    });

    it('each scope', async () => {
      expect(dns(await directory.admin.search(team, { scope: 'base' }))).to.deep.equal([team]);
      expect(dns(await directory.admin.search(team, { scope: 'one' })))
        .to.have.length(3)
        .and.include(ada);
      expect(dns(await directory.admin.search(team, { scope: 'sub' })))
        .to.have.length(4)
        .and.include(team);
    });

    it('extensible match, in names too', async () => {
      const { admin } = directory;
      const find = async (
        attribute: string | undefined,
        rule: string | undefined,
        text: string,
        dnAttributes = true,
      ) => {
        const filter = { type: 'extensible', attribute, rule, value: Buffer.from(text), dnAttributes } as const;
        return dns(await admin.search(directory.suffix, { scope: 'sub', filter }));
      };
      const all = [team, ...['ada', 'bea', 'cleo'].map((uid) => `uid=${uid},${team}`)].sort();
      expect(await find('ou', undefined, 'TEAM')).to.deep.equal(all);
      expect(await find('ou', undefined, 'TEAM', false)).to.deep.equal([team]);
      expect(await find('ou', 'caseExactMatch', 'team')).to.deep.equal(all);
      expect(await find('ou', '2.5.13.5', 'TEAM')).to.deep.equal([]);
      expect(await find(undefined, 'caseIgnoreMatch', 'Team')).to.deep.equal(all);
      expect(await find(undefined, 'caseIgnoreMatch', 'The ada', false)).to.deep.equal([ada]);
      expect(await find('userPassword', undefined, 'of ada')).to.deep.equal([]);
    });

    it('filters', async () => {
      const { admin } = directory;
      const find = async (filter: Filter): Promise<string[]> => dns(await admin.search(team, { scope: 'sub', filter }));
      expect(await find(equal('uid', 'ADA'))).to.deep.equal([ada]);
      expect(
        await find({ type: 'and', filters: [equal('sn', 'ada'), { type: 'not', filter: equal('uid', 'bea') }] }),
      ).to.deep.equal([ada]);
      const substring = {
        type: 'substring',
        attribute: 'mail',
        initial: Buffer.from('a'),
        any: [],
        final: undefined,
      } as const;
      expect(await find(substring)).to.deep.equal([ada]);
      expect(await find({ type: 'or', filters: [equal('nosuchattribute', 'x'), equal('uid', 'ada')] })).to.deep.equal([
        ada,
      ]);
      expect(await find({ type: 'not', filter: equal('nosuchattribute', 'x') })).to.deep.equal([]);
    });

    it('a filter on a password is Undefined, for the administrator too', async () => {
      const present = { type: 'present', attribute: 'userPassword' } as const;
      expect(dns(await directory.admin.search(team, { scope: 'sub', filter: present }))).to.deep.equal([]);
      expect(
        dns(await directory.admin.search(team, { scope: 'sub', filter: { type: 'not', filter: present } })),
      ).to.deep.equal([]);
    });

    it('no such object, with what there is of the way', async () => {
      const answer = await directory.admin.search(`uid=x,ou=nowhere,${team}`);
      expect(answer.code).to.equal(32);
      expect(answer.final.matchedDN).to.equal(team);
    });

    it('all user attributes by default, no operational ones, no password', async () => {
      const found = names(await directory.admin.search(ada));
      expect(found).to.have.members(['objectClass', 'uid', 'cn', 'sn', 'sn;lang-de', 'mail']);
      expect(names(await directory.admin.search(ada, { attributes: ['*'] }))).to.have.members(found);
    });

    it('operational attributes by + and by name', async () => {
      const operational = names(await directory.admin.search(ada, { attributes: ['+'] }));
      const stored = [
        'entryUUID',
        'entryCSN',
        'createTimestamp',
        'creatorsName',
        'modifyTimestamp',
        'modifiersName',
        'structuralObjectClass',
      ];
      const computed = ['entryDN', 'subschemaSubentry', 'hasSubordinates', 'numSubordinates'];
      expect(operational)
        .to.include.members([...stored, ...computed])
        .and.not.include('cn');
      for (const name of [...stored, ...computed]) {
        expect(names(await directory.admin.search(ada, { attributes: [name] })), name).to.deep.equal([name]);
      }
    });

    it('hasSubordinates and numSubordinates tell the truth', async () => {
      const asked = { attributes: ['hasSubordinates', 'numSubordinates', 'entryDN'] };
      const above = await directory.admin.search(team, asked);
      expect([texts(above, 'hasSubordinates'), texts(above, 'numSubordinates')]).to.deep.equal([['TRUE'], ['3']]);
      const below = await directory.admin.search(ada, asked);
      expect([texts(below, 'hasSubordinates'), texts(below, 'numSubordinates')]).to.deep.equal([['FALSE'], ['0']]);
      expect(texts(below, 'entryDN')).to.deep.equal([ada]);
    });

    it('memberOf and isMemberOf when they are named, and memberOf with all operational attributes', async () => {
      const group = `cn=friends,${team}`;
      const bea = `uid=bea,${team}`;
      await directory.add(group, { objectClass: 'groupOfNames', cn: 'friends', member: ada });
      try {
        const asked = (dn: string, attribute: string) => directory.admin.search(dn, { attributes: [attribute] });
        expect(texts(await asked(ada, 'memberOf'), 'memberOf')).to.deep.equal([group]);
        expect(texts(await asked(ada, 'ISMEMBEROF'), 'isMemberOf')).to.deep.equal([group]);
        expect(names(await asked(bea, 'memberOf'))).to.deep.equal([]);
        expect(names(await directory.admin.search(ada, { attributes: ['+'] })))
          .to.include('memberOf')
          .and.not.include('isMemberOf');
        expect(names(await directory.admin.search(ada, { attributes: ['*'] }))).not.to.include('memberOf');
        const typesOnly = { attributes: ['memberOf'], typesOnly: true };
        expect(names(await directory.admin.search(ada, typesOnly))).to.deep.equal(['memberOf']);
        expect(names(await directory.admin.search(bea, typesOnly))).to.deep.equal([]);
        const filter = equal('memberOf', group);
        expect(dns(await directory.admin.search(directory.suffix, { scope: 'sub', filter }))).to.deep.equal([ada]);
        const compare = { op: 'compare', dn: ada, attribute: 'memberOf', value: Buffer.from(group) } as const;
        expect((await directory.admin.request(compare)).code).to.equal(6);
      } finally {
        await directory.admin.request({ op: 'delete', dn: group });
      }
    });

    it('some of its values by a range, as Active Directory has it', async () => {
      const { admin } = directory;
      const group = `cn=crowd,${team}`;
      const member = Array.from({ length: 2500 }, (_, n) => `uid=m${n},${team}`);
      await directory.add(group, { objectClass: 'groupOfNames', cn: 'crowd', member, description: ['a', 'b', 'c'] });
      const ask = async (...attributes: string[]) => admin.search(group, { attributes });
      try {
        const all: string[] = [];
        for (const [asked, told] of [
          ['member;range=0-999', 'member;range=0-999'],
          ['MEMBER;range=1000-1999', 'member;range=1000-1999'],
          ['member;range=2000-2999', 'member;range=2000-*'],
        ] as const) {
          const answer = await ask(asked);
          expect(names(answer), asked).to.deep.equal([told]);
          all.push(...texts(answer, told)!);
        }
        expect(all)
          .to.deep.equal(texts(await ask('member'), 'member'))
          .and.have.length(2500);
        const tell = async (...asked: string[]) => {
          const answer = await ask(...asked);
          return Object.fromEntries(names(answer).map((name) => [name, texts(answer, name)!.length]));
        };
        expect(await tell('member;range=1500-*')).to.deep.equal({ 'member;range=1500-*': 1000 });
        expect(await tell('member;range=2499-2499')).to.deep.equal({ 'member;range=2499-*': 1 });
        expect(await tell('member;range=2500-2600'), 'beyond the end').to.deep.equal({ 'member;range=2500-*': 0 });
        expect(await tell('member;range=0-0', 'description;range=1-1', 'cn')).to.deep.equal({
          cn: 1,
          'description;range=1-1': 1,
          'member;range=0-0': 1,
        });
        expect(await tell('member', 'member;range=5-9'), 'instead of all').to.deep.equal({ 'member;range=5-9': 5 });
        expect(Object.keys(await tell('*', 'member;range=0-9')))
          .to.include('member;range=0-9')
          .and.include('cn');
        expect(await tell('seeAlso;range=0-9', 'nothing;range=0-9', 'member;x-a;range=0-9')).to.deep.equal({});
        const typesOnly = { attributes: ['member;range=0-9'], typesOnly: true };
        expect(names(await admin.search(group, typesOnly))).to.deep.equal(['member;range=0-9']);
        expect(texts(await admin.search(group, typesOnly), 'member;range=0-9')).to.deep.equal([]);
        const memberOf = await admin.search(`uid=ada,${team}`, { attributes: ['memberOf;range=0-*', 'entryDN'] });
        expect(names(memberOf)).to.deep.equal(['entryDN']);
      } finally {
        await admin.request({ op: 'delete', dn: group });
      }
    });

    it('members of a dynamic group, as if they stood in it', async () => {
      const { admin } = directory;
      const group = `cn=finders,${team}`;
      const memberURL = `ldap:///${team}??one?(objectClass=person)`;
      await directory.add(group, { objectClass: 'groupOfURLs', cn: 'finders', memberURL });
      const tell = async (attributes: string[], typesOnly = false) => {
        const answer = await admin.search(group, { attributes, typesOnly });
        return Object.fromEntries(names(answer).map((name) => [name, texts(answer, name)!]));
      };
      try {
        const all = ['ada', 'bea', 'cleo'].map((uid) => `uid=${uid},${team}`);
        expect((await tell(['member'])).member).to.have.members(all);
        expect(Object.keys(await tell(['MEMBER', 'cn']))).to.have.members(['member', 'cn']);
        for (const asked of [[], ['*'], ['*', '+'], ['@groupOfNames'], ['distinguishedName']])
          expect((await tell(asked)).member, asked.join()).to.have.members(all);
        expect(await tell(['cn'])).to.deep.equal({ cn: ['finders'] });
        expect(await tell(['member'], true)).to.deep.equal({ member: [] });
        const first = await tell(['member;range=0-1']);
        const rest = await tell(['member;range=2-3']);
        expect(Object.keys({ ...first, ...rest })).to.deep.equal(['member;range=0-1', 'member;range=2-*']);
        expect(Object.values({ ...first, ...rest }).flat()).to.have.members(all);
        expect(Object.keys(await tell(['member;range=0-2']))).to.deep.equal(['member;range=0-*']);
        const manage = [{ oid: ControlOid.manageDsaIT, critical: true, value: undefined }];
        const stored = await admin.search(group, { attributes: ['member', 'memberURL'] }, manage);
        expect(names(stored)).to.deep.equal(['memberURL']);
        const answer = await admin.search(group, { attributes: ['member;range=200000-*'] });
        expect([answer.code, answer.final.message]).to.deep.equal([
          11,
          'a dynamic group gives out 200000 members; search for the others by its memberURL',
        ]);
        const compare = { op: 'compare', dn: group, attribute: 'member', value: Buffer.from(all[1]!) } as const;
        expect((await admin.request(compare)).code).to.equal(6);
        const found = await admin.search(team, { scope: 'sub', filter: equal('member', ada) });
        expect(dns(found)).to.deep.equal([group]);
      } finally {
        await admin.request({ op: 'delete', dn: group });
      }
    });

    it('a range in any case, by OID, and none that is no range', async function () {
      directory.needs(this, 'oidSelection');
      const ask = async (attribute: string) => directory.admin.search(ada, { attributes: [attribute] });
      expect(names(await ask('2.5.4.4;Range=0-*'))).to.deep.equal(['sn;range=0-*']);
      expect(names(await ask('sn;lang-de;RANGE=0-5'))).to.deep.equal(['sn;lang-de;range=0-*']);
      expect(names(await ask('sn;range=0-5;lang-de'))).to.deep.equal(['sn;lang-de;range=0-*']);
      expect(names(await ask('userPassword;range=0-*'))).to.deep.equal([]);
      for (const range of ['range=5-4', 'range=', 'range=x-9', 'range=1', 'range=-1-5', 'range=0-99999999999']) {
        const answer = await ask(`member;${range}`);
        expect([answer.code, answer.final.message], range).to.deep.equal([
          53,
          `attribute 'member;${range}': a range of values is 'range=0-999' or 'range=1000-*', the first not above the last`,
        ]);
      }
    });

    it('groups of an entry by a range', async () => {
      const groups = ['x', 'y', 'z'].map((cn) => `cn=${cn},${team}`);
      for (const [n, dn] of groups.entries())
        await directory.add(dn, { objectClass: 'groupOfNames', cn: 'xyz'[n]!, member: ada });
      try {
        const ask = async (attribute: string) => directory.admin.search(ada, { attributes: [attribute] });
        const all = texts(await ask('memberOf'), 'memberOf');
        expect(all).to.have.members(groups);
        const first = await ask('memberOf;range=0-1');
        expect(names(first)).to.deep.equal(['memberOf;range=0-1']);
        const rest = await ask('memberOf;range=2-9');
        expect(names(rest)).to.deep.equal(['memberOf;range=2-*']);
        expect([...texts(first, 'memberOf;range=0-1')!, ...texts(rest, 'memberOf;range=2-*')!]).to.deep.equal(all);
      } finally {
        for (const dn of groups) await directory.admin.request({ op: 'delete', dn });
      }
    });

    it('none by 1.1, the rest of the list wins over it', async () => {
      expect(names(await directory.admin.search(ada, { attributes: ['1.1'] }))).to.deep.equal([]);
      expect(names(await directory.admin.search(ada, { attributes: ['1.1', 'uid'] }))).to.deep.equal(['uid']);
    });

    it('by OID', async function () {
      directory.needs(this, 'oidSelection');
      expect(names(await directory.admin.search(ada, { attributes: ['2.5.4.3'] }))).to.deep.equal(['cn']);
    });

    it('by class', async () => {
      const select = async (...attributes: string[]): Promise<string[]> =>
        names(await directory.admin.search(ada, { attributes }));
      expect(await select('@person')).to.have.members(['objectClass', 'cn', 'sn', 'sn;lang-de']);
      expect(await select('@noSuchClass')).to.deep.equal([]);
      const all = await select('*');
      expect(all).to.include.members(['mail', 'uid']);
      expect(await select('@extensibleObject'), 'which allows every user attribute').to.have.members(all);
      expect(await select('@EXTENSIBLEOBJECT', 'entryDN')).to.have.members([...all, 'entryDN']);
    });

    it('by supertype, any case; unknown names and dn do no harm', async () => {
      const select = async (...attributes: string[]): Promise<string[]> =>
        names(await directory.admin.search(ada, { attributes }));
      expect(await select('name')).to.have.members(['cn', 'sn', 'sn;lang-de']);
      expect(await select('MAIL', 'mail', 'dn', 'noSuchAttribute')).to.deep.equal(['mail']);
      expect(await select('userPassword')).to.deep.equal([]);
    });

    it('by options', async () => {
      const select = async (...attributes: string[]): Promise<string[]> =>
        names(await directory.admin.search(ada, { attributes }));
      expect(await select('sn')).to.have.members(['sn', 'sn;lang-de']);
      expect(await select('sn;lang-de')).to.deep.equal(['sn;lang-de']);
      expect(await select('sn;lang-fr')).to.deep.equal([]);
    });

    it('a certificate under ;binary, selected, matched and compared', async function () {
      directory.needs(this, 'binaryValues');
      const dn = await directory.addPerson('certified', { 'cn;lang-de': 'Zertifiziert' });
      const change = {
        operation: 'add',
        attribute: { type: 'userCertificate;binary', values: [CERTIFICATE] },
      } as const;
      expect((await directory.admin.request({ op: 'modify', dn, changes: [change] })).code).to.equal(0);
      for (const attributes of [['userCertificate;binary'], ['userCertificate'], ['userCertificate;Binary', '1.1']]) {
        const answer = await directory.admin.search(dn, { attributes });
        expect(names(answer), attributes.join()).to.deep.equal(['userCertificate;binary']);
        expect(answer.entries[0]!.attributes.get('userCertificate;binary')).to.deep.equal([CERTIFICATE]);
      }
      const assertion = `{ serialNumber ${SERIAL}, issuer rdnSequence:"${ISSUER}" }`;
      for (const attribute of ['userCertificate;binary', 'userCertificate']) {
        const found = await directory.admin.search(directory.people, {
          scope: 'one',
          filter: equal(attribute, assertion),
          attributes: ['1.1'],
        });
        expect(dns(found), attribute).to.deep.equal([dn]);
      }
      const wrong = equal('userCertificate;binary', assertion.replace(SERIAL, '1'));
      expect(dns(await directory.admin.search(dn, { filter: wrong }))).to.deep.equal([]);
      expect(dns(await directory.admin.search(dn, { filter: equal('cn;lang-de', 'ZERTIFIZIERT') }))).to.deep.equal([
        dn,
      ]);
      expect(dns(await directory.admin.search(dn, { filter: equal('cn;lang-fr', 'zertifiziert') }))).to.deep.equal([]);
    });

    it('nothing under ;binary of what has no BER (RFC 4522)', async () => {
      expect(names(await directory.admin.search(ada, { attributes: ['cn;binary', 'mail;binary'] }))).to.deep.equal([]);
      expect(names(await directory.admin.search(ada, { attributes: ['cn;binary', 'sn'] }))).to.include('sn');
    });

    it('types only', async () => {
      const answer = await directory.admin.search(ada, { typesOnly: true, attributes: ['*', 'entryDN'] });
      expect(names(answer)).to.include.members(['cn', 'mail', 'entryDN']);
      for (const values of answer.entries[0]!.attributes.values()) expect(values).to.deep.equal([]);
    });

    it('ten thousand names', async () => {
      const attributes = Array.from({ length: 10_000 }, (_, i) => `x-attribute-${i}`);
      expect(names(await directory.admin.search(ada, { attributes: [...attributes, 'uid'] }))).to.deep.equal(['uid']);
    });

    it('a size limit gives so many and 4', async () => {
      const answer = await directory.admin.search(team, { scope: 'sub', sizeLimit: 2 });
      expect([answer.code, answer.entries.length]).to.deep.equal([4, 2]);
      expect((await directory.admin.search(team, { scope: 'sub', sizeLimit: 4 })).code).to.equal(0);
    });

    it('in pages', async () => {
      const seen: string[] = [];
      let cookie = Buffer.alloc(0);
      for (let pages = 1; ; pages++) {
        const value = encodePagedResults({ size: 3, cookie });
        const answer = await directory.admin.search(team, { scope: 'sub' }, [
          { oid: ControlOid.pagedResults, critical: true, value },
        ]);
        expect(answer.code, answer.final.message).to.equal(0);
        seen.push(...answer.entries.map((entry) => entry.dn));
        cookie = decodePagedResults(answer.controls[0]?.value).cookie as Buffer<ArrayBuffer>;
        if (cookie.length === 0) break;
        expect(pages).to.be.lessThan(3);
      }
      expect(seen.sort()).to.deep.equal(dns(await directory.admin.search(team, { scope: 'sub' })));
    });

    it('an unknown critical control is refused with 12, another ignored', async () => {
      const control = { oid: '1.2.3.4.5', value: undefined };
      expect((await directory.admin.search(ada, {}, [{ ...control, critical: true }])).code).to.equal(12);
      expect((await directory.admin.search(ada, {}, [{ ...control, critical: false }])).code).to.equal(0);
    });

    it('values of all bytes and of more than 64 KiB come back as they were', async function () {
      directory.needs(this, 'binaryValues');
      const large = Buffer.alloc(200_000, 'large ');
      const values = [Buffer.from(Array.from({ length: 256 }, (_, i) => i)), large];
      const dn = await directory.addPerson('large');
      const change = { operation: 'add', attribute: { type: 'jpegPhoto', values } } as const;
      expect((await directory.admin.request({ op: 'modify', dn, changes: [change] })).code).to.equal(0);
      const answer = await directory.admin.search(dn, { attributes: ['jpegPhoto', 'uid'] });
      expect(
        answer.entries[0]!.attributes.get('jpegPhoto')!.map((v) => v.equals(values[0]!) || v.equals(large)),
      ).to.deep.equal([true, true]);
      expect(names(await directory.admin.search(dn, { attributes: ['uid'] }))).to.deep.equal(['uid']);
    });

    it('referral entries are references, or entries under ManageDsaIT', async () => {
      const dn = `cn=elsewhere,${team}`;
      const url = 'ldap://elsewhere.example.com/ou=x';
      await directory.add(dn, { objectClass: ['referral', 'extensibleObject'], cn: 'elsewhere', ref: url });
      const found = await directory.admin.search(team, { scope: 'one' });
      expect(found.references).to.have.length(1);
      expect(dns(found)).not.to.include(dn);
      expect((await directory.admin.search(dn)).code).to.equal(10);
      const compare = { op: 'compare', dn, attribute: 'cn', value: Buffer.from('elsewhere') } as const;
      expect((await directory.admin.request(compare)).code).to.equal(10);
      const manage = [{ oid: ControlOid.manageDsaIT, critical: true, value: undefined }];
      expect(texts(await directory.admin.search(dn, { attributes: ['ref'] }, manage), 'ref')).to.deep.equal([url]);
      expect((await directory.admin.request(compare, manage)).code).to.equal(6);
      expect((await directory.admin.request({ op: 'delete', dn }, manage)).code).to.equal(0);
    });
  });
}
