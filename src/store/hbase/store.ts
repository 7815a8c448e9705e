import type { LoadTable, Plan, Snapshot, Store, TableSpec } from '../contract.js';
import { LOG_LOOK_MS, LOG_TABLE, loggedPlan } from '../log.js';
import { StoreError } from '../store-error.js';
import { Cluster } from './cluster.js';
import { HBaseReader } from './hbase-reader.js';
import { ingest } from './ingest.js';
import type { Failpoint } from './journal/apply.js';
import { randomId } from './journal/codec.js';
import { Journal } from './journal/journal.js';
import { INTERNAL_TABLES } from './journal/journal-tables.js';
import { countDeadLocks } from './journal/locks.js';
import { PACE } from './journal/pace.js';
import { removeOrphanPieces } from './journal/sweeper.js';
import { CLOCK, TICKET_STEP } from './journal/tickets.js';
import { HBaseClient } from './rpc/client.js';
import { TableRegistry } from './schema/index.js';
import type { HBaseSettings } from './settings.js';

export interface HBaseStoreOptions {
  /** `false`: reject with `noTable` when the store does not exist. */
  readonly create?: boolean;
  /** Other front ends end the session of a front end that has not renewed its lease for this time, ms. */
  readonly leaseMs?: number;
  /** Whether plans wait until a dead writer has been given up, even if `operationTimeoutMs` is shorter. */
  readonly patient?: boolean;
  /** Receives the name of each point between the phases of plans. For tests. */
  readonly failpoint?: Failpoint;
}

/** Opens the tables of a directory in HBase. Creates the internal tables of the engine if they do not exist. */
export async function openHBaseStore(settings: HBaseSettings, options: HBaseStoreOptions = {}): Promise<HBaseStore> {
  const client = new HBaseClient(settings);
  try {
    const registry = new TableRegistry(client, settings);
    if (options.create === false) await registry.requireExists();
    await registry.ensure(INTERNAL_TABLES);
    const store = new HBaseStore(client, registry, settings, options);
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
  /** Public, because callers read its statistics. */
  readonly client: HBaseClient;
  readonly #registry: TableRegistry;
  readonly #journal: Journal;
  readonly #closeController = new AbortController();
  #hasLog = false;
  #logLookedAt = Number.NEGATIVE_INFINITY;
  #silence: Promise<void> | undefined;
  #closeWork: Promise<void> | undefined;

  constructor(client: HBaseClient, registry: TableRegistry, settings: HBaseSettings, options: HBaseStoreOptions) {
    const cluster = new Cluster(client, registry);
    const leaseMs = options.leaseMs ?? PACE.leaseMs;
    const lateArrivalMs = settings.rpcTimeoutMs;
    const planTimeoutMs = settings.operationTimeoutMs;
    // Twice the time until the locks of a writer that died within a batch are removed.
    const patientPlanTimeoutMs = Math.max(planTimeoutMs, 2 * (2 * leaseMs + lateArrivalMs));
    const journal = new Journal(cluster, {
      clock: CLOCK,
      pace: { ...PACE, leaseMs, lateArrivalMs, planTimeoutMs: options.patient ? patientPlanTimeoutMs : planTimeoutMs },
      answerCount: () => client.statistics.bytesReceived,
      createId: randomId,
      failpoint: options.failpoint,
    });
    super(cluster, journal.overlay);
    this.client = client;
    this.#registry = registry;
    this.#journal = journal;
  }

  async start(): Promise<void> {
    // The counter is created last: when it exists, all tables do.
    if (!(await this.#journal.tickets.exists())) {
      await this.#registry.ensure(INTERNAL_TABLES);
      await this.#journal.tickets.ensureExists();
    }
    await this.#journal.start();
  }

  async createTable(spec: TableSpec): Promise<void> {
    this.#checkOpen();
    await this.#registry.create(spec, () => this.#journal.tickets.draw(1));
    await this.cluster.table(spec.name);
    this.#logLookedAt = Number.NEGATIVE_INFINITY;
  }

  async dropTable(name: string): Promise<void> {
    this.#checkOpen();
    this.cluster.forgetTable(name);
    await this.#registry.drop(name, () => this.#journal.tickets.draw(1));
    this.cluster.forgetTable(name);
    this.#logLookedAt = Number.NEGATIVE_INFINITY;
  }

  async tables(): Promise<TableSpec[]> {
    this.#checkOpen();
    return this.#registry.list();
  }

  snapshot(): Snapshot {
    this.#checkOpen();
    return new HBaseSnapshot(this.cluster, this.#journal.overlay);
  }

  async commit(plan: Plan): Promise<void> {
    this.#checkOpen();
    if (plan.unlogged || !(await this.#isLogged())) return this.#journal.commit(plan);
    const specs = await this.#specsOf(plan);
    return this.#journal.commit(loggedPlan(plan, (table) => specs.get(table)!, TICKET_STEP));
  }

  /** Whether there is a log. It is looked for once in a while: a front end notices a new one within `LOG_LOOK_MS`. */
  async #isLogged(): Promise<boolean> {
    if (performance.now() - this.#logLookedAt > LOG_LOOK_MS) {
      this.#logLookedAt = performance.now();
      this.#hasLog = (await this.cluster.findTable(LOG_TABLE.name)) !== undefined;
    }
    return this.#hasLog;
  }

  async #specsOf({ steps }: Plan): Promise<Map<string, TableSpec>> {
    const specs = new Map<string, TableSpec>();
    for (const { table } of steps) specs.set(table, (await this.cluster.table(table)).spec);
    return specs;
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    this.#checkOpen();
    const specs = plan.unlogged || !(await this.#isLogged()) ? undefined : await this.#specsOf(plan);
    return this.#journal.runWork((session) => ingest(session, tables, plan, specs));
  }

  async countDeadLocks(remove: boolean): Promise<number> {
    this.#checkOpen();
    if (remove) await removeOrphanPieces(this.cluster);
    return countDeadLocks(this.cluster, remove);
  }

  async waitUntilQuiet(): Promise<void> {
    this.#checkOpen();
    return this.#journal.waitForDecidedPlans();
  }

  async settled(): Promise<bigint> {
    this.#checkOpen();
    return this.#journal.readSettledTicket();
  }

  close(): Promise<void> {
    this.#closeWork ??= this.#close();
    return this.#closeWork;
  }

  /** Releases all rows as long as HBase answers. Other front ends remove the remaining locks when the lease ends. */
  async #close(): Promise<void> {
    this.beginClose();
    try {
      await this.#journal.close();
    } finally {
      this.#closeController.abort();
      await this.client.close();
    }
  }

  beginClose(): void {
    this.#silence ??= this.#journal.waitForSilence(this.#closeController.signal).then(() => this.client.close());
  }

  #checkOpen(): void {
    if (this.#closeWork) throw new StoreError('closed', 'the store was closed');
  }
}

/** Reads like the store, because HBase has no snapshots. */
class HBaseSnapshot extends HBaseReader implements Snapshot {
  close(): void {}
}
