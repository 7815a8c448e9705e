import { type Fixture, type Random, SUFFIX } from '../partition/fixture.js';

export const PEOPLE = `ou=people,${SUFFIX}`;
export const MAPPING = `
key: { column: id, attribute: employeeNumber }
base: ${PEOPLE}
dn: uid={login},${PEOPLE}
attributes: { uid: login, cn: name, sn: name }
`;

const WORDS = ['Ada', 'ada', 'Li, Wei', 'x=y+z', ' pad ', '"q"', 'Zo\u00eb', '', 'auto', '7', '#1'];
const IDS = ['1', '2', '3', '4', '5', '6'];

export function randomMapping(random: Random): string {
  const some = (items: readonly string[]) => items.filter(() => random.chance(0.5));
  const attributes = some([
    'title: a',
    'title;lang-de: b',
    'description: [a, b]',
    'mail: "{a}@{b}"',
    `manager: { find: "(employeeNumber={boss})" }`,
    `seeAlso: ["cn={a},${PEOPLE}", "cn={b},${PEOPLE}"]`,
    'userPassword: a',
    'uidNumber: number',
    'telephoneNumber: number',
  ]);
  const constants = some(['employeeType: staff', 'o: [x, X, y]', 'loginShell: /bin/sh', 'title: None']);
  const always = some(['l: Oslo', 'businessCategory: [a, b]', 'objectClass: pkiUser']);
  const account = random.chance(0.8) ? 'homeDirectory: /h, gidNumber: auto, uidNumber: auto' : 'homeDirectory: /h';
  return `${MAPPING.replace('sn: name', ['sn: name', ...attributes].join(', '))}constants: {
  ${['objectClass: [inetOrgPerson, posixAccount]', account, ...constants].join(', ')} }
always: { ${always.join(', ')} }
gone: ${random.pick(['nothing', '{ attribute: employeeType, value: left }'])}
`;
}

export function randomFile(random: Random): string {
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const rows = IDS.filter(() => random.chance(0.7)).map((id) => {
    const cells = [
      id,
      random.pick(['u1', 'u2', 'u3', 'u4', 'u5', 'u6', 'u7', '']),
      ...[1, 2, 3].map(() => random.pick(WORDS)),
    ];
    return [...cells, random.pick(['1', '2', '99', '', '', '']), random.pick(['auto', '1001', '5', ''])]
      .map(quote)
      .join(',');
  });
  return `id,login,name,a,b,boss,number\n${rows.join('\n')}\n`;
}

/** Adds people with keys 1 to 3, which random files have, too. */
export async function addRandomPeople(random: Random, fixture: Fixture): Promise<string[]> {
  const dns: string[] = [];
  for (const id of ['1', '2', '3'].filter(() => random.chance(0.7))) {
    const dn = `uid=p${id},${PEOPLE}`;
    const more: Record<string, string | string[]> = {};
    for (const type of ['title', 'title;lang-de', 'cn;lang-en', 'description', 'o', 'l', 'employeeType', 'loginShell'])
      if (random.chance(0.4)) more[type] = random.pick(['Ada', 'ADA', 'x', 'left']);
    const account = {
      objectClass: ['inetOrgPerson', 'posixAccount'],
      gidNumber: '5',
      uidNumber: '7',
      homeDirectory: '/',
    };
    const base = more.loginShell || random.chance(0.5) ? account : { objectClass: 'inetOrgPerson' };
    await fixture.add(dn, { ...base, uid: `p${id}`, cn: 'x', sn: 'x', employeeNumber: id, ...more });
    dns.push(dn);
  }
  return dns;
}
