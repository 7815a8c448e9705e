import type { LoadTable, Plan, Snapshot, Store, TableSpec } from '../contract.js';
import { StoreError } from '../errors.js';
import { Cluster } from './cluster.js';
import { HBaseReader } from './hbase-reader.js';
import { ingest } from './ingest.js';
import type { Failpoint } from './journal/apply.js';
import { CLOCK, PACE, type Pace } from './journal/clock.js';
import { runPlan } from './journal/run.js';
import { Session } from './journal/session.js';
import { Sweeper } from './journal/sweeper.js';
import { Tickets } from './journal/tickets.js';
import { Turn } from './journal/turns.js';
import { leastFloor } from './journal/unfinished.js';
import { Fenced } from './journal/writer.js';
import { Overlay } from './overlay.js';
import { HBaseClient } from './rpc/client.js';
import { TableRegistry } from './schema/index.js';
import type { HBaseSettings } from './settings.js';

export interface HBaseStoreOptions {
  /** `false`: a store that is not there is `noTable`. */
  readonly create?: boolean;
  /** A front end that does not show itself for so long is given up by the others, ms. */
  readonly leaseMs?: number;
  /** Called between the parts of plans, by name; for tests. */
  readonly failpoint?: Failpoint;
}

/** Who closes a store waits no longer for an HBase that answers nothing, ms. */
const SILENCE_MS = 1000;
/** A plan whose session ended before it was decided is started again so many times. */
const SESSIONS = 5;

/** Opens a directory's tables in HBase; makes those that the engine needs for itself. */
export async function openHBaseStore(settings: HBaseSettings, options: HBaseStoreOptions = {}): Promise<HBaseStore> {
  const client = new HBaseClient(settings);
  try {
    const registry = new TableRegistry(client, settings);
    if (options.create === false && !(await registry.isThere())) {
      const where = `${settings.namespace}:${settings.prefix}`;
      throw new StoreError('noTable', `there is no directory in the HBase tables ${where}*; "rowan init" makes one`);
    }
    const cluster = new Cluster(client, registry);
    await cluster.ensure();
    const store = new HBaseStore(cluster, settings, options);
    await store.start();
    return store;
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** The store over HBase: docs/adr/0015-hbase-journal.md. */
export class HBaseStore extends HBaseReader implements Store {
  readonly supports = { atomicPlan: false, snapshot: false, processes: true, durable: true, spread: true } as const;
  readonly #overlay: Overlay;
  readonly #pace: Pace;
  readonly #tickets: Tickets;
  readonly #sweeper: Sweeper;
  readonly #newSession: () => Session;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;
  #settled = 0n;

  constructor(cluster: Cluster, settings: HBaseSettings, options: HBaseStoreOptions) {
    const overlay = new Overlay();
    super(cluster, overlay);
    this.#overlay = overlay;
    const clock = CLOCK;
    const pace = { ...PACE, lease: options.leaseMs ?? PACE.lease, plan: settings.operationTimeoutMs };
    const sessionOptions = { clock, pace, failpoint: options.failpoint };
    this.#pace = pace;
    this.#tickets = new Tickets(cluster, clock);
    this.#sweeper = new Sweeper(cluster, this.#tickets, clock, pace.lease, (id) => this.#isOwn(id), options.failpoint);
    this.#newSession = () => new Session(cluster, this.#tickets, sessionOptions, (session) => this.#ended(session));
  }

  /** The client, for its statistics. */
  get client(): HBaseClient {
    return this.cluster.client;
  }

  async start(): Promise<void> {
    // The counter is made last: where it is, everything is.
    if (!(await this.#tickets.isThere())) {
      await this.cluster.ensure();
      await this.#tickets.ensure();
    }
    await this.#current();
    this.#sweeper.start();
  }

  #isOwn(id: Buffer): boolean {
    const session = this.#session;
    return session !== undefined && !session.ended && session.writer.id.equals(id);
  }

  /** The session of this moment. */
  async #current(): Promise<Session> {
    if (this.#session && !this.#session.ended) return this.#session;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #open(): Promise<Session> {
    const session = this.#newSession();
    await session.open();
    this.#session = session;
    this.#overlay.opened(session);
    return session;
  }

  /** What an ended session had decided is finished at once; where that fails, by whoever looks next. */
  #ended(session: Session): void {
    if (this.#closing) return;
    session.swept = this.#sweeper.sweep(session.writer.id).finally(() => this.#overlay.swept(session));
  }

  async createTable(spec: TableSpec): Promise<void> {
    this.#checkOpen();
    await this.cluster.registry.create(spec);
    await this.cluster.table(spec.name);
  }

  async dropTable(name: string): Promise<void> {
    this.#checkOpen();
    this.cluster.forget(name);
    await this.cluster.registry.drop(name);
    this.cluster.forget(name);
  }

  async tables(): Promise<TableSpec[]> {
    this.#checkOpen();
    return this.cluster.registry.list();
  }

  snapshot(): Snapshot {
    this.#checkOpen();
    return new HBaseSnapshot(this.cluster, this.#overlay);
  }

  commit(plan: Plan): Promise<void> {
    const turn = new Turn(CLOCK, this.#pace.plan);
    return this.#run((session) => runPlan(session, plan, turn), turn);
  }

  ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    return this.#run((session) => ingest(session, tables, plan));
  }

  async settled(): Promise<bigint> {
    this.#checkOpen();
    const given = await this.#tickets.read();
    const least = await leastFloor(this.cluster, given, (id) => this.#isOwn(id));
    const session = this.#session;
    const settled = session && !session.ended ? session.writer.unfinished.floor(least) : least;
    // A floor that was sent earlier may arrive later: what was settled once stays so.
    if (settled > this.#settled) this.#settled = settled;
    return this.#settled;
  }

  async #run(work: (session: Session) => Promise<void>, turn?: Turn): Promise<void> {
    this.#checkOpen();
    const running = turn ? turn.bounded(this.#persist(work)) : this.#persist(work);
    this.#running.add(running);
    try {
      await running;
    } finally {
      this.#running.delete(running);
    }
  }

  async #persist(work: (session: Session) => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries++) {
      const session = await this.#current();
      try {
        return await work(session);
      } catch (error) {
        if (!(error instanceof Fenced)) throw error;
        session.abandon();
        if (tries === SESSIONS)
          throw new StoreError('unavailable', 'the other front ends keep giving this one up', { cause: error });
      }
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#running);
    const stop = new AbortController();
    try {
      await Promise.race([this.#farewell(), this.#silence(stop.signal)]);
    } finally {
      stop.abort();
      await this.cluster.client.close();
    }
  }

  /** Gives back what is held. Where that does not come through others do it, as after a crash. */
  async #farewell(): Promise<void> {
    await this.#sweeper.stop();
    try {
      await this.#session?.close();
    } catch (error) {
      if (!(error instanceof Fenced || (error instanceof StoreError && error.code === 'unavailable'))) throw error;
    }
  }

  /** Resolves when HBase has answered nothing for a while: it is not waited for. */
  #silence(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const { statistics } = this.client;
      let before = statistics.bytesReceived;
      const stop = CLOCK.every(SILENCE_MS, () => {
        if (statistics.bytesReceived === before) resolve();
        before = statistics.bytesReceived;
      });
      signal.addEventListener('abort', stop);
    });
  }

  #checkOpen(): void {
    if (this.#closing) throw new StoreError('closed', 'the store was closed');
  }
}

/** Reads rows as they are, like the store: HBase keeps no state of the whole. */
class HBaseSnapshot extends HBaseReader implements Snapshot {
  close(): void {}
}
