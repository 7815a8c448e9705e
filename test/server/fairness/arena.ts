import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { settingFlag } from '../../../src/server/settings/index.js';
import { ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox, SUFFIX } from '../../cli/rowan.js';
import { isPresent, makeCertificate } from '../../require.js';
import { RawClient } from '../raw-client.js';

const PEOPLE_COUNT = 20_000;
export const ALIASES = 800;
export const ALIASED = `ou=aliased,${SUFFIX}`;
/** The first of them have passwords. */
const USERS = 1100;
export const USER_PASSWORD = 'secret';
/** So many searches are answered beside a load before it ends. */
const ANSWERS = 5;

/** What others do while another client searches: once, and again and again as long as `goes`. */
export type Load = (arena: Arena, goes: () => boolean) => Promise<void>;

export const userDn = (n: number): string => `uid=user.${n},${PEOPLE}`;

/** LDIF of people, and of a unit of aliases for the first ones. */
function* directory(): Generator<string> {
  yield `dn: ${SUFFIX}\nobjectClass: organization\nobjectClass: dcObject\ndc: example\no: Example\n\n`;
  for (const ou of ['people', 'aliased', 'groups'])
    yield `dn: ou=${ou},${SUFFIX}\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;
  for (let n = 0; n < PEOPLE_COUNT; n++)
    yield `dn: ${userDn(n)}\nobjectClass: inetOrgPerson\nuid: user.${n}\ncn: Common user.${n}\nsn: Sur${n % 500}
givenName: Given${n % 100}\nmail: user.${n}@example.com\nl: City ${n % 10}
description: A description of user.${n}, as long as such texts are\n${n < USERS ? `userPassword: ${USER_PASSWORD}\n` : ''}\n`;
  for (let n = 0; n < ALIASES; n++)
    yield `dn: uid=alias.${n},${ALIASED}\nobjectClass: alias\nobjectClass: extensibleObject\nuid: alias.${n}\naliasedObjectName: ${userDn(n)}\n\n`;
}

/** A server in a process of its own over a directory of some size, and clients that load it. */
export class Arena {
  readonly #sandbox = new Sandbox();
  readonly #clients: RawClient[] = [];
  server!: RunningServer;
  /** The server's certificate, where there is `openssl`. */
  ca: Buffer | undefined;

  async make(): Promise<void> {
    await this.#sandbox.init();
    const input = [...directory()].join('');
    await rowanDoes(['import', '--data', this.#sandbox.data, '-'], { input });
  }

  /** `env`: variables of the server's process. */
  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    // Cheap hashes, so that hundreds of binds take no minutes.
    const memory = [settingFlag('passwords.argon2.memoryKiB'), '2048'];
    // No search ends by time.
    const time = [settingFlag('limits.search.timeLimitSeconds'), '3600'];
    const settings = [...time, '--workers', '1', '--passwords-upgrade-at-bind', 'false', ...memory];
    if (isPresent('openssl')) {
      const { cert, key } = makeCertificate(this.#sandbox.folder);
      this.ca = readFileSync(cert);
      settings.push('--tls-cert', cert, '--tls-key', key);
    }
    this.server = await this.#sandbox.serve(settings, { env });
  }

  async remove(): Promise<void> {
    this.release();
    await this.#sandbox.remove();
  }

  /** A connection that is not bound, closed by `release`. */
  async open(): Promise<RawClient> {
    const client = await RawClient.open(this.server.port);
    this.#clients.push(client);
    return client;
  }

  async admin(): Promise<RawClient> {
    const client = await this.open();
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    return client;
  }

  async user(n: number): Promise<RawClient> {
    const client = await this.open();
    expect(await client.bind(userDn(n), USER_PASSWORD)).to.equal(0);
    return client;
  }

  users(count: number, from = 0): Promise<RawClient[]> {
    return Promise.all(Array.from({ length: count }, (_, n) => this.user(from + n)));
  }

  /** Ends the connections of the load. */
  release(): void {
    for (const client of this.#clients.splice(0)) client.close();
  }

  /** Another person for each `n`. */
  static async find(client: RawClient, n: number): Promise<void> {
    const value = Buffer.from(`user.${(n * 7919) % PEOPLE_COUNT}`);
    const { entries } = await client.search(SUFFIX, {
      scope: 'sub',
      filter: { type: 'equal', attribute: 'uid', value },
    });
    expect(entries).to.have.length(1);
  }

  /** Goes on with `load` until so many searches of another client have been answered since its first round. */
  async beside(load: Load): Promise<void> {
    let answered = 0;
    let first: number | undefined;
    let over = false;
    const goes = (): boolean => {
      first ??= answered;
      return answered < first + ANSWERS;
    };
    const searching = async (): Promise<void> => {
      const probe = await this.admin();
      for (; !over; answered++) await Arena.find(probe, answered);
    };
    const loading = load(this, goes).finally(() => {
      over = true;
    });
    await Promise.all([loading, searching()]);
  }
}
