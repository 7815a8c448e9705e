import { createServer, type Socket } from 'node:net';
import type { Logger } from 'pino';
import { parseListenUrl } from '../../server/listen/listen-url.js';
import { type Listener, openListeners, SPARE_CONNECTIONS } from '../../server/listen/listener.js';
import type { Answer, Question } from '../../server/processes/siblings.js';
import type { Counts, Statistics } from '../../server/processes/statistics.js';
import type { Config } from '../../server/settings/index.js';

/** A socket on its way to one who serves it, accepted at `listen[index]`. */
export interface Arrival {
  readonly index: number;
  readonly socket: Socket;
}

/** One of those among which connections are shared out: a worker process, or the server of this process. */
export interface Member {
  /** Sockets that it was given and that are not closed. */
  readonly connections: number;
  /** Whether it is there to be asked. */
  readonly serves: boolean;
  /** Whether it is to be given connections. */
  readonly takes: boolean;
  /** As it told them last. */
  readonly counts: Counts | undefined;
  /** Hands a socket over; `elsewhere`: connections that the other members have. */
  give(arrival: Arrival, elsewhere: number): void;
  /** Undefined when it ends, or is too slow. */
  ask(question: Question): Promise<Answer | undefined>;
  renewCertificate(): void;
}

/** Listens, and gives each connection to the member that has fewest. */
export class Members<M extends Member> {
  readonly #members = new Set<M>();
  readonly #config: Config;
  readonly #statistics: Statistics;
  #listeners: readonly Listener[] = [];
  /** Accepted while nobody served. */
  #waiting: Arrival[] = [];
  #closed = false;

  /** `statistics` counts the connections that are refused here. */
  constructor(config: Config, statistics: Statistics) {
    this.#config = config;
    this.#statistics = statistics;
  }

  [Symbol.iterator](): Iterator<M> {
    return this.#members.values();
  }

  get size(): number {
    return this.#members.size;
  }

  add(member: M): void {
    this.#members.add(member);
  }

  delete(member: M): void {
    this.#members.delete(member);
  }

  /** Resolves with the URLs as clients use them. */
  async listen(log: Logger): Promise<string[]> {
    const { listen } = this.#config;
    // Paused, a socket can be handed to another process with all that it brings.
    const nets = listen.map((_url, index) =>
      createServer({ pauseOnConnect: true }, (socket) => this.#accept({ index, socket })),
    );
    this.#listeners = await openListeners(listen.map(parseListenUrl), nets, this.#config, log);
    return this.#listeners.map(({ url }) => url);
  }

  #accept(arrival: Arrival): void {
    arrival.socket.on('error', () => arrival.socket.destroy());
    const most = this.#config.limits.connections + SPARE_CONNECTIONS;
    if (!this.#closed && this.#connections() + this.#waiting.length < most) {
      this.give(arrival);
      return;
    }
    this.#statistics.connectionsRefused++;
    arrival.socket.destroy();
  }

  #connections(): number {
    let connections = 0;
    for (const member of this.#members) connections += member.connections;
    return connections;
  }

  give(arrival: Arrival): void {
    let least: M | undefined;
    for (const member of this.#members)
      if (member.takes && (!least || member.connections < least.connections)) least = member;
    if (least) least.give(arrival, this.#connections() - least.connections);
    else this.#waiting.push(arrival);
  }

  /** Gives away what has waited for somebody who serves. */
  giveWaiting(): void {
    for (const arrival of this.#waiting.splice(0)) this.give(arrival);
  }

  async ask(question: Question, except?: M): Promise<Answer[]> {
    const others = [...this.#members].filter((member) => member !== except && member.serves);
    const answers = await Promise.all(others.map((member) => member.ask(question)));
    return answers.filter((answer) => answer !== undefined);
  }

  renewCertificate(): void {
    for (const member of this.#members) member.renewCertificate();
  }

  /** Accepts nothing more. */
  close(): void {
    this.#closed = true;
    for (const listener of this.#listeners) listener.close();
    for (const { socket } of this.#waiting.splice(0)) socket.destroy();
  }
}
