import type { Plan } from '../../contract.js';
import { batchesOf } from '../../maybe.js';
import { cellValue, unpackRow } from '../../row.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { Overlay } from '../engine-scan.js';
import { KEY_ONLY } from '../rpc/filters.js';
import { ID_BYTES } from './codec.js';
import { JOURNAL, STATE } from './journal-tables.js';
import { PlanContext } from './row-queue.js';
import { runPlan } from './run.js';
import { Session, type SessionOptions } from './session.js';
import { Sweeper } from './sweeper.js';
import { lowestFloor, Tickets } from './tickets.js';
import { batchTicket, FencedError } from './writer.js';

export interface JournalOptions extends SessionOptions {
  /** Returns a number that changes whenever HBase answers. */
  readonly answerCount: () => number;
}

/** Maximum number of sessions in which a plan is started, when each ends before the plan is decided. */
const MAX_SESSIONS = 5;
/** Number of leases without progress after which the wait for decided plans fails. */
const SILENT_LEASES = 6;

/**
 * The journal as one front end uses it. The classes below hold all states in which a plan waits, or is partly visible
 * to other front ends. docs/hbase-journal.md describes how each state ends.
 *
 *     a front end      (this class)    one session after another, until it is closed
 *     its session      `Session`       opening ► alive ► ended; its row: alive ► swept ► drained ► removed (`Sweeper`)
 *     a plan           `PlanRun`       waiting ► holding ► reading ► deciding ► applying ► done
 *     waiting plans    `RowQueue`      without a priority ► with a priority, sent to holders by `RowRequests`
 *     a shared row     `SharedRow`     acquiring ► held ► releasing ► released
 *     a row, locally   `LocalLocks`    free, shared by plans, or locked by a plan
 *
 * Time comes from a `Clock`, and HBase is a `Cluster`: the tests in test/hbase/model step both.
 */
export class Journal {
  readonly overlay = new Overlay();
  readonly #cluster: Cluster;
  readonly #options: JournalOptions;
  readonly tickets: Tickets;
  readonly #sweeper: Sweeper;
  #session: Session | undefined;
  #sessionOpening: Promise<Session> | undefined;
  readonly #runningWork = new Set<Promise<unknown>>();
  #isClosing = false;
  #settledTicket = 0n;

  constructor(cluster: Cluster, options: JournalOptions) {
    this.#cluster = cluster;
    this.#options = options;
    const { clock, pace, failpoint } = options;
    this.tickets = new Tickets(cluster, clock);
    this.#sweeper = new Sweeper(cluster, this.tickets, clock, pace, (id) => this.#isOwnWriter(id), failpoint);
  }

  async start(): Promise<void> {
    await this.#currentSession();
    this.#sweeper.start();
  }

  #isOwnWriter(id: Buffer): boolean {
    const session = this.#session;
    return session !== undefined && !session.isEnded && session.writer.id.equals(id);
  }

  /** Returns the living session, and opens one if there is none. */
  async #currentSession(): Promise<Session> {
    if (this.#session && !this.#session.isEnded) return this.#session;
    this.#sessionOpening ??= this.#openSession().finally(() => {
      this.#sessionOpening = undefined;
    });
    return this.#sessionOpening;
  }

  async #openSession(): Promise<Session> {
    for (let sessionCount = 1; ; sessionCount++) {
      const session = new Session(this.#cluster, this.tickets, this.#options, (endedSession) =>
        this.#sweepSession(endedSession),
      );
      try {
        await session.open();
      } catch (error) {
        if (mayBeApplied(error) && sessionCount < MAX_SESSIONS) continue;
        throw error;
      }
      this.#session = session;
      this.overlay.addSession(session);
      return session;
    }
  }

  /** Applies the plans that an ended session has decided. */
  #sweepSession(session: Session): void {
    if (this.#isClosing) return;
    const { id } = session.writer;
    const sweepWork = this.#sweeper.sweep(id).finally(() => this.overlay.removeSession(session));
    session.sweepWork = sweepWork.then(() => undefined);
    // After a failure the next check of the journal continues.
    void sweepWork.then((isDrained) => this.#sweeper.removeDrained(isDrained ? [id] : [])).catch(() => undefined);
  }

  /** Resolves when the plan is durable. Rejects with `unavailable` at its deadline. */
  commit(plan: Plan): Promise<void> {
    const { clock, pace } = this.#options;
    const context = new PlanContext(clock, pace.planTimeoutMs);
    return this.#track(context.withDeadline(this.#runInSession((session) => runPlan(session, plan, context))));
  }

  /** Runs work that commits plans of its own. Starts it again when its session ended before anything was decided. */
  runWork(work: (session: Session) => Promise<void>): Promise<void> {
    return this.#track(this.#runInSession(work));
  }

  #track(work: Promise<void>): Promise<void> {
    const trackedWork = work.finally(() => this.#runningWork.delete(trackedWork));
    this.#runningWork.add(trackedWork);
    return trackedWork;
  }

  async #runInSession(work: (session: Session) => Promise<void>): Promise<void> {
    for (let sessionCount = 1; ; sessionCount++) {
      const session = await this.#currentSession();
      try {
        return await work(session);
      } catch (error) {
        if (!(error instanceof FencedError)) throw error;
        session.abandon();
        if (sessionCount === MAX_SESSIONS)
          throw new StoreError('unavailable', 'the other front ends keep giving this one up', { cause: error });
      }
    }
  }

  /** As `Store.settled`. */
  async readSettledTicket(): Promise<bigint> {
    const ticket = await this.tickets.readLastTicket();
    const floor = await lowestFloor(this.#cluster, ticket, (id) => this.#isOwnWriter(id));
    const session = this.#session;
    const settledTicket = session && !session.isEnded ? session.writer.unfinishedPlans.floor(floor) : floor;
    // An older floor may arrive later, so the result never falls.
    if (settledTicket > this.#settledTicket) this.#settledTicket = settledTicket;
    return this.#settledTicket;
  }

  /**
   * As `Store.waitUntilQuiet`: resolves when every plan that was decided before the call is applied and its counters
   * are folded, that is, written to their rows. A record stays in the journal until its counters are folded, either by
   * its front end or, after a crash, by a sweeper. Rejects with `unavailable` when no progress is seen for
   * `SILENT_LEASES` leases.
   */
  async waitForDecidedPlans(): Promise<void> {
    const { clock, pace } = this.#options;
    const ticket = await this.tickets.readLastTicket();
    let records = await listRecords(this.#cluster);
    let lastProgress = '';
    for (let progressAt = clock.now(); ; await clock.sleep(pace.foldIntervalMs)) {
      const unfinishedRecords = await listRecords(this.#cluster);
      records = records.filter((record) => unfinishedRecords.includes(record));
      if (records.length === 0 && (await this.readSettledTicket()) >= ticket) return;
      const progress = await readProgress(this.#cluster, ticket, records);
      if (progress !== lastProgress) progressAt = clock.now();
      lastProgress = progress;
      if (clock.now() - progressAt > SILENT_LEASES * pace.leaseMs)
        throw new StoreError(
          'unavailable',
          'a plan that was decided is not done, and its front end shows no sign of life; start one, which takes it up',
        );
    }
  }

  /** Waits for running plans and releases all rows, unless HBase stops answering. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled(this.#runningWork);
    const closeController = new AbortController();
    try {
      await Promise.race([this.#releaseRows(), this.waitForSilence(closeController.signal)]);
    } finally {
      closeController.abort();
    }
  }

  /** Releases all rows. After a failure, other front ends release the rows, as after a crash. */
  async #releaseRows(): Promise<void> {
    try {
      await this.#sweeper.stop();
      await this.#session?.close();
    } catch (error) {
      const isGone = error instanceof StoreError && ['unavailable', 'closed', 'noTable'].includes(error.code);
      if (!isGone && !(error instanceof FencedError)) throw error;
    }
  }

  /** Resolves when HBase has answered nothing for `Pace.silenceTimeoutMs`, unless `signal` is aborted first. */
  waitForSilence(signal: AbortSignal): Promise<void> {
    const { clock, pace, answerCount } = this.#options;
    return new Promise((resolve) => {
      let lastAnswerCount = answerCount();
      const cancelTimer = clock.runEvery(pace.silenceTimeoutMs, () => {
        if (answerCount() === lastAnswerCount) resolve();
        lastAnswerCount = answerCount();
      });
      signal.addEventListener('abort', cancelTimer);
    });
  }
}

/** Returns the records of plans that are decided and not finished, as writer and sequence in latin-1. */
async function listRecords({ client, journal }: Cluster): Promise<string[]> {
  const records: string[] = [];
  const scan = client.scan(journal, {}, { families: [JOURNAL.plan], filter: KEY_ONLY });
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, id] of keys.entries()) {
      if (id.length !== ID_BYTES) continue;
      for (const { qualifier } of unpackRow(rows[i]!))
        if (batchTicket(qualifier) === undefined) records.push(Buffer.concat([id, qualifier]).toString('latin1'));
    }
  return records;
}

/** Returns a text that changes as long as a writer of one of the records, or of an unfinished plan, is alive. */
async function readProgress({ client, journal }: Cluster, ticket: bigint, records: readonly string[]): Promise<string> {
  const writers = new Set(records.map((record) => record.slice(0, ID_BYTES)));
  let progress = '';
  const scan = client.scan(journal, {}, { families: [JOURNAL.state] });
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, id] of keys.entries()) {
      const [floor, beat, state] = [STATE.floor, STATE.beat, STATE.state].map((qualifier) =>
        cellValue(rows[i]!, JOURNAL.state, qualifier),
      );
      if (!writers.has(id.toString('latin1')) && floor && floor.readBigInt64BE() >= ticket) continue;
      progress += `${id.toString('hex')} ${beat?.toString('hex')} ${state}\n`;
    }
  return progress;
}
