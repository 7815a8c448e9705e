import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Receipt } from '../../src/dropfolder/result.js';
import { change, type Fixture, openFixture, seeded, type Values } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { Drop } from './drop.js';
import { addRandomPeople, MAPPING, PEOPLE, randomFile, randomMapping } from './random-csv.js';

describe('CSV files in a drop folder, dropped again', () => {
  let fixture: Fixture;
  let drop: Drop;
  let mapping: string;
  beforeEach(async () => {
    fixture = await openFixture('memory');
    await fixture.unit('people');
    for (const type of ['uidNumber', 'gidNumber']) await fixture.partition.setNumbers(type, 1000, 1999);
    drop = new Drop();
    mapping = join(drop.root, 'mapping.yaml');
  });
  afterEach(async () => {
    await fixture.close();
    drop.remove();
  });

  let fileCount = 0;
  async function pass(text: string): Promise<Receipt> {
    const name = `hr${++fileCount}.csv`;
    drop.drop(name, text);
    const { result } = await drop.pass(fixture, { mapping });
    return drop.receipt(result.processed > 0 ? 'processed' : 'error', name);
  }

  /** The counts of a run and of a second one of the same file, and the first reason. */
  async function twice(text: string) {
    const [first, second] = [await pass(text), await pass(text)];
    expect([second.applied, second.refused], 'second run').to.deep.equal([0, first.refused]);
    const { applied, refused, errors, reason } = first;
    return { applied, refused, reason: reason ?? errors[0]?.reason };
  }

  const done = (applied: number) => ({ applied, refused: 0, reason: undefined });
  const values = (uid: string, type: string) => fixture.values(`uid=${uid},${PEOPLE}`, type);
  const next = async () => Number((await fixture.partition.numberRanges())[0]!.next);
  const person = (uid: string, id: string, more: Values = {}) =>
    fixture.add(`uid=${uid},${PEOPLE}`, {
      ...{ objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid, employeeNumber: id },
      ...more,
    });
  const ACCOUNT = { objectClass: ['inetOrgPerson', 'posixAccount'], gidNumber: '5', homeDirectory: '/' };

  it('"auto" as a constant gives a number to who has none, once', async () => {
    const constants =
      'objectClass: [inetOrgPerson, posixAccount]\n  uidNumber: auto\n  gidNumber: 5\n  homeDirectory: /';
    writeFileSync(mapping, `${MAPPING}constants:\n  ${constants}\n`);
    await person('old', '3', { ...ACCOUNT, uidNumber: '7' });
    const file = 'id,login,name\n1,ada,ada\n2,li,\n3,old,old\n';
    const found = await twice(file);
    expect(found).to.include({ applied: 1, refused: 1 });
    expect(found.reason).to.match(/^objectClassViolation/);
    expect([await values('ada', 'uidNumber'), await values('old', 'uidNumber')]).to.deep.equal([['1000'], ['7']]);
    expect(await next()).to.equal(1001);
  });

  it('"auto" in a column gives a number to who has none, and a number in it is set', async () => {
    const attributes = 'attributes: { uidNumber: number, ';
    const constants = 'objectClass: [inetOrgPerson, posixAccount], gidNumber: 5, homeDirectory: /';
    writeFileSync(mapping, `${MAPPING.replace('attributes: {', attributes)}constants: { ${constants} }\n`);
    expect(await twice('id,login,name,number\n1,ada,ada,auto\n2,li,li,1500\n')).to.deep.equal(done(2));
    expect([await values('ada', 'uidNumber'), await values('li', 'uidNumber')]).to.deep.equal([['1000'], ['1500']]);
    expect(await twice('id,login,name,number\n1,ada,ada,1700\n2,li,li,auto\n')).to.deep.equal(done(1));
    expect([await values('ada', 'uidNumber'), await values('li', 'uidNumber')]).to.deep.equal([['1700'], ['1500']]);
    expect(await next()).to.equal(1001);
  });

  it('"auto" as a constant gives existing people a number and the class for it', async () => {
    const constants = 'constants: { objectClass: [inetOrgPerson, posixAccount], uidNumber: auto }\n';
    const always = 'always: { gidNumber: 5, homeDirectory: / }\n';
    writeFileSync(mapping, `${MAPPING}${constants}${always}`);
    await person('ada', '1');
    expect(await twice('id,login,name\n1,ada,ada\n')).to.deep.equal(done(1));
    expect(await values('ada', 'uidNumber')).to.deep.equal(['1000']);
  });

  it('a constant is for new entries, and a value of "always" is set in all', async () => {
    const constants = 'constants: { objectClass: inetOrgPerson, employeeType: staff, title: None, l: Oslo }\n';
    writeFileSync(mapping, `${MAPPING}${constants}always: { o: [Example, Sample], title: Dr, objectClass: pkiUser }\n`);
    await person('ada', '1', {
      employeeType: 'boss',
      o: 'Other',
      objectClass: ['inetOrgPerson', 'uidObject'],
    });
    expect(await twice('id,login,name\n1,ada,ada\n2,li,li\n')).to.deep.equal(done(2));
    expect([await values('ada', 'employeeType'), await values('li', 'employeeType')]).to.deep.equal([
      ['boss'],
      ['staff'],
    ]);
    expect([await values('ada', 'title'), await values('li', 'title')]).to.deep.equal([['Dr'], ['Dr']]);
    expect([await values('ada', 'l'), await values('li', 'l')]).to.deep.equal([[], ['Oslo']]);
    for (const uid of ['ada', 'li']) expect(await values(uid, 'o')).to.have.members(['Example', 'Sample']);
    expect(await values('ada', 'objectClass')).to.include.members(['inetOrgPerson', 'uidObject', 'pkiUser']);
    expect(await values('li', 'objectClass')).to.include.members(['inetOrgPerson', 'pkiUser']);
    await fixture.modify(`uid=li,${PEOPLE}`, change('replace', 'o', 'Taken'), change('replace', 'l', 'Rome'));
    expect(await twice('id,login,name\n1,ada,ada\n2,li,li\n')).to.deep.equal(done(1));
    expect(await values('li', 'l')).to.deep.equal(['Rome']);
  });

  it('a constant stands in for an empty column, in new entries and in others', async () => {
    const text = MAPPING.replace('sn: name', 'sn: name, title: job');
    writeFileSync(mapping, `${text}constants: { objectClass: inetOrgPerson, title: None }\n`);
    expect(await twice('id,login,name,job\n1,ada,ada,\n2,li,li,Cook\n')).to.deep.equal(done(2));
    expect([await values('ada', 'title'), await values('li', 'title')]).to.deep.equal([['None'], ['Cook']]);
    expect(await twice('id,login,name,job\n1,ada,ada,Cook\n2,li,li,\n')).to.deep.equal(done(2));
    expect([await values('ada', 'title'), await values('li', 'title')]).to.deep.equal([['Cook'], ['None']]);
  });

  it('an attribute with options is another attribute, in the entry and in the mapping', async () => {
    writeFileSync(mapping, `${MAPPING.replace('cn: name', 'cn: name, title;lang-de: titel')}gone: delete\n`);
    const options = { 'cn;lang-en': 'Lady', title: 'Countess', 'title;lang-fr': 'Comtesse' };
    await person('ada', '1', options);
    await person('old', '2', { 'employeeNumber;x-old': '1' });
    const file = 'id,login,name,titel\n1,ada,ada,Graefin\n2,old,old,\n';
    expect(await twice(file)).to.deep.equal(done(1));
    for (const [type, value] of Object.entries({ ...options, 'title;lang-de': 'Graefin' }))
      expect(await values('ada', type), type).to.deep.equal([value]);
  });

  it('values beyond 64 KiB, values that differ in case, and classes with superiors are compared', async () => {
    const text = MAPPING.replace(
      'sn: name',
      'sn: name, description: [long, short], mail: [m1, m2], objectClass: class',
    );
    writeFileSync(mapping, text);
    const row = `1,ada,ada,${'x'.repeat(70_000)},short,A@example.com,a@EXAMPLE.com,inetOrgPerson\n`;
    expect(await twice(`id,login,name,long,short,m1,m2,class\n${row}`)).to.deep.equal(done(1));
    expect(await values('ada', 'mail')).to.deep.equal(['A@example.com']);
    expect(await twice(`id,login,name,long,short,m1,m2,class\n${row.replace('x'.repeat(70_000), '')}`)).to.deep.equal(
      done(1),
    );
    expect(
      (await fixture.read(`uid=ada,${PEOPLE}`, true)).attributes.find(({ type }) => type.name === 'description')!
        .values,
    ).to.have.length(1);
  });

  it('a column keeps to its RDN in a DN, and a column alone is a DN', async () => {
    const text = MAPPING.replace('sn: name', `sn: name, manager: "cn={boss},${PEOPLE}", secretary: help`);
    writeFileSync(mapping, `${text}constants: { objectClass: inetOrgPerson }\n`);
    const help = `"uid=li,${PEOPLE}"`;
    const file = `id,login,name,boss,help\n1,ada,ada,"Lee, Ann",${help}\n2,li,li,"x,ou=other",\n3,xi,xi,,\n`;
    expect(await twice(file)).to.deep.equal(done(3));
    expect(await values('ada', 'manager')).to.deep.equal([`cn=Lee\\, Ann,${PEOPLE}`]);
    expect(fixture.dn((await values('li', 'manager'))[0]!).rdns).to.have.length(fixture.dn(PEOPLE).rdns.length + 1);
    expect(await values('ada', 'secretary')).to.deep.equal([`uid=li,${PEOPLE}`]);
    expect(await values('xi', 'manager')).to.deep.equal([]);
  });

  it('a template with an empty column gives no value, and a DN with one is refused', async () => {
    const text = MAPPING.replace('cn: name', 'cn: name, mail: "{login}@{domain}", o: ["{name} ({domain})", name]');
    writeFileSync(mapping, `${text}constants: { objectClass: inetOrgPerson }\n`);
    expect(await twice('id,login,name,domain\n1,ada,Ada,\n2,li,Li,x.org\n')).to.deep.equal(done(2));
    expect([await values('ada', 'mail'), await values('li', 'mail')]).to.deep.equal([[], ['li@x.org']]);
    expect(await values('ada', 'o')).to.deep.equal(['Ada']);
    const { refused, reason } = await twice('id,login,name,domain\n3,,Xi,\n');
    expect([refused, reason]).to.deep.equal([
      1,
      `namingViolation: the DN of a new entry needs a value of each column in uid={login},${PEOPLE}`,
    ]);
  });

  it('a filter with columns finds the entry whose DN is the value', async () => {
    const text = MAPPING.replace('sn: name', 'sn: name, manager: { find: "(employeeNumber={boss})" }');
    writeFileSync(mapping, `${text}constants: { objectClass: inetOrgPerson }\n`);
    await person('boss', '9');
    const file = 'id,login,name,boss\n1,ada,ada,9\n2,li,li,\n3,xi,xi,1\n';
    expect(await twice(file)).to.deep.equal(done(3));
    expect(await values('ada', 'manager')).to.deep.equal([`uid=boss,${PEOPLE}`]);
    expect(await values('xi', 'manager')).to.deep.equal([`uid=ada,${PEOPLE}`]);
    expect(await values('li', 'manager')).to.deep.equal([]);
    await person('twin', '9');
    for (const [boss, problem] of [
      ['8', 'no entry matches'],
      ['9', 'several entries match'],
      ['*', 'no entry matches'],
    ]) {
      const found = await twice(`id,login,name,boss\n1,ada,ada,${boss}\n`);
      const reason = `constraintViolation: ${problem} (employeeNumber={boss}), which gives 'manager'; one has to`;
      expect(found).to.deep.equal({ applied: 0, refused: 1, reason });
    }
    expect(await values('ada', 'manager')).to.deep.equal([`uid=boss,${PEOPLE}`]);
  });

  it('a file with two columns of one name, and mappings that say two things, are refused', async () => {
    writeFileSync(mapping, MAPPING);
    expect((await pass('id,login,name,login\n1,ada,ada,x\n')).reason).to.match(/^it has two columns 'login'/);
    for (const [text, expected] of [
      [MAPPING.replace('sn: name', 'sn: name, surname: name'), /attributes.surname: 'sn' stands there already/],
      [MAPPING.replace('sn: name', 'sn: { find: "(uid={name})" }'), /attributes.sn: 'sn' holds no DN/],
      [MAPPING.replace('sn: name', 'manager: { find: "(uid=x)" }'), /attributes.manager.find has to name a column/],
      [MAPPING.replace('sn: name', 'manager: { find: "(uid={name}" }'), /mapping.yaml: .*parenthes|filter/],
      [
        MAPPING.replace('sn: name', 'manager: { look: x }'),
        /attributes.manager has to be a text, or \{ find: FILTER \}/,
      ],
    ] as const) {
      writeFileSync(mapping, text);
      expect((await pass('id,login,name\n1,ada,ada\n')).reason).to.match(expected);
    }
  });

  it('a dry run and the log of a run say which indexes are missing', async () => {
    const boss = 'manager: { find: "(&(objectClass=person)(departmentNumber={boss})(uid={boss}))" }';
    writeFileSync(mapping, `${MAPPING.replace('sn: name', `sn: name, ${boss}`)}`);
    const warnings = ['employeeNumber', 'departmentNumber'].map(
      (name) => `'${name}' has no index, and each row reads all entries; run: rowan index add ${name}`,
    );
    if (fixture.partition.indexes().some(({ attribute }) => attribute === 'employeeNumber'))
      await fixture.partition.dropIndex('employeeNumber');
    drop.drop('a.csv', 'id,login,name,boss\n');
    const lines = () => drop.dry(fixture, { mapping });
    expect(await lines()).to.include.members(warnings.map((text) => `  warning: ${text}`));
    const { log } = await drop.pass(fixture, { mapping });
    for (const text of warnings) expect(log).to.contain(text);
    for (const name of ['employeeNumber', 'departmentNumber']) await fixture.partition.addIndex(name);
    await fixture.partition.buildIndexes();
    drop.drop('b.csv', 'id,login,name,boss\n');
    expect((await lines()).join()).not.to.contain('warning');
  });

  it('a second run of a random file over random entries applies nothing', () =>
    seeded(async (random) => {
      for (let round = 0; round < rounds(12, 300); round++) {
        const dns = await addRandomPeople(random, fixture);
        writeFileSync(mapping, randomMapping(random));
        await twice(randomFile(random));
        for (const dn of new Set([...dns, ...(await fixture.find('(uid=*)'))])) await fixture.delete(dn);
      }
    }));
});
