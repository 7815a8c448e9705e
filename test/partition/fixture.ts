import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { LdapError, type ResultName } from '../../src/ldap/ldap-error.js';
import type { DerefAliases, Filter, Modification, PartialAttribute, Scope } from '../../src/ldap/ldap-types.js';
import { initDirectory, Partition, UNRESTRICTED } from '../../src/partition/index.js';
import type { Breach, Entry } from '../../src/partition/model/directory-types.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, MASTER_TABLE } from '../../src/partition/model/tables.js';
import { uuidText } from '../../src/partition/model/uuid.js';
import type { Use, ViewedEntry, Viewer } from '../../src/partition/model/viewer.js';
import type { Order } from '../../src/partition/read/order/order.js';
import type { SearchOutcome, SearchParams } from '../../src/partition/read/search-params.js';
import { dnOf } from '../../src/partition/tree/master-row.js';
import { Schema } from '../../src/schema/index.js';
import type { AttributeType, Dn } from '../../src/schema/schema-types.js';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { isPresent } from '../require.js';
import { delayedStore } from '../store/delayed.js';

export const SUFFIX = 'dc=example,dc=com';
export const OTHER = 'o=other';
export const ACTOR = { dn: 'cn=admin,dc=example,dc=com' };
export const SYSTEM = { ...ACTOR, system: true };

/** `delayed`: memory, but that no call answers at once, as none of a store beyond a network does. */
export type Engine = 'memory' | 'lmdb' | 'delayed' | 'hbase';
/** `ROWAN_ENGINES` names others. HBase where the machine can: test/hbase says so where it cannot. */
export const ENGINES: readonly Engine[] = (process.env.ROWAN_ENGINES?.split(',') as Engine[] | undefined) ?? [
  'memory',
  'lmdb',
  'delayed',
  ...(isPresent('hbase') ? (['hbase'] as const) : []),
];

let loaded: Schema | undefined;
export function testSchema(): Schema {
  loaded ??= Schema.load();
  return loaded;
}

export type Values = Readonly<Record<string, string | Buffer | readonly (string | Buffer)[]>>;

export function attributes(values: Values): PartialAttribute[] {
  return Object.entries(values).map(([type, given]) => ({
    type,
    values: (Array.isArray(given) ? given : [given]).map((v: string | Buffer) =>
      typeof v === 'string' ? Buffer.from(v) : v,
    ),
  }));
}

export function change(
  operation: Modification['operation'],
  type: string,
  ...values: (string | Buffer)[]
): Modification {
  return { operation, attribute: attributes({ [type]: values })[0]! };
}

export interface SearchGiven {
  readonly base?: string;
  readonly scope?: Scope;
  readonly filter?: string | Filter;
  readonly deref?: DerefAliases;
  readonly manageDsaIT?: boolean;
  readonly viewer?: Viewer;
  readonly order?: Order;
  readonly sizeLimit?: number;
  readonly deadline?: number;
  readonly lookLimit?: number;
  readonly signal?: { readonly aborted: boolean };
  readonly pageSize?: number;
  readonly resume?: Buffer;
  readonly directGroupsOnly?: boolean;
  readonly otherThreads?: { hasTime(here: number): boolean };
}

export interface Found {
  readonly dns: string[];
  readonly references: string[][];
  readonly outcome: SearchOutcome;
}

/** DN of an entry that is about to be seen. */
export function viewedDn({ row, parent }: ViewedEntry): string {
  return dnOf(row, parent).toString();
}

/** Sees all entries, but of each not what `hidden` says. */
export function hiding(hidden: (type: AttributeType, entry: ViewedEntry, use: Use) => boolean): Viewer {
  return { sightOf: (entry) => ({ all: () => false, allows: (use, { type }) => !hidden(type, entry, use) }) };
}

/** An open directory and short ways to work with it. */
export class Fixture {
  readonly store: Store;
  readonly partition: Partition;
  readonly folder: string | undefined;

  constructor(store: Store, partition: Partition, folder: string | undefined) {
    this.store = store;
    this.partition = partition;
    this.folder = folder;
  }

  dn(text: string): Dn {
    return this.partition.schema.parseDn(text);
  }

  add(
    dn: string,
    values: Values,
    actor: { dn: string; system?: boolean } = ACTOR,
    manageDsaIT = false,
  ): Promise<Buffer> {
    return this.partition.add(this.dn(dn), attributes(values), actor, { manageDsaIT });
  }

  modify(dn: string, ...changes: Modification[]): Promise<void> {
    return this.partition.modify(this.dn(dn), changes, ACTOR);
  }

  rename(dn: string, newRdn: string, options: { deleteOldRdn?: boolean; newSuperior?: string } = {}): Promise<void> {
    return this.partition.rename(
      this.dn(dn),
      { newRdn, deleteOldRdn: options.deleteOldRdn ?? true, newSuperior: options.newSuperior },
      ACTOR,
    );
  }

  delete(dn: string): Promise<void> {
    return this.partition.delete(this.dn(dn), ACTOR);
  }

  read(dn: string, large = false): Promise<Entry> {
    return this.partition.read(this.dn(dn), { large, manageDsaIT: true });
  }

  /** Values of one attribute (its description as stored, any case) as text. */
  async values(dn: string, description: string): Promise<string[]> {
    const entry = await this.read(dn);
    const found = entry.attributes.find((a) => a.description.toLowerCase() === description.toLowerCase());
    return found?.values.map((v) => v.toString()) ?? [];
  }

  /** Stores values behind the partition's back, as older versions did. */
  async put(dn: string, description: string, ...values: (string | Buffer)[]): Promise<void> {
    const { id: key } = await this.read(dn);
    const put = values.map((value, i) => ({
      family: MASTER.upAttributes,
      qualifier: valueQualifier(description, i),
      value: Buffer.from(value as string),
    }));
    await this.store.commit({ steps: [{ table: MASTER_TABLE.name, key, put }], decisive: 0 });
  }

  async person(cn: string, parent = SUFFIX, more: Values = {}): Promise<Buffer> {
    return this.add(`cn=${cn},${parent}`, { objectClass: 'inetOrgPerson', cn, sn: cn, ...more });
  }

  /** In bulk; every one has to be taken. */
  async load(entries: readonly { readonly dn: string; readonly values: Values }[]): Promise<void> {
    const given = entries.map(({ dn, values }, n) => ({ line: n + 1, dn, attributes: attributes(values) }));
    async function* chunks() {
      yield given;
    }
    const onReject = ({ reason }: { reason: string }): never => expect.fail(reason);
    await this.partition.load(chunks(), SYSTEM, { onReject, continue: true });
  }

  async unit(ou: string, parent = SUFFIX): Promise<Buffer> {
    return this.add(`ou=${ou},${parent}`, { objectClass: 'organizationalUnit', ou });
  }

  params(given: SearchGiven): SearchParams {
    const filter = given.filter ?? '(objectClass=*)';
    return {
      base: this.dn(given.base ?? SUFFIX),
      scope: given.scope ?? 'sub',
      deref: given.deref ?? 'never',
      filter: typeof filter === 'string' ? parseFilter(filter) : filter,
      viewer: given.viewer ?? UNRESTRICTED,
      order: given.order,
      manageDsaIT: given.manageDsaIT ?? false,
      sizeLimit: given.sizeLimit ?? 0,
      deadline: given.deadline ?? Number.POSITIVE_INFINITY,
      lookLimit: given.lookLimit ?? Number.POSITIVE_INFINITY,
      signal: given.signal,
      pageSize: given.pageSize,
      resume: given.resume,
      directGroupsOnly: given.directGroupsOnly ?? false,
      otherThreads: given.otherThreads,
    };
  }

  async search(given: SearchGiven = {}): Promise<Found> {
    const dns: string[] = [];
    const references: string[][] = [];
    const outcome = await this.partition.search(this.params(given), {
      entry: (hit) => void dns.push(hit.dn.toString()),
      reference: (urls) => void references.push([...urls]),
    });
    return { dns, references, outcome };
  }

  /** DNs found, sorted. */
  async find(filter: string | Filter, given: SearchGiven = {}): Promise<string[]> {
    return (await this.search({ ...given, filter })).dns.sort();
  }

  async breaches(): Promise<Breach[]> {
    const found: Breach[] = [];
    const count = await this.partition.check((breach) => found.push(breach));
    expect(count).to.equal(found.length);
    return found;
  }

  async expectClean(): Promise<void> {
    const breaches = await this.breaches();
    expect(breaches.map((b) => `${b.invariant} ${b.where}: ${b.message}`)).to.deep.equal([]);
  }

  /** `oneLevelCount` and `subLevelCount` as a search would use them. */
  async counts(dn: string): Promise<[number, number]> {
    const one = await this.search({ base: dn, scope: 'one' });
    const sub = await this.search({ base: dn, scope: 'subordinate' });
    return [one.dns.length, sub.dns.length];
  }

  async close(): Promise<void> {
    await this.partition.close();
    if (this.folder) rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function openStore(engine: Engine): Promise<{ store: Store; folder: string | undefined }> {
  if (engine === 'memory') return { store: openMemoryStore(), folder: undefined };
  if (engine === 'hbase') {
    // Only where it is wanted: it is at home in a run of mocha alone.
    const { openRecycled } = await import('../hbase/recycled.js');
    return { store: await openRecycled(), folder: undefined };
  }
  if (engine === 'delayed') return { store: delayedStore(), folder: undefined };
  const folder = mkdtempSync(join(tmpdir(), 'rowan-partition-'));
  return { store: await openLmdbStore(folder), folder };
}

/** A directory with suffixes dc=example,dc=com, whose entry is there, and o=other, whose entry is not. */
export async function openFixture(
  engine: Engine,
  options: { readonly now?: () => number; readonly schema?: Schema } = {},
): Promise<Fixture> {
  const schema = options.schema ?? testSchema();
  const { store, folder } = await openStore(engine);
  await initDirectory(
    store,
    { suffixes: [SUFFIX, OTHER], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') },
    schema,
  );
  const fixture = new Fixture(store, await Partition.open(store, schema, options), folder);
  await fixture.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
  return fixture;
}

/** The error that the promise rejects with; fails when it is not an LdapError of this result. */
export async function refused(result: ResultName, promise: Promise<unknown>, message?: RegExp): Promise<LdapError> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    expect(error.result, error.message).to.equal(result);
    if (message) expect(error.message).to.match(message);
    return error;
  }
  throw new Error(`expected ${result}, but it succeeded`);
}

/** A small generator of random numbers, the same for the same seed (mulberry32). */
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed = Number(process.env.ROWAN_SEED ?? Math.floor(Math.random() * 2 ** 31))) {
    this.seed = seed;
    this.#state = seed;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** 0 ≤ n < `below`. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  pick<T>(from: readonly T[]): T {
    return from[this.int(from.length)]!;
  }

  chance(p: number): boolean {
    return this.next() < p;
  }
}

/** Runs `work`; when it fails the seed is part of the message. */
export async function seeded(work: (random: Random) => Promise<void>): Promise<void> {
  const random = new Random();
  try {
    await work(random);
  } catch (error) {
    if (error instanceof Error) error.message = `ROWAN_SEED=${random.seed}: ${error.message}`;
    throw error;
  }
}

export { uuidText };
