import { expect } from 'chai';
import type { Modification } from '../../../src/ldap/ldap-types.js';
import type { Request } from '../../../src/protocol/ldap-messages.js';
import { ADMIN, PASSWORD, PEOPLE, SUFFIX } from '../../cli/rowan.js';
import { attributes } from '../directory.js';
import type { RawClient } from '../raw-client.js';
import { type Arena, type Load, USER_PASSWORD, userDn } from './arena.js';

const MIB = 1024 * 1024;
const GROUPS = `ou=groups,${SUFFIX}`;
/** Members of the largest group. */
const MEMBERS = 100_000;
/** Near `limits.messageBytes`. */
const LARGEST = 15.9 * MIB;

/** Users with passwords, whom no other load knows. */
const CHANGING = 1000;
const REFUSED = 1010;

/** Each load makes entries of its own, so that what one has left behind is in nobody's way. */
let made = 0;

const memberDn = (n: number): string => `uid=member.${n},${PEOPLE}`;
const members = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, n) => memberDn(from + n));

function change(operation: Modification['operation'], type: string, values: readonly string[]): Modification {
  return { operation, attribute: attributes({ [type]: values })[0]! };
}

async function does(client: RawClient, request: Request, code = 0): Promise<void> {
  const { final } = await client.request(request);
  expect(final.code, `${request.op}: ${final.message}`).to.equal(code);
}

/** Its whole life, one request after another. */
async function group(arena: Arena): Promise<void> {
  const admin = await arena.admin();
  const user = await arena.user(0);
  const cn = `everybody${made++}`;
  const dn = `cn=${cn},${GROUPS}`;
  const renamed = `cn=all of ${cn},${GROUPS}`;
  const list = attributes({ objectClass: 'groupOfNames', cn, member: members(0, MEMBERS) });
  await does(admin, { op: 'add', dn, attributes: list });
  const byMember = { type: 'equal', attribute: 'member', value: Buffer.from(memberDn(77)) } as const;
  for (const attribute of ['cn', 'member']) {
    const { entries } = await user.search(SUFFIX, { scope: 'sub', filter: byMember, attributes: [attribute] });
    expect(entries.map((entry) => entry.dn)).to.deep.equal([dn]);
  }
  const nobody = { type: 'equal', attribute: 'member', value: Buffer.from(memberDn(MEMBERS + 7)) } as const;
  const unindexed = { type: 'not', filter: nobody } as const;
  const others = await user.search(GROUPS, { scope: 'one', filter: unindexed, attributes: ['cn'] });
  expect(others.entries.map((entry) => entry.dn)).to.deep.equal([dn]);
  await does(user, { op: 'compare', dn, attribute: 'member', value: Buffer.from(memberDn(MEMBERS - 1)) }, 6);
  await does(admin, { op: 'modify', dn, changes: [change('add', 'member', members(MEMBERS, MEMBERS + 1000))] });
  await does(admin, { op: 'modify', dn, changes: [change('delete', 'member', [memberDn(5)])] });
  const newSuperior = undefined;
  await does(admin, { op: 'modifyDN', dn, newRdn: `cn=all of ${cn}`, deleteOldRdn: true, newSuperior });
  await does(admin, { op: 'delete', dn: renamed });
}

function person(uid: string, more: Readonly<Record<string, string | readonly string[]>>): Request {
  const own = { objectClass: ['inetOrgPerson', 'extensibleObject'], uid, cn: uid, sn: uid };
  return { op: 'add', dn: `uid=${uid},${PEOPLE}`, attributes: attributes({ ...own, ...more }) };
}

/** Adds an entry and deletes it, again and again. */
function adding(more: () => Readonly<Record<string, string | readonly string[]>>, connections = 2): Load {
  return async (arena, goes) => {
    const values = more();
    await Promise.all(
      Array.from({ length: connections }, async () => {
        const admin = await arena.admin();
        const uid = `large.${made++}`;
        const request = person(uid, values);
        do {
          await does(admin, request);
          await does(admin, { op: 'delete', dn: `uid=${uid},${PEOPLE}` });
        } while (goes());
      }),
    );
  };
}

/** Changes of one entry that are refused or come to nothing, in one request. */
function modifying(from: number, code: number, changes: () => readonly Modification[]): Load {
  return async (arena, goes) => {
    const made = changes();
    const users = await arena.users(4, from);
    await Promise.all(
      users.map(async (user, n) => {
        do await does(user, { op: 'modify', dn: userDn(from + n), changes: made }, code);
        while (goes());
      }),
    );
  };
}

/** Each of four clients has as many renames of the entry in flight. */
const RENAMES = 100;

async function renames(arena: Arena, goes: () => boolean): Promise<void> {
  const clients = await Promise.all(Array.from({ length: 4 }, () => arena.admin()));
  const uid = `named${made++}`;
  await does(clients[0]!, person(uid, {}));
  const dn = `uid=${uid},${PEOPLE}`;
  const renaming = (n: number): Request => {
    const newRdn = `uid=${n % 2 === 0 ? uid.toUpperCase() : uid}`;
    return { op: 'modifyDN', dn, newRdn, deleteOldRdn: true, newSuperior: undefined };
  };
  await Promise.all(
    clients.map(async (client) => {
      do {
        const ids = client.sendTogether(Array.from({ length: RENAMES }, (_, n) => renaming(n)));
        for (const id of ids) expect((await client.answer(id)).code).to.equal(0);
      } while (goes());
    }),
  );
  await does(clients[0]!, { op: 'delete', dn });
}

/** Small writes of many connections at once. */
async function smallWrites(arena: Arena, goes: () => boolean): Promise<void> {
  const clients = await Promise.all(Array.from({ length: 50 }, () => arena.admin()));
  await Promise.all(
    clients.map(async (client) => {
      const uid = `small.${made++}`;
      do {
        await does(client, person(uid, {}));
        await does(client, { op: 'modify', dn: `uid=${uid},${PEOPLE}`, changes: [change('replace', 'cn', ['other'])] });
        await does(client, { op: 'delete', dn: `uid=${uid},${PEOPLE}` });
      } while (goes());
    }),
  );
}

/** 200 wrong binds at a time, beside the right ones of somebody else. */
async function wrongBinds(arena: Arena, goes: () => boolean): Promise<void> {
  const [right, ...wrong] = await Promise.all(Array.from({ length: 201 }, () => arena.open()));
  const admin = await arena.admin();
  const changes = [change('replace', 'userPassword', ['right password'])];
  await does(admin, { op: 'modify', dn: userDn(300), changes });
  let goesOn = true;
  const storm = wrong.map(async (client, n) => {
    for (let tries = 0; goesOn; tries++)
      expect(await client.bind(userDn(400 + (n % 20)), `wrong ${n} ${tries}`)).to.equal(49);
  });
  do {
    expect(await right!.bind(userDn(300), 'right password')).to.equal(0);
    await does(right!, { op: 'modify', dn: userDn(300), changes });
    await right!.bind('', '');
  } while (goes());
  goesOn = false;
  await Promise.all(storm);
  expect(await admin.bind(ADMIN, PASSWORD)).to.equal(0);
}

/** Writes at their largest. */
export const writeLoads: Readonly<Record<string, Load>> = {
  'a group of 100,000 members added, searched, compared, changed, renamed and deleted': group,
  'adds of the largest message, one value': adding(() => ({ description: 'x'.repeat(LARGEST) })),
  'adds of the largest message, values of 64 KiB': adding(() => ({
    description: Array.from({ length: 240 }, (_, n) => `${n} `.padEnd(65_000, 'x')),
  })),
  'adds of 50,000 values': adding(() => ({ description: Array.from({ length: 50_000 }, (_, n) => `value ${n}`) }), 1),
  'adds of 4,000 indexed values': adding(() => ({ mail: Array.from({ length: 4000 }, (_, n) => `m${n}@example.com`) })),
  'modifies with thousands of clear passwords': modifying(REFUSED, 19, () => [
    change(
      'add',
      'userPassword',
      Array.from({ length: 4000 }, (_, n) => `word ${n}`),
    ),
  ]),
  'modifies with eight clear passwords': modifying(CHANGING, 0, () => [
    change(
      'replace',
      'userPassword',
      // With the first one they can bind when it is tried again.
      Array.from({ length: 8 }, (_, n) => (n === 0 ? USER_PASSWORD : `word ${n}`)),
    ),
  ]),
  'modifies of thousands of changes': modifying(REFUSED, 50, () =>
    Array.from({ length: 4000 }, (_, n) => change(n % 2 ? 'delete' : 'add', 'description', [`value ${n >> 1}`])),
  ),
  'small writes by fifty connections': smallWrites,
  'renames of one entry by four clients': renames,
  '200 wrong binds beside a right one': wrongBinds,
};
