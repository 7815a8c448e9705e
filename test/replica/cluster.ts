import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { exited, rowanDoes, Sandbox } from '../cli/rowan.js';
import type { Random } from '../partition/fixture.js';
import type { RawClient } from '../server/raw-client.js';
import { waitFor } from '../waits.js';
import type { Model } from './kill-model.js';
import { contentOf, Machine } from './servers.js';

const WRITERS = 8;

/** A machine that the others reach by a socket of this process, which cuts connections. */
class Member extends Machine {
  readonly gateUrl: string;
  readonly passwordFile: string;
  readonly #sockets = new Set<Socket>();
  readonly #gate = createServer((near) => this.#connect(near));
  readonly #path: string;
  isUp = false;
  /** Connections are refused. */
  isShut = false;

  constructor(sandbox: Sandbox, name: string) {
    super(sandbox, name);
    this.#path = sandbox.path(`${name}.gate`);
    this.gateUrl = `ldapi://${encodeURIComponent(this.#path)}`;
    this.passwordFile = sandbox.path(`${name}.password`);
  }

  async openGate(): Promise<void> {
    await once(this.#gate.listen(this.#path), 'listening');
  }

  #connect(near: Socket): void {
    if (this.isShut) {
      near.destroy();
      return;
    }
    const far = connect(decodeURIComponent(this.socketUrl.slice('ldapi://'.length)));
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket));
    }
    near.pipe(far).on('close', () => near.destroySoon());
    far.pipe(near).on('close', () => far.destroy());
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  override async start(...args: string[]): Promise<void> {
    await super.start(...args);
    this.isUp = true;
  }

  override async stop(): Promise<void> {
    this.isUp = false;
    await super.stop();
  }

  signal(name: NodeJS.Signals): void {
    this.server.process.kill(name);
  }

  async kill(): Promise<void> {
    this.isUp = false;
    this.signal('SIGKILL');
    await exited(this.server.process);
  }

  async remove(): Promise<void> {
    if (this.isUp) await this.kill();
    this.isShut = true;
    this.cut();
    this.#gate.close();
  }

  /** Number of the last change, when the machine follows `former` no longer. */
  async position(former?: Member): Promise<number> {
    for (;;) {
      const text = await this.status();
      if (!former || !text.includes(`replica of ${former.gateUrl},`)) return Number(/change (\d+)/.exec(text)![1]);
    }
  }
}

/** A primary and two replicas, each of which may become the primary, and writers at all of them. */
export class Cluster {
  readonly #sandbox = new Sandbox();
  readonly #random: Random;
  readonly #model: Model;
  readonly #args: readonly string[];
  readonly #members = ['data', 'second', 'third'].map((name) => new Member(this.#sandbox, name));
  readonly #clients = new Set<RawClient>();
  #primary = this.#members[0]!;
  #isOver = false;
  #writing: Promise<unknown> = Promise.resolve();

  /** `args`: of all servers. */
  constructor(random: Random, model: Model, ...args: string[]) {
    this.#random = random;
    this.#model = model;
    this.#args = args;
  }

  get primary(): Member {
    return this.#primary;
  }

  get replicas(): Member[] {
    return this.#members.filter((member) => member !== this.#primary);
  }

  path(name: string): string {
    return this.#sandbox.path(name);
  }

  async begin(): Promise<void> {
    await this.#sandbox.initSample();
    const { data } = this.#primary;
    for (const { name, passwordFile } of this.#members)
      await rowanDoes(['replica', 'grant', name, '--data', data, '--password-file', passwordFile]);
    for (const member of this.#members) await member.openGate();
    await this.#primary.start(...this.#args);
    for (const member of this.replicas) {
      await rowanDoes(['replica', 'init', '--data', member.data, ...this.#access(member)]);
      await member.start(...this.#args);
    }
  }

  #access(member: Member): string[] {
    const of = this.#members.flatMap(({ gateUrl }) => (gateUrl === member.gateUrl ? [] : gateUrl));
    return ['--of', ...of, '--name', member.name, '--password-file', member.passwordFile];
  }

  /** Begins to write at all machines, until `endWriting`. */
  beginWriting(): void {
    this.#isOver = false;
    this.#writing = Promise.all(Array.from({ length: WRITERS }, (_, writer) => this.#write(writer)));
    this.#writing.catch(() => undefined);
  }

  async endWriting(): Promise<void> {
    this.#isOver = true;
    await waitFor('the end of the writers', this.#writing);
  }

  async #write(writer: number): Promise<void> {
    while (!this.#isOver) {
      const up = this.#members.filter(({ isUp }) => isUp);
      const member = writer % 2 === 0 && this.#primary.isUp ? this.#primary : this.#random.pick(up);
      const client = await member.client().catch(() => undefined);
      if (client) await this.#writeAt(client, writer);
      await sleep(10);
    }
  }

  async #writeAt(client: RawClient, writer: number): Promise<void> {
    this.#clients.add(client);
    try {
      while (!this.#isOver && (await this.#model.change(client, writer)));
    } catch (error) {
      if (!client.closed) throw error;
    } finally {
      this.#clients.delete(client);
      client.close();
    }
  }

  /** Waits for some answers of all kinds; fails with the writers. */
  async answers(count = 10 + this.#random.int(40)): Promise<void> {
    const end = this.#model.answers + count;
    const reach = async (): Promise<void> => {
      while (this.#model.answers < end) await sleep(2);
    };
    await waitFor(`${count} answers`, Promise.race([reach(), this.#writing]));
    expect(this.#model.answers).to.be.at.least(end);
  }

  async acknowledgements(count: number): Promise<void> {
    const end = this.#model.acknowledged + count;
    while (this.#model.acknowledged < end) await this.answers(1);
  }

  /** Kills or stops a replica, or ends connections. */
  async disturb(): Promise<void> {
    const replica = this.#random.pick(this.replicas);
    switch (this.#random.int(5)) {
      case 0:
        await replica.kill();
        await this.answers();
        await replica.start(...this.#args);
        break;
      case 1:
        replica.signal('SIGSTOP');
        await this.answers();
        replica.signal('SIGCONT');
        break;
      case 2:
        this.#primary.cut();
        break;
      case 3:
        for (const client of this.#clients) if (this.#random.chance(0.5)) client.close();
        break;
      default:
        // It may still stand still when the primary is killed.
        replica.signal('SIGSTOP');
    }
    await this.answers();
  }

  async killPrimary(): Promise<Member> {
    const former = this.#primary;
    await former.kill();
    former.isShut = false;
    for (const replica of this.replicas) replica.signal('SIGCONT');
    return former;
  }

  /** Makes the replica that is the furthest the primary. */
  async promote(former: Member): Promise<void> {
    const [a, b] = this.replicas as [Member, Member];
    const next = (await a.position(former)) > (await b.position(former)) ? a : b;
    const isServed = this.#random.chance(0.5);
    if (!isServed) await next.kill();
    await rowanDoes(['promote', '--data', next.data]);
    if (!isServed) await next.start(...this.#args);
    this.#primary = next;
  }

  /** The former primary follows. Returns the file with what it had alone. */
  async rejoin(member: Member): Promise<string> {
    const file = this.#sandbox.path('lost.ldif');
    rmSync(file, { force: true });
    await rowanDoes(['replica', 'rejoin', '--data', member.data, ...this.#access(member), '--ldif', file]);
    await member.start(...this.#args);
    return file;
  }

  /** Waits until all have the same changes, stops all, and compares. */
  async expectEqual(): Promise<void> {
    const last = await this.#primary.position();
    for (const replica of this.replicas) await replica.says(`change ${last}, `);
    for (const member of this.#members) await member.stop();
    const content = await contentOf(this.#primary.data);
    for (const { data } of this.replicas) expect(await contentOf(data)).to.equal(content);
    for (const { data } of this.#members)
      expect(await rowanDoes(['check', '--data', data])).to.contain('no breach found');
  }

  async remove(): Promise<void> {
    this.#isOver = true;
    for (const client of this.#clients) client.close();
    for (const member of this.#members) await member.remove();
    await this.#sandbox.remove();
  }
}
