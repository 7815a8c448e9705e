import { createServer, type Socket } from 'node:net';
import type { Logger } from 'pino';
import { type Listener, openListeners, parseListenUrl, SPARE_CONNECTIONS } from '../../server/listen/listener.js';
import type { Answer, Question } from '../../server/processes/siblings.js';
import { type Counts, endedTotals, type Statistics, sumCounts } from '../../server/processes/statistics.js';
import type { Config } from '../../server/settings/index.js';

/** A socket accepted at `listen[index]` that is being handed to a member. */
export interface IncomingSocket {
  readonly index: number;
  readonly socket: Socket;
}

/** A process that can get connections: a worker, or the server of this process. */
export interface Member {
  /** Open sockets assigned to the member. */
  readonly connectionCount: number;
  /** Whether the member can answer questions. */
  readonly isReady: boolean;
  readonly acceptsConnections: boolean;
  readonly counts: Counts | undefined;
  /** Hands over a socket. `elsewhere` is the number of connections of the other members. */
  assign(arrival: IncomingSocket, elsewhere: number): void;
  /** Resolves with undefined when the member ends or is too slow. */
  ask(question: Question): Promise<Answer | undefined>;
  renewCertificate(): void;
}

/** Listens, and assigns each connection to the member with the fewest connections. */
export class ConnectionBalancer<M extends Member> {
  readonly #members = new Set<M>();
  readonly #config: Config;
  readonly #statistics: Statistics;
  /** Totals of the members that have ended, by worker number. */
  readonly #endedTotals = new Map<number, Counts>();
  #listeners: readonly Listener[] = [];
  /** Sockets accepted while no member was ready. */
  #waitingSockets: IncomingSocket[] = [];
  #isClosed = false;

  /** `statistics` counts the connections refused here. */
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

  /** Removes a member that has ended. Its totals stay. Other members get `arrivals`, which did not reach the member. */
  delete(member: M, arrivals: readonly IncomingSocket[]): void {
    this.#members.delete(member);
    if (member.counts) {
      const totals = endedTotals(member.counts);
      const earlierTotals = this.#endedTotals.get(totals.workerNumber);
      this.#endedTotals.set(totals.workerNumber, earlierTotals ? sumCounts([earlierTotals, totals]) : totals);
    }
    for (const arrival of arrivals) {
      if (this.#isClosed) arrival.socket.destroy();
      else this.assign(arrival);
    }
  }

  /** Resolves with the URLs for clients. */
  async listen(log: Logger): Promise<string[]> {
    const { listen } = this.#config;
    // A paused socket keeps its received bytes when it is handed to another process.
    const servers = listen.map((_url, index) =>
      createServer({ pauseOnConnect: true }, (socket) => this.#accept({ index, socket })),
    );
    this.#listeners = await openListeners(listen.map(parseListenUrl), servers, this.#config, log);
    return this.#listeners.map(({ url }) => url);
  }

  #accept(arrival: IncomingSocket): void {
    arrival.socket.on('error', () => arrival.socket.destroy());
    const limit = this.#config.limits.connections + SPARE_CONNECTIONS;
    if (!this.#isClosed && this.#countConnections() + this.#waitingSockets.length < limit) {
      this.assign(arrival);
      return;
    }
    this.#statistics.connectionsRefused++;
    arrival.socket.destroy();
  }

  #countConnections(): number {
    let connectionCount = 0;
    for (const member of this.#members) connectionCount += member.connectionCount;
    return connectionCount;
  }

  assign(arrival: IncomingSocket): void {
    let target: M | undefined;
    for (const member of this.#members)
      if (member.acceptsConnections && (!target || member.connectionCount < target.connectionCount)) target = member;
    if (target) target.assign(arrival, this.#countConnections() - target.connectionCount);
    else this.#waitingSockets.push(arrival);
  }

  /** Assigns the sockets that have waited for a member. */
  assignWaitingSockets(): void {
    for (const arrival of this.#waitingSockets.splice(0)) this.assign(arrival);
  }

  /** Returns the answers of the members, for `counts` also the totals of ended members. */
  async askAll(question: Question, except?: M): Promise<Answer[]> {
    // A process that starts now is told new settings as well: it takes the question once it has started.
    const isForAll = question.about === 'settings';
    const members = [...this.#members].filter((member) => member !== except && (isForAll || member.isReady));
    const answers = await Promise.all(members.map((member) => member.ask(question)));
    if (question.about !== 'counts') return answers.filter((answer) => answer !== undefined);
    // Taken at one moment: a member may end while others answer, and one may be too busy to answer.
    const memberCounts = [...this.#members].flatMap((member) => (member !== except && member.counts) || []);
    return [...memberCounts, ...this.#endedTotals.values()].map((counts) => ({ counts }));
  }

  renewCertificate(): void {
    for (const member of this.#members) member.renewCertificate();
  }

  close(): void {
    this.#isClosed = true;
    for (const listener of this.#listeners) listener.close();
    for (const { socket } of this.#waitingSockets.splice(0)) socket.destroy();
  }
}
