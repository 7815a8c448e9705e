import { expect } from 'chai';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, MASTER_TABLE, META_TABLE, Q } from '../../src/partition/model/tables.js';
import { SHARED_KEY } from '../../src/partition/tree/shared-row.js';
import type { Cell, RowStep } from '../../src/store/contract.js';
import { cellValue, counterBytes } from '../../src/store/row.js';
import { ACTOR, attributes, change, type Fixture, openFixture, refused, SUFFIX, SYSTEM } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

for (const engine of NEAR_ENGINES) {
  describe(`DNs are written as RFC 4514 does (${engine})`, () => {
    let fixture: Fixture;

    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
    });
    after(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    const unit = (dn: string) => fixture.add(dn, { objectClass: 'organizationalUnit' });

    it('in names, after an add and after a rename', async () => {
      const names: [string, string][] = [
        ['OU = Spaces+  Description = d', 'OU=Spaces+Description=d'],
        ['ou="quoted, x"', 'ou=quoted\\, x'],
        ['OID.2.5.4.11=#04054c6f756973', 'ou=Louis'],
        ['Ou=ab\\2Cc\\ ', 'Ou=ab\\2Cc\\ '],
        ['ou=a=b#c', 'ou=a\\=b\\#c'],
      ];
      for (const [given, written] of names) {
        await unit(`${given} ; OU= People,DC="example",dc=com`);
        const dn = `${written},ou=people,${SUFFIX}`;
        expect((await fixture.read(dn)).dn).to.equal(dn);
      }
      await unit(`ou=old,${SUFFIX}`);
      await fixture.rename(`ou=old,${SUFFIX}`, ' OU = "New, one" ', { newSuperior: ` ou = people;${SUFFIX}` });
      expect(await fixture.find('(ou=new*)')).to.deep.equal([`OU=New\\, one,ou=people,${SUFFIX}`]);
    });

    it('in values of attributes that are DNs', async () => {
      const dn = `cn=staff,${SUFFIX}`;
      await fixture.add(dn, { objectClass: 'groupOfNames', member: 'UID = Ada ; OU="x,y"' });
      await fixture.modify(dn, change('add', 'member', 'uid=b , dc=x', 'uid=proper,dc=x'), change('add', 'owner', ' '));
      expect(await fixture.values(dn, 'member')).to.deep.equal(['UID=Ada,OU=x\\,y', 'uid=b,dc=x', 'uid=proper,dc=x']);
      expect(await fixture.values(dn, 'owner')).to.deep.equal(['']);
      await fixture.modify(dn, change('replace', 'seeAlso', 'OID.2.5.4.3=S'), change('delete', 'member', 'UID=B;dc=x'));
      expect(await fixture.values(dn, 'seeAlso')).to.deep.equal(['cn=S']);
      expect(await fixture.find('(member=uid=ada,ou=x\\2cy)')).to.deep.equal([]);
      expect(await fixture.find('(member= uid="ada" ,ou=x\\5c,y)')).to.deep.equal([dn]);
      await refused('invalidAttributeSyntax', fixture.modify(dn, change('add', 'member', 'no dn')));
      await fixture.add(`cn=unique,${SUFFIX}`, {
        objectClass: 'groupOfUniqueNames',
        uniqueMember: ["cn = a;dc=x#'01'B", 'cn=b ,dc=x'],
      });
      expect(await fixture.values(`cn=unique,${SUFFIX}`, 'uniqueMember')).to.deep.equal([
        "cn=a,dc=x#'01'B",
        'cn=b,dc=x',
      ]);
    });

    it('when they are loaded in bulk', async () => {
      const values = attributes({ objectClass: 'groupOfNames', cn: 'g', member: 'CN=a;DC = b' });
      async function* entries() {
        yield [{ line: 1, dn: `CN = g,ou="people";${SUFFIX}`, attributes: values }];
      }
      await fixture.partition.load(entries(), ACTOR, {
        continue: false,
        onReject: ({ reason }) => expect.fail(reason),
      });
      const dn = `CN=g,ou=people,${SUFFIX}`;
      expect([(await fixture.read(dn)).dn, await fixture.values(dn, 'member')]).to.deep.equal([dn, ['CN=a,DC=b']]);
    });

    it('within 64 KiB, whichever way they come', async () => {
      const long = `ou=${'x'.repeat(40_000)},${SUFFIX}`;
      const wide = `ou=${'y'.repeat(40_000)}`;
      await unit(long);
      await unit(`${wide},${SUFFIX}`);
      await refused('invalidDNSyntax', fixture.rename(`${wide},${SUFFIX}`, wide, { newSuperior: long }), /80\d+ bytes/);
      const group = `cn=staff,${SUFFIX}`;
      await refused('invalidAttributeSyntax', fixture.modify(group, change('add', 'member', `${wide},${long}`)));
      expect(await fixture.find(`(member=${wide},${long})`)).to.deep.equal([]);
    });

    it('once repair has rewritten what is there from before', async () => {
      const id = await fixture.person('old', SUFFIX);
      const group = await fixture.add(`cn=g2,${SUFFIX}`, { objectClass: 'groupOfNames', member: 'cn=a,dc=b' });
      const settings = fixture.partition.settings;
      const put = (family: number, name: Buffer, text: string): Cell => ({
        family,
        qualifier: name,
        value: Buffer.from(text),
      });
      const write = (key: Buffer, ...cells: Cell[]): RowStep => ({ table: MASTER_TABLE.name, key, put: cells });
      const steps = [
        write(id, put(MASTER.treeInfo, Q.upRdn, ' CN = "old" ')),
        write(group, put(MASTER.upAttributes, valueQualifier('member', 0), 'CN="a" ;DC = b')),
        {
          table: META_TABLE.name,
          key: SHARED_KEY,
          put: [put(0, Buffer.from('suffixes'), JSON.stringify([' DC = example;DC="com"', settings.suffixes[1]]))],
        },
      ];
      await fixture.store.commit({ steps, decisive: 0 });
      await fixture.partition.refresh();
      const found = await fixture.breaches();
      expect(found.map(({ invariant }) => invariant)).to.deep.equal(['spelling', 'spelling', 'spelling']);
      expect(found.map(({ message }) => message).join('\n'))
        .to.match(/' CN = "old" ' is not written as RFC 4514 does; repair writes 'CN=old'/)
        .and.match(/a value is not in the proper form .* 'CN="a" ;DC = b' of member/);
      expect(await fixture.partition.repair()).to.equal(3);
      await fixture.expectClean();
      expect((await fixture.read(`cn=old,${SUFFIX}`)).dn).to.equal(`CN=old,${SUFFIX}`);
      expect(await fixture.values(`cn=g2,${SUFFIX}`, 'member')).to.deep.equal(['CN=a,DC=b']);
      expect(fixture.partition.settings.suffixes[0]).to.equal('DC=example,DC=com');
    });
  });

  describe(`names that no entry stands above (${engine})`, () => {
    it('are told what is to be done first, or what is there', async () => {
      const fixture = await openFixture(engine);
      const addFirst = /the suffix 'o=other' has no entry yet; add the suffix entry first/;
      const holds = /this directory holds 'dc=example,dc=com', 'o=other'/;
      for (const [dn, why] of [
        ['o=other', addFirst],
        ['ou=x,o=other', addFirst],
        ['ou=x,o=unserved', holds],
        ['ou=x,dc=com', holds],
      ] as const) {
        await refused(
          'noSuchObject',
          Promise.resolve().then(() => fixture.search({ base: dn })),
          why,
        );
        if (dn === 'o=other') continue;
        await refused('noSuchObject', fixture.add(dn, { objectClass: 'organizationalUnit', ou: 'x' }), why);
        const reasons: string[] = [];
        async function* entries() {
          yield [{ line: 1, dn, attributes: attributes({ objectClass: 'organizationalUnit' }) }];
        }
        await fixture.partition.load(entries(), ACTOR, {
          continue: true,
          onReject: ({ reason }) => reasons.push(reason),
        });
        expect(reasons.join()).to.match(why);
      }
      await refused(
        'noSuchObject',
        fixture.add(`ou=x,ou=gone,${SUFFIX}`, { objectClass: 'organizationalUnit' }),
        /above it/,
      );
      await fixture.close();
    });
  });

  describe(`what is worked out when it is asked for (${engine})`, () => {
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
    });
    afterEach(() => fixture.close());

    it('is stored by nobody, and left out of what is loaded', async () => {
      const computed = {
        entryDN: `cn=x,${SUFFIX}`,
        hasSubordinates: 'FALSE',
        subschemaSubentry: 'cn=Subschema',
        memberOf: `cn=g,${SUFFIX}`,
        isMemberOf: `cn=g,${SUFFIX}`,
      };
      const person = { objectClass: 'person', cn: 'x', sn: 'x' };
      for (const [type, value] of Object.entries(computed)) {
        await refused('constraintViolation', fixture.add(`cn=x,${SUFFIX}`, { ...person, [type]: value }, SYSTEM));
        const changes = [change('replace', type, value)];
        await refused('constraintViolation', fixture.partition.modify(fixture.dn(SUFFIX), changes, SYSTEM));
      }
      await refused('constraintViolation', fixture.add(`entryDN=cn\\=x,${SUFFIX}`, person, SYSTEM));
      const left: [number, string][] = [];
      async function* entries() {
        yield [
          { line: 7, dn: `cn=x,${SUFFIX}`, attributes: attributes({ ...person, ...computed, numSubordinates: '0' }) },
        ];
      }
      const { loaded } = await fixture.partition.load(entries(), ACTOR, {
        continue: false,
        onReject: ({ reason }) => expect.fail(reason),
        onLeftOut: ({ line }, attribute) => left.push([line, attribute]),
      });
      expect(loaded).to.equal(1);
      expect(left).to.have.deep.members([...Object.keys(computed), 'numSubordinates'].map((name) => [7, name]));
      const { attributes: stored } = await fixture.read(`cn=x,${SUFFIX}`);
      const names = stored.map(({ type }) => type.name);
      for (const name of [...Object.keys(computed), 'numSubordinates']) expect(names, name).not.to.include(name);
    });

    it('is found by check where it was stored before, and removed by repair', async () => {
      const id = await fixture.person('x');
      const row = (await fixture.store.get(MASTER_TABLE.name, id))!;
      const put: Cell[] = ['entryDN', 'HasSubordinates'].map((name) => ({
        family: MASTER.upAttributes,
        qualifier: valueQualifier(name, 0),
        value: Buffer.from(name === 'entryDN' ? `cn=x,${SUFFIX}` : 'FALSE'),
      }));
      const version = cellValue(row, MASTER.treeInfo, Q.version)!.readBigInt64BE() + 1n;
      put.push({ family: MASTER.treeInfo, qualifier: Q.version, value: counterBytes(version) });
      await fixture.store.commit({ steps: [{ table: MASTER_TABLE.name, key: id, put }], decisive: 0 });
      const messages = (await fixture.breaches()).map(({ invariant, message }) => `${invariant} ${message}`);
      expect(messages.join('\n')).to.match(
        /^computed HasSubordinates: it is computed .*; repair removes 1 values; entryDN: it is computed/im,
      );
      await fixture.partition.repair();
      await fixture.expectClean();
      expect(await fixture.values(`cn=x,${SUFFIX}`, 'entryDN')).to.deep.equal([]);
      await fixture.rename(`cn=x,${SUFFIX}`, 'cn=y');
      await fixture.expectClean();
    });
  });
}
