import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import { randomId } from '../../src/store/hbase/journal/codec.js';
import { PACE } from '../../src/store/hbase/journal/pace.js';
import { rowId } from '../../src/store/hbase/journal/plan-rows.js';
import type { PlanContext } from '../../src/store/hbase/journal/row-queue.js';
import type { WantedRow } from '../../src/store/hbase/journal/row-requests.js';
import { Session } from '../../src/store/hbase/journal/session.js';
import { CLOCK, type Clock, Tickets } from '../../src/store/hbase/journal/tickets.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import type { HBaseStore } from '../../src/store/hbase/store.js';
import { ROWS } from './journal-plan.js';
import { freshPrefix, hbase } from './server.js';

describe('what one front end asks of another', () => {
  let store: HBaseStore;
  let tickets: Tickets;
  let asker: Session;
  /** What the asker takes for the time; absent: the time. */
  let askersNow: number | undefined;
  let holder: Session;
  let rows: (count: number, length?: number) => WantedRow[];

  before(async function () {
    const settings = (await hbase(this)).settings(freshPrefix());
    store = await openHBaseStore(settings);
    await store.createTable(ROWS);
    const cluster = new Cluster(store.client, new TableRegistry(store.client, settings));
    tickets = new Tickets(cluster, CLOCK);
    const session = async (clock: Clock): Promise<Session> => {
      const one = new Session(cluster, tickets, { clock, pace: PACE, createId: randomId }, () => undefined);
      await one.writer.open();
      return one;
    };
    asker = await session({ ...CLOCK, now: () => askersNow ?? CLOCK.now() });
    holder = await session(CLOCK);
    const table = await cluster.table(ROWS.name);
    rows = (count, length = 0) =>
      Array.from({ length: count }, (_, n) => {
        const key = Buffer.from(`${n}`.padStart(length, '0'));
        return { table, key, id: rowId(ROWS.name, key), isExclusive: n % 2 === 0 };
      });
  });
  after(async () => {
    await asker?.writer.close();
    await holder?.writer.close();
    await store?.close();
  });

  async function turn(): Promise<PlanContext> {
    const one = asker.createContext();
    await one.drawPriority(tickets);
    return one;
  }

  /** What the holder is asked for: rows and turns. */
  async function heard(): Promise<string[]> {
    return (await holder.writer.readRequests()).map(
      ({ id, isExclusive, priority }) => `${id} ${isExclusive} ${priority}`,
    );
  }

  const asked = (wanted: readonly WantedRow[], { priority }: PlanContext): string[] =>
    wanted.map(({ id, isExclusive }) => `${id} ${isExclusive} ${priority}`);

  /** Waits until the holder is asked for that. */
  async function hears(expected: readonly string[]): Promise<void> {
    while ((await heard()).join() !== expected.join()) await sleep(10);
  }

  it('is the earliest of its turns, then that of who waits behind it, then nothing', async () => {
    const [early, late] = [await turn(), await turn()];
    const wanted = rows(2);
    expect(await asker.rowRequests.send(holder.writer.id, wanted, late)).to.equal(true);
    expect(await heard()).to.deep.equal(asked(wanted, late));
    await asker.rowRequests.send(holder.writer.id, wanted, early);
    expect(await heard()).to.deep.equal(asked(wanted, early));
    asker.rowRequests.withdraw(early);
    await hears(asked(wanted, late));
    asker.rowRequests.withdraw(late);
    await hears([]);
  });

  it('is said again by who could not come to ask', async () => {
    const one = await turn();
    const wanted = rows(1);
    const now = CLOCK.now();
    askersNow = now;
    await asker.rowRequests.send(holder.writer.id, wanted, one);
    const [before] = await holder.writer.readRequests();
    askersNow = now + PACE.requestResendMs - 1;
    await asker.rowRequests.resend(one);
    expect((await holder.writer.readRequests())[0]!.version).to.deep.equal(before!.version);
    askersNow = now + PACE.requestResendMs;
    await asker.rowRequests.resend(one);
    const [after] = await holder.writer.readRequests();
    expect(after!.priority).to.equal(before!.priority);
    expect(after!.version).to.not.deep.equal(before!.version);
    askersNow = undefined;
    asker.rowRequests.withdraw(one);
    await hears([]);
  });

  it('may be more than fits into a page, and less again', async () => {
    const [early, late] = [await turn(), await turn()];
    const many = rows(3000, 200);
    await asker.rowRequests.send(holder.writer.id, many, early);
    await asker.rowRequests.send(holder.writer.id, many.slice(0, 2), late);
    expect(await heard()).to.deep.equal(asked(many, early));
    const pages = new Set((await holder.writer.readRequests()).map(({ qualifier }) => qualifier.toString('hex')));
    expect(pages.size).to.equal(3);
    asker.rowRequests.withdraw(early);
    await hears(asked(many.slice(0, 2), late));
    asker.rowRequests.withdraw(late);
    await hears([]);
  });

  it('is forgotten by who hears nothing more of it, with all that was asked with it', async () => {
    const one = await turn();
    await asker.rowRequests.send(holder.writer.id, rows(3), one);
    await holder.writer.removeRequests((await holder.writer.readRequests()).slice(0, 1));
    expect(await heard()).to.deep.equal([]);
    asker.rowRequests.withdraw(one);
  });
});
