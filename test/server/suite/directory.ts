import { expect } from 'chai';
import type { Context } from 'mocha';
import type { PartialAttribute } from '../../../src/ldap/ldap-types.js';
import { attributes } from '../directory.js';
import { type Answer, RawClient } from '../raw-client.js';

/** What a front end may lack: operations that ldapjs does not know, strictness that its parser does not have. */
export type Lack =
  | 'abandon'
  | 'cancel'
  | 'strictParser'
  | 'oidSelection'
  | 'binaryValues'
  | 'increment'
  | 'policyControl';

export interface Served {
  readonly url: string;
  readonly port: number;
  readonly adminDn: string;
  readonly adminPassword: string;
  readonly lacks?: readonly Lack[];
  stop(): Promise<void>;
}

/** The directory under test, filled over LDAP. */
export class SuiteDirectory {
  #served!: Served;
  #clients: RawClient[] = [];
  suffix!: string;
  people!: string;
  /** Bound as the administrator. */
  admin!: RawClient;

  async open(served: Served): Promise<void> {
    this.#served = served;
    this.admin = await this.connect();
    await this.admin.bind(served.adminDn, served.adminPassword);
    const dse = await this.admin.search('', { attributes: ['namingContexts'] });
    this.suffix = dse.entries[0]!.attributes.get('namingContexts')![0]!.toString();
    this.people = `ou=people,${this.suffix}`;
    const dc = /^dc=([^,]+)/.exec(this.suffix)![1]!;
    await this.add(this.suffix, { objectClass: ['dcObject', 'organization'], dc, o: 'Example' });
    await this.add(this.people, { objectClass: 'organizationalUnit', ou: 'people' });
  }

  /** Opens the administrator's connection anew when a test has lost it. */
  async refresh(): Promise<void> {
    if (this.admin.closed) this.admin = await this.connectAs(this.#served.adminDn, this.#served.adminPassword);
  }

  get served(): Served {
    return this.#served;
  }

  /** Skips the running test where the front end lacks something. */
  needs(test: Context, ...lacks: Lack[]): void {
    if (lacks.some((lack) => this.#served.lacks?.includes(lack))) test.skip();
  }

  async connect(): Promise<RawClient> {
    const client = await RawClient.open(this.#served.port);
    this.#clients.push(client);
    return client;
  }

  /** A connection bound as `dn`. Throws when the bind fails. */
  async connectAs(dn: string, password: string): Promise<RawClient> {
    const client = await this.connect();
    const code = await client.bind(dn, password);
    if (code !== 0) throw new Error(`bind as ${dn}: ${code}`);
    return client;
  }

  async add(dn: string, values: Readonly<Record<string, string | readonly string[]>>): Promise<void> {
    const answer = await this.tryAdd(dn, attributes(values));
    if (answer.code !== 0) throw new Error(`add ${dn}: ${answer.code} ${answer.final.message}`);
  }

  tryAdd(dn: string, list: readonly PartialAttribute[]): Promise<Answer> {
    return this.admin.request({ op: 'add', dn, attributes: list });
  }

  /** Adds a person below `people`; its DN. */
  async addPerson(uid: string, extra: Readonly<Record<string, string | readonly string[]>> = {}): Promise<string> {
    const dn = `uid=${uid},${this.people}`;
    await this.add(dn, { objectClass: 'inetOrgPerson', uid, cn: `Person ${uid}`, sn: uid, ...extra });
    return dn;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.#served?.stop();
  }
}

/** Texts of an attribute of the first entry found. */
export function texts(answer: Answer, name: string): string[] | undefined {
  expect(answer.code).to.equal(0);
  return answer.entries[0]?.attributes.get(name)?.map(String);
}

export function names(answer: Answer): string[] {
  expect(answer.code).to.equal(0);
  return [...answer.entries[0]!.attributes.keys()];
}
