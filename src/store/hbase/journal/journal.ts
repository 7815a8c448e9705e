import type { Plan } from '../../contract.js';
import { mayBeDone, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { Overlay } from '../overlay.js';
import { untilQuiet } from './quiet.js';
import { runPlan } from './run.js';
import { Session, type SessionOptions } from './session.js';
import { Sweeper } from './sweeper.js';
import { Tickets } from './tickets.js';
import { Turn } from './turns.js';
import { leastFloor } from './unfinished.js';
import { Fenced } from './writer.js';

export interface JournalOptions extends SessionOptions {
  /** A number that changes whenever HBase answers. */
  readonly answers: () => number;
}

/** A plan whose session ended before it was decided is started again so many times. */
const SESSIONS = 5;

/**
 * What a front end is in the journal. Everything that waits, and all that another may see half done, is a state of one
 * of these; docs/hbase-journal.md goes through them and says what ends each.
 *
 *     the front end   (this class)     one session after another, until it is closed
 *     its session     `Session`        opening ► alive ► ended; its row: alive ► swept ► drained ► gone (`Sweeper`)
 *     a plan          `PlanRun`        waiting ► holding ► reading ► deciding ► applying ► done
 *     who goes first  `Turn`, `Turns`  without a turn ► with one, which is told to others by `Asks`
 *     a shared row    `SharedRow`      taking ► held ► leaving ► gone
 *     a row, here     `LocalLocks`     free, shared by plans, or of one plan
 *
 * Time comes from a `Clock`, and HBase is a `Cluster`: a model steps both (test/hbase/model).
 */
export class Journal {
  readonly overlay = new Overlay();
  readonly #cluster: Cluster;
  readonly #options: JournalOptions;
  readonly #tickets: Tickets;
  readonly #sweeper: Sweeper;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  readonly #running = new Set<Promise<unknown>>();
  #isClosing = false;
  #settled = 0n;

  constructor(cluster: Cluster, options: JournalOptions) {
    this.#cluster = cluster;
    this.#options = options;
    const { clock, pace, failpoint } = options;
    this.#tickets = new Tickets(cluster, clock);
    this.#sweeper = new Sweeper(cluster, this.#tickets, clock, pace, (id) => this.#isOwn(id), failpoint);
  }

  /** A number above all that were drawn before. */
  ticket(): Promise<bigint> {
    return this.#tickets.draw(1);
  }

  /** Whether the counter of tickets is there, which is made last; and makes it. */
  isThere(): Promise<boolean> {
    return this.#tickets.isThere();
  }

  ensure(): Promise<void> {
    return this.#tickets.ensure();
  }

  async start(): Promise<void> {
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
    for (let tries = 1; ; tries++) {
      const session = new Session(this.#cluster, this.#tickets, this.#options, (ended) => this.#ended(ended));
      try {
        await session.open();
      } catch (error) {
        if (mayBeDone(error) && tries < SESSIONS) continue;
        throw error;
      }
      this.#session = session;
      this.overlay.opened(session);
      return session;
    }
  }

  /** What an ended session had decided is done at once; where that fails, by whoever looks next. */
  #ended(session: Session): void {
    if (this.#isClosing) return;
    const { id } = session.writer;
    const sweeping = this.#sweeper.sweep(id).finally(() => this.overlay.swept(session));
    session.swept = sweeping.then(() => undefined);
    // Where that fails the next look at the journal finds it.
    void sweeping.then((isOver) => this.#sweeper.clear(isOver ? [id] : [])).catch(() => undefined);
  }

  /** Resolves when the plan is durable, or with `unavailable` at its deadline. */
  commit(plan: Plan): Promise<void> {
    const { clock, pace } = this.#options;
    const turn = new Turn(clock, pace.plan);
    return this.#track(turn.bounded(this.#persist((session) => runPlan(session, plan, turn))));
  }

  /** Work that commits plans of its own; begun again where its session ended before anything was decided. */
  run(work: (session: Session) => Promise<void>): Promise<void> {
    return this.#track(this.#persist(work));
  }

  async #track(running: Promise<void>): Promise<void> {
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

  /** As `Store.settled`. */
  async settled(): Promise<bigint> {
    const given = await this.#tickets.read();
    const least = await leastFloor(this.#cluster, given, (id) => this.#isOwn(id));
    const session = this.#session;
    const settled = session && !session.ended ? session.writer.unfinished.floor(least) : least;
    // A floor that was sent earlier may arrive later: what was settled once stays so.
    if (settled > this.#settled) this.#settled = settled;
    return this.#settled;
  }

  /** As `Store.quiet`. */
  async quiet(): Promise<void> {
    const { clock, pace } = this.#options;
    const given = await this.#tickets.read();
    await untilQuiet(this.#cluster, given, () => this.settled(), clock, pace);
  }

  /** Ends what is under way, gives back what is held, and waits no longer for an HBase that answers nothing. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled(this.#running);
    const ended = new AbortController();
    try {
      await Promise.race([this.#farewell(), this.silence(ended.signal)]);
    } finally {
      ended.abort();
    }
  }

  /** Where it does not come through others do it, as after a crash. */
  async #farewell(): Promise<void> {
    try {
      await this.#sweeper.stop();
      await this.#session?.close();
    } catch (error) {
      const isGone = error instanceof StoreError && (error.code === 'unavailable' || error.code === 'closed');
      if (!isGone && !(error instanceof Fenced)) throw error;
    }
  }

  /** Resolves when HBase has answered nothing for a while; never, when `ended` comes first. */
  silence(ended: AbortSignal): Promise<void> {
    const { clock, pace, answers } = this.#options;
    return new Promise((resolve) => {
      let before = answers();
      const stop = clock.every(pace.silence, () => {
        if (answers() === before) resolve();
        before = answers();
      });
      ended.addEventListener('abort', stop);
    });
  }
}
