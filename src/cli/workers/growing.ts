import type { Logger } from 'pino';
import type { Partition } from '../../partition/index.js';
import type { LongWorker } from '../../server/processes/long-worker.js';
import type { Answer, Question, Siblings } from '../../server/processes/siblings.js';
import type { Counts } from '../../server/processes/statistics.js';
import { RowanServer } from '../../server/server.js';
import { renewCertificate } from '../certificate.js';
import type { Settings } from '../options.js';
import { holdAfterCrash } from './crash.js';
import { Growth, type GrowthRules } from './growth.js';
import { type Arrival, type Member, Members } from './members.js';
import { endWorkers, type WorkerOwner, WorkerProcess } from './worker-process.js';

/** How often it is looked how busy the processes are, at the most, in milliseconds. */
const LOOK_MS = 1000;

/** The server of this process, as one of those that are given connections. */
class OwnServer implements Member {
  readonly server: RowanServer;
  readonly serves = true;
  readonly takes = true;
  connections = 0;
  counts: Counts | undefined;
  readonly #log: Logger;

  constructor(server: RowanServer, log: Logger) {
    this.server = server;
    this.#log = log;
  }

  give({ index, socket }: Arrival, elsewhere: number): void {
    this.connections++;
    socket.once('close', () => {
      this.connections--;
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
 * A server that starts worker processes when it has much to do, and ends them when it has little. The first process
 * serves, too, and alone as long as that is enough; then it does what a server of one process does. It accepts all
 * connections; each goes to the process that has fewest, and stays there.
 */
export class GrowingServer implements WorkerOwner, Siblings {
  readonly worker = 1;
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #rules: GrowthRules;
  readonly #growth: Growth;
  readonly #own: OwnServer;
  readonly #members: Members<OwnServer | WorkerProcess>;
  readonly #workers = new Set<WorkerProcess>();
  /** For how long each was at work when it was last looked. */
  readonly #busyMs = new Map<Member, number>();
  #lookedAt = performance.now();
  #looking: NodeJS.Timeout | undefined;
  #stopping = false;
  /** Ends the workers at once: an end without `close` leaves none behind. */
  readonly #kill = (): void => {
    for (const worker of this.#workers) worker.kill();
  };

  constructor(settings: Settings, partition: Partition, log: Logger, long: LongWorker | undefined, rules: GrowthRules) {
    this.#settings = settings;
    this.#log = log;
    this.#rules = rules;
    this.#growth = new Growth(rules);
    this.#own = new OwnServer(new RowanServer(partition, settings.config, log, { siblings: this, long }), log);
    this.#members = new Members(settings.config, this.#own.server.services.statistics);
    this.#members.add(this.#own);
    process.once('exit', this.#kill);
  }

  get alone(): boolean {
    return this.#workers.size === 0;
  }

  ask(question: Question): Promise<Answer[]> {
    return this.#members.ask(question, this.#own);
  }

  async listen(): Promise<string[]> {
    await this.#own.server.prepare();
    const urls = await this.#members.listen(this.#log);
    const every = Math.min(LOOK_MS, this.#rules.startMs / 4);
    this.#looking = setInterval(() => void this.#look(), every).unref();
    return urls;
  }

  async #look(): Promise<void> {
    await this.#members.ask({ about: 'counts' });
    const taking = [...this.#members].filter((member) => member.takes);
    // One that is just starting will change the picture.
    if (this.#stopping || [...this.#workers].some((worker) => !worker.serves && !worker.leaving)) return;
    const now = performance.now();
    const shares = taking.map((member) => this.#shareOf(member, now - this.#lookedAt));
    this.#lookedAt = now;
    const more = this.#growth.next(shares, now);
    if (more > 0) this.#grow(shares);
    else if (more < 0) this.#shrink();
  }

  /** By what share of the time it was at work; one that did not answer is at it. */
  #shareOf(member: Member, ms: number): number {
    const before = this.#busyMs.get(member);
    const busyMs = member.counts?.busyMs ?? before;
    if (busyMs !== undefined) this.#busyMs.set(member, busyMs);
    if (before === undefined || busyMs === undefined) return 0;
    return busyMs === before ? 1 : Math.min(1, (busyMs - before) / ms);
  }

  /** One that was to end goes on, or another begins. */
  #grow(shares: readonly number[]): void {
    const busy = shares.map((share) => Math.round(share * 100));
    const leaving = [...this.#workers].find((worker) => worker.leaving && worker.connections > 0);
    if (leaving) {
      leaving.leaving = false;
      this.#log.info({ worker: leaving.worker, busy }, 'busy: a worker that was to end goes on');
      return;
    }
    const numbers = new Set([...this.#workers].map(({ worker }) => worker));
    let number = this.worker + 1;
    while (numbers.has(number)) number++;
    this.#log.info({ worker: number, busy }, 'busy: another worker is started');
    const worker = new WorkerProcess(number, this.#settings, this);
    this.#workers.add(worker);
    this.#members.add(worker);
    worker.ready.then(
      () => this.#log.info({ worker: number, pid: worker.pid }, 'the worker serves'),
      () => undefined,
    );
  }

  /** The worker with the fewest connections is given no more, and ends with the last that it has. */
  #shrink(): void {
    const [least] = [...this.#workers].filter((worker) => worker.takes).sort((a, b) => a.connections - b.connections);
    if (!least) return;
    least.leaving = true;
    this.#log.info(
      { worker: least.worker, connections: least.connections },
      'idle: a worker ends with its connections',
    );
    this.closed(least);
  }

  closed(worker: WorkerProcess): void {
    if (worker.leaving && worker.connections === 0) worker.stop();
  }

  async asked(asker: WorkerProcess, question: Question): Promise<Answer[]> {
    return this.#members.ask(question, asker);
  }

  ended(worker: WorkerProcess, reason: string, arrivals: Arrival[]): void {
    this.#workers.delete(worker);
    holdAfterCrash(this.#settings, worker.worker, reason, this.#log);
    this.#members.delete(worker);
    this.#busyMs.delete(worker);
    if (worker.counts) this.#own.server.services.statistics.inherit(worker.counts);
    if (this.#stopping) {
      for (const { socket } of arrivals) socket.destroy();
      return;
    }
    // What it has acknowledged is seen from here on, though nothing is renewed any more.
    if (this.alone) this.#own.server.services.partition.renewReads();
    for (const arrival of arrivals) this.#members.give(arrival);
    if (!worker.leaving) this.#log.error({ worker: worker.worker, reason }, 'a worker ended');
  }

  renewCertificate(): void {
    this.#members.renewCertificate();
  }

  /** Accepts nothing more, lets all answer what they have begun, and resolves when the workers have ended. */
  async close(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#looking);
    this.#members.close();
    await Promise.all([this.#own.server.close(), endWorkers(this.#workers, this.#settings)]);
    process.off('exit', this.#kill);
  }
}
