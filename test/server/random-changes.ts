import { LdapError } from '../../src/ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../src/ldap/ldap-types.js';
import type { Dn } from '../../src/schema/schema-types.js';
import type { Random } from '../partition/fixture.js';
import { attributes, SUFFIX, testSchema } from './directory.js';

const ACTOR = { dn: `cn=admin,${SUFFIX}` };

/** People are added so many at once. */
const TOGETHER = 50;

/** Entries named so far, of all directories of this process. */
let count = 0;

/** Changes entries: a partition, or a server. Methods throw `LdapError` when a change is refused. */
export interface Writer {
  add(dn: Dn, attributes: readonly PartialAttribute[], actor: typeof ACTOR): Promise<unknown>;
  modify(dn: Dn, changes: readonly Modification[], actor: typeof ACTOR): Promise<void>;
  rename(
    dn: Dn,
    to: { readonly newRdn: string; readonly deleteOldRdn: boolean; readonly newSuperior: string | undefined },
    actor: typeof ACTOR,
  ): Promise<void>;
  delete(dn: Dn, actor: typeof ACTOR): Promise<void>;
}

/** Random adds, modifies, renames of subtrees, moves and deletes, by any of the writers of one directory. */
export class RandomChanges {
  readonly #writers: readonly Writer[];
  readonly #random: Random;
  /** DNs, parents first. */
  #dns: string[] = [SUFFIX];

  constructor(writers: readonly Writer[], random: Random) {
    this.#writers = writers;
    this.#random = random;
  }

  get size(): number {
    return this.#dns.length;
  }

  #writer(): Writer {
    return this.#random.pick(this.#writers);
  }

  async addUnits(number: number): Promise<void> {
    for (let i = 0; i < number; i++) await this.#add(this.#random.pick(this.#dns), 'ou');
  }

  async addPeople(number: number): Promise<void> {
    const units = this.#dns.filter((dn) => !dn.startsWith('cn='));
    const add = (): Promise<void> => this.#add(this.#random.pick(units), 'cn');
    for (let left = number; left > 0; left -= TOGETHER)
      await Promise.all(Array.from({ length: Math.min(left, TOGETHER) }, add));
  }

  async #add(parent: string, type: 'cn' | 'ou', name = `e${++count}`): Promise<void> {
    const dn = `${type}=${name},${parent}`;
    const person = { objectClass: 'inetOrgPerson', cn: name, sn: name, mail: `${name}@example.com` };
    const values = type === 'cn' ? person : { objectClass: 'organizationalUnit', ou: name };
    await this.#writer().add(testSchema().parseDn(dn), attributes(values), ACTOR);
    this.#dns.push(dn);
  }

  /** Makes one change. Some names are those that other entries had. */
  async change(): Promise<void> {
    const random = this.#random;
    const kind = random.int(10);
    const units = this.#dns.filter((dn) => !dn.startsWith('cn='));
    const dn = this.#dns[1 + random.int(this.#dns.length - 1)]!;
    const name = random.chance(0.3) ? `n${random.int(20)}` : `e${++count}`;
    const type = dn.startsWith('cn=') ? 'cn' : 'ou';
    try {
      if (kind < 2) await this.#add(random.pick(units), random.chance(0.8) ? 'cn' : 'ou', name);
      else if (kind < 6) await this.#modify(dn);
      else if (kind < 7) await this.#rename(dn, `${type}=${name}`, undefined);
      else if (kind < 9)
        await this.#rename(
          dn,
          random.chance(0.5) ? dn.slice(0, dn.indexOf(',')) : `${type}=${name}`,
          random.pick(units),
        );
      else await this.#deleteLeaf();
    } catch (error) {
      // The name is taken, or the new parent is below the entry.
      if (!(error instanceof LdapError) || !EXPECTED.has(error.result)) throw error;
    }
  }

  async #modify(dn: string): Promise<void> {
    const values = [Buffer.from(`d${this.#random.int(1e6)}`)];
    const changes = [{ operation: 'replace' as const, attribute: { type: 'description', values } }];
    await this.#writer().modify(testSchema().parseDn(dn), changes, ACTOR);
  }

  async #rename(dn: string, newRdn: string, newSuperior: string | undefined): Promise<void> {
    const schema = testSchema();
    await this.#writer().rename(schema.parseDn(dn), { newRdn, deleteOldRdn: true, newSuperior }, ACTOR);
    const newDn = `${newRdn},${newSuperior ?? dn.slice(dn.indexOf(',') + 1)}`;
    const isBelow = (other: string): boolean => other === dn || other.endsWith(`,${dn}`);
    this.#dns = this.#dns.map((one) => (isBelow(one) ? one.slice(0, one.length - dn.length) + newDn : one));
  }

  async #deleteLeaf(): Promise<void> {
    const dn = this.#dns[1 + this.#random.int(this.#dns.length - 1)]!;
    // An entry that has others below it is refused.
    await this.#writer().delete(testSchema().parseDn(dn), ACTOR);
    this.#dns = this.#dns.filter((one) => one !== dn);
  }
}

const EXPECTED = new Set(['entryAlreadyExists', 'unwillingToPerform', 'noSuchObject', 'notAllowedOnNonLeaf']);
