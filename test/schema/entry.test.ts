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
  it('a valid entry passes the check, which returns its structural class', () => {
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
    it(`object classes are refused: ${what}`, () =>
      refused('objectClassViolation', message, () => check({ ...PERSON, objectClass })));
  }

  it('an entry without objectClass, or with a duplicate class, is refused', () => {
    refused('objectClassViolation', /no attribute 'objectClass'/, () => check(without('objectClass')));
    refused('attributeOrValueExists', /object class 'person' is given twice/, () =>
      check({ ...PERSON, objectClass: ['person', '2.5.6.6'] }),
    );
  });

  it('a class with several superiors counts as one chain', () => {
    const pilot = { objectClass: ['pilotOrganization', 'organization', 'organizationalUnit'], o: 'a', ou: 'b' };
    expect(check(pilot, schema.parseRdn('o=a')).name).to.equal('pilotOrganization');
  });

  it('an entry needs the attributes that its classes require, including inherited requirements', () => {
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

  it('required attributes are checked in every entry anew', () => {
    check(PERSON);
    refused('objectClassViolation', /requires attribute 'sn'/, () => check(without('sn')));
    check(PERSON);
    refused('objectClassViolation', /requires attribute 'cn'/, () => check(without('cn')));
  });

  it('an attribute that no class allows is refused, with a suggested class', () => {
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

  it('extensibleObject allows every user attribute', () => {
    const objectClass = [...PERSON.objectClass, 'extensibleObject'];
    expect(check({ ...PERSON, objectClass, homeDirectory: '/home/hh', dc: 'x' }).name).to.equal('inetOrgPerson');
  });

  it('operational attributes are allowed, but server-maintained attributes only to the server', () => {
    expect(check({ ...PERSON, pwdReset: 'TRUE' }).name).to.equal('inetOrgPerson');
    const maintained = { ...PERSON, entryUUID: '597ae2f6-16a6-1027-98f4-d28b5365dc14' };
    refused('constraintViolation', /'entryUUID' is maintained by the server/, () => check(maintained));
    expect(check(maintained, RDN, { system: true }).name).to.equal('inetOrgPerson');
  });

  it('an entry has to contain the values of its RDN', () => {
    refused('namingViolation', /value of 'cn' in the entry's RDN/, () => check(PERSON, schema.parseRdn('cn=other')));
    refused('namingViolation', /value of 'uid'/, () => check(PERSON, schema.parseRdn('cn=horatio hornblower+uid=hh')));
    refused('namingViolation', /value of 'name'/, () => check(PERSON, schema.parseRdn('name=horatio hornblower')));
    expect(check(PERSON, schema.parseRdn('sn=HORNBLOWER+mail=horatio@EXAMPLE.com')).name).to.equal('inetOrgPerson');
    expect(check(PERSON, schema.parseRdn('cn=other'), { naming: false }).name).to.equal('inetOrgPerson');
    refused('namingViolation', /./, () => check({ ...without('cn'), 'cn;x-a': 'b', cn: 'c' }, schema.parseRdn('cn=b')));
  });

  it('the structural class of an entry cannot change', () => {
    const person = schema.objectClass('person')!;
    schema.checkObjectClassChange(person, person);
    refused('objectClassModsProhibited', /'person' and cannot become 'inetOrgPerson'/, () =>
      schema.checkObjectClassChange(person, schema.objectClass('inetOrgPerson')!),
    );
  });

  it('class sets stay correct when more are used than the cache holds', () => {
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

  it('the error for a value names the attribute, the number of the value and the problem, but not the value', () => {
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

  it('the number of values and duplicate values are checked', () => {
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

  it('values without a normal form are compared by their octets', () => {
    values('cn', '\ue000', '\ue001');
    refused('attributeOrValueExists', /value 2/, () => values('cn', '\ue000', '\ue000'));
  });

  it('values longer than the bound in the definition are accepted', () => {
    expect(schema.attribute('userPassword')!.maxLength).to.equal(128);
    values('userPassword', bytes('x'.repeat(500)));
  });
});
