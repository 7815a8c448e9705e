import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { Partition } from '../../src/partition/index.js';
import type { LoadEntry, LoadReject } from '../../src/partition/model/directory-types.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, MASTER_TABLE, META_TABLE, Q } from '../../src/partition/model/tables.js';
import { Schema } from '../../src/schema/index.js';
import { cellValue, counterBytes } from '../../src/store/row.js';
import { StoreError } from '../../src/store/store-error.js';
import {
  attributes,
  change,
  ENGINES,
  type Fixture,
  openFixture,
  refused,
  SUFFIX,
  SYSTEM,
  type Values,
} from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;

for (const engine of ENGINES) {
  describe(`survives (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.person('ann', PEOPLE);
    });
    afterEach(() => fixture.close());

    it('names with odd bytes, in every operation', async () => {
      const rdns = [
        'cn=\\00',
        'cn=a\\00b',
        'cn=\\2C\\2B\\3D\\5C\\22',
        'cn=\\23hash',
        'cn=a\\2C2.5.4.3\\3Db',
        'cn=b+sn=a',
        'cn=%s%n',
        'cn=*',
        'cn=(|\\28\\29)',
      ];
      for (const rdn of rdns) {
        await fixture.add(`${rdn},${PEOPLE}`, { objectClass: 'person', sn: 'a' });
        expect((await fixture.read(`${rdn},${PEOPLE}`)).dn).to.equal(`${rdn},${PEOPLE}`);
        await fixture.rename(`${rdn},${PEOPLE}`, 'cn=temporary', { deleteOldRdn: false });
        await fixture.rename(`cn=temporary,${PEOPLE}`, rdn, { deleteOldRdn: true });
        await fixture.person('child', `${rdn},${PEOPLE}`);
        expect(await fixture.find('(cn=child)', { base: `${rdn},${PEOPLE}`, scope: 'one' })).to.deep.equal([
          `cn=child,${rdn},${PEOPLE}`,
        ]);
      }
      await fixture.expectClean();
      expect(await fixture.find('(objectClass=*)', { base: PEOPLE, scope: 'one' })).to.have.length(rdns.length + 1);
    });

    near('names too long, too deep or malformed', async () => {
      const deep = `${'ou=x,'.repeat(10_000)}${SUFFIX}`;
      const wide = `cn=${'x'.repeat(1_000_000)},${SUFFIX}`;
      for (const text of [
        deep,
        wide,
        'cn="',
        'cn=\\',
        'cn=a\\zz',
        ',',
        '=',
        'cn=a,',
        'cn=a,,dc=com',
        'cn=\\ff,dc=com',
        'cn=#04',
      ]) {
        expect(() => fixture.dn(text), text.slice(0, 20))
          .to.throw(LdapError)
          .with.property('result', 'invalidDNSyntax');
      }
      for (const length of [500, 512, 513, 2000, 60_000]) {
        const dn = `cn=${'y'.repeat(length)},${PEOPLE}`;
        await fixture.add(dn, { objectClass: 'person', sn: 'a' });
        await refused('entryAlreadyExists', fixture.add(dn.toUpperCase(), { objectClass: 'person', sn: 'a' }));
        expect((await fixture.read(dn)).dn).to.equal(dn);
      }
      await fixture.expectClean();
    });

    it('values full of row-key and pattern characters', async () => {
      const values = [
        '\0',
        'a\0b',
        '=a',
        'a=b',
        '~abc',
        '*',
        '#',
        'a#b',
        '%s%n',
        '.*',
        '(?:',
        '\\',
        `${'z'.repeat(512)}#`,
        'é\u0000é',
        '\u{1f600}',
      ];
      await fixture.partition.addIndex('description', { substring: true });
      await fixture.partition.buildIndexes();
      for (const [n, value] of values.entries()) await fixture.person(`v${n}`, PEOPLE, { description: value });
      await fixture.expectClean();
      for (const [n, value] of values.entries()) {
        expect(
          await fixture.find({ type: 'equal', attribute: 'description', value: Buffer.from(value) }),
          value,
        ).to.include(`cn=v${n},${PEOPLE}`);
        expect(
          await fixture.find({
            type: 'substring',
            attribute: 'description',
            initial: Buffer.from(value),
            any: [],
            final: undefined,
          }),
        ).to.include(`cn=v${n},${PEOPLE}`);
        expect(
          await fixture.find({
            type: 'substring',
            attribute: 'description',
            initial: undefined,
            any: [Buffer.from(value)],
            final: undefined,
          }),
        ).to.include(`cn=v${n},${PEOPLE}`);
      }
    });

    near('a filter value of megabytes', async () => {
      const value = Buffer.alloc(4_000_000, 'q');
      for (const attribute of ['cn', 'description', 'seeAlso', 'entryDN', 'objectClass', 'uidNumber', 'entryUUID']) {
        expect(await fixture.find({ type: 'equal', attribute, value })).to.deep.equal([]);
      }
      expect(
        await fixture.find({ type: 'substring', attribute: 'cn', initial: value, any: [value], final: value }),
      ).to.deep.equal([]);
    });

    it('a row that cannot be read: said at the read, others are served', async () => {
      await fixture.person('bob', PEOPLE);
      const { id } = await fixture.read(`cn=ann,${PEOPLE}`);
      const put = [
        { family: MASTER.upAttributes, qualifier: valueQualifier('noSuchThing', 0), value: Buffer.from('x') },
      ];
      await fixture.store.commit({ steps: [{ table: MASTER_TABLE.name, key: id, put }], decisive: 0 });
      await refused('other', fixture.read(`cn=ann,${PEOPLE}`), /cannot be read/);
      await refused('other', fixture.modify(`cn=ann,${PEOPLE}`, change('add', 'title', 'x')), /cannot be read/);
      expect(await fixture.find('(cn=bob)')).to.deep.equal([`cn=bob,${PEOPLE}`]);
      const gone = [
        { family: MASTER.treeInfo, qualifier: Q.parentId },
        { family: MASTER.treeInfo, qualifier: Q.version },
      ];
      await fixture.store.commit({
        steps: [{ table: MASTER_TABLE.name, key: id, delete: [...gone, ...put] }],
        decisive: 0,
      });
      await refused('noSuchObject', fixture.read(`cn=ann,${PEOPLE}`));
      await refused('other', fixture.find('(cn=ann)'), /cannot be read/);
      expect(await fixture.find('(cn=bob)')).to.deep.equal([`cn=bob,${PEOPLE}`]);
    });

    near('a directory of a newer format, or none, is said at the opening', async () => {
      const put = [{ family: 0, qualifier: Buffer.from('format'), value: counterBytes(99n) }];
      await fixture.store.commit({ steps: [{ table: META_TABLE.name, key: Buffer.from('shared'), put }], decisive: 0 });
      const open = () => Partition.open(fixture.store, fixture.partition.schema);
      await open().then(
        () => expect.fail('it opens'),
        (error) =>
          expect(error)
            .to.be.instanceOf(StoreError)
            .with.property('message')
            .that.matches(/format 99/),
      );
      await fixture.store.commit({
        steps: [{ table: META_TABLE.name, key: Buffer.from('shared'), deleteRow: true }],
        decisive: 0,
      });
      await open().then(
        () => expect.fail('it opens'),
        (error) => expect(error.message).to.match(/rowan init/),
      );
    });

    near('settings that are no JSON are told at the opening, by row and cell', async () => {
      const key = Buffer.from('shared');
      const read = async (name: string) =>
        cellValue((await fixture.store.get(META_TABLE.name, key))!, 0, Buffer.from(name));
      for (const name of ['suffixes', 'indexes', 'values', 'names']) {
        const cell = { family: 0, qualifier: Buffer.from(name) };
        const before = await read(name);
        const put = [{ ...cell, value: Buffer.from('[] ["of another row"]') }];
        await fixture.store.commit({ steps: [{ table: META_TABLE.name, key, put }], decisive: 0 });
        await Partition.open(fixture.store, fixture.partition.schema).then(
          () => expect.fail('it opens'),
          ({ message, code }: StoreError) => {
            expect(code).to.equal('corrupt');
            expect(message).to.equal(
              `cell ${name} of row shared in table meta is damaged: it is not JSON; restore a backup`,
            );
          },
        );
        const back = before ? { put: [{ ...cell, value: before }] } : { delete: [cell] };
        await fixture.store.commit({ steps: [{ table: META_TABLE.name, key, ...back }], decisive: 0 });
      }
      await fixture.expectClean();
    });

    describe('import', () => {
      const entry = (line: number, dn: string, values: Values): LoadEntry => ({
        line,
        dn,
        attributes: attributes(values),
      });
      const person = (line: number, cn: string, parent = PEOPLE) =>
        entry(line, `cn=${cn},${parent}`, { objectClass: 'inetOrgPerson', sn: cn, mail: `${cn}@x` });
      async function* chunks(entries: readonly LoadEntry[]) {
        for (let at = 0; at < entries.length; at += 7) yield entries.slice(at, at + 7);
      }
      async function load(entries: readonly LoadEntry[], more: { continue: boolean } = { continue: true }) {
        const rejects: LoadReject[] = [];
        const done = await fixture.partition.load(chunks(entries), SYSTEM, {
          onReject: (r) => rejects.push(r),
          ...more,
        });
        return { ...done, rejects };
      }

      it('over what is there, twice, and with errors: each reject with its line and reason, nothing else lost', async () => {
        const entries = [
          entry(1, `ou=new,${SUFFIX}`, { objectClass: 'organizationalUnit' }),
          ...Array.from({ length: 50 }, (_, n) => person(n + 2, `i${n}`, `ou=new,${SUFFIX}`)),
        ];
        const bad = [
          person(90, 'ann'),
          entry(91, `cn=x,${PEOPLE}`, { objectClass: 'person' }),
          entry(92, 'cn=x,', { objectClass: 'person' }),
          person(93, 'y', `ou=nowhere,${SUFFIX}`),
          person(94, 'i3', `ou=new,${SUFFIX}`),
        ];
        const first = await load([...entries, ...bad]);
        expect([first.loaded, first.rejected]).to.deep.equal([51, 5]);
        expect(first.rejects.map((r) => r.entry.line).sort()).to.deep.equal([90, 91, 92, 93, 94]);
        const reasons = new Map(first.rejects.map((r) => [r.entry.line, r.reason]));
        expect(reasons.get(90)).to.match(/entryAlreadyExists|already/);
        expect(reasons.get(91)).to.match(/requires attribute 'sn'/);
        expect(reasons.get(92)).to.match(/invalid DN|invalidDNSyntax/);
        expect(reasons.get(93)).to.match(/does not exist|noSuchObject/);
        await fixture.expectClean();
        const second = await load(entries);
        expect([second.loaded, second.rejected]).to.deep.equal([0, 51]);
        await fixture.expectClean();
        expect(await fixture.counts(`ou=new,${SUFFIX}`)).to.deep.equal([50, 50]);
        expect(await fixture.find('(mail=i7@x)')).to.deep.equal([`cn=i7,ou=new,${SUFFIX}`]);
      });

      near('stops at the first error when told to, with what came before it', async () => {
        const done = await load([person(1, 'a'), person(2, 'b'), person(3, 'ann'), person(4, 'c')], {
          continue: false,
        });
        expect(done.rejects.map((r) => r.entry.line)).to.deep.equal([3]);
        expect(await fixture.find('(|(cn=a)(cn=b))')).to.have.length(2);
        await fixture.expectClean();
      });

      it('beside writers, with large values, aliases and given entryUUIDs, leaves what adds would', async () => {
        const adds = Promise.all(Array.from({ length: 40 }, (_, n) => fixture.person(`w${n}`, PEOPLE)));
        const odd = [
          entry(1, `cn=big,${PEOPLE}`, {
            objectClass: 'inetOrgPerson',
            sn: 'b',
            jpegPhoto: Buffer.alloc(300_000, 3),
            description: 'x'.repeat(70_000),
          }),
          entry(2, `cn=link,${PEOPLE}`, {
            objectClass: ['alias', 'extensibleObject'],
            cn: 'link',
            aliasedObjectName: SUFFIX,
          }),
          entry(3, `cn=known,${PEOPLE}`, {
            objectClass: 'person',
            sn: 'k',
            entryUUID: '01234567-89ab-0def-0123-456789abcdef',
          }),
        ];
        const loaded = await load([...odd, ...Array.from({ length: 200 }, (_, n) => person(n + 10, `i${n}`))]);
        await adds;
        expect(loaded.rejects.map((r) => r.reason)).to.deep.equal([]);
        await fixture.expectClean();
        expect(await fixture.counts(PEOPLE)).to.deep.equal([244, 244]);
        expect(await fixture.find('(objectClass=*)', { base: PEOPLE, deref: 'searching' })).to.have.length(245);
      });
    });
  });

  describe(`a schema change that entries violate (${engine})`, () => {
    it('leaves them readable and says what to do when they are changed', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'rowan-schema-'));
      const write = (must: string) =>
        writeFileSync(
          join(folder, 'own.ldif'),
          `dn: cn=schema\nattributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'badge' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\nobjectClasses: ( 1.3.6.1.4.1.99999.2 NAME 'visitor' SUP person STRUCTURAL ${must} badge )\n`,
        );
      write('MAY');
      const fixture = await openFixture(engine, { schema: Schema.load({ extra: [folder] }) });
      await fixture.add(`cn=v,${SUFFIX}`, { objectClass: 'visitor', sn: 'v' });
      write('MUST');
      const strict = Schema.load({ extra: [folder] });
      const again = await Partition.open(fixture.store, strict);
      expect((await again.read(strict.parseDn(`cn=v,${SUFFIX}`))).dn).to.equal(`cn=v,${SUFFIX}`);
      expect(await again.check(() => undefined)).to.equal(0);
      const dn = strict.parseDn(`cn=v,${SUFFIX}`);
      await refused(
        'objectClassViolation',
        again.modify(dn, [change('add', 'description', 'x')], { dn: '' }),
        /requires attribute 'badge'/,
      );
      await again.modify(dn, [change('add', 'badge', '1'), change('add', 'description', 'x')], { dn: '' });
      await again.delete(dn, { dn: '' });
      await fixture.close();
      rmSync(folder, { recursive: true });
    });
  });
}
