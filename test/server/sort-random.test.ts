import { rmSync } from 'node:fs';
import { expect } from 'chai';
import type { Partition } from '../../src/partition/index.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { ENGINES, type Engine, openStore, Random } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { ADMIN, attributes, emptyPartition, PEOPLE, type Running, SUFFIX, start, testSchema } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';
import {
  cookieOf,
  pageControl,
  parseKey,
  sortControl,
  sortResult,
  windowControl,
  windowResult,
} from './sort-requests.js';

/** Users may not search by some names, nor read titles, nor see some entries. */
const ACCESS = `
rules:
  - name: users read
    who: { users: true }
    allow: [view]
  - name: no search
    who: { users: true }
    to: { filter: "(employeeType=shy)", attributes: [givenName] }
    deny: [search]
  - name: no titles
    who: { users: true }
    to: { filter: "(employeeType=untitled)", attributes: [title] }
    deny: [read]
  - name: hidden
    who: { users: true }
    to: { filter: "(employeeType=hidden)" }
    deny: [see]
`;

const USER = { dn: `uid=reader,${PEOPLE}`, password: 'reader secret' };
const ENTRIES = 320;
const WORDS = ['ann', 'Bob', 'ann lee', 'a', 'ab', 'B', 'zoe', 'x1', 'x 2', 'Ann', 'mid', 'MIDDLE', 'o'];
const TYPES = ['plain', 'plain', 'plain', 'shy', 'untitled', 'hidden'];

interface Person {
  readonly dn: string;
  readonly values: Readonly<Record<string, readonly string[]>>;
}

function person(random: Random, n: number): Person {
  const some = (p: number): string[] =>
    random.chance(p) ? [...new Set([random.pick(WORDS), random.pick(WORDS)].map((word) => word.toLowerCase()))] : [];
  const number = String(random.int(30) - 10);
  const values: Record<string, string[]> = {
    objectClass: ['inetOrgPerson', 'posixAccount'],
    uid: [`u${n}`],
    cn: [`Person ${n}`],
    sn: [random.pick(WORDS)],
    givenName: some(0.7),
    title: some(0.5),
    'description;lang-de': some(0.3),
    description: some(0.3).map((word) => `${word} ${n % 5}`),
    employeeType: [random.pick(TYPES)],
    uidNumber: [number],
    gidNumber: ['5'],
    homeDirectory: ['/'],
  };
  for (const name of Object.keys(values)) if (values[name]!.length === 0) delete values[name];
  return { dn: `uid=u${n},${PEOPLE}`, values };
}

const KEYS = [
  ...['sn', 'givenName', 'title', 'description', 'description;lang-de', 'uidNumber', 'uid', '2.5.4.4'],
  ...['sn:caseIgnoreOrderingMatch', 'title:2.5.13.6', 'employeeNumber', 'employeeType'],
];
const FILTERS = ['(objectClass=person)', '(objectClass=inetOrgPerson)', '(sn=*)', '(givenName=a*)', '(title=*)'];

/** The least value of an entry for a key, as the viewer may use it; undefined: none. */
function leastOf({ values }: Person, key: string, isUser: boolean): string | number | undefined {
  const { attribute, rule } = parseKey(key);
  const name = attribute === '2.5.4.4' ? 'sn' : attribute;
  const type = values.employeeType![0];
  if (isUser && ((type === 'shy' && name === 'givenName') || (type === 'untitled' && name === 'title')))
    return undefined;
  const all = Object.entries(values).flatMap(([text, list]) =>
    text === name || text.startsWith(`${name};`) ? list : [],
  );
  if (name === 'uidNumber') return all.length > 0 ? Math.min(...all.map(Number)) : undefined;
  const fold = (text: string): string => (rule === '2.5.13.6' ? text : text.toLowerCase());
  return all.map(fold).sort()[0];
}

function compareBy(keys: readonly string[], isUser: boolean): (a: Person, b: Person) => number {
  return (a, b) => {
    for (const key of keys) {
      const [x, y] = [leastOf(a, key, isUser), leastOf(b, key, isUser)];
      const order = x === y ? 0 : x === undefined ? 1 : y === undefined ? -1 : x < y ? -1 : 1;
      if (order !== 0) return key.startsWith('-') ? -order : order;
    }
    return 0;
  };
}

function matches({ values }: Person, filter: string, isUser: boolean): boolean {
  const type = values.employeeType![0];
  if (isUser && type === 'hidden') return false;
  if (filter === '(givenName=a*)')
    return !(isUser && type === 'shy') && (values.givenName ?? []).some((v) => v[0] === 'a');
  // A title that may not be read may be searched by.
  if (filter === '(title=*)') return values.title !== undefined;
  return true;
}

describe('server: sorted searches agree with a naive sort', () => {
  for (const engine of ENGINES) suite(engine);
});

function suite(engine: Engine): void {
  describe(engine, () => {
    const random = new Random();
    let partition: Partition;
    let folder: string | undefined;
    let running: Running;
    const clients: { readonly client: RawClient; readonly isUser: boolean }[] = [];
    const people = new Map<string, Person>();

    before(async () => {
      const opened = await openStore(engine);
      folder = opened.folder;
      partition = await emptyPartition(opened.store as Parameters<typeof emptyPartition>[0], ACCESS);
      for (let n = 0; n < ENTRIES; n++) people.set(`uid=u${n},${PEOPLE}`, person(random, n));
      const reader = { objectClass: ['account', 'simpleSecurityObject'], uid: 'reader' };
      const userPassword = hashPasswordFast(Buffer.from(USER.password)).toString();
      const all = [
        { dn: SUFFIX, values: { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' } },
        { dn: PEOPLE, values: { objectClass: 'organizationalUnit', ou: 'people' } },
        { dn: USER.dn, values: { ...reader, userPassword } },
        ...people.values(),
      ].map(({ dn, values }, i) => ({ line: i + 1, dn, attributes: attributes(values) }));
      async function* chunks() {
        yield all;
      }
      const onReject = ({ reason }: { reason: string }): never => expect.fail(reason);
      await partition.load(chunks(), { dn: ADMIN.dn, system: true }, { onReject, continue: true });
      running = await start({}, 0, partition);
      for (const { dn, password, isUser } of [
        { ...ADMIN, isUser: false },
        { ...USER, isUser: true },
      ]) {
        const client = await RawClient.open(running.port);
        expect(await client.bind(dn, password)).to.equal(0);
        clients.push({ client, isUser });
      }
    });

    after(async () => {
      for (const { client } of clients) client.close();
      await running?.stop();
      await partition?.close();
      if (folder) rmSync(folder, { recursive: true, force: true });
    });

    interface Case {
      readonly client: RawClient;
      readonly isUser: boolean;
      readonly keys: readonly string[];
      readonly filter: string;
      /** The entries in an order that is right. */
      readonly wanted: readonly Person[];
      readonly context: string;
    }

    function randomCase(): Case {
      const { client, isUser } = random.pick(clients);
      const keys = Array.from(
        { length: random.pick([1, 1, 2, 3]) },
        () => (random.chance(0.4) ? '-' : '') + random.pick(KEYS),
      );
      const filter = random.pick(FILTERS);
      const wanted = [...people.values()].filter((one) => matches(one, filter, isUser)).sort(compareBy(keys, isUser));
      const context = `ROWAN_SEED=${random.seed} ${isUser ? 'user' : 'admin'} ${keys.join('/')} ${filter}`;
      return { client, isUser, keys, filter, wanted, context };
    }

    function ask({ client, keys, filter }: Case, controls: Parameters<RawClient['search']>[2] = [], sizeLimit = 0) {
      const [, attribute, initial] = /^\((\w+)=(\w*)\*?\)$/.exec(filter)!;
      const asked = filter.startsWith('(objectClass')
        ? ({ type: 'equal', attribute: attribute!, value: Buffer.from(initial!) } as const)
        : initial
          ? ({
              type: 'substring',
              attribute: attribute!,
              initial: Buffer.from(initial),
              any: [],
              final: undefined,
            } as const)
          : ({ type: 'present', attribute: attribute! } as const);
      const isWhole = random.chance(0.5);
      const scope = isWhole ? 'sub' : random.pick(['one', 'sub'] as const);
      const both = { type: 'and', filters: [asked, { type: 'present', attribute: 'cn' }] } as const;
      const parts = { scope, filter: isWhole ? asked : both, attributes: ['1.1'], sizeLimit };
      return client.search(isWhole ? SUFFIX : PEOPLE, parts, [sortControl(keys.join('/')), ...controls]);
    }

    /** Entries with equal keys may be in any order. */
    function expectOrder(dns: readonly string[], wanted: readonly Person[], { keys, isUser, context }: Case): void {
      const text = (one: Person | undefined) => keys.map((key) => String(one && leastOf(one, key, isUser))).join('|');
      expect(
        dns.map((dn) => text(people.get(dn))),
        context,
      ).to.deep.equal(wanted.map(text));
      expect(new Set(dns).size, context).to.equal(dns.length);
    }

    const dnsOf = (answer: Answer): string[] => answer.entries.map(({ dn }) => dn);

    const times = engine === 'hbase' ? rounds(3, 100) : rounds(8, 300);

    it('whole, and cut by a size limit', async () => {
      for (let i = 0; i < times; i++) {
        const one = randomCase();
        const sizeLimit = random.pick([0, 0, 5, 100]);
        const answer = await ask(one, [], sizeLimit);
        const isCut = sizeLimit > 0 && one.wanted.length > sizeLimit;
        expect(answer.code, one.context).to.equal(isCut ? 4 : 0);
        expect(sortResult(answer)?.code, one.context).to.equal(0);
        expectOrder(dnsOf(answer), isCut ? one.wanted.slice(0, sizeLimit) : one.wanted, one);
        if (!isCut) expect(dnsOf(answer).sort(), one.context).to.deep.equal(one.wanted.map(({ dn }) => dn).sort());
      }
    });

    async function pages(one: Case, size: number, between: () => Promise<void>): Promise<string[]> {
      const dns: string[] = [];
      let cookie = Buffer.alloc(0) as Buffer;
      const scoped = { ...one, client: one.client };
      const seed = random.chance(0.5);
      do {
        const answer = await askPage(scoped, size, cookie, seed);
        expect(answer.code, one.context).to.equal(0);
        dns.push(...dnsOf(answer));
        cookie = cookieOf(answer);
        if (cookie.length > 0) await between();
      } while (cookie.length > 0);
      return dns;
    }

    function askPage({ client, keys }: Case, size: number, cookie: Buffer, isOne: boolean): Promise<Answer> {
      const filter = { type: 'equal', attribute: 'objectClass', value: Buffer.from('inetOrgPerson') } as const;
      const parts = { scope: isOne ? 'one' : 'sub', filter, attributes: ['1.1'] } as const;
      return client.search(PEOPLE, parts, [sortControl(keys.join('/')), pageControl(size, cookie)]);
    }

    it('in pages', async () => {
      for (let i = 0; i < times / 2; i++) {
        const one = { ...randomCase(), filter: '(objectClass=inetOrgPerson)' };
        const wanted = [...people.values()]
          .filter((p) => matches(p, one.filter, one.isUser))
          .sort(compareBy(one.keys, one.isUser));
        const dns = await pages(one, random.pick([7, 50, 100, 1000]), async () => undefined);
        expectOrder(dns, wanted, one);
      }
    });

    it('in windows by offset and by value', async () => {
      for (let i = 0; i < times; i++) {
        const one = randomCase();
        const [before, after] = [random.int(5), random.int(20)];
        const count = one.wanted.length;
        const first = one.keys[0]!;
        const byValue = random.chance(0.5) && !/uidNumber/.test(first);
        const value = random.pick(WORDS);
        const bound: Person = {
          dn: '',
          values: { employeeType: ['plain'], [parseKey(first).attribute.replace('2.5.4.4', 'sn')]: [value] },
        };
        const offset = 1 + random.int(count);
        const position = byValue
          ? one.wanted.filter((p) => compareBy([first], one.isUser)(p, bound) < 0).length + 1
          : offset;
        const answer = await ask(one, [
          windowControl(before, after, byValue ? value : [offset, random.pick([0, count])]),
        ]);
        expect(answer.code, one.context).to.equal(0);
        const context = `${one.context} ${before} ${after} ${byValue ? value : offset}`;
        expect(windowResult(answer), context).to.deep.equal({ position, count, code: 0 });
        expectOrder(dnsOf(answer), one.wanted.slice(Math.max(0, position - 1 - before), position + after), {
          ...one,
          context,
        });
      }
    });

    it('in pages while others write: nothing comes twice, and what stays is in order', async () => {
      for (let i = 0; i < times / 4; i++) {
        const one = randomCase();
        const moved = new Set<string>();
        const write = async (): Promise<void> => {
          const dn = `uid=u${random.int(ENTRIES)},${PEOPLE}`;
          const old = people.get(dn)!;
          const values = {
            ...person(random, Number(/u(\d+)/.exec(dn)![1])).values,
            employeeType: old.values.employeeType!,
          };
          const changes = [...new Set([...Object.keys(old.values), ...Object.keys(values)])].flatMap((type) =>
            ['objectClass', 'uid'].includes(type)
              ? []
              : [
                  {
                    operation: 'replace' as const,
                    attribute: { type, values: ((values as Person['values'])[type] ?? []).map((v) => Buffer.from(v)) },
                  },
                ],
          );
          await partition.modify(testSchema().parseDn(dn), changes, { dn: ADMIN.dn });
          people.set(dn, { dn, values });
          moved.add(dn);
        };
        const dns = await pages({ ...one }, random.pick([7, 50]), write);
        expect(new Set(dns).size, one.context).to.equal(dns.length);
        const wanted = [...people.values()]
          .filter((p) => !moved.has(p.dn) && matches(p, '(objectClass=inetOrgPerson)', one.isUser))
          .sort(compareBy(one.keys, one.isUser));
        expectOrder(
          dns.filter((dn) => !moved.has(dn)),
          wanted,
          one,
        );
      }
    });
  });
}
