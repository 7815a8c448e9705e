import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import type { Random } from '../partition/fixture.js';
import { change } from '../partition/fixture.js';
import { ClientTransaction, modifyRequest } from './client-transaction.js';
import { attributes } from './directory.js';
import type { RawClient } from './raw-client.js';

const ACCOUNTS = 5;
const CLIENTS = 8;
const START = 1000;
/** Results of a transfer that another one has overtaken, or of a server that is ending. */
const NOT_DONE = [16, 51, 52];

/** Accounts below `parent`, between which clients transfer amounts in transactions. */
export class Transfers {
  readonly #parent: string;
  readonly #random: Random;
  /** Returns a connection that is bound. */
  readonly #connect: (client: number) => Promise<RawClient>;
  doneCount = 0;
  #begun = 0;
  #waiters: { readonly count: number; readonly resolve: () => void }[] = [];

  constructor(parent: string, random: Random, connect: (client: number) => Promise<RawClient>) {
    this.#parent = parent;
    this.#random = random;
    this.#connect = connect;
  }

  #dn(account: number): string {
    return `uid=account${account},${this.#parent}`;
  }

  async addAccounts(): Promise<void> {
    const client = await this.#connect(0);
    for (let n = 0; n < ACCOUNTS; n++) {
      const names = { uid: `account${n}`, cn: `account${n}`, homeDirectory: '/' };
      const values = { objectClass: ['account', 'posixAccount'], ...names, uidNumber: `${START}`, gidNumber: '1' };
      expect((await client.request({ op: 'add', dn: this.#dn(n), attributes: attributes(values) })).code).to.equal(0);
    }
    client.close();
  }

  /** Lets all clients transfer until `count` transfers are done. */
  async run(count: number): Promise<void> {
    this.#begun = this.doneCount;
    const end = this.doneCount + count;
    await Promise.all(Array.from({ length: CLIENTS }, (_, client) => this.#work(client, end)));
  }

  /** Resolves when so many transfers of the present run are done. */
  reaches(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiters.push({ count: this.#begun + count, resolve }));
  }

  #countDone(): void {
    this.doneCount++;
    for (const { count, resolve } of this.#waiters) if (this.doneCount >= count) resolve();
  }

  async #work(number: number, end: number): Promise<void> {
    let client: RawClient | undefined;
    while (this.doneCount < end) {
      client ??= await this.#connect(number);
      try {
        if (await this.#transfer(client)) this.#countDone();
      } catch (error) {
        if (!client.closed) throw error;
        client = undefined;
      }
    }
    client?.close();
  }

  async #transfer(client: RawClient): Promise<boolean> {
    const from = this.#random.int(ACCOUNTS);
    const to = (from + 1 + this.#random.int(ACCOUNTS - 1)) % ACCOUNTS;
    const amount = 1 + this.#random.int(9);
    const requests = this.#random.int(2)
      ? [this.#increment(from, -amount), this.#increment(to, amount)]
      : [await this.#replacement(client, from, -amount), await this.#replacement(client, to, amount)];
    const transaction = await ClientTransaction.begin(client);
    for (const request of requests) await transaction.add(request);
    const { final } = await transaction.end();
    if (final.code !== 0) expect(NOT_DONE, final.message).to.include(final.code);
    return final.code === 0;
  }

  #increment(account: number, by: number): Request {
    return modifyRequest(this.#dn(account), change('increment', 'uidNumber', `${by}`));
  }

  async #replacement(client: RawClient, account: number, by: number): Promise<Request> {
    const value = await this.#value(client, account);
    const changes = [change('delete', 'uidNumber', `${value}`), change('add', 'uidNumber', `${value + by}`)];
    return modifyRequest(this.#dn(account), ...changes);
  }

  async #value(client: RawClient, account: number): Promise<number> {
    const { entries } = await client.search(this.#dn(account), { attributes: ['uidNumber'] });
    return Number(entries[0]!.attributes.get('uidNumber')![0]);
  }

  async expectSum(): Promise<void> {
    const client = await this.#connect(0);
    let sum = 0;
    for (let n = 0; n < ACCOUNTS; n++) sum += await this.#value(client, n);
    client.close();
    expect(sum).to.equal(ACCOUNTS * START);
  }
}
