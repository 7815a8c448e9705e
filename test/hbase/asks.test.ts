import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { WantedRow } from '../../src/store/hbase/journal/asks.js';
import { CLOCK, type Clock, PACE } from '../../src/store/hbase/journal/clock.js';
import { randomId } from '../../src/store/hbase/journal/codec.js';
import { rowId } from '../../src/store/hbase/journal/groups.js';
import { Session } from '../../src/store/hbase/journal/session.js';
import { Tickets } from '../../src/store/hbase/journal/tickets.js';
import type { Turn } from '../../src/store/hbase/journal/turns.js';
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
      const one = new Session(cluster, tickets, { clock, pace: PACE, newId: randomId }, () => undefined);
      await one.writer.open();
      return one;
    };
    asker = await session({ ...CLOCK, now: () => askersNow ?? CLOCK.now() });
    holder = await session(CLOCK);
    const table = await cluster.table(ROWS.name);
    rows = (count, length = 0) =>
      Array.from({ length: count }, (_, n) => {
        const key = Buffer.from(`${n}`.padStart(length, '0'));
        return { table, key, id: rowId(ROWS.name, key), exclusive: n % 2 === 0 };
      });
  });
  after(async () => {
    await asker?.writer.close();
    await holder?.writer.close();
    await store?.close();
  });

  async function turn(): Promise<Turn> {
    const one = asker.turn();
    await one.take(tickets);
    return one;
  }

  /** What the holder is asked for: rows and turns. */
  async function heard(): Promise<string[]> {
    return (await holder.writer.asked()).map(({ id, exclusive, turn }) => `${id} ${exclusive} ${turn}`);
  }

  const asked = (wanted: readonly WantedRow[], { number }: Turn): string[] =>
    wanted.map(({ id, exclusive }) => `${id} ${exclusive} ${number}`);

  /** Waits until the holder is asked for that. */
  async function hears(expected: readonly string[]): Promise<void> {
    while ((await heard()).join() !== expected.join()) await sleep(10);
  }

  it('is the earliest of its turns, then that of who waits behind it, then nothing', async () => {
    const [early, late] = [await turn(), await turn()];
    const wanted = rows(2);
    expect(await asker.asks.ask(holder.writer.id, wanted, late)).to.equal(true);
    expect(await heard()).to.deep.equal(asked(wanted, late));
    await asker.asks.ask(holder.writer.id, wanted, early);
    expect(await heard()).to.deep.equal(asked(wanted, early));
    asker.asks.withdraw(early);
    await hears(asked(wanted, late));
    asker.asks.withdraw(late);
    await hears([]);
  });

  it('is said again by who could not come to ask', async () => {
    const one = await turn();
    const wanted = rows(1);
    const now = CLOCK.now();
    askersNow = now;
    await asker.asks.ask(holder.writer.id, wanted, one);
    const [before] = await holder.writer.asked();
    askersNow = now + PACE.ask - 1;
    await asker.asks.again(one);
    expect((await holder.writer.asked())[0]!.said).to.deep.equal(before!.said);
    askersNow = now + PACE.ask;
    await asker.asks.again(one);
    const [after] = await holder.writer.asked();
    expect(after!.turn).to.equal(before!.turn);
    expect(after!.said).to.not.deep.equal(before!.said);
    askersNow = undefined;
    asker.asks.withdraw(one);
    await hears([]);
  });

  it('may be more than fits into a page, and less again', async () => {
    const [early, late] = [await turn(), await turn()];
    const many = rows(3000, 200);
    await asker.asks.ask(holder.writer.id, many, early);
    await asker.asks.ask(holder.writer.id, many.slice(0, 2), late);
    expect(await heard()).to.deep.equal(asked(many, early));
    const pages = new Set((await holder.writer.asked()).map(({ page }) => page.toString('hex')));
    expect(pages.size).to.equal(3);
    asker.asks.withdraw(early);
    await hears(asked(many.slice(0, 2), late));
    asker.asks.withdraw(late);
    await hears([]);
  });

  it('is forgotten by who hears nothing more of it, with all that was asked with it', async () => {
    const one = await turn();
    await asker.asks.ask(holder.writer.id, rows(3), one);
    await holder.writer.forget((await holder.writer.asked()).slice(0, 1));
    expect(await heard()).to.deep.equal([]);
    asker.asks.withdraw(one);
  });
});
