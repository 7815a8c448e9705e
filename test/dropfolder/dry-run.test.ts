import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { change, type Fixture, openFixture, type Random, SUFFIX, seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { Drop, unit } from './drop.js';
import { addRandomPeople, MAPPING, PEOPLE, randomFile, randomMapping } from './random-csv.js';

for (const engine of ['memory', 'lmdb'] as const) {
  describe(`a dry run of a drop folder (${engine})`, () => {
    let fixture: Fixture;
    let drop: Drop;
    let mapping: string;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      for (const type of ['uidNumber', 'gidNumber']) await fixture.partition.setNumbers(type, 1000, 1999);
      drop = new Drop();
      mapping = join(drop.root, 'mapping.yaml');
    });
    afterEach(async () => {
      await fixture.close();
      drop.remove();
    });

    const next = async () => Number((await fixture.partition.numberRanges())[0]!.next);

    /** A dry run says of each file what the receipt of the run behind it says. Returns the lines of the receipts. */
    async function expectPredicted(given = {}): Promise<string> {
      const settings = { mapping, ...given };
      const predicted: Record<string, string[]> = {};
      let name = '';
      for (const line of await drop.dry(fixture, settings)) {
        if (/^\S/.test(line)) name = line.slice(0, -1);
        const isReport = /^ {2}(refused: |expired|\d+ records: )/.test(line);
        predicted[name] = [...(predicted[name] ?? []), ...(isReport ? [line] : [])];
      }
      await drop.pass(fixture, settings);
      const done: Record<string, string[]> = {};
      for (const { name: file, result, reason, errors, records, applied, unchanged, refused } of drop.receipts()) {
        if (!(file in predicted)) continue;
        const counts = `${records} records: ${applied} applied, ${unchanged} unchanged, ${refused} refused`;
        const end = result === 'expired' ? result : reason === undefined ? counts : `refused: ${reason}`;
        done[file] = [...errors.map((error) => `  refused: line ${error.line}: ${error.reason}`), `  ${end}`];
      }
      expect(predicted).to.deep.equal(done);
      return Object.values(done).flat().join('\n');
    }

    it('predicts numbers, refusals of the schema, and what comes of earlier records and files', async () => {
      const constants = 'objectClass: [inetOrgPerson, posixAccount], uidNumber: auto, gidNumber: 5, homeDirectory: /';
      const manager = 'sn: name, manager: { find: "(employeeNumber={boss})" }';
      writeFileSync(mapping, `${MAPPING.replace('sn: name', manager)}constants: { ${constants} }\ngone: delete\n`);
      drop.drop('1.csv', 'id,login,name,boss\n1,ada,ada,\n2,li,li,1\n3,xi,,\n4,wu,wu,7\n');
      drop.drop('9.a.T', `${unit('units')}dn: ou=people,${SUFFIX}\nchangetype: modify\nadd: mail\nmail: x\n\n`);
      const ldif = `dn: uid=li,${PEOPLE}\nchangetype: modify\nreplace: employeeNumber\nemployeeNumber: 9\n\n`;
      drop.drop('2.a.T', `${ldif}dn: uid=ada,${PEOPLE}\nchangetype: delete\n\n`);
      drop.drop('1.b.T.1', unit('late'));
      const dryLines = await drop.dry(fixture, { mapping });
      expect(await next()).to.equal(1000);
      expect(await fixture.find('(uid=*)')).to.deep.equal([]);
      expect(dryLines.filter((line) => line.endsWith(':'))).to.deep.equal(['9.a.T:', '1.csv:', '2.a.T:', '1.b.T.1:']);
      expect(dryLines).to.include('    uidNumber: auto').and.to.include('  expired');
      expect(await expectPredicted()).to.contain('4 records: 2 applied, 0 unchanged, 2 refused');
      expect(await next()).to.equal(1002);
    });

    it('predicts what happens under --validate-first, which changes nothing where a record would be refused', async () => {
      drop.drop('1.a.T', `${unit('a')}${unit('a')}`);
      expect(await expectPredicted({ validateFirst: true })).to.match(
        /^ {2}refused: line 5: entryAlreadyExists: .*\n {2}refused: records that would be refused: 1; nothing was/,
      );
      expect(await fixture.find('(ou=a)')).to.deep.equal([]);
      const rename = `dn: ou=b,${SUFFIX}\nchangetype: modrdn\nnewrdn: ou=c\ndeleteoldrdn: 1\n\n`;
      drop.drop('2.b.T', `${unit('b')}${rename}dn: ou=c,${SUFFIX}\nchangetype: delete\n\n`);
      expect(await expectPredicted({ validateFirst: true })).to.match(/3 records: 3 applied/);
    });

    it('predicts what the rights of an identity allow', async () => {
      await fixture.person('hr');
      const rule = (name: string, base: string, allow: string[]) => ({
        ...{ name, who: { users: true }, allow },
        to: { base, attributes: ['*', 'entry', 'children'] },
      });
      const rules = [rule('write', PEOPLE, ['view', 'write', 'create']), rule('see', SUFFIX, ['view'])];
      await fixture.partition.setAccess(JSON.stringify({ rules }), 'test', 0);
      drop.drop('1.a.T', `${unit('a')}dn: ou=b,${PEOPLE}\nobjectClass: organizationalUnit\nou: b\n\n`);
      const as = fixture.dn(`cn=hr,${SUFFIX}`);
      expect(await expectPredicted({ as })).to.match(/refused: line 1: insufficientAccessRights: .*'create'/);
    });

    it('predicts the report of random files over random entries', () =>
      seeded(async (random) => {
        for (let round = 0; round < rounds(engine === 'memory' ? 4 : 2, engine === 'memory' ? 60 : 20); round++) {
          await addRandomPeople(random, fixture);
          writeFileSync(mapping, randomMapping(random).replace(/^gone: nothing/m, random.pick(['gone: delete', '$&'])));
          const kinds = [1, 2, 3].filter(() => random.chance(0.6));
          for (const kind of kinds)
            drop.drop(
              `${round}-${kind}${kind === 2 ? '.ldif' : '.csv'}`,
              kind === 2 ? randomLdif(random) : randomFile(random),
            );
          await expectPredicted({ validateFirst: random.chance(0.3) });
          await fixture.expectClean();
          for (const dn of await fixture.find('(uid=*)')) await fixture.delete(dn);
          drop.remove();
          drop = new Drop();
          mapping = join(drop.root, 'mapping.yaml');
        }
      }));
  });
}

const ESCAPE = '\u001b[2K';

describe('the report of a dry run of a drop folder', () => {
  let fixture: Fixture;
  let drop: Drop;
  beforeEach(async () => {
    fixture = await openFixture('memory');
    await fixture.unit('people');
    drop = new Drop();
  });
  afterEach(async () => {
    await fixture.close();
    drop.remove();
  });

  it('has no control characters of a file', async () => {
    const dn = (ou: string) => `ou=${ou},${SUFFIX}`;
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const rename = `dn: ${dn('a')}\nchangetype: modrdn\nnewrdn:: ${base64(`ou=b${ESCAPE}\n  9 records`)}\ndeleteoldrdn: 1\n\n`;
    drop.drop('1.a.T', `${unit('a')}${rename}`);
    drop.drop('1.b.T...x\u0080', unit('c'));
    drop.drop(`1.c.T...no${encodeURIComponent(ESCAPE)}`, unit('d'));
    const lines = await drop.dry(fixture);
    expect(lines.join('')).not.to.match(/\p{Cc}/u);
    expect(lines.join('\n')).to.contain(`rename ${dn('a')} to ou=b?[2K?  9 records`);
    expect(lines.filter((line) => line.startsWith('  9 records'))).to.deep.equal([]);
  });

  it('has no value that the identity may not read', async () => {
    await fixture.person('hr');
    const names = { uid: 'ada', cn: 'ada', sn: 'ada' };
    await fixture.add(`uid=ada,${PEOPLE}`, { objectClass: 'inetOrgPerson', ...names, title: 'hidden', l: 'seen' });
    const rule = (name: string, attributes: string[], allow: string[]) => ({
      ...{ name, who: { users: true }, to: { subtree: PEOPLE, attributes }, allow },
    });
    const rules = [rule('seen', ['l', 'entry'], ['view', 'write']), rule('rest', ['*'], ['write'])];
    await fixture.partition.setAccess(JSON.stringify({ rules }), 'test', 0);
    const replace = (type: string) => `replace: ${type}\n${type}: new\n-\n`;
    const record = (uid: string) =>
      `dn: uid=${uid},${PEOPLE}\nchangetype: modify\n${replace('title')}${replace('l')}\n`;
    drop.drop('a.ldif', record('ada'));
    const lines = await drop.dry(fixture, { as: fixture.dn(`cn=hr,${SUFFIX}`) });
    expect(lines.join('\n')).not.to.contain('hidden');
    expect(lines).to.include.members(['    title: (not readable) -> new', '    l: seen -> new']);
    expect((await drop.dry(fixture)).join('\n')).to.contain('    title: hidden -> new');
    await fixture.modify(`uid=ada,${PEOPLE}`, change('replace', 'l'));
    expect(await drop.dry(fixture, { as: fixture.dn(`cn=hr,${SUFFIX}`) })).to.include('    l: (none) -> new');
  });
});

function randomLdif(random: Random): string {
  const dns = ['p1', 'p2', 'p3', 'u1', 'u2', 'u3', 'u4'].map((uid) => `uid=${uid},${PEOPLE}`);
  const record = () => {
    const dn = random.pick(dns);
    const value = random.pick(['1', '2', '3', '9', 'x']);
    return random.pick([
      `dn: ${dn}\nchangetype: delete\n`,
      `dn: ${dn}\nchangetype: modrdn\nnewrdn: uid=${random.pick(['p1', 'p4', 'u2'])}\ndeleteoldrdn: 1\n`,
      `dn: ${dn}\nchangetype: modify\nreplace: employeeNumber\nemployeeNumber: ${value}\n`,
      `dn: ${dn}\nchangetype: modify\nadd: uidNumber\nuidNumber: ${random.pick(['auto', value, '1003'])}\n`,
      `dn: ${dn}\nobjectClass: inetOrgPerson\ncn: x\nsn: x\nemployeeNumber: ${value}\n`,
    ]);
  };
  return `${Array.from({ length: 1 + random.int(5) }, record).join('\n')}\n`;
}
