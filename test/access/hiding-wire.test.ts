import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import type { DerefAliases, Scope } from '../../src/ldap/ldap-types.js';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import type { Control, Request } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { ACTOR, attributes, type Engine, type Fixture, openFixture, Random, uuidText } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';
import { rounds } from '../rounds.js';
import { CHEAP, type Running, start } from '../server/directory.js';
import { type Answer, RawClient, searchRequest } from '../server/raw-client.js';
import { type Entries, LOOSE, otherOf } from './hidden.js';
import { Naive, type PlainAsker, parentOf } from './naive.js';
import { PEOPLE, partlySeeing, randomEntries, randomPointers, SUFFIX, UNITS } from './random-rules.js';
import { fill, validRules } from './rules-fixture.js';

/** A directory that is served, and what one client gets of it, byte for byte. */
class Side {
  readonly fixture: Fixture;
  readonly #running: Running;
  readonly #client: RawClient;
  /** Of the suffix, which the directory has made itself. */
  readonly #uuid: string;
  #bytes: Buffer[] = [];

  private constructor(fixture: Fixture, running: Running, client: RawClient, uuid: string) {
    this.fixture = fixture;
    this.#running = running;
    this.#client = client;
    this.#uuid = uuid;
    client.socket.on('data', (chunk: Buffer) => this.#bytes.push(Buffer.from(chunk)));
  }

  static async open(fixture: Fixture, entries: Entries, rules: string, dn: string | undefined): Promise<Side> {
    await fill(fixture, entries);
    await fixture.partition.setAccess(rules, 'test', 0);
    const running = await start({ ...CHEAP }, 0, fixture.partition);
    const client = await RawClient.open(running.port);
    expect(await client.bind(dn ?? '', dn === undefined ? '' : 'secret')).to.equal(0);
    return new Side(fixture, running, client, uuidText((await fixture.read(SUFFIX)).id));
  }

  /** All bytes of the answer. Of cookies, which nobody can read, only how long they are. */
  async ask(
    request: Request,
    controls: readonly Control[] = [],
  ): Promise<{ bytes: string; answer: Answer; cookie: Buffer }> {
    this.#bytes = [];
    const answer = await this.#client.request(request, controls);
    const bytes = Buffer.concat(this.#bytes);
    const paged = answer.controls.find(({ oid }) => oid === ControlOid.pagedResults);
    const cookie = paged ? Buffer.from(decodePagedResults(paged.value).cookie) : Buffer.alloc(0);
    if (cookie.length > 0) bytes.fill(0, bytes.lastIndexOf(cookie), bytes.lastIndexOf(cookie) + cookie.length);
    return { bytes: bytes.toString('latin1').replaceAll(this.#uuid, 'UUID'), answer, cookie };
  }

  async close(): Promise<void> {
    this.#client.close();
    await this.#running.stop();
  }
}

const FILTERS = [
  '(objectClass=*)',
  '(cn=new1)',
  '(description=other1)',
  '(!(description=other1))',
  '(mail=*example.com)',
  '(uidNumber>=3)',
  '(|(sn=s1)(sn=s2)(sn=other1))',
  '(&(objectClass=inetOrgPerson)(!(mail=ann@example.com)))',
  '(hasSubordinates=TRUE)',
  '(numSubordinates>=3)',
  `(memberOf=cn=secret,${UNITS[2]})`,
  '(memberOf=*)',
  `(member=${PEOPLE[0]})`,
  '(:caseIgnoreMatch:=other2)',
  '(cn:dn:=ann)',
  '(userPassword=*)',
];
/** What a directory makes itself is asked for where it is alike in both: entryUUID is given, times are not. */
const SHOWN = ['*', 'memberOf', 'numSubordinates', 'hasSubordinates', 'entryUUID', 'entryDN', 'userPassword'];

interface WriteRequest {
  readonly request: Request;
  readonly controls?: readonly Control[];
  /** Entries of a page. */
  readonly page?: number;
  /** Takes back what was written. */
  readonly undo?: (side: Side, entries: Entries) => Promise<unknown>;
}

function randomSearch(random: Random, names: readonly string[]): WriteRequest {
  const request = searchRequest(random.pick(names), {
    scope: random.pick<Scope>(['base', 'one', 'sub', 'sub']),
    deref: random.pick<DerefAliases>(['never', 'never', 'searching', 'always']),
    filter: parseFilter(random.pick(FILTERS)),
    attributes: SHOWN,
    sizeLimit: random.chance(0.15) ? 1 + random.int(4) : 0,
  });
  const controls = random.chance(0.3) ? [{ oid: ControlOid.manageDsaIT, critical: true, value: undefined }] : [];
  return { request, controls, ...(random.chance(0.35) && { page: 1 + random.int(4) }) };
}

/** A write that may not be done or meets nothing, or one of a value that who writes may know. */
function randomWrite(
  random: Random,
  names: readonly string[],
  naive: Naive,
  asker: PlainAsker,
): WriteRequest | undefined {
  const dn = random.pick(names);
  const entry = naive.entries.get(dn);
  const sees = (on = entry): boolean => on !== undefined && naive.onEntry(asker, on, 'see');
  const may = (right: string, on = entry): boolean => sees(on) && naive.onEntry(asker, on!, right);
  switch (random.int(4)) {
    case 0: {
      const type = random.pick(LOOSE);
      const operation = random.pick(['add', 'delete', 'replace'] as const);
      const isAllowed = sees() && naive.onAttribute(asker, entry!, type, operation);
      const isKnown = entry && ['read', 'search', 'compare'].some((use) => naive.onAttribute(asker, entry, type, use));
      if (isAllowed && !(isKnown && PEOPLE.includes(dn))) return undefined;
      const values = operation === 'delete' && random.chance(0.5) ? [] : [Buffer.from('other1')];
      const undo = ({ fixture }: Side, entries: Entries) => {
        const before = attributes({ [type]: [...(entries.get(dn)!.values.get(type) ?? [])] })[0]!;
        return fixture.partition.modify(fixture.dn(dn), [{ operation: 'replace', attribute: before }], ACTOR);
      };
      return { request: { op: 'modify', dn, changes: [{ operation, attribute: { type, values } }] }, undo };
    }
    case 1:
      return may('remove') ? undefined : { request: { op: 'delete', dn } };
    case 2: {
      const newSuperior = random.chance(0.5) ? random.pick(names) : undefined;
      const isPlace = newSuperior === undefined || may('moveIn', naive.entries.get(newSuperior));
      if (may('rename') && isPlace) return undefined;
      return { request: { op: 'modifyDN', dn, newRdn: 'cn=gone', deleteOldRdn: true, newSuperior } };
    }
    default: {
      if (may('create', naive.entries.get(parentOf(dn)))) return undefined;
      return { request: { op: 'add', dn, attributes: attributes({ objectClass: 'inetOrgPerson', cn: 'x', sn: 'x' }) } };
    }
  }
}

function randomAsked(
  random: Random,
  names: readonly string[],
  naive: Naive,
  asker: PlainAsker,
): WriteRequest | undefined {
  if (random.chance(0.6)) return randomSearch(random, names);
  if (random.chance(0.5)) return randomWrite(random, names, naive, asker);
  const attribute = random.pick([
    ...LOOSE,
    'cn',
    'hasSubordinates',
    'numSubordinates',
    'entryDN',
    'memberOf',
    'member',
  ]);
  const value = Buffer.from(random.pick(['other1', 'd1', 'TRUE', '3', 'ann', `cn=secret,${UNITS[2]}`]));
  return { request: { op: 'compare', dn: random.pick(names), attribute, value } };
}

/** Asks both the same, page by page; fails where their answers differ in a byte. */
async function compareSides(sides: readonly Side[], { request, controls = [], page }: WriteRequest, said: string) {
  let cookies: Buffer[] = sides.map(() => Buffer.alloc(0));
  for (;;) {
    const answers = await Promise.all(
      sides.map((side, i) => {
        const value = page ? encodePagedResults({ size: page, cookie: cookies[i]! }) : undefined;
        return side.ask(
          request,
          value ? [...controls, { oid: ControlOid.pagedResults, critical: true, value }] : controls,
        );
      }),
    );
    expect(answers[1]!.bytes, said).to.equal(answers[0]!.bytes);
    cookies = answers.map(({ cookie }) => cookie);
    if (cookies[0]!.length === 0) return answers[0]!.answer;
  }
}

async function tryRound(engine: Engine, random: Random, count: number): Promise<void> {
  const entries = randomEntries(random);
  for (const pointer of randomPointers(random)) entries.set(pointer.dn, pointer);
  const fixtures = [await openFixture(engine), await openFixture(engine)] as const;
  const sides: Side[] = [];
  try {
    const some = validRules(random, fixtures[0], 1 + random.int(8));
    const rules = random.chance(0.7) ? [partlySeeing(random), ...some] : some;
    const dn = random.chance(0.85) ? random.pick(PEOPLE) : undefined;
    const asker: PlainAsker = { dn, address: '127.0.0.1', strength: 0 };
    const naive = new Naive(rules, entries);
    const both = [entries, otherOf(entries, naive, asker, random)];
    for (const [i, fixture] of fixtures.entries())
      sides.push(await Side.open(fixture, both[i]!, JSON.stringify({ rules }), dn));
    const there = new Set(both.flatMap((one) => [...one.keys()]));
    const names = [...there, `ou=no,${SUFFIX}`, ...[...there].map((name) => `cn=nobody,${name}`)];
    for (let n = 0; n < count; n++) {
      const asked = randomAsked(random, names, naive, asker);
      if (!asked) continue;
      const hidden = [...both[1]!.keys()].filter((name) => !entries.has(name));
      const said = `seed ${random.seed}, ${JSON.stringify({ asked, asker, rules, hidden })}`;
      const { code } = await compareSides(sides, asked, said);
      if (code === 0 && asked.undo) for (const [i, side] of sides.entries()) await asked.undo(side, both[i]!);
    }
  } finally {
    for (const side of sides) await side.close();
    for (const fixture of fixtures) await fixture.close();
  }
}

// Over HBase two directories take a while to be made.
for (const engine of NEAR_ENGINES) {
  describe(`hidden entries on the wire (${engine})`, () => {
    const random = new Random();
    it(`two directories that differ only in hidden data answer byte for byte alike (seed ${random.seed})`, async () => {
      const times = rounds(1, engine === 'hbase' ? 5 : 60);
      for (let round = 0; round < times; round++) await tryRound(engine, random, engine === 'hbase' ? 40 : 120);
    }).timeout(600_000);
  });
}
