import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import ldapjs from 'ldapjs';
import { parseFilter } from '../../src/ldap/filter-text.js';
import type { Scope } from '../../src/ldap/ldap-types.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { mount } from '../../src/server/mount/mount.js';
import { makeConfig } from '../../src/server/settings/index.js';
import {
  ACTOR,
  attributes,
  ENGINES,
  type Engine,
  type Fixture,
  openFixture,
  Random,
  SYSTEM,
} from '../partition/fixture.js';
import { decodeAddedPassword, encodeApplicationPasswords } from '../protocol/client-values.js';
import { rounds } from '../rounds.js';
import { CHEAP, start } from '../server/directory.js';
import { type Answer, RawClient, searchRequest } from '../server/raw-client.js';
import { isAtOrBelow, isOf, matches, Naive, type PlainAsker, type PlainEntry, parentOf } from './naive.js';
import { LEAVES, PEOPLE, partlySeeing, randomEntries, SUFFIX, UNITS } from './random-rules.js';
import { fill, uuidOf, validRules } from './rules-fixture.js';

/** By what way a client comes. */
type Way = 'tcp' | 'ldapi' | 'application';

/** A directory that is served, and connections that stay open while its rules change. */
class Served {
  readonly fixture: Fixture;
  readonly #open: (way: Way) => Promise<RawClient>;
  readonly #stop: () => Promise<void>;
  readonly ways: readonly Way[];
  /** ldapjs takes no options in filters. */
  readonly filters: readonly string[];
  readonly #clients = new Map<string, RawClient>();
  readonly #passwords = new Map<string, string>();

  constructor(
    fixture: Fixture,
    ways: readonly Way[],
    open: (way: Way) => Promise<RawClient>,
    stop: () => Promise<void>,
  ) {
    this.fixture = fixture;
    this.ways = ways;
    this.filters = ways.includes('ldapi') ? FILTERS : FILTERS.filter((filter) => !filter.includes(';'));
    this.#open = open;
    this.#stop = stop;
  }

  static async rowan(engine: Engine): Promise<Served> {
    const fixture = await openFixture(engine);
    const folder = mkdtempSync(join(tmpdir(), 'rowan-served-'));
    const path = join(folder, 'socket');
    const listen = ['ldap://127.0.0.1:0', `ldapi://${encodeURIComponent(path)}`];
    const running = await start({ ...CHEAP, listen }, 0, fixture.partition);
    const open = async (way: Way): Promise<RawClient> => {
      if (way !== 'ldapi') return RawClient.open(running.port);
      const socket = connect(path);
      await once(socket, 'connect');
      return new RawClient(socket);
    };
    return new Served(fixture, ['tcp', 'ldapi', 'application'], open, async () => {
      await running.stop();
      rmSync(folder, { recursive: true });
    });
  }

  static async mounted(): Promise<Served> {
    const fixture = await openFixture('memory');
    const server = ldapjs.createServer();
    mount(server, fixture.partition, makeConfig({ ...CHEAP, 'passwords.upgradeAtBind': false }));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const port = Number(new URL(server.url).port);
    return new Served(
      fixture,
      ['tcp'],
      () => RawClient.open(port),
      () => new Promise((resolve) => server.close(() => resolve())),
    );
  }

  /** An application password for everybody, while everybody may have one. */
  async prepare(): Promise<void> {
    if (!this.ways.includes('application')) return;
    for (const dn of PEOPLE) {
      const client = await this.as({ dn, way: 'tcp' });
      const value = encodeApplicationPasswords({ action: 'add', name: 'phone' });
      const answer = await client.request({ op: 'extended', oid: ExtendedOid.applicationPasswords, value });
      expect(answer.code, answer.final.message).to.equal(0);
      const password = decodeAddedPassword((answer.final as { value?: Buffer }).value);
      this.#passwords.set(dn, password);
    }
  }

  async as({ dn = '', way }: { dn: string | undefined; way: Way }): Promise<RawClient> {
    const key = `${way} ${dn}`;
    const known = this.#clients.get(key);
    if (known) return known;
    const client = await this.#open(way);
    const password = way === 'application' ? this.#passwords.get(dn)! : 'secret';
    expect(await client.bind(dn, dn === '' ? '' : password), key).to.equal(0);
    this.#clients.set(key, client);
    return client;
  }

  async stop(): Promise<void> {
    for (const client of this.#clients.values()) client.close();
    await this.#stop();
    await this.fixture.close();
  }
}

const ASKED = [
  'cn',
  'sn',
  'title',
  'mail',
  'description',
  'manager',
  'owner',
  'employeeType',
  'uidNumber',
  'userPassword',
];
const FILTERS = [
  '(objectClass=*)',
  '(title=chief)',
  '(cn=*a*)',
  '(name=*l*)',
  '(cn;lang-de=*)',
  '(!(cn;lang-de=ann-de))',
  '(uidNumber>=5)',
  '(!(uidNumber<=3))',
  '(|(sn=s1)(mail=*@example.com)(description=d2))',
  '(&(employeeType=staff)(|(title=clerk)(!(sn=s0))))',
  '(!(|(description=d1)(manager=*)))',
];

/** What is sent, and what the words of the rules say to it. */
interface Trial {
  readonly what: string;
  readonly request: Request;
  readonly code: number;
  /** Of a search: values by attribute by DN. */
  readonly found?: Record<string, Record<string, readonly string[]>>;
  /** Takes a write that was allowed back. */
  readonly undo?: () => Promise<unknown>;
  /** How much it decides. */
  readonly weight: number;
}

class Trials {
  readonly #random: Random;
  readonly #fixture: Fixture;
  readonly #naive: Naive;
  readonly #asker: PlainAsker;
  readonly #filters: readonly string[];

  constructor(random: Random, { fixture, filters }: Served, naive: Naive, asker: PlainAsker) {
    this.#random = random;
    this.#fixture = fixture;
    this.#filters = filters;
    this.#naive = naive;
    this.#asker = asker;
  }

  #entry(dn: string): PlainEntry | undefined {
    return this.#naive.entries.get(dn);
  }

  #sees(entry: PlainEntry | undefined): entry is PlainEntry {
    return entry !== undefined && this.#naive.onEntry(this.#asker, entry, 'see');
  }

  #may(entry: PlainEntry, right: string, attribute?: string): boolean {
    return attribute === undefined
      ? this.#naive.onEntry(this.#asker, entry, right)
      : this.#naive.onAttribute(this.#asker, entry, attribute, right);
  }

  #ever(right: string, attribute?: string): boolean {
    return this.#naive.isEver(this.#asker, right, attribute);
  }

  next(): Trial {
    const kinds = [this.#search, this.#search, this.#compare, this.#modify, this.#delete, this.#add, this.#rename];
    return this.#random.pick(kinds).call(this);
  }

  #anyDn(): string {
    const dn = this.#random.pick([...this.#naive.entries.keys()]);
    return this.#random.chance(0.15) ? `cn=nobody,${dn}` : dn;
  }

  #search(): Trial {
    const base = this.#anyDn();
    const scope = this.#random.pick<Scope>(['base', 'one', 'sub', 'sub']);
    const filter = this.#random.pick(this.#filters);
    const request = searchRequest(base, { scope, filter: parseFilter(filter), attributes: ASKED });
    const found: Record<string, Record<string, readonly string[]>> = {};
    const what = `search ${base} ${scope} ${filter}`;
    if (!this.#ever('see')) return { what, request, code: 50, found, weight: 1 };
    if (!this.#sees(this.#entry(base))) return { what, request, code: 32, found, weight: 1 };
    let weight = 0;
    for (const entry of this.#naive.entries.values()) {
      const { dn, values } = entry;
      const isIn = scope === 'base' ? dn === base : scope === 'one' ? parentOf(dn) === base : isAtOrBelow(dn, base);
      if (!isIn) continue;
      weight++;
      if (!this.#sees(entry) || matches(filter, entry, (name) => this.#may(entry, 'search', name)) !== true) continue;
      const shown = [...values].filter(
        ([name]) => ASKED.some((asked) => isOf(name, asked)) && this.#may(entry, 'read', name),
      );
      found[dn] = Object.fromEntries(shown.map(([name, all]) => [name, [...all].sort()]));
      weight += ASKED.length;
    }
    return { what, request, code: 0, found, weight };
  }

  #compare(): Trial {
    const dn = this.#anyDn();
    const attribute = this.#random.pick(['title', 'mail', 'cn', 'cn;lang-de', 'name', 'description']);
    const value = this.#random.pick(['chief', 'd1', 'ann', 'ann-de', 'ann@example.com']);
    const request: Request = { op: 'compare', dn, attribute, value: Buffer.from(value) };
    const what = `compare ${attribute} of ${dn} with ${value}`;
    const entry = this.#entry(dn);
    if (!this.#ever('see')) return { what, request, code: 50, weight: 1 };
    if (!this.#sees(entry)) return { what, request, code: 32, weight: 1 };
    if (!this.#may(entry, 'compare', attribute)) return { what, request, code: 50, weight: 1 };
    const values = [...entry.values]
      .filter(([name]) => isOf(name, attribute) && this.#may(entry, 'compare', name))
      .flatMap(([, all]) => all);
    return { what, request, code: values.length === 0 ? 16 : values.includes(value) ? 6 : 5, weight: 1 };
  }

  #modify(): Trial {
    const dn = this.#random.pick([...PEOPLE, ...LEAVES]);
    const entry = this.#entry(dn)!;
    const attribute = this.#random.pick(['title', 'mail', 'description', 'cn;lang-de']);
    const operation = this.#random.pick(['add', 'replace', 'delete'] as const);
    const before = entry.values.get(attribute) ?? [];
    const values = operation === 'delete' ? before.slice(0, 1) : ['x'];
    const changes = [{ operation, attribute: { type: attribute, values: values.map((one) => Buffer.from(one)) } }];
    const code = !this.#ever(operation, attribute)
      ? 50
      : !this.#sees(entry)
        ? 32
        : !this.#may(entry, operation, attribute)
          ? 50
          : values.length === 0
            ? 16
            : 0;
    const back = [{ operation: 'replace' as const, attribute: attributes({ [attribute]: before })[0]! }];
    const { partition } = this.#fixture;
    return {
      what: `${operation} ${attribute} of ${dn}`,
      request: { op: 'modify', dn, changes },
      code,
      undo: () => partition.modify(this.#fixture.dn(dn), back, ACTOR),
      weight: 1,
    };
  }

  #delete(): Trial {
    const dn = this.#random.pick(LEAVES);
    const entry = this.#entry(dn)!;
    const code = !this.#ever('remove') ? 50 : !this.#sees(entry) ? 32 : this.#may(entry, 'remove') ? 0 : 50;
    const undo = () =>
      this.#fixture.add(
        dn,
        { ...Object.fromEntries([...entry.values].map(([name, all]) => [name, [...all]])), entryUUID: uuidOf(dn) },
        SYSTEM,
      );
    return { what: `delete ${dn}`, request: { op: 'delete', dn }, code, undo, weight: 1 };
  }

  #add(): Trial {
    const parent = this.#random.chance(0.1) ? `ou=nowhere,${SUFFIX}` : this.#random.pick(UNITS);
    const dn = `cn=new,${parent}`;
    const values = new Map<string, string[]>([
      ['objectclass', ['inetOrgPerson']],
      ['cn', ['new']],
      ['sn', ['new']],
      ['employeetype', [this.#random.pick(['staff', 'guest'])]],
      ...(this.#random.chance(0.5) ? [['title', ['chief']] as [string, string[]]] : []),
    ]);
    const added = { dn, values };
    const names = [...values.keys()];
    const above = this.#entry(parent);
    const code =
      !this.#ever('create') || names.some((name) => !this.#ever('add', name))
        ? 50
        : !this.#sees(above)
          ? 32
          : !this.#may(above, 'create') || names.some((name) => !this.#may(added, 'add', name))
            ? 50
            : 0;
    return {
      what: `add ${dn}`,
      request: { op: 'add', dn, attributes: attributes(Object.fromEntries(values)) },
      code,
      undo: () => this.#fixture.delete(dn),
      weight: 1,
    };
  }

  #rename(): Trial {
    const dn = this.#random.pick(LEAVES);
    const entry = this.#entry(dn)!;
    const parent = parentOf(dn);
    const rdn = dn.slice(0, dn.indexOf(','));
    const newSuperior = this.#random.chance(0.6) ? this.#random.pick([...UNITS, `ou=nowhere,${SUFFIX}`]) : undefined;
    const superior = newSuperior === undefined ? undefined : this.#entry(newSuperior);
    const moves = newSuperior !== undefined && newSuperior !== parent;
    const renames = !moves || this.#random.chance(0.5);
    const newRdn = renames ? 'cn=renamed' : rdn;
    const deleteOldRdn = this.#random.chance(0.5);
    const lacks =
      (renames && !this.#may(entry, 'rename')) ||
      (moves && !(this.#may(entry, 'moveOut') && superior && this.#may(superior, 'moveIn'))) ||
      (renames && !this.#may(entry, 'add', 'cn')) ||
      (renames && deleteOldRdn && !this.#may(entry, 'delete', 'cn'));
    const code =
      !this.#ever('rename') && !this.#ever('moveOut')
        ? 50
        : !this.#sees(entry)
          ? 32
          : !this.#may(entry, 'rename') && !this.#may(entry, 'moveOut')
            ? 50
            : newSuperior !== undefined && !this.#sees(superior)
              ? 32
              : lacks
                ? 50
                : 0;
    const now = this.#fixture.dn(`${newRdn},${newSuperior ?? parent}`);
    return {
      what: `rename ${dn} ${JSON.stringify({ newRdn, deleteOldRdn, newSuperior })}`,
      request: { op: 'modifyDN', dn, newRdn, deleteOldRdn, newSuperior },
      code,
      undo: () => this.#fixture.partition.rename(now, { newRdn: rdn, deleteOldRdn: true, newSuperior: parent }, ACTOR),
      weight: 1,
    };
  }
}

function foundIn({ entries }: Answer): Trial['found'] {
  return Object.fromEntries(
    entries.map(({ dn, attributes: all }) => [
      dn,
      Object.fromEntries([...all].map(([name, values]) => [name.toLowerCase(), values.map(String).sort()])),
    ]),
  );
}

/** The nearest entry above that is there for who asks. */
function matchedDN(dn: string, naive: Naive, asker: PlainAsker): string {
  for (let above = dn; above.includes(','); above = parentOf(above)) {
    const entry = naive.entries.get(above);
    if (above !== dn && entry && naive.onEntry(asker, entry, 'see')) return above;
  }
  return '';
}

const WIDE = ['add', 'delete', 'replace', 'create', 'remove', 'rename', 'moveIn', 'moveOut'];

/** 5,500 decisions with memory, lmdb, delayed and the mount. */
const FRONTS: readonly (readonly [name: string, decisions: number, open: () => Promise<Served>])[] = [
  ...ENGINES.map((engine) => {
    const decisions = engine === 'hbase' ? rounds(500, 2000) : rounds(engine === 'memory' ? 2500 : 1000, 20_000);
    return [`RowanServer, ${engine}`, decisions, () => Served.rowan(engine)] as const;
  }),
  ['mounted on ldapjs', rounds(1000, 20_000), () => Served.mounted()],
];

for (const [name, wanted, open] of FRONTS) {
  describe(`access rules on a server (${name})`, () => {
    const random = new Random();
    let served: Served;
    let entries: Map<string, PlainEntry>;
    before(async function () {
      this.timeout(600_000);
      served = await open();
      entries = randomEntries(random);
      await fill(served.fixture, entries);
      await served.prepare();
    });
    after(() => served?.stop());

    it(`a server answers clients by random access rules as the naive evaluation does (seed ${random.seed})`, async () => {
      const { fixture } = served;
      const { partition } = fixture;
      const codes = new Map<number, number>();
      let decisions = 0;
      while (decisions < wanted) {
        const some = validRules(random, fixture, 1 + random.int(8));
        const wide = {
          name: 'wide',
          who: random.pick([{ users: true as const }, { strength: 128 }, { not: { anonymous: true as const } }]),
          allow: ['view', ...WIDE.filter(() => random.chance(0.85))],
        };
        const rules = [
          ...some,
          ...(random.chance(0.5) ? [partlySeeing(random)] : []),
          ...(random.chance(0.75) ? [wide] : []),
        ];
        await partition.setAccess(JSON.stringify({ rules }), 'test', partition.accessVersion);
        const naive = new Naive(rules, entries);
        for (let n = 0; n < 5; n++) {
          const dn = random.chance(0.85) ? random.pick(PEOPLE) : undefined;
          const way = dn === undefined ? served.ways[0]! : random.pick(served.ways);
          const asker: PlainAsker = {
            dn,
            ...(way === 'ldapi' ? { address: undefined, strength: 256 } : { address: '127.0.0.1', strength: 0 }),
            mechanism: way === 'application' ? way : 'simple',
          };
          const client = await served.as({ dn, way });
          const trials = new Trials(random, served, naive, asker);
          const where = `seed ${random.seed}, ${JSON.stringify({ asker, rules })}`;
          for (let k = 0; k < 10; k++) {
            const { what, request, code, found, undo, weight } = trials.next();
            const answer = await client.request(request);
            const said = `${what}: ${answer.final.message}; ${where}`;
            expect(answer.code, said).to.equal(code);
            if (found) expect(foundIn(answer), said).to.deep.equal(found);
            if (code === 32 && 'dn' in request && request.op === 'compare')
              expect(answer.final.matchedDN, said).to.equal(matchedDN(request.dn, naive, asker));
            if (code === 0) await undo?.();
            decisions += weight;
            codes.set(code, (codes.get(code) ?? 0) + 1);
          }
        }
      }
      for (const code of [0, 32, 50]) expect(codes.get(code), `${code}`).to.be.greaterThan(0);
    }).timeout(600_000);
  });
}
