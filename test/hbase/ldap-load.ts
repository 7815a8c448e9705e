import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ADMIN, PASSWORD, SUFFIX } from '../cli/rowan.js';
import { Random } from '../partition/fixture.js';
import { containerOf, SHARED, WRITERS } from '../partition/kill-model.js';
import { attributes } from '../server/directory.js';
import { type Answer, RawClient } from '../server/raw-client.js';

/** The entry whose uidNumber all writers increment. */
const COUNTER = `cn=counter,${SUFFIX}`;
/** Entries that one writer has at most. */
const MOST = 12;
/** Of a hundred operations so many are followed by a look at the other front end. */
const LOOKS = 30;

/** What is to be there: description (mail likewise) by DN. */
type Entries = Map<string, string>;

/** A request, and what it takes away and puts there. */
interface Change {
  readonly request: Request;
  readonly gone?: string;
  readonly come?: readonly [dn: string, text: string];
}

const equals = (attribute: string, value: string) => ({ type: 'equal', attribute, value: Buffer.from(value) }) as const;

async function connect(port: number): Promise<RawClient> {
  const client = await RawClient.open(port);
  expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
  return client;
}

async function does(client: RawClient, request: Request): Promise<Answer> {
  const answer = await client.request(request);
  expect(answer.code, `${JSON.stringify(request).slice(0, 200)}: ${answer.final.message}`).to.equal(0);
  return answer;
}

/** Makes the entries that the writers work below, over LDAP. */
export async function prepareLoad(port: number): Promise<void> {
  const client = await connect(port);
  const add = (dn: string, values: Record<string, string | readonly string[]>) =>
    does(client, { op: 'add', dn, attributes: attributes(values) });
  await add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
  await add(SHARED, { objectClass: 'organizationalUnit', ou: 'shared' });
  for (let k = 0; k < WRITERS; k++)
    await add(containerOf(k, false), { objectClass: 'organizationalUnit', ou: `w${k}` });
  await add(COUNTER, {
    objectClass: ['account', 'posixAccount'],
    ...{ uid: 'c', cn: 'counter', uidNumber: '0', gidNumber: '0', homeDirectory: '/' },
  });
  client.close();
}

/** One who writes at one front end and looks at another; any answer but success ends it. */
class Writer {
  readonly entries: Entries = new Map();
  increments = 0;
  readonly #number: number;
  readonly #random: Random;
  readonly #front: RawClient;
  readonly #other: RawClient;
  #named = 0;

  constructor(number: number, random: Random, clients: readonly [RawClient, RawClient]) {
    this.#number = number;
    this.#random = random;
    [this.#front, this.#other] = clients;
  }

  async step(): Promise<void> {
    const change = this.#choose();
    await does(this.#front, change.request);
    const { request, gone, come } = change;
    if (gone !== undefined) this.entries.delete(gone);
    if (come) this.entries.set(...come);
    if (request.op === 'modify' && request.dn === COUNTER) this.increments++;
    if (this.#random.int(100) < LOOKS) await this.#look(change);
  }

  /** What was acknowledged here is to be seen there. */
  async #look({ gone, come }: Change): Promise<void> {
    if (come) {
      const found = await this.#find(equals('mail', come[1]));
      expect(found, `what was put at ${come[0]}`).to.deep.equal([come[0]]);
    } else if (gone !== undefined) {
      expect(await this.#find(equals('cn', gone.slice(3, gone.indexOf(','))))).to.deep.equal([]);
    }
  }

  async #find(filter: ReturnType<typeof equals>): Promise<string[]> {
    const limits = { sizeLimit: 0, timeLimit: 0, typesOnly: false } as const;
    const request = { base: SUFFIX, scope: 'sub', deref: 'never', ...limits, filter, attributes: ['1.1'] } as const;
    const { entries } = await does(this.#other, { op: 'search', ...request });
    return entries.map(({ dn }) => dn);
  }

  #choose(): Change {
    const random = this.#random;
    const [dn, text] = random.pick([...this.entries]) ?? [];
    const dice = random.int(100);
    const name = `cn=w${this.#number}-${this.#named++}`;
    const fresh = `${this.#number}-${this.#named}-${'x'.repeat(random.int(50))}`;
    if (dn === undefined || text === undefined || (dice < 30 && this.entries.size < MOST))
      return this.#add(name, fresh);
    if (dice < 50) return set(dn, fresh);
    if (dice < 60) return rename(dn, name, dn.slice(dn.indexOf(',') + 1), text);
    const there = containerOf(this.#number, !dn.endsWith(`,${SHARED}`));
    if (dice < 70) return rename(dn, dn.slice(0, dn.indexOf(',')), there, text);
    if (dice < 85) return { request: { op: 'delete', dn }, gone: dn };
    return { request: modify(COUNTER, 'increment', 'uidNumber', '1') };
  }

  #add(name: string, text: string): Change {
    const dn = `${name},${containerOf(this.#number, false)}`;
    const values = { objectClass: 'inetOrgPerson', sn: `w${this.#number}`, description: text, mail: text };
    return { request: { op: 'add', dn, attributes: attributes(values) }, come: [dn, text] };
  }
}

function modify(
  dn: string,
  operation: 'replace' | 'increment',
  type: string,
  value: string,
): Request & { op: 'modify' } {
  const [attribute] = attributes({ [type]: value });
  return { op: 'modify', dn, changes: [{ operation, attribute: attribute! }] };
}

function set(dn: string, text: string): Change {
  const request = modify(dn, 'replace', 'description', text);
  const { changes } = modify(dn, 'replace', 'mail', text);
  return { request: { ...request, changes: [...request.changes, ...changes] }, come: [dn, text] };
}

function rename(dn: string, newRdn: string, newSuperior: string, text: string): Change {
  const request = { op: 'modifyDN', dn, newRdn, deleteOldRdn: true, newSuperior } as const;
  return { request, gone: dn, come: [`${newRdn},${newSuperior}`, text] };
}

/** Eight writers over LDAP at two front ends, who know what they were acknowledged. */
export class LdapLoad {
  readonly #writers: readonly Writer[];
  readonly #clients: readonly RawClient[];
  /** Steps of each writer. */
  readonly #steps: number[];
  readonly #running: Promise<unknown>;
  #stopped = false;

  static async start(ports: readonly [number, number], random: Random): Promise<LdapLoad> {
    const clients: [RawClient, RawClient][] = [];
    for (let k = 0; k < WRITERS; k++) clients.push([await connect(ports[k % 2]!), await connect(ports[(k + 1) % 2]!)]);
    return new LdapLoad(clients, random);
  }

  private constructor(clients: readonly [RawClient, RawClient][], random: Random) {
    this.#clients = clients.flat();
    this.#writers = clients.map((both, k) => new Writer(k, new Random(random.int(2 ** 31)), both));
    this.#steps = clients.map(() => 0);
    this.#running = Promise.all(this.#writers.map((writer, k) => this.#write(writer, k)));
    // It is `more` and `stop` that tell.
    this.#running.catch(() => {
      this.#stopped = true;
    });
  }

  async #write(writer: Writer, k: number): Promise<void> {
    for (; !this.#stopped; this.#steps[k]!++) await writer.step();
  }

  /** Resolves when each writer has done so many steps more; rejects with a writer's failure. */
  async more(count: number): Promise<void> {
    const wanted = this.#steps.map((steps) => steps + count);
    while (this.#steps.some((steps, k) => steps < wanted[k]!)) await Promise.race([sleep(5), this.#running]);
  }

  /** Lets everybody end the step that was begun. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    for (const client of this.#clients) client.close();
  }

  /** Once it has stopped: what was acknowledged is there and nothing else, by the tree and by indexes. */
  async expectKept(port: number): Promise<void> {
    const client = await connect(port);
    for (const [k, writer] of this.#writers.entries()) {
      const found: Entries = new Map();
      const filter = equals('sn', `w${k}`);
      for (const base of [containerOf(k, false), SHARED])
        for (const { dn, attributes: has } of (await client.search(base, { scope: 'one', filter })).entries) {
          const text = String(has.get('description'));
          expect(String(has.get('mail')), `description and mail of ${dn}`).to.equal(text);
          expect(String(has.get('cn'))).to.equal(dn.slice(3, dn.indexOf(',')));
          found.set(dn, text);
        }
      expect([...found].sort(), `writer ${k}`).to.deep.equal([...writer.entries].sort());
      const indexed = await client.search(SUFFIX, { scope: 'sub', filter });
      expect(indexed.entries.map(({ dn }) => dn).sort()).to.deep.equal([...found.keys()].sort());
    }
    const [counter] = (await client.search(COUNTER)).entries;
    const increments = this.#writers.reduce((sum, writer) => sum + writer.increments, 0);
    expect(String(counter!.attributes.get('uidNumber'))).to.equal(String(increments));
    client.close();
  }
}
