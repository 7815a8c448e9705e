import type { Logger } from 'pino';
import type { Partition } from '../../partition/index.js';
import type { Answer, Question, Siblings } from '../../server/processes/siblings.js';
import type { Counts } from '../../server/processes/statistics.js';
import { RowanServer } from '../../server/server.js';
import { onSettingsChanged } from '../../server/settings/index.js';
import { renewCertificate } from '../certificate.js';
import type { LongThread } from '../long/long-thread.js';
import type { Settings } from '../options.js';
import { GrowthPolicy, type GrowthRules } from './growth.js';
import { ConnectionBalancer, type IncomingSocket, type Member } from './members.js';
import { endWorkers, holdWritesAfterCrash, type WorkerOwner, WorkerProcess } from './worker-process.js';

/** Longest interval between two checks of the load, in milliseconds. */
const CHECK_MS = 1000;

/** The server of this process, as a member of the balancer. */
class LocalServer implements Member {
  readonly server: RowanServer;
  readonly isReady = true;
  readonly acceptsConnections = true;
  connectionCount = 0;
  counts: Counts | undefined;
  readonly #log: Logger;

  constructor(server: RowanServer, log: Logger) {
    this.server = server;
    this.#log = log;
  }

  assign({ index, socket }: IncomingSocket, elsewhere: number): void {
    this.connectionCount++;
    socket.once('close', () => {
      this.connectionCount--;
    });
    this.server.receive(index, socket, elsewhere);
  }

  async ask(question: Question): Promise<Answer> {
    const answer = this.server.answer(question);
    if (answer.counts) this.counts = answer.counts;
    return answer;
  }

  renewCertificate(): void {
    renewCertificate(this.server, this.#log);
  }
}

/**
 * A server that starts worker processes under load and ends them when idle. The first process serves as well, at first
 * alone. It accepts all connections. Each connection goes to the process with the fewest connections and stays there.
 */
export class GrowingServer implements WorkerOwner, Siblings {
  readonly workerNumber = 1;
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #rules: GrowthRules;
  readonly #growthPolicy: GrowthPolicy;
  readonly #longThread: LongThread;
  readonly #localServer: LocalServer;
  readonly #balancer: ConnectionBalancer<LocalServer | WorkerProcess>;
  readonly #workers = new Set<WorkerProcess>();
  /** Busy time of each member at the last check, in milliseconds. */
  readonly #busyMs = new Map<Member, number>();
  #checkedMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isStopping = false;
  /** Kills the workers when this process exits without `close`. */
  readonly #killWorkers = (): void => {
    for (const worker of this.#workers) worker.kill();
  };

  /** The server closes `longThread`, too. */
  constructor(settings: Settings, partition: Partition, log: Logger, longThread: LongThread, rules: GrowthRules) {
    this.#settings = settings;
    this.#log = log;
    this.#rules = rules;
    this.#growthPolicy = new GrowthPolicy(rules);
    const server = new RowanServer(partition, settings.config, log, { siblings: this, longWorker: longThread });
    this.#longThread = longThread;
    this.#localServer = new LocalServer(server, log);
    this.#balancer = new ConnectionBalancer(settings.config, this.#localServer.server.services.statistics);
    this.#balancer.add(this.#localServer);
    onSettingsChanged(settings.config, (values) => this.ask({ about: 'settings', values }));
    process.once('exit', this.#killWorkers);
  }

  get isAlone(): boolean {
    return this.#workers.size === 0;
  }

  ask(question: Question): Promise<Answer[]> {
    return this.#balancer.askAll(question, this.#localServer);
  }

  /** As `ask`, but with the answer of this process. */
  askAll(question: Question): Promise<Answer[]> {
    return this.#balancer.askAll(question);
  }

  async listen(): Promise<string[]> {
    await this.#localServer.server.prepare();
    const urls = await this.#balancer.listen(this.#log);
    const intervalMs = Math.min(CHECK_MS, this.#rules.startMs / 4);
    this.#timer = setInterval(() => void this.#checkLoad(), intervalMs).unref();
    return urls;
  }

  async #checkLoad(): Promise<void> {
    await this.#balancer.askAll({ about: 'counts' });
    const acceptingMembers = [...this.#balancer].filter((member) => member.acceptsConnections);
    // A starting worker will change the load.
    if (this.#isStopping || [...this.#workers].some((worker) => !worker.isReady && !worker.isDraining)) return;
    const nowMs = performance.now();
    const busyShares = acceptingMembers.map((member) => this.#updateBusyShare(member, nowMs - this.#checkedMs));
    this.#checkedMs = nowMs;
    const countChange = this.#growthPolicy.decide(busyShares, nowMs);
    if (countChange > 0) this.#addWorker(busyShares);
    else if (countChange < 0) this.#drainWorker();
  }

  /** Returns the busy share of the event loop since the last check. A member that did not answer counts as busy. */
  #updateBusyShare(member: Member, ms: number): number {
    const previousMs = this.#busyMs.get(member);
    const busyMs = member.counts?.busyMs ?? previousMs;
    if (busyMs !== undefined) this.#busyMs.set(member, busyMs);
    if (previousMs === undefined || busyMs === undefined) return 0;
    return busyMs === previousMs ? 1 : Math.min(1, (busyMs - previousMs) / ms);
  }

  /** Keeps a worker that was to end, or starts another. */
  #addWorker(shares: readonly number[]): void {
    const busyPercents = shares.map((share) => Math.round(share * 100));
    const drainingWorker = [...this.#workers].find((worker) => worker.isDraining && worker.connectionCount > 0);
    if (drainingWorker) {
      drainingWorker.isDraining = false;
      this.#log.info({ worker: drainingWorker.number, busy: busyPercents }, 'busy: a worker that was to end goes on');
      return;
    }
    const numbers = new Set([...this.#workers].map(({ number }) => number));
    let number = this.workerNumber + 1;
    while (numbers.has(number)) number++;
    this.#log.info({ worker: number, busy: busyPercents }, 'busy: another worker is started');
    const worker = new WorkerProcess(number, this.#settings, this, this.#log);
    this.#workers.add(worker);
    this.#balancer.add(worker);
    worker.whenReady.then(
      () => this.#log.info({ worker: number, pid: worker.pid }, 'the worker serves'),
      () => undefined,
    );
  }

  /** The worker with the fewest connections gets no new ones, and ends with its last connection. */
  #drainWorker(): void {
    const [candidate] = [...this.#workers]
      .filter((worker) => worker.acceptsConnections)
      .sort((a, b) => a.connectionCount - b.connectionCount);
    if (!candidate) return;
    candidate.isDraining = true;
    this.#log.info(
      { worker: candidate.number, connections: candidate.connectionCount },
      'idle: a worker ends with its connections',
    );
    this.onConnectionClosed(candidate);
  }

  onConnectionClosed(worker: WorkerProcess): void {
    if (worker.isDraining && worker.connectionCount === 0) worker.stop();
  }

  async onQuestion(asker: WorkerProcess, question: Question): Promise<Answer[]> {
    return this.#balancer.askAll(question, asker);
  }

  onWorkerEnd(worker: WorkerProcess, reason: string, arrivals: IncomingSocket[]): void {
    this.#workers.delete(worker);
    holdWritesAfterCrash(this.#settings, worker.number, reason, this.#log);
    this.#busyMs.delete(worker);
    // Makes the last writes of the worker visible here, since a single process renews no reads.
    if (this.isAlone) this.#localServer.server.services.partition.renewReads();
    this.#balancer.delete(worker, arrivals);
    if (!this.#isStopping && !worker.isDraining) this.#log.error({ worker: worker.number, reason }, 'a worker ended');
  }

  renewCertificate(): void {
    this.#balancer.renewCertificate();
  }

  /** Stops accepting, lets all processes finish begun requests, and resolves when the workers have ended. */
  async close(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#timer);
    this.#balancer.close();
    await Promise.all([this.#localServer.server.close(), endWorkers(this.#workers, this.#settings)]);
    await this.#longThread.close();
    process.off('exit', this.#killWorkers);
  }
}
