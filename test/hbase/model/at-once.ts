import type { TableSpec } from '../../../src/store/contract.js';
import { Cluster, type RowClient } from '../../../src/store/hbase/cluster.js';
import { Journal } from '../../../src/store/hbase/journal/journal.js';
import { JOURNAL_TABLE, NUMBERS_TABLE } from '../../../src/store/hbase/journal/journal-tables.js';
import { PACE } from '../../../src/store/hbase/journal/pace.js';
import { Session, type SessionOptions } from '../../../src/store/hbase/journal/session.js';
import { type CancelTimer, type Clock, Tickets } from '../../../src/store/hbase/journal/tickets.js';
import type { RowMutation, TableHandle } from '../../../src/store/hbase/rpc/rpc-types.js';
import { counterBytes, EMPTY } from '../../../src/store/row.js';
import { lost, ModelRows } from './rows.js';

interface Timer {
  due: number;
  readonly every: number | undefined;
  readonly work: () => void;
}

/** A clock that a test turns. */
export class HandClock implements Clock {
  readonly timers = new Set<Timer>();
  #now = 0;

  now(): number {
    return this.#now;
  }

  #add(ms: number, work: () => void, every?: number): CancelTimer {
    const timer = { due: this.#now + ms, every, work };
    this.timers.add(timer);
    return () => void this.timers.delete(timer);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#add(ms, resolve));
  }

  runAfter(ms: number, work: () => void): CancelTimer {
    return this.#add(ms, work);
  }

  runEvery(ms: number, work: () => void): CancelTimer {
    return this.#add(ms, work, ms);
  }

  defer(work: () => void): void {
    queueMicrotask(work);
  }

  /** Every timer that is due goes off, in order, and what follows from it is done before the next. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    await rest();
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#now = next.due;
      if (next.every === undefined) this.timers.delete(next);
      else next.due += next.every;
      next.work();
      await rest();
    }
    this.#now = end;
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.timers) if (timer.due <= end && !(next && next.due <= timer.due)) next = timer;
    return next;
  }
}

/** Resolves when all is done that waits for nothing but promises. */
export function rest(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A front end: what it asks of HBase a test may replace. */
export interface Front {
  readonly client: RowClient;
  readonly cluster: Cluster;
  readonly clock: HandClock;
  readonly options: SessionOptions;
}

/** Front ends over an HBase that answers at once. */
export class AtOnce {
  readonly rows: ModelRows;
  #fronts = 0;

  constructor(specs: readonly TableSpec[]) {
    this.rows = new ModelRows(specs);
    const numbers = this.rows.table(this.rows.tables.internal(NUMBERS_TABLE));
    numbers.mutate({ key: Buffer.from('ticket'), put: [{ family: 0, qualifier: EMPTY, value: counterBytes(1000n) }] });
  }

  front(more: Partial<SessionOptions> = {}): Front {
    const number = ++this.#fronts;
    const client = this.rows.for({ request: async (_front, _text, work) => work() }, number);
    const clock = new HandClock();
    let names = 0;
    const createId = (): Buffer => Buffer.from([number, 0, 0, 0, 0, 0, 0, ++names]);
    return {
      client,
      clock,
      cluster: new Cluster(client, this.rows.tables),
      options: { clock, pace: PACE, createId, ...more },
    };
  }

  /** Keys of all rows in the journal, hexadecimal. */
  journal(): string[] {
    const { rows } = this.rows.table(this.rows.tables.internal(JOURNAL_TABLE));
    return [...rows.keys()].map((id) => Buffer.from(id, 'latin1').toString('hex'));
  }
}

export function journalOf({ cluster, options }: Front): Journal {
  return new Journal(cluster, { ...options, answerCount: () => 0 });
}

export async function openSession({ cluster, clock, options }: Front): Promise<Session> {
  const session = new Session(cluster, new Tickets(cluster, clock), options, () => undefined);
  await session.open();
  return session;
}

/**
 * The client loses the answer to the first mutation that is meant, does `between`, and tries it once more, as the real
 * one does with what may be repeated.
 */
export function loseOnce(
  client: RowClient,
  isMeant: (mutation: RowMutation) => boolean,
  between?: () => unknown,
): void {
  const { mutate } = client;
  let isLost = false;
  client.mutate = async (table: TableHandle, mutation) => {
    const done = await mutate(table, mutation);
    if (isLost || !isMeant(mutation)) return done;
    isLost = true;
    await between?.();
    if (!mutation.isRepeatable) throw lost();
    if (await mutate(table, mutation)) return true;
    if (!mutation.isFalseWhenUnknown) throw lost();
    return false;
  };
}
