import { pino } from 'pino';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { Schema } from '../../src/schema/index.js';
import { RowanServer } from '../../src/server/server.js';
import { makeConfig, type SettingValues } from '../../src/server/settings/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';

export const SUFFIX = 'dc=example,dc=com';
export const PEOPLE = `ou=people,${SUFFIX}`;
export const ADMIN = { dn: `cn=admin,${SUFFIX}`, password: 'admin secret' };

/** Hashes that cost next to nothing, as settings. */
export const CHEAP = { 'passwords.argon2.memoryKiB': 64, 'passwords.argon2.timeCost': 1 } as const;

let schema: Schema | undefined;

export function testSchema(): Schema {
  schema ??= Schema.load();
  return schema;
}

/** An empty directory, in memory and with the access rules of every new one unless told otherwise. */
export async function emptyPartition(store = openMemoryStore(), access?: string): Promise<Partition> {
  const adminPassword = hashPasswordFast(Buffer.from(ADMIN.password));
  await initDirectory(store, { suffixes: [SUFFIX], adminDn: ADMIN.dn, adminPassword, access }, testSchema());
  return Partition.open(store, testSchema());
}

const ACTOR = { dn: ADMIN.dn };

export function attributes(
  values: Readonly<Record<string, string | readonly string[]>>,
): { type: string; values: Buffer[] }[] {
  return Object.entries(values).map(([type, value]) => ({ type, values: [value].flat().map((v) => Buffer.from(v)) }));
}

export function personDn(uid: string): string {
  return `uid=${uid},${PEOPLE}`;
}

export function personAttributes(uid: string, extra: Readonly<Record<string, string | readonly string[]>> = {}) {
  return attributes({ objectClass: 'inetOrgPerson', uid, cn: `Person ${uid}`, sn: uid, ...extra });
}

export async function addPerson(
  partition: Partition,
  uid: string,
  extra: Readonly<Record<string, string | readonly string[]>> = {},
): Promise<void> {
  await partition.add(testSchema().parseDn(personDn(uid)), personAttributes(uid, extra), ACTOR);
}

/** Suffix, ou=people and `count` persons p0 …, each with the {SSHA512} password `secret-N`. */
export async function fill(partition: Partition, count: number): Promise<void> {
  const { parseDn } = { parseDn: (text: string) => testSchema().parseDn(text) };
  await partition.add(
    parseDn(SUFFIX),
    attributes({ objectClass: ['top', 'dcObject', 'organization'], dc: 'example', o: 'Example' }),
    ACTOR,
  );
  await partition.add(parseDn(PEOPLE), attributes({ objectClass: 'organizationalUnit', ou: 'people' }), ACTOR);
  for (let n = 0; n < count; n++) {
    const userPassword = hashPasswordFast(Buffer.from(`secret-${n}`)).toString();
    await addPerson(partition, `p${n}`, { mail: `p${n}@example.com`, userPassword });
  }
}

export interface Running {
  readonly server: RowanServer;
  readonly partition: Partition;
  readonly urls: readonly string[];
  readonly url: string;
  readonly port: number;
  /** What was logged so far, one JSON line each. */
  readonly lines: readonly string[];
  stop(): Promise<void>;
}

/**
 * A server on a free port, its passwords not upgraded and its directory with `persons` in it, unless told otherwise.
 */
export async function start(
  settings: Partial<SettingValues> = {},
  persons = 0,
  over?: Partition,
  access?: string,
): Promise<Running> {
  const partition = over ?? (await emptyPartition(openMemoryStore(), access));
  if (!over) await fill(partition, persons);
  const config = makeConfig({
    listen: ['ldap://127.0.0.1:0'],
    'passwords.upgradeAtBind': false,
    shutdownSeconds: 1,
    ...settings,
  });
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  const server = new RowanServer(partition, config, log);
  const urls = await server.listen();
  const stop = async (): Promise<void> => {
    await server.close();
    if (!over) await partition.close();
  };
  return { server, partition, urls, url: urls[0]!, port: Number(new URL(urls[0]!).port), lines, stop };
}
