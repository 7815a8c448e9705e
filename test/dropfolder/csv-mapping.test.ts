import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Fixture, openFixture, SUFFIX, type Values } from '../partition/fixture.js';
import { Drop } from './drop.js';
import { MAPPING, PEOPLE } from './random-csv.js';

const CONSTANTS = 'constants: { objectClass: inetOrgPerson }\n';

describe('mappings of CSV files in a drop folder', () => {
  let fixture: Fixture;
  let drop: Drop;
  let mapping: string;
  beforeEach(async () => {
    fixture = await openFixture('memory');
    await fixture.unit('people');
    drop = new Drop();
    mapping = join(drop.root, 'mapping.yaml');
  });
  afterEach(async () => {
    await fixture.close();
    drop.remove();
  });

  let fileCount = 0;
  async function pass(text: string) {
    const name = `hr${++fileCount}.csv`;
    drop.drop(name, text);
    const { result } = await drop.pass(fixture, { mapping });
    const place = result.processed > 0 ? 'processed' : 'error';
    const { applied, unchanged, refused, reason, errors } = drop.receipt(place, name);
    return { name, applied, unchanged, refused, reason: reason ?? errors[0]?.reason };
  }

  /** Applies the file, and expects that it applied again changes nothing. */
  async function twice(text: string) {
    const first = await pass(text);
    const second = await pass(text);
    expect([second.applied, second.refused], 'second run').to.deep.equal([0, first.refused]);
    return first;
  }

  /** Expects that a file is refused whole because of the mapping. */
  async function expectRefused(text: string, reason: RegExp): Promise<void> {
    writeFileSync(mapping, text);
    expect((await pass('id,login,name\n1,ada,ada\n')).reason).to.match(reason);
    expect(await fixture.find('(uid=*)')).to.deep.equal([]);
  }

  const values = (uid: string, type: string) => fixture.values(`uid=${uid},${PEOPLE}`, type);
  const person = (uid: string, id: string, more: Values = {}) =>
    fixture.add(`uid=${uid},${PEOPLE}`, {
      ...{ objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid, employeeNumber: id },
      ...more,
    });

  it('store the text of a value, also where YAML has it as a number or a boolean', async () => {
    const always = 'always: { telephoneNumber: +4930123400, postalCode: 01067, roomNumber: 1.10, title: true }\n';
    const constants = 'constants: { objectClass: inetOrgPerson, departmentNumber: 007, carLicense: 0x1F }\n';
    writeFileSync(
      mapping,
      `${MAPPING}${always}${constants}gone: { attribute: employeeType, value: 00 }\nmostGone: 7\n`,
    );
    expect(await twice('id,login,name\n1,ada,ada\n2,li,li\n')).to.include({ applied: 2, refused: 0 });
    expect(await pass('id,login,name\n1,ada,ada\n')).to.include({ applied: 1, unchanged: 1 });
    const stored = { telephoneNumber: '+4930123400', postalCode: '01067', roomNumber: '1.10', title: 'true' };
    for (const [type, value] of Object.entries({ ...stored, departmentNumber: '007', carLicense: '0x1F' }))
      expect(await values('ada', type), type).to.deep.equal([value]);
    expect(await values('li', 'employeeType')).to.deep.equal(['00']);
  });

  it('keep the value that names an entry, and change other values and options of its attribute', async () => {
    const text = MAPPING.replace('dn: uid={login}', 'dn: cn={login}');
    writeFileSync(mapping, `${text.replace('cn: name', 'cn: ["{login}", "{name} X"], cn;lang-en: en')}${CONSTANTS}`);
    expect(await twice('id,login,name,en\n1,ada,Ada,Lady\n')).to.include({ applied: 1, refused: 0 });
    expect(await twice('id,login,name,en\n1,ada2,Eve,Dame\n')).to.include({ applied: 1, refused: 0 });
    const named = (type: string) => fixture.values(`cn=ada,${PEOPLE}`, type);
    expect(await named('cn')).to.have.members(['ada', 'Eve X']);
    expect(await named('cn;lang-en')).to.deep.equal(['Dame']);
    expect(await named('uid')).to.deep.equal(['ada2']);
    expect(await twice('id,login,name,en\n1,,,\n')).to.include({ refused: 1 });
    expect(await twice('id,login,name,en\n1,ADA,Eve,\n')).to.include({ applied: 1 });
    expect([await named('cn'), await named('cn;lang-en')]).to.deep.equal([['ada', 'Eve X'], []]);
  });

  it('correct capitals and blanks, which the rule of the attribute passes over', async () => {
    const text = MAPPING.replace('sn: name', 'sn: name, telephoneNumber: phone, manager: boss');
    writeFileSync(mapping, `${text}${CONSTANTS}`);
    await person('ada', '1', { cn: 'McDonald', sn: 'mcdonald', telephoneNumber: '+31-20-1' });
    const file = `id,login,name,phone,boss\n1,ADA,McDonald,+31 20 1,"uid=ada, ou=people,${SUFFIX}"\n`;
    expect(await twice(file)).to.include({ applied: 1, refused: 0 });
    expect([await values('ada', 'sn'), await values('ada', 'telephoneNumber')]).to.deep.equal([
      ['McDonald'],
      ['+31 20 1'],
    ]);
    expect(await values('ada', 'uid')).to.deep.equal(['ada']);
  });

  it('are refused where a column stands in a text that is the same for all rows', async () => {
    const text = /mapping.yaml: (base|always.o|constants.(title|userPassword)|gone.value) has a column in braces/;
    await expectRefused(`${MAPPING}constants: { objectClass: inetOrgPerson, title: "Dr {name}" }\n`, text);
    await expectRefused(`${MAPPING}constants: { userPassword: "{CLEARTEXT}{name}" }\n`, text);
    await expectRefused(`${MAPPING}${CONSTANTS}always: { o: [x, "{name}"] }\n`, text);
    await expectRefused(`${MAPPING}gone: { attribute: employeeType, value: "{name}" }\n`, text);
    await expectRefused(MAPPING.replace(`base: `, 'base: ou={name},'), text);
    writeFileSync(mapping, `${MAPPING}constants: { objectClass: inetOrgPerson, userPassword: "{CRYPT}!" }\n`);
    expect(await twice('id,login,name\n1,ada,ada\n')).to.include({ applied: 1 });
    expect(await values('ada', 'userPassword')).to.deep.equal(['{CRYPT}!']);
  });

  it('refuse a DN outside the base, in the mapping or in a row, and an attribute that is set twice', async () => {
    await expectRefused(
      MAPPING.replace('dn: uid={login},ou=people', 'dn: uid={login},ou=other'),
      /dn: 'ou=other,.* is not/,
    );
    await expectRefused(
      `${MAPPING}always: { sn: x }\n`,
      /'sn' stands under attributes and under always; leave one out/,
    );
    await expectRefused(`${MAPPING}always: { employeeNumber: 5 }\n`, /'employeeNumber' stands under attributes/);
    await fixture.unit('staff');
    writeFileSync(mapping, `${MAPPING.replace('uid={login},ou=people', 'uid={login},ou={unit}')}${CONSTANTS}`);
    const found = await twice('id,login,name,unit\n1,ada,ada,people\n2,li,li,staff\n');
    expect(found).to.include({ applied: 1, refused: 1 });
    const outside = `uid=li,ou=staff,${SUFFIX}`;
    expect(found.reason).to.equal(`namingViolation: '${outside}', which dn gives, is not below the base '${PEOPLE}'`);
    expect(drop.text('error', `${found.name}.rejects.ldif`)).to.contain(`# the row with id '2', dn: ${outside}\n`);
  });

  it('take objectClass with an option for another attribute than the classes', async () => {
    const text = MAPPING.replace('sn: name', 'sn: name, objectClass;lang-de: class');
    writeFileSync(mapping, `${text}${CONSTANTS}`);
    await twice('id,login,name,class\n1,ada,ada,person\n');
    expect(await twice('id,login,name,class\n1,ada,ada,top\n')).to.include({ applied: 1 });
    expect(await values('ada', 'objectClass;lang-de')).to.deep.equal(['top']);
  });

  it('name the row, the key and the DN of what was refused', async () => {
    const text = MAPPING.replace('sn: name', 'sn: name, manager: { find: "(employeeNumber={boss})" }');
    writeFileSync(mapping, `${text}${CONSTANTS}gone: delete\n`);
    await person('old', '3');
    await fixture.add(`cn=below,uid=old,${PEOPLE}`, { objectClass: 'device', cn: 'below' });
    await person('ada', '1');
    drop.drop('dry.csv', 'id,login,name,boss\n1,ada,ada,7\n2,li,li,8\n');
    const gone = `uid=old,${PEOPLE}: notAllowedOnNonLeaf: `;
    expect((await drop.dry(fixture, { mapping })).join('\n')).to.contain(`  refused: line 0: ${gone}`);
    await drop.pass(fixture, { mapping });
    const { errors } = drop.receipt('error', 'dry.csv');
    expect(errors.map(({ line }) => line)).to.deep.equal([2, 3, 0]);
    expect(errors[2]!.reason.startsWith(gone)).to.equal(true);
    const rejects = drop.text('error', 'dry.csv.rejects.ldif');
    expect(rejects).to.match(/^# line 2: constraintViolation: no entry matches/);
    expect(rejects).to.contain(`\n# the row with id '1', dn: uid=ada,${PEOPLE}\n`);
    expect(rejects).to.contain(`\n# the row with id '2', dn: uid=li,${PEOPLE}\n`);
    expect(rejects).to.contain(`# ${gone}`);
  });

  it('pass over blanks around the names of columns, and name the delimiter where columns lack', async () => {
    writeFileSync(mapping, `${MAPPING}${CONSTANTS}`);
    expect(await twice('id , login,"name "\n1,ada,ada\n')).to.include({ applied: 1, refused: 0 });
    expect((await pass('id;login;name\n1;ada;ada\n')).reason).to.equal(
      "it has no column 'id', 'login', 'name', which the mapping names; its first row has 1, split at the delimiter ',' of the mapping",
    );
    expect((await pass('id,login , login\n1,ada,ada\n')).reason).to.match(/^it has two columns 'login'/);
  });
});
