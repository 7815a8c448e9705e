import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { initDirectory } from '../../src/partition/index.js';
import { UNRESTRICTED, type Viewer } from '../../src/partition/model/viewer.js';
import {
  change,
  ENGINES,
  type Fixture,
  hiding,
  OTHER,
  openFixture,
  openStore,
  refused,
  SUFFIX,
  SYSTEM,
  uuidText,
} from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const ANN = `cn=ann,${PEOPLE}`;

for (const engine of ENGINES) {
  describe(`add, modify, delete, compare (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.person('ann', PEOPLE);
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    describe('adding entries', () => {
      it('an added entry gets operational attributes, superclasses and the values of its RDN', async () => {
        const id = await fixture.add(`cn=Bo+sn=Derek,${PEOPLE}`, { objectClass: 'inetOrgPerson' });
        const dn = `sn=derek+cn=bo,${PEOPLE}`;
        expect(await fixture.values(dn, 'objectClass')).to.deep.equal([
          'inetOrgPerson',
          'organizationalPerson',
          'person',
          'top',
        ]);
        expect(await fixture.values(dn, 'cn')).to.deep.equal(['Bo']);
        expect(await fixture.values(dn, 'sn')).to.deep.equal(['Derek']);
        expect(await fixture.values(dn, 'entryUUID')).to.deep.equal([uuidText(id)]);
        expect(await fixture.values(dn, 'structuralObjectClass')).to.deep.equal(['inetOrgPerson']);
        expect(await fixture.values(dn, 'creatorsName')).to.deep.equal(['cn=admin,dc=example,dc=com']);
        for (const name of ['entryCSN', 'createTimestamp', 'modifyTimestamp'])
          expect(await fixture.values(dn, name)).to.have.length(1);
        expect(await fixture.find('(objectClass=person)')).to.have.length(2);
        expect(await fixture.find('(objectClass=top)')).to.have.length(4);
      });

      near('an add is refused for an existing name, a missing parent and disallowed attributes', async () => {
        await refused('entryAlreadyExists', fixture.person('ANN', PEOPLE));
        const lost = await refused('noSuchObject', fixture.person('x', `ou=a,ou=b,${PEOPLE}`));
        expect(lost.matchedDN).to.equal(PEOPLE);
        expect((await refused('noSuchObject', fixture.person('x', 'o=elsewhere'))).matchedDN).to.equal('');
        expect((await refused('noSuchObject', fixture.person('x', OTHER))).matchedDN).to.equal('');
        await refused('unwillingToPerform', fixture.add('', { objectClass: 'top' }));
        await refused('objectClassViolation', fixture.add(`cn=x,${PEOPLE}`, { objectClass: 'person' }));
        const unnamed = { objectClass: 'inetOrgPerson', cn: 'x', sn: 'x' };
        await refused('namingViolation', fixture.add(`jpegPhoto=#04026162,${PEOPLE}`, unnamed), /no equality rule/);
        await refused('namingViolation', fixture.add(`cn=x+jpegPhoto=#04026162,${PEOPLE}`, unnamed));
        await refused(
          'objectClassViolation',
          fixture.add(`cn=x,${PEOPLE}`, { objectClass: 'person', sn: 'x', mail: 'x@y' }),
        );
        await refused(
          'undefinedAttributeType',
          fixture.add(`cn=x,${PEOPLE}`, { objectClass: 'person', sn: 'x', mial: 'x' }),
          /did you mean/,
        );
        await refused(
          'constraintViolation',
          fixture.add(`cn=x,${PEOPLE}`, { objectClass: 'person', sn: 'x', entryCSN: 'x' }),
        );
        await refused(
          'invalidAttributeSyntax',
          fixture.add(`cn=x,${PEOPLE}`, { objectClass: 'person', sn: 'x', seeAlso: 'no dn' }),
        );
        await refused(
          'attributeOrValueExists',
          fixture.add(`cn=x,${PEOPLE}`, { objectClass: 'person', sn: ['x', 'X'] }),
        );
        expect(await fixture.counts(PEOPLE)).to.deep.equal([1, 1]);
      });

      near('a suffix is added like other entries, and only under its own name', async () => {
        await fixture.add(OTHER, { objectClass: 'organization', o: 'other' });
        await fixture.person('x', OTHER);
        expect(await fixture.find('(objectClass=*)', { base: OTHER })).to.deep.equal([`cn=x,${OTHER}`, OTHER]);
        await refused('entryAlreadyExists', fixture.add(OTHER, { objectClass: 'organization', o: 'other' }));
        await refused('notAllowedOnNonLeaf', fixture.delete(OTHER));
        await refused('unwillingToPerform', fixture.rename(OTHER, 'o=another'));
      });

      near('suffixes never contain each other, at the start and when a suffix is added', async () => {
        const settings = { adminDn: 'cn=admin', adminPassword: Buffer.from('x') };
        const { schema } = fixture.partition;
        for (const [suffixes, result] of [
          [[SUFFIX, `ou=x, ${SUFFIX.toUpperCase()}`], 'unwillingToPerform'],
          [[`ou=x,${SUFFIX}`, OTHER, 'dc=com'], 'unwillingToPerform'],
          [[SUFFIX, SUFFIX.toUpperCase()], 'entryAlreadyExists'],
          [[''], 'invalidDNSyntax'],
        ] as const) {
          const { store, folder } = await openStore(engine);
          await refused(result, initDirectory(store, { suffixes, ...settings }, schema));
          expect(await store.tables()).to.deep.equal([]);
          await store.close();
          if (folder) rmSync(folder, { recursive: true });
        }
        await refused('unwillingToPerform', fixture.partition.addSuffix(`ou=x,${SUFFIX}`), /below 'dc=example,dc=com'/);
        await refused('unwillingToPerform', fixture.partition.addSuffix('dc=com'), /below 'dc=com'/);
        await refused('entryAlreadyExists', fixture.partition.addSuffix('O=Other'));
        await fixture.partition.addSuffix('dc=example,dc=org');
        await fixture.partition.addSuffix('dc=xexample,dc=com');
        expect(fixture.partition.settings.suffixes).to.have.length(4);
      });

      near('entryUUID and times come from the server only, and no UUID is used twice', async () => {
        const entryUUID = '11111111-2222-3333-4444-555555555555';
        const id = await fixture.add(
          `cn=x,${PEOPLE}`,
          { objectClass: 'person', sn: 'x', entryUUID, createTimestamp: '20200101000000Z' },
          SYSTEM,
        );
        expect(uuidText(id)).to.equal(entryUUID);
        expect(await fixture.values(`cn=x,${PEOPLE}`, 'createTimestamp')).to.deep.equal(['20200101000000Z']);
        await refused(
          'entryAlreadyExists',
          fixture.add(`cn=y,${PEOPLE}`, { objectClass: 'person', sn: 'y', entryUUID }, SYSTEM),
        );
        const nil = { objectClass: 'person', sn: 'y', entryUUID: '00000000-0000-0000-0000-000000000000' };
        await refused('constraintViolation', fixture.add(`cn=y,${PEOPLE}`, nil, SYSTEM));
      });

      it('of several concurrent adds of one name one succeeds', async () => {
        const all = await Promise.allSettled(Array.from({ length: 8 }, () => fixture.person('race', PEOPLE)));
        expect(all.filter((r) => r.status === 'fulfilled')).to.have.length(1);
        for (const r of all) if (r.status === 'rejected') expect(r.reason.result).to.equal('entryAlreadyExists');
        expect(await fixture.counts(PEOPLE)).to.deep.equal([2, 2]);
      });

      it('of an add and the concurrent delete of its parent one is refused', async () => {
        for (let n = 0; n < 10; n++) {
          await fixture.unit('brief');
          const [added, deleted] = await Promise.allSettled([
            fixture.person('x', `ou=brief,${SUFFIX}`),
            fixture.delete(`ou=brief,${SUFFIX}`),
          ]);
          expect([added.status, deleted.status].sort()).to.deep.equal(['fulfilled', 'rejected']);
          if (added.status === 'fulfilled')
            await fixture.delete(`cn=x,ou=brief,${SUFFIX}`).then(() => fixture.delete(`ou=brief,${SUFFIX}`));
        }
      });

      near('an added entry is found by its name in any notation', async () => {
        await fixture.person('Ä\\, b\\+c ', PEOPLE);
        expect((await fixture.read(`CN=ä\\2C  B\\2bC,OU=PEOPLE , DC=Example,DC=COM`)).dn).to.match(/^cn=Ä/);
        await refused('entryAlreadyExists', fixture.add(`cn=ä\\, B\\+C,${PEOPLE}`, { objectClass: 'person', sn: 'x' }));
      });
    });

    describe('modifying entries', () => {
      it('a modify adds, deletes and replaces values', async () => {
        await fixture.modify(ANN, change('add', 'mail', 'a@x', 'b@x'), change('add', 'description', 'one'));
        await fixture.modify(
          ANN,
          change('delete', 'mail', 'A@X'),
          change('replace', 'description', 'two', 'three'),
          change('replace', 'title'),
        );
        expect(await fixture.values(ANN, 'mail')).to.deep.equal(['b@x']);
        expect(await fixture.values(ANN, 'description')).to.deep.equal(['two', 'three']);
        expect(await fixture.find('(mail=a@x)')).to.deep.equal([]);
        expect(await fixture.find('(mail=b@x)')).to.deep.equal([ANN]);
        await fixture.modify(ANN, change('delete', 'mail'), change('replace', 'description'));
        expect(await fixture.find('(|(mail=*)(description=*))')).to.deep.equal([]);
      });

      it('a modify takes effect completely or not at all', async () => {
        await refused(
          'noSuchAttribute',
          fixture.modify(ANN, change('add', 'mail', 'a@x'), change('delete', 'description')),
        );
        await refused(
          'noSuchAttribute',
          fixture.modify(ANN, change('add', 'mail', 'a@x'), change('delete', 'sn', 'other')),
        );
        await refused(
          'attributeOrValueExists',
          fixture.modify(ANN, change('add', 'description', 'a'), change('add', 'sn', ' ANN ')),
        );
        await refused('attributeOrValueExists', fixture.modify(ANN, change('replace', 'mail', 'a@x', 'A@X')));
        expect(await fixture.values(ANN, 'mail')).to.deep.equal([]);
      });

      near('a modify that the schema forbids is refused', async () => {
        await refused('objectClassViolation', fixture.modify(ANN, change('delete', 'sn')));
        await refused('objectClassViolation', fixture.modify(ANN, change('add', 'uidNumber', '1')));
        await refused('undefinedAttributeType', fixture.modify(ANN, change('add', 'nosuch', 'x')));
        await refused('invalidAttributeSyntax', fixture.modify(ANN, change('add', 'manager', 'not a dn')));
        await refused(
          'constraintViolation',
          fixture.modify(ANN, change('replace', 'entryUUID', uuidText(Buffer.alloc(16, 1)))),
        );
        await refused('constraintViolation', fixture.modify(ANN, change('add', 'displayName', 'a', 'b')));
        await refused(
          'objectClassModsProhibited',
          fixture.modify(ANN, change('replace', 'objectClass', 'organizationalPerson')),
        );
        await refused('objectClassViolation', fixture.modify(ANN, change('replace', 'objectClass', 'top')));
        await refused('protocolError', fixture.modify(ANN, change('add', 'mail')));
        await refused('noSuchObject', fixture.modify(`cn=zoe,${PEOPLE}`, change('add', 'mail', 'a@x')));
      });

      near('single values of an attribute without an equality rule cannot be added or deleted', async () => {
        const noRule = /'jpegPhoto' has no equality rule.*replace all of its values/;
        const photo = (...values: string[]) => change('replace', 'jpegPhoto', ...values);
        await refused('inappropriateMatching', fixture.modify(ANN, change('delete', 'jpegPhoto', 'a')), noRule);
        await refused('noSuchAttribute', fixture.modify(ANN, change('delete', 'jpegPhoto')));
        const [addA, addB] = [change('add', 'jpegPhoto', 'a'), change('add', 'jpegPhoto', 'b')];
        await refused('inappropriateMatching', fixture.modify(ANN, addA, addB), noRule);
        await fixture.modify(ANN, change('add', 'jpegPhoto', 'a', 'b'));
        await refused('inappropriateMatching', fixture.modify(ANN, change('add', 'jpegPhoto', 'c')), noRule);
        await refused('inappropriateMatching', fixture.modify(ANN, change('delete', 'jpegPhoto', 'a')), noRule);
        await refused('inappropriateMatching', fixture.modify(ANN, change('delete', 'jpegPhoto', 'a', 'b')), noRule);
        await refused('attributeOrValueExists', fixture.modify(ANN, photo('c', 'c')));
        expect(await fixture.values(ANN, 'jpegPhoto')).to.deep.equal(['a', 'b']);
        await fixture.modify(ANN, photo('c', 'd'));
        await fixture.modify(ANN, change('delete', 'jpegPhoto'), change('add', 'jpegPhoto', 'e', 'f'));
        expect(await fixture.values(ANN, 'jpegPhoto')).to.deep.equal(['e', 'f']);
        await fixture.modify(ANN, change('add', 'jpegPhoto;lang-de', 'e'));
        await fixture.modify(ANN, photo(), change('delete', 'jpegPhoto;lang-de'));
        expect(await fixture.find('(jpegPhoto=*)')).to.deep.equal([]);
      });

      near('a modify cannot remove the values of the RDN', async () => {
        await refused('notAllowedOnRDN', fixture.modify(ANN, change('delete', 'cn', 'ann')));
        await refused('notAllowedOnRDN', fixture.modify(ANN, change('replace', 'cn', 'other')));
        await fixture.modify(ANN, change('replace', 'cn', 'other', 'ANN'));
        expect(await fixture.find('(cn=other)')).to.deep.equal([ANN]);
        await refused('notAllowedOnRDN', fixture.modify(SUFFIX, change('delete', 'dc')));
      });

      near('entryUUID cannot be modified by anybody', async () => {
        const entryUUID = uuidText(Buffer.alloc(16, 1));
        const changes = [change('replace', 'entryUUID', entryUUID)];
        await refused('constraintViolation', fixture.partition.modify(fixture.dn(ANN), changes, SYSTEM));
      });

      near('the superclasses of an added class are added', async () => {
        await fixture.add(`uid=p,${PEOPLE}`, { objectClass: 'account', uid: 'p' });
        await fixture.modify(`uid=p,${PEOPLE}`, change('add', 'objectClass', 'posixAccount'), ...posix());
        expect(await fixture.find('(&(objectClass=posixAccount)(objectClass=top))')).to.deep.equal([`uid=p,${PEOPLE}`]);
        await fixture.modify(ANN, change('replace', 'objectClass', 'inetOrgPerson'));
        expect(await fixture.values(ANN, 'objectClass')).to.have.members([
          'inetOrgPerson',
          'organizationalPerson',
          'person',
          'top',
        ]);
      });

      it('increment works on integers of any size', async () => {
        const dn = `uid=p,${PEOPLE}`;
        await fixture.add(dn, {
          objectClass: ['account', 'posixAccount'],
          uid: 'p',
          cn: 'p',
          uidNumber: '99',
          gidNumber: '1',
          homeDirectory: '/',
        });
        await fixture.modify(dn, change('increment', 'uidNumber', '1'));
        expect(await fixture.find('(uidNumber=100)')).to.deep.equal([dn]);
        expect(await fixture.find('(uidNumber=99)')).to.deep.equal([]);
        await fixture.modify(dn, change('increment', 'uidNumber', '-200'));
        expect(await fixture.values(dn, 'uidNumber')).to.deep.equal(['-100']);
        await fixture.modify(dn, change('increment', 'uidNumber', '123456789012345678901234567890'));
        expect(await fixture.values(dn, 'uidNumber')).to.deep.equal(['123456789012345678901234567790']);
        await refused('invalidAttributeSyntax', fixture.modify(dn, change('increment', 'uidNumber', 'x')));
        await refused('protocolError', fixture.modify(dn, change('increment', 'uidNumber', '1', '2')));
        await refused('constraintViolation', fixture.modify(dn, change('increment', 'cn', '1')));
        await refused('noSuchAttribute', fixture.modify(ANN, change('increment', 'uidNumber', '1')));
      });

      near('attributes with different options are distinguished', async () => {
        await fixture.modify(
          ANN,
          change('add', 'cn;lang-de', 'Anna'),
          change('add', 'cn;lang-fr;x-a', 'Anne'),
          change('add', 'description', 'd'),
        );
        expect(await fixture.find('(cn;lang-de=anna)')).to.deep.equal([ANN]);
        expect(await fixture.find('(cn=anna)')).to.deep.equal([ANN]);
        expect(await fixture.find('(cn;lang-fr=*)')).to.deep.equal([ANN]);
        expect(await fixture.find('(cn;lang-de=ann)')).to.deep.equal([]);
        await fixture.modify(ANN, change('delete', 'CN;LANG-DE'));
        expect(await fixture.find('(cn=anna)')).to.deep.equal([]);
        expect(await fixture.values(ANN, 'cn')).to.deep.equal(['ann']);
        await fixture.modify(ANN, change('add', 'cn;lang-fr', 'ann'));
        await fixture.modify(ANN, change('delete', 'cn;lang-fr'));
        expect(await fixture.find('(cn=ann)')).to.deep.equal([ANN]);
      });

      near('values accepted by older versions stay when other values are deleted', async () => {
        await fixture.modify(ANN, change('add', 'telephoneNumber', '+1 5'));
        await fixture.put(ANN, 'telephoneNumber', '+1 5', 'call me?!', '+1#2');
        await refused('invalidAttributeSyntax', fixture.modify(ANN, change('add', 'telephoneNumber', '*6')));
        await refused('invalidAttributeSyntax', fixture.modify(ANN, change('add', 'telephoneNumber', '+1 6')));
        await fixture.modify(ANN, change('delete', 'telephoneNumber', '+15'), change('add', 'description', 'x'));
        expect(await fixture.values(ANN, 'telephoneNumber')).to.deep.equal(['call me?!', '+1#2']);
        await fixture.modify(ANN, change('delete', 'telephoneNumber', 'CALL ME?!'));
        expect(await fixture.values(ANN, 'telephoneNumber')).to.deep.equal(['+1#2']);
        await fixture.modify(
          ANN,
          change('delete', 'telephoneNumber', '+1#2'),
          change('add', 'telephoneNumber', '+1 7'),
        );
        expect(await fixture.values(ANN, 'telephoneNumber')).to.deep.equal(['+1 7']);
      });

      near(
        ';binary is accepted with BER syntaxes only; values stored by older versions can be read and deleted',
        async () => {
          const unsuited = ['co;binary', 'cn;lang-de;binary', 'jpegPhoto;binary'];
          for (const type of unsuited) {
            await refused('undefinedAttributeType', fixture.modify(ANN, change('add', type, 'x')), /no binary form/);
            await refused('undefinedAttributeType', fixture.modify(ANN, change('replace', type, 'x')));
            await refused('undefinedAttributeType', fixture.person('bob', PEOPLE, { [type]: 'x' }));
          }
          await fixture.modify(ANN, change('add', 'userSMIMECertificate;binary', 'x'));
          await fixture.put(ANN, 'title;binary', 'old');
          expect(await fixture.values(ANN, 'title;binary')).to.deep.equal(['old']);
          expect(await fixture.find('(&(cn=ann)(title=old))')).to.deep.equal([ANN]);
          expect(await fixture.find('(&(cn=ann)(title;binary=old))')).to.deep.equal([]);
          expect(await fixture.find('(&(cn=ann)(!(title;binary=new)))')).to.deep.equal([]);
          await fixture.modify(ANN, change('add', 'description', 'beside it'));
          await fixture.modify(ANN, change('delete', 'title;binary', 'old'));
          expect(await fixture.values(ANN, 'title;binary')).to.deep.equal([]);
          await fixture.put(ANN, 'title;binary', 'old');
          await fixture.modify(ANN, change('delete', 'title'));
          expect(await fixture.values(ANN, 'title;binary')).to.deep.equal([]);
        },
      );

      near(
        'option ranges are refused; values stored under a range by older versions can be read and deleted',
        async () => {
          for (const type of ['description;lang-', 'description;lang-en-', 'description;x-a-;lang-en']) {
            await refused(
              'undefinedAttributeType',
              fixture.modify(ANN, change('add', type, 'x')),
              /stands for several/,
            );
            await refused('undefinedAttributeType', fixture.modify(ANN, change('replace', type, 'x')));
            await refused('undefinedAttributeType', fixture.person('bob', PEOPLE, { [type]: 'x' }));
          }
          await fixture.put(ANN, 'title;lang-', 'old');
          expect(await fixture.values(ANN, 'title;lang-')).to.deep.equal(['old']);
          await fixture.modify(ANN, change('add', 'description', 'beside it'));
          await fixture.modify(ANN, change('delete', 'title;lang-'));
          expect(await fixture.values(ANN, 'title;lang-')).to.deep.equal([]);
          await fixture.modify(ANN, change('add', 'title;lang-en-gb', 'boss'));
          expect(await fixture.find('(title;lang-en-=boss)')).to.deep.equal([ANN]);
        },
      );

      it('two concurrent modifies both take effect', async () => {
        await Promise.all(Array.from({ length: 20 }, (_, n) => fixture.modify(ANN, change('add', 'mail', `m${n}@x`))));
        expect(await fixture.values(ANN, 'mail')).to.have.length(20);
        expect(await fixture.find('(mail=m7@x)')).to.deep.equal([ANN]);
        expect((await fixture.read(ANN)).version).to.equal(21n);
      });

      near('values are kept in the order given', async () => {
        await fixture.modify(ANN, change('add', 'mail', 'c@x', 'a@x', 'b@x'));
        await fixture.modify(ANN, change('delete', 'mail', 'a@x'));
        await fixture.modify(ANN, change('add', 'mail', 'a@x'));
        expect(await fixture.values(ANN, 'mail')).to.deep.equal(['c@x', 'b@x', 'a@x']);
      });

      function posix() {
        return [
          change('add', 'cn', 'p'),
          change('add', 'uidNumber', '1'),
          change('add', 'gidNumber', '1'),
          change('add', 'homeDirectory', '/p'),
        ];
      }
    });

    describe('values over 64 KiB in writes', () => {
      const photo = (size: number, fill: number) => Buffer.alloc(size, fill);

      it('values over 64 KiB are stored, replaced and deleted', async () => {
        for (const size of [65_536, 65_537, 131_072, 131_073, 1_048_576]) {
          const value = photo(size, size % 251);
          await fixture.modify(ANN, change('replace', 'jpegPhoto', value));
          const stored = (await fixture.read(ANN, true)).attributes.find((a) => a.description === 'jpegPhoto')!;
          expect(stored.values.map((v) => v.equals(value))).to.deep.equal([true]);
          await fixture.expectClean();
        }
        await fixture.modify(ANN, change('replace', 'jpegPhoto', photo(200_000, 1), photo(70_000, 2), photo(10, 3)));
        await fixture.modify(ANN, change('replace', 'jpegPhoto', photo(70_000, 2), photo(10, 3)));
        const left = (await fixture.read(ANN, true)).attributes.find((a) => a.description === 'jpegPhoto')!;
        expect(left.values.map((v) => v.length)).to.deep.equal([70_000, 10]);
        await fixture.modify(ANN, change('add', 'mail', 'a@x'));
        await fixture.expectClean();
        await fixture.modify(ANN, change('delete', 'jpegPhoto'));
        await fixture.expectClean();
      });

      it('values over 64 KiB are searched, compared and found by an index', async () => {
        const text = `${'long '.repeat(30_000)}end`;
        const other = `${'long '.repeat(30_000)}and`;
        await fixture.modify(ANN, change('add', 'description', text, other, 'short'));
        await fixture.partition.addIndex('description', { substring: true });
        await fixture.partition.buildIndexes();
        for (const value of [text, text.toUpperCase(), 'short']) {
          const filter = { type: 'equal', attribute: 'description', value: Buffer.from(value) } as const;
          expect(await fixture.find(filter)).to.deep.equal([ANN]);
        }
        expect(
          await fixture.find({ type: 'equal', attribute: 'description', value: Buffer.from(`${text}x`) }),
        ).to.deep.equal([]);
        expect(await fixture.find('(description=*long end)')).to.deep.equal([ANN]);
        expect(await fixture.find('(description=long long*and)')).to.deep.equal([ANN]);
        expect(await fixture.find('(description=*und)')).to.deep.equal([]);
        expect(
          await fixture.partition.compare(fixture.dn(ANN), 'description', Buffer.from(text), UNRESTRICTED),
        ).to.equal(true);
        expect(
          await fixture.partition.compare(fixture.dn(ANN), 'description', Buffer.from(`${text}x`), UNRESTRICTED),
        ).to.equal(false);
        await refused('attributeOrValueExists', fixture.modify(ANN, change('add', 'description', text.toUpperCase())));
        await fixture.modify(ANN, change('delete', 'description', text));
        expect(await fixture.find('(description=*end)')).to.deep.equal([]);
        expect(await fixture.find('(description=*and)')).to.deep.equal([ANN]);
      });

      it('values over 64 KiB survive delete, restore and rename', async () => {
        const value = photo(300_000, 9);
        await fixture.modify(ANN, change('add', 'jpegPhoto', value), change('add', 'description', 'x'.repeat(70_000)));
        const { id } = await fixture.read(ANN);
        await fixture.rename(ANN, 'cn=anne');
        await fixture.delete(`cn=anne,${PEOPLE}`);
        await fixture.expectClean();
        expect(await fixture.partition.restore(id, SYSTEM)).to.equal(`cn=anne,${PEOPLE}`);
        const entry = await fixture.read(`cn=anne,${PEOPLE}`, true);
        expect(entry.attributes.find((a) => a.description === 'jpegPhoto')!.values[0]!.equals(value)).to.equal(true);
        expect(await fixture.find('(description=xx*)')).to.deep.equal([`cn=anne,${PEOPLE}`]);
      });
    });

    describe('deleting entries', () => {
      near('only leaves can be deleted', async () => {
        const error = await refused(
          'notAllowedOnNonLeaf',
          fixture.delete(PEOPLE),
          /right below the entry there are others; delete them first/,
        );
        expect(error.code).to.equal(66);
        await fixture.delete(ANN);
        await fixture.delete(PEOPLE);
        expect((await refused('noSuchObject', fixture.delete(ANN))).matchedDN).to.equal(SUFFIX);
        await refused('unwillingToPerform', fixture.delete(''));
        expect(await fixture.counts(SUFFIX)).to.deep.equal([0, 0]);
      });

      it('the name of a deleted entry is free at once', async () => {
        for (let n = 0; n < 3; n++) {
          await fixture.delete(ANN);
          await fixture.person('ann', PEOPLE, { description: String(n) });
        }
        expect(await fixture.find('(description=2)')).to.deep.equal([ANN]);
        expect(await fixture.find('(description=1)')).to.deep.equal([]);
      });
    });

    describe('comparing values', () => {
      const compare = async (dn: string, attribute: string, value: string, viewer: Viewer = UNRESTRICTED) =>
        fixture.partition.compare(fixture.dn(dn), attribute, Buffer.from(value), viewer);

      near('compare uses the equality rule, subtypes and options', async () => {
        await fixture.modify(ANN, change('add', 'cn;lang-de', 'Anna'));
        expect(await compare(ANN, 'cn', ' ANN ')).to.equal(true);
        expect(await compare(ANN, 'cn', 'Anna')).to.equal(true);
        expect(await compare(ANN, 'cn;lang-de', 'ann')).to.equal(false);
        expect(await compare(ANN, 'name', 'anna')).to.equal(true);
        expect(await compare(ANN, 'objectClass', '2.5.6.6')).to.equal(true);
        expect(await compare(ANN, 'entryDN', ANN.toUpperCase())).to.equal(true);
      });

      near('compare fails with a precise error', async () => {
        await refused('noSuchAttribute', compare(ANN, 'mail', 'x'));
        await refused('undefinedAttributeType', compare(ANN, 'nosuch', 'x'));
        await refused('undefinedAttributeType', compare(ANN, 'cn;binary', 'ann'));
        await refused('noSuchObject', compare(`cn=x,${PEOPLE}`, 'cn', 'x'));
        await refused('invalidAttributeSyntax', compare(ANN, 'seeAlso', 'not a dn'));
        for (const [attribute, value] of [
          ['cn', ''],
          ['x121Address', 'Ada'],
          ['telephoneNumber', ''],
        ] as const)
          await refused('invalidAttributeSyntax', compare(ANN, attribute, value));
        await refused(
          'insufficientAccessRights',
          compare(
            ANN,
            'sn',
            'ann',
            hiding(({ name }) => name === 'sn'),
          ),
        );
        await fixture.modify(ANN, change('add', 'jpegPhoto', Buffer.from([0xff, 0xd8])));
        await refused('inappropriateMatching', compare(ANN, 'jpegPhoto', 'x'));
      });
    });
  });
}
