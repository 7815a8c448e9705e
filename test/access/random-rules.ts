import type { Random } from '../partition/fixture.js';
import type { PlainAsker, PlainEntry, PlainRule, PlainWho } from './naive.js';

export const SUFFIX = 'dc=example,dc=com';
export const UNITS = [`ou=people,${SUFFIX}`, `ou=staff,ou=people,${SUFFIX}`, `ou=groups,${SUFFIX}`];
export const NAMES = ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay', 'gil', 'hal'];
export const GROUPS = ['chiefs', 'admins', 'helpdesk', 'all'].map((name) => `cn=${name},ou=groups,${SUFFIX}`);
export const personDn = (name: string, n: number): string => `cn=${name},${UNITS[n % 2]}`;
export const PEOPLE = NAMES.map(personDn);
/** Nobody names these. */
export const LEAVES = ['kim', 'lou', 'max'].map(personDn);

function entry(dn: string, values: Record<string, string | string[]>): PlainEntry {
  const all = Object.entries(values).map(([name, value]) => [name.toLowerCase(), [value].flat()] as const);
  return { dn, values: new Map(all) };
}

/** Units, people who point to each other, a dynamic group, and groups in groups. */
export function randomEntries(random: Random): Map<string, PlainEntry> {
  const entries = [
    entry(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' }),
    ...UNITS.map((dn) => entry(dn, { objectClass: 'organizationalUnit', ou: /^ou=([^,]*)/.exec(dn)![1]! })),
    ...[...PEOPLE, ...LEAVES].map((dn) => {
      const name = /^cn=([^,]*)/.exec(dn)![1]!;
      return entry(dn, {
        objectClass: ['inetOrgPerson', 'posixAccount'],
        cn: name,
        uid: name,
        uidNumber: `${random.int(9)}`,
        gidNumber: '1',
        homeDirectory: '/home',
        ...(PEOPLE.includes(dn) && random.chance(0.5) && { 'cn;lang-de': `${name}-de` }),
        sn: `s${random.int(3)}`,
        title: random.pick(['chief', 'clerk']),
        employeeType: random.pick(['staff', 'guest']),
        mail: `${name}@example.com`,
        description: `d${random.int(3)}`,
        manager: random.pick(PEOPLE),
        userPassword: '{CLEARTEXT}secret',
      });
    }),
    entry(GROUPS[0]!, {
      objectClass: 'groupOfURLs',
      cn: 'chiefs',
      owner: random.pick(PEOPLE),
      memberURL: `ldap:///${UNITS[0]}??sub?(title=chief)`,
    }),
    ...GROUPS.slice(1).map((dn, n) =>
      entry(dn, {
        objectClass: 'groupOfNames',
        cn: /^cn=([^,]*)/.exec(dn)![1]!,
        owner: random.pick(PEOPLE),
        member: [...PEOPLE.filter(() => random.chance(0.3)), GROUPS[n]!, random.pick(PEOPLE)].filter(
          (dn2, i, all) => all.indexOf(dn2) === i,
        ),
      }),
    ),
  ];
  return new Map(entries.map((one) => [one.dn, one]));
}

export const POINTERS = ['alias', 'referral'].map((name) => `cn=${name},${UNITS[0]}`);

/** An alias for somebody, and a referral. */
export function randomPointers(random: Random): PlainEntry[] {
  const [alias, referral] = POINTERS;
  return [
    entry(alias!, {
      objectClass: ['alias', 'extensibleObject'],
      cn: 'alias',
      aliasedObjectName: random.pick([...PEOPLE, UNITS[1]!]),
    }),
    entry(referral!, { objectClass: ['referral', 'extensibleObject'], cn: 'referral', ref: 'ldap://other/o=x' }),
  ];
}

const FILTERS = [
  '(employeeType=staff)',
  '(!(employeeType=staff))',
  '(&(objectClass=inetOrgPerson)(title=chief))',
  '(objectClass=groupOfNames)',
  '(title=*)',
  '(|(cn;lang-de=*)(uidNumber=1))',
  '(uid=*a*)',
  '(uidNumber>=4)',
  '(|(&(title=clerk)(uidNumber<=6))(!(cn=*l)))',
];
const RIGHTS = [
  ...['see', 'read', 'search', 'compare', 'add', 'delete', 'replace', 'create', 'remove', 'rename'],
  ...['moveIn', 'moveOut', 'proxy', 'manage', 'view', 'write', 'view', 'view', 'write'],
];
const ATTRIBUTES = [
  '*',
  '+',
  'entry',
  'children',
  'cn',
  'cn;lang-de',
  'sn',
  'name',
  'mail',
  'title',
  'userPassword',
  '@person',
  'member',
];

function some<T>(random: Random, from: readonly T[], most: number): T[] {
  const picked = Array.from({ length: 1 + random.int(most) }, () => random.pick(from));
  return picked.filter((one, i) => picked.indexOf(one) === i);
}

function randomWho(random: Random, deep = false): PlainWho {
  switch (random.int(deep ? 8 : 11)) {
    case 0:
      return { anonymous: true };
    case 1:
      return { users: true };
    case 2:
      return { self: true };
    case 3:
      return { dn: some(random, PEOPLE, 3) };
    case 4:
      return { subtree: random.pick(UNITS) };
    case 5:
      return { group: some(random, GROUPS, 2) };
    case 6:
      return { attribute: random.pick(['manager', 'owner', 'member', 'distinguishedName']) };
    case 7:
      return {
        network: random.pick(['10.0.0.0/8', '10.1.0.0/16', '127.0.0.1', '2001:db8:0:0::/64', '2001:db8:0:0:0:0:0:1']),
      };
    case 8:
      return { users: true, strength: random.pick([0, 1, 128]) };
    case 9:
      return {
        users: true,
        not: random.pick([randomWho(random, true), [randomWho(random, true), randomWho(random, true)]]),
      };
    default:
      return { users: true, mechanism: random.pick(['simple', 'application']) };
  }
}

export function randomRule(random: Random, n: number): PlainRule {
  const places = [...UNITS, SUFFIX, ...PEOPLE, ...GROUPS];
  const where = random.pick(['base', 'one', 'subtree', 'subtree', 'subtree', undefined]);
  const attributes = random.chance(0.5) ? some(random, ATTRIBUTES, 4) : undefined;
  return {
    name: `rule ${n}`,
    who: randomWho(random),
    to: {
      ...(where && { [where]: where === 'base' ? some(random, places, 2) : random.pick([SUFFIX, ...UNITS]) }),
      ...(random.chance(0.35) && { filter: random.pick(FILTERS) }),
      ...(attributes && { attributes }),
    },
    [random.chance(0.2) ? 'deny' : 'allow']: some(random, RIGHTS, 4),
  };
}

/** Entries are seen, and of their attributes some: a good deal is hidden and a good deal is not. */
export function partlySeeing(random: Random): PlainRule {
  const attributes = [
    'entry',
    'cn',
    ...some(random, ['sn', 'mail', 'title', 'objectClass', 'member', '@person', '+'], 3),
  ];
  const where = random.chance(0.5) ? { subtree: random.pick(UNITS) } : {};
  const filter = random.chance(0.5) ? { filter: random.pick(FILTERS) } : {};
  return { name: 'partly', who: {}, to: { ...where, ...filter, attributes }, allow: ['view'] };
}

export function randomAsker(random: Random): PlainAsker {
  const dn = random.chance(0.85) ? random.pick(PEOPLE) : undefined;
  const address = random.pick([
    ...['10.1.2.3', '10.2.3.4', '127.0.0.1', '2001:db8:0:0:0:0:0:1', '2001:db8:0:1:0:0:0:1'],
    undefined,
  ]);
  const mechanism = random.pick(['simple', 'simple', 'application'] as const);
  return { dn, address, strength: address === undefined ? 256 : random.pick([0, 0, 128, 256]), mechanism };
}
