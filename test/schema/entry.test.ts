import { expect } from 'chai';
import { attributes, bytes, refused, schema } from './helpers.js';

const PERSON = {
  objectClass: ['top', 'person', 'organizationalPerson', 'inetOrgPerson'],
  cn: 'Horatio Hornblower',
  sn: 'Hornblower',
  mail: ['hh@example.com', 'horatio@example.com'],
  description: 'An admiral',
  userPassword: '{SSHA}secret',
};
const RDN = schema.parseRdn('cn=horatio  hornblower');

function check(entry: Record<string, string | readonly string[]>, rdn = RDN, options = {}) {
  return schema.checkEntry(attributes(entry), rdn, options);
}

function without(name: keyof typeof PERSON): Record<string, string | readonly string[]> {
  return Object.fromEntries(Object.entries(PERSON).filter(([key]) => key !== name));
}

describe('entry checks', () => {
  it('let a right entry pass and give its structural class', () => {
    expect(check(PERSON).name).to.equal('inetOrgPerson');
    expect(check({ ...PERSON, objectClass: 'inetOrgPerson' }).name).to.equal('inetOrgPerson');
    expect(check({ ...PERSON, objectClass: ['INETORGPERSON', '2.5.6.6'] }).name).to.equal('inetOrgPerson');
    expect(check({ ...PERSON, 'description;lang-de': 'Ein Admiral' }).name).to.equal('inetOrgPerson');
  });

  const classes: [string, string | string[], RegExp][] = [
    [
      'unknown',
      ['person', 'inetOrgPersom'],
      /object class 'inetOrgPersom' is not in the schema; did you mean 'inetOrgPerson'/,
    ],
    ['absent structural', ['top', 'dcObject'], /no structural object class \(it has: top, dcObject\); add one/],
    ['abstract only', 'top', /no structural object class/],
    ['two chains', ['person', 'organization'], /'person' and 'organization' do not derive from one another/],
    ['two chains from one', ['inetOrgPerson', 'residentialPerson'], /do not derive from one another/],
  ];
  for (const [what, objectClass, message] of classes) {
    it(`refuse classes: ${what}`, () =>
      refused('objectClassViolation', message, () => check({ ...PERSON, objectClass })));
  }

  it('refuse an entry without objectClass and one that repeats a class', () => {
    refused('objectClassViolation', /no attribute 'objectClass'/, () => check(without('objectClass')));
    refused('attributeOrValueExists', /object class 'person' is given twice/, () =>
      check({ ...PERSON, objectClass: ['person', '2.5.6.6'] }),
    );
  });

  it('take several superiors as one chain', () => {
    const pilot = { objectClass: ['pilotOrganization', 'organization', 'organizationalUnit'], o: 'a', ou: 'b' };
    expect(check(pilot, schema.parseRdn('o=a')).name).to.equal('pilotOrganization');
  });

  it('ask for what classes require, inherited too', () => {
    refused(
      'objectClassViolation',
      /object class '(?:inetOrgP|organizationalP|p)erson' requires attribute 'sn'; add it/,
      () => check(without('sn')),
    );
    refused('objectClassViolation', /requires attribute 'sn'/, () =>
      check({ ...without('sn'), objectClass: 'inetOrgPerson' }),
    );
    refused('objectClassViolation', /object class 'posixAccount' requires attribute 'uid'/, () =>
      check({
        ...PERSON,
        objectClass: ['inetOrgPerson', 'posixAccount'],
        uidNumber: '1',
        gidNumber: '1',
        homeDirectory: '/',
      }),
    );
  });

  it('ask anew at every entry', () => {
    check(PERSON);
    refused('objectClassViolation', /requires attribute 'sn'/, () => check(without('sn')));
    check(PERSON);
    refused('objectClassViolation', /requires attribute 'cn'/, () => check(without('cn')));
  });

  it('refuse what no class allows, and say which would', () => {
    refused(
      'objectClassViolation',
      /'homeDirectory' is not allowed by the object classes top, person, .*; add object class 'posixAccount' or leave it out/,
      () => check({ ...PERSON, homeDirectory: '/home/hh' }),
    );
    refused('objectClassViolation', /'userPassword' is not .*; add object class 'simpleSecurityObject' or leave/, () =>
      check({ objectClass: 'device', cn: 'horatio hornblower', userPassword: 'x' }),
    );
    refused('objectClassViolation', /'name' is not allowed/, () => check({ ...PERSON, name: 'x' }));
  });

  it('allow every user attribute with extensibleObject', () => {
    const objectClass = [...PERSON.objectClass, 'extensibleObject'];
    expect(check({ ...PERSON, objectClass, homeDirectory: '/home/hh', dc: 'x' }).name).to.equal('inetOrgPerson');
  });

  it('allow operational attributes, but the server-maintained ones to the server alone', () => {
    expect(check({ ...PERSON, pwdReset: 'TRUE' }).name).to.equal('inetOrgPerson');
    const maintained = { ...PERSON, entryUUID: '597ae2f6-16a6-1027-98f4-d28b5365dc14' };
    refused('constraintViolation', /'entryUUID' is maintained by the server/, () => check(maintained));
    expect(check(maintained, RDN, { system: true }).name).to.equal('inetOrgPerson');
  });

  it('want the RDN among the values', () => {
    refused('namingViolation', /value of 'cn' in the entry's RDN/, () => check(PERSON, schema.parseRdn('cn=other')));
    refused('namingViolation', /value of 'uid'/, () => check(PERSON, schema.parseRdn('cn=horatio hornblower+uid=hh')));
    refused('namingViolation', /value of 'name'/, () => check(PERSON, schema.parseRdn('name=horatio hornblower')));
    expect(check(PERSON, schema.parseRdn('sn=HORNBLOWER+mail=horatio@EXAMPLE.com')).name).to.equal('inetOrgPerson');
    expect(check(PERSON, schema.parseRdn('cn=other'), { naming: false }).name).to.equal('inetOrgPerson');
    refused('namingViolation', /./, () => check({ ...without('cn'), 'cn;x-a': 'b', cn: 'c' }, schema.parseRdn('cn=b')));
  });

  it('let the structural class change into itself only', () => {
    const person = schema.objectClass('person')!;
    schema.checkObjectClassChange(person, person);
    refused('objectClassModsProhibited', /'person' and cannot become 'inetOrgPerson'/, () =>
      schema.checkObjectClassChange(person, schema.objectClass('inetOrgPerson')!),
    );
  });

  it('make the sets of classes again when more come than are kept', () => {
    const auxiliary = [...schema.objectClasses()].filter((node) => node.kind === 'AUXILIARY').map((node) => node.name);
    for (let i = 0; i < 3000; i++) {
      const some = auxiliary.filter((_, k) => k < 12 && (i >> k) & 1);
      const objectClass = ['inetOrgPerson', ...some];
      try {
        expect(check({ ...PERSON, objectClass }).name).to.equal('inetOrgPerson');
      } catch (error) {
        expect((error as Error).message).to.match(/requires attribute/);
      }
    }
  });
});

describe('value checks', () => {
  function values(name: string, ...list: (string | Buffer)[]): void {
    schema.checkValues(
      schema.requireDescription(name),
      list.map((value) => Buffer.from(value)),
    );
  }

  it('name the attribute, the value and what is wrong, but not the value', () => {
    refused('invalidAttributeSyntax', /^the value of 'uidNumber' is not an integer: byte 2 is not a digit$/, () =>
      values('uidNumber', '1x'),
    );
    refused('invalidAttributeSyntax', /^value 2 of 'mail' byte 1 is not an ASCII character$/, () =>
      values('mail', 'a', 'é'),
    );
    refused('invalidAttributeSyntax', /^the value of 'member' is not a DN: invalid DN at byte 1/, () =>
      values('member', 'x'),
    );
    refused('invalidAttributeSyntax', /^the value of 'sn;lang-de' is empty/, () => values('sn;lang-de', ''));
    refused('protocolError', /'cn' has no value/, () => values('cn'));
  });

  it('count values and find equal ones', () => {
    refused('constraintViolation', /'uidNumber' has 2 values; it may have one/, () => values('uidNumber', '1', '2'));
    refused('attributeOrValueExists', /value 3 of 'cn' equals an earlier one/, () => values('cn', 'a', 'b', ' A '));
    refused('attributeOrValueExists', /value 2 of 'member'/, () => values('member', 'cn=a,dc=b', 'CN=A , DC=B'));
    refused('attributeOrValueExists', /value 2 of 'jpegPhoto'/, () => values('jpegPhoto', 'xx', 'xx'));
    refused('attributeOrValueExists', /value 1001 of 'memberUid'/, () =>
      values('memberUid', ...Array.from({ length: 1000 }, (_, i) => `u${i}`), 'u500'),
    );
    values('cn', 'a', 'b', 'c');
    values('memberUid', 'a', 'A');
    values('description', ...Array.from({ length: 1000 }, (_, i) => `d${i}`));
  });

  it('compare octets where text has no form', () => {
    values('cn', '\ue000', '\ue001');
    refused('attributeOrValueExists', /value 2/, () => values('cn', '\ue000', '\ue000'));
  });

  it('take values longer than the bound that a definition hints at', () => {
    expect(schema.attribute('userPassword')!.maxLength).to.equal(128);
    values('userPassword', bytes('x'.repeat(500)));
  });
});
