import { once } from 'node:events';
import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { type Answer, RawClient, searchRequest } from '../server/raw-client.js';
import { ADA, ADMIN, PASSWORD, PEOPLE, type RunningServer, type Sandbox, type ServeOptions, serve } from './rowan.js';

/** The figures of `cn=Monitor`, by name. */
export async function figures(client: RawClient): Promise<Map<string, string>> {
  const { entries } = await client.search('cn=Monitor', { attributes: ['description'] });
  const values = entries[0]!.attributes.get('description')!.map(String);
  return new Map(values.map((value) => value.split(': ') as [string, string]));
}

export async function workerOf(client: RawClient): Promise<number> {
  return Number((await figures(client)).get('worker'));
}

/** A server with two workers, and connections to each that are bound as the administrator. */
export class TwoWorkers {
  readonly server: RunningServer;
  readonly #clients: RawClient[] = [];

  private constructor(server: RunningServer) {
    this.server = server;
  }

  static async start(sandbox: Sandbox, args: readonly string[] = [], options: ServeOptions = {}): Promise<TwoWorkers> {
    return new TwoWorkers(await sandbox.serve(['--workers', '2', ...args], options));
  }

  /** On the directory at an `hbase://` URL. */
  static async over(url: string): Promise<TwoWorkers> {
    return new TwoWorkers(await serve(url, ['--workers', '2']));
  }

  async open(): Promise<RawClient> {
    const client = await RawClient.open(this.server.port);
    this.#clients.push(client);
    return client;
  }

  /** A connection of its own, served by that worker, bound as the administrator. */
  async admin(worker: number): Promise<RawClient> {
    for (let tries = 0; tries < 50; tries++) {
      const client = await this.open();
      expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
      if ((await workerOf(client)) === worker) return client;
    }
    throw new Error(`no connection of fifty came to worker ${worker}`);
  }

  async both(): Promise<[RawClient, RawClient]> {
    return [await this.admin(1), await this.admin(2)];
  }

  close(): void {
    for (const client of this.#clients.splice(0)) client.close();
  }
}

export function personDn(uid: string): string {
  return `uid=${uid},${PEOPLE}`;
}

export function personRequest(uid: string, password = 'first'): Request {
  const values = { objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid, userPassword: password };
  const attributes = Object.entries(values).map(([type, value]) => ({ type, values: [Buffer.from(value)] }));
  return { op: 'add', dn: personDn(uid), attributes };
}

export function addPerson(client: RawClient, uid: string, password?: string): Promise<Answer> {
  return client.request(personRequest(uid, password));
}

/** What the server of a client that `staysBusy` is started with. */
export const TAKES_LARGE = ['--limits-message-bytes', '64MiB'];

/** Leaves most of a large answer unread: it keeps the connection busy, which an orderly end waits for. */
export async function staysBusy(client: RawClient): Promise<void> {
  expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
  expect((await replace(client, ADA, 'jpegPhoto', ' '.repeat(24 * 1024 * 1024))).code).to.equal(0);
  client.send(searchRequest(ADA, { attributes: ['jpegPhoto'] }));
  await once(client.socket, 'data');
  client.socket.pause();
}

export function replace(client: RawClient, dn: string, type: string, value: string): Promise<Answer> {
  const attribute = { type, values: [Buffer.from(value)] };
  return client.request({ op: 'modify', dn, changes: [{ operation: 'replace', attribute }] });
}

export async function read(client: RawClient, dn: string, type: string): Promise<string | undefined> {
  const { entries } = await client.search(dn, { attributes: [type] });
  return entries[0]?.attributes.get(type)?.map(String).join();
}

/** Whether a process of that number is there. */
export function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
