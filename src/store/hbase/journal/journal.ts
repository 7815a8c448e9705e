import type { Plan } from '../../contract.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { Overlay } from '../overlay.js';
import { waitForDecidedPlans } from './decided-plans.js';
import { PlanContext } from './row-queue.js';
import { runPlan } from './run.js';
import { Session, type SessionOptions } from './session.js';
import { Sweeper } from './sweeper.js';
import { Tickets } from './tickets.js';
import { lowestFloor } from './unfinished-plans.js';
import { FencedError } from './writer.js';

export interface JournalOptions extends SessionOptions {
  /** Returns a number that changes whenever HBase answers. */
  readonly answerCount: () => number;
}

/** Maximum number of sessions in which a plan is started, when each ends before the plan is decided. */
const MAX_SESSIONS = 5;

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

  /** As `Store.waitUntilQuiet`. */
  async waitForDecidedPlans(): Promise<void> {
    const { clock, pace } = this.#options;
    const ticket = await this.tickets.readLastTicket();
    await waitForDecidedPlans(this.#cluster, ticket, () => this.readSettledTicket(), clock, pace);
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
