import { expect } from 'chai';
import type { Plan, TableSpec } from '../../../src/store/contract.js';
import { JOURNAL } from '../../../src/store/hbase/journal/journal-tables.js';
import { PACE } from '../../../src/store/hbase/journal/pace.js';
import { rowId } from '../../../src/store/hbase/journal/plan-rows.js';
import { runPlan } from '../../../src/store/hbase/journal/run.js';
import type { Session } from '../../../src/store/hbase/journal/session.js';
import { AtOnce, type Front, journalOf, openSession, rest } from './at-once.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'a' }] };

const put = (key: string): Plan => ({
  steps: [
    {
      table: TABLE.name,
      key: Buffer.from(key),
      put: [{ family: 0, qualifier: Buffer.from('id'), value: Buffer.from('x') }],
    },
  ],
  decisive: 0,
});

describe('a session of the journal', () => {
  it('that others gave up while it was idle leaves no timer and reads nothing any more', async () => {
    const hbase = new AtOnce([TABLE]);
    const [idle, other] = [hbase.front(), hbase.front()];
    const [journal, watcher] = [journalOf(idle), journalOf(other)];
    await journal.start();
    await watcher.start();
    const timers = idle.clock.timers.size;
    const [name] = hbase.journal();
    await other.clock.pass(3 * PACE.leaseMs);
    expect(hbase.journal(), 'given up').to.not.include(name);
    await idle.clock.pass(PACE.leaseMs);
    await journal.commit(put('after'));
    let reads = 0;
    const { get } = idle.client;
    idle.client.get = (table, key, options) => {
      if (key.toString('hex') === name) reads++;
      return get(table, key, options);
    };
    await idle.clock.pass(PACE.leaseMs / 2);
    expect(reads, 'reads of a journal row that is gone').to.equal(0);
    expect(idle.clock.timers.size, 'timers').to.equal(timers);
  });

  it('takes the pieces of large records out while decisions follow one another', async () => {
    const hbase = new AtOnce([TABLE]);
    const front = hbase.front();
    const session = await openSession(front);
    const [name] = hbase.journal();
    const value = Buffer.alloc(3 << 19);
    const cell = { family: 0, qualifier: Buffer.from('long'), value };
    const steps = ['a', 'b'].map((key) => ({ table: TABLE.name, key: Buffer.from(key), put: [cell] }));
    await runPlan(session, { steps, decisive: 0 }, session.createContext());
    expect(hbase.journal()).to.have.length.above(1);
    const { mutate } = front.client;
    let answer: () => void = () => undefined;
    front.client.mutate = async (table, mutation) => {
      const isDecision = mutation.put?.some(({ family }) => table === front.cluster.journal && family === JOURNAL.plan);
      if (isDecision) await new Promise<void>((resolve) => (answer = resolve));
      return mutate(table, mutation);
    };
    const next = ['c', 'd'].map((key) => ({
      table: TABLE.name,
      key: Buffer.from(key),
      put: [{ ...cell, value: Buffer.from('x') }],
    }));
    const writing = runPlan(session, { steps: next, decisive: 0 }, session.createContext());
    await rest();
    await session.writer.removeFinishedRecords();
    expect(hbase.journal()).to.deep.equal([name]);
    answer();
    await writing;
  });

  describe('that holds many rows shared', () => {
    /** More than a session keeps. */
    const MANY = 10_500;
    const MOST = 10_000;
    const MOST_AT_ONCE = 200;
    let front: Front;
    let session: Session;

    beforeEach(async () => {
      front = new AtOnce([TABLE]).front();
      session = await openSession(front);
    });

    /** Guards and nothing else: the rows are held from then on, and the gate of their table. */
    async function guard(from: number, to: number): Promise<void> {
      const guards = [{ op: 'absent', family: 0, qualifier: Buffer.from('id') } as const];
      const keys = Array.from({ length: to - from }, (_, i) => Buffer.from(`${from + i}`));
      const steps = keys.map((key) => ({ table: TABLE.name, key, guards }));
      await runPlan(session, { steps, decisive: 0 }, session.createContext());
    }

    const isHeld = (n: number): boolean => session.sharedRows.get(rowId(TABLE.name, Buffer.from(`${n}`))) !== undefined;

    it('gives back those above a number, the ones first that were left alone longest', async () => {
      await guard(0, MANY);
      await front.clock.pass(1);
      await guard(0, 10);
      expect(session.sharedRows.size).to.equal(MANY + 1);
      await front.clock.pass(PACE.idleCheckMs);
      expect(session.sharedRows.size).to.equal(MOST);
      expect([isHeld(9), isHeld(10), isHeld(MANY - 1)]).to.deep.equal([true, false, true]);
    });

    it('gives all back that were left alone for a while, at one look', async () => {
      await guard(0, 1000);
      await front.clock.pass(PACE.sharedRowIdleMs);
      expect(session.sharedRows.size).to.equal(1001);
      await front.clock.pass(PACE.idleCheckMs);
      expect(session.sharedRows.size).to.equal(0);
    });

    it('gives them back some at a time as it ends', async () => {
      await guard(0, 1000);
      const { mutate } = front.client;
      let underWay = 0;
      let most = 0;
      front.client.mutate = async (table, mutation) => {
        most = Math.max(most, ++underWay);
        try {
          return await mutate(table, mutation);
        } finally {
          underWay--;
        }
      };
      await session.close();
      expect(session.sharedRows.size).to.equal(0);
      expect(most).to.be.within(2, MOST_AT_ONCE);
    });
  });
});
