import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { settingFlag } from '../../../src/server/settings/index.js';
import { ADMIN, exited, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox, SUFFIX } from '../../cli/rowan.js';
import { isPresent, makeCertificate } from '../../require.js';
import { RawClient } from '../raw-client.js';
import type { Waits } from './probe.js';

export const PEOPLE_COUNT = 20_000;
export const ALIASES = 800;
export const ALIASED = `ou=aliased,${SUFFIX}`;
/** The first of them have passwords. */
const USERS = 1100;
export const USER_PASSWORD = 'secret';
/** A search waits no longer than this beside anything. */
const MOST_MS = 50;
/** On a machine that is busy with other things: no longer than so many times what it waits alone. */
const MOST_TIMES = 8;
/** So much more may it wait with what the server's own other threads, and other processes, take of the processors. */
const MOST_WITH_ALL = 10;
/** A load goes on for so long at least. */
const LOAD_MS = 600;
const IDLE_MS = 200;

/** What others do while the probe searches: again and again as long as `goes`. */
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

/** Processor time that a process has used, in hundredths as the system counts it. */
function cpuSeconds(pid: number): number {
  const [, fields] = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ');
  const [user, system] = fields!.split(' ').slice(11, 13).map(Number);
  return (user! + system!) / 100;
}

const rounded = (waits: Waits): Waits => ({
  count: waits.count,
  p99: Math.round(waits.p99),
  p99WithAll: Math.round(waits.p99WithAll),
  longest: Math.round(waits.longest),
});

/** A server in a process of its own over a directory of some size, clients that load it, and one that watches. */
export class Arena {
  readonly #sandbox = new Sandbox();
  readonly #clients: RawClient[] = [];
  #probe: ChildProcess | undefined;
  server!: RunningServer;
  /** The server's certificate, where there is `openssl`. */
  ca: Buffer | undefined;

  async make(): Promise<void> {
    await this.#sandbox.init();
    const input = [...directory()].join('');
    await rowanDoes(['import', '--data', this.#sandbox.data, '-'], { input });
  }

  async start(): Promise<void> {
    // Cheap hashes, so that hundreds of binds take no minutes.
    const memory = [settingFlag('passwords.argon2.memoryKiB'), '2048'];
    const settings = ['--workers', '1', '--passwords-upgrade-at-bind', 'false', ...memory];
    if (isPresent('openssl')) {
      const { cert, key } = makeCertificate(this.#sandbox.folder);
      this.ca = readFileSync(cert);
      settings.push('--tls-cert', cert, '--tls-key', key);
    }
    this.server = await this.#sandbox.serve(settings);
    const program = fileURLToPath(new URL('probe.js', import.meta.url));
    this.#probe = fork(program, [this.server.port, this.server.process.pid!, PEOPLE_COUNT].map(String), {
      execArgv: [],
    });
    await once(this.#probe, 'message');
  }

  async stop(): Promise<void> {
    this.release();
    const probe = this.#probe;
    this.#probe = undefined;
    if (probe) {
      probe.disconnect();
      await exited(probe);
    }
    await this.server?.stop();
  }

  async remove(): Promise<void> {
    await this.stop();
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

  /**
   * Waits until the server has done what was asked of it before: what it does for the dead is no part of the next load.
   */
  async #quiet(): Promise<void> {
    const cpu = (): number => cpuSeconds(this.server.process.pid!);
    for (let before = cpu(), still = 0; still < 3; before = cpu()) {
      await sleep(30);
      still = cpu() - before < 0.02 ? still + 1 : 0;
    }
  }

  /** What the probe waits while `work` goes on. */
  async #watched(work: () => Promise<unknown>): Promise<Waits> {
    const probe = this.#probe!;
    const told = once(probe, 'message');
    probe.send('begin');
    try {
      await work();
    } finally {
      probe.send('end');
      await told;
    }
    const [waits] = (await told) as [Waits];
    return waits;
  }

  /** The probe beside `load`, after it was alone. */
  async beside(load: Load): Promise<void> {
    await this.#quiet();
    const idle = await this.#watched(() => sleep(IDLE_MS));
    const until = performance.now() + LOAD_MS;
    const goes = (): boolean => performance.now() < until;
    const busy = await this.#watched(() => load(this, goes));
    this.release();
    const told = `${JSON.stringify({ alone: rounded(idle), beside: rounded(busy) })}`;
    if (process.env.ROWAN_FAIRNESS) console.log(Date.now(), Math.round(performance.now() - until + LOAD_MS), told);
    const bound = Math.max(MOST_MS, MOST_TIMES * idle.p99);
    expect(busy.p99, told).to.be.below(bound);
    expect(busy.p99WithAll, told).to.be.below(MOST_WITH_ALL * Math.max(MOST_MS, MOST_TIMES * idle.p99WithAll));
  }
}
