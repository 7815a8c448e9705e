import { expect } from 'chai';
import type { Plan, TableSpec } from '../../../src/store/contract.js';
import { DRAINED, IS_ALIVE, JOURNAL, MAX_TIME, STATE, SWEPT } from '../../../src/store/hbase/journal/journal-tables.js';
import { rowId } from '../../../src/store/hbase/journal/plan-rows.js';
import { PlanContext } from '../../../src/store/hbase/journal/row-queue.js';
import { StoreError } from '../../../src/store/store-error.js';
import { AtOnce, journalOf, loseOnce, openSession } from './at-once.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'a' }] };
const cell = { family: 0, qualifier: Buffer.from('id'), value: Buffer.from('x') };
const PLAN: Plan = {
  steps: ['a', 'b'].map((key) => ({ table: TABLE.name, key: Buffer.from(key), put: [cell] })),
  decisive: 0,
};

describe('the journal, where an answer is lost', () => {
  for (const [state, name] of [
    [SWEPT, 'given up'],
    [DRAINED, 'drained'],
  ] as const)
    it(`a decided plan is acknowledged, whose front end ended and finds it ${name} when it asks again`, async () => {
      const hbase = new AtOnce([TABLE]);
      let ends = true;
      const failpoint = (point: string): void => {
        if (point !== 'row 0 before' || !ends) return;
        ends = false;
        throw new StoreError('unavailable', 'ended');
      };
      const front = hbase.front({ failpoint });
      const journal = journalOf(front);
      await journal.start();
      let losses = 0;
      loseOnce(
        front.client,
        ({ put }) => put?.some(({ value }) => value.equals(state)) ?? false,
        () => losses++,
      );
      await journal.commit(PLAN);
      expect(losses).to.equal(1);
      const { handle } = await front.cluster.table(TABLE.name);
      const rows = await front.client.getMany(handle, [Buffer.from('a'), Buffer.from('b')]);
      expect(rows.every((row) => row !== undefined)).to.equal(true);
    });

  it('whoever asks one that was given up meanwhile hears that it is not alive', async () => {
    const hbase = new AtOnce([TABLE]);
    const [front, other] = [hbase.front(), hbase.front()];
    const [session, holder] = [await openSession(front), await openSession(other)];
    const table = await front.cluster.table(TABLE.name);
    const turn = new PlanContext(front.clock, 1000);
    turn.priority = 1n;
    loseOnce(
      front.client,
      ({ put }) => put?.[0]?.family === JOURNAL.ask,
      () =>
        other.client.mutate(other.cluster.journal, {
          key: holder.writer.id,
          guards: [IS_ALIVE],
          put: [{ family: JOURNAL.state, qualifier: STATE.state, value: SWEPT }],
          timestamp: MAX_TIME,
        }),
    );
    const row = { table, key: Buffer.from('a'), id: rowId(TABLE.name, Buffer.from('a')), isExclusive: true };
    expect(await session.rowRequests.send(holder.writer.id, [row], turn)).to.equal(false);
  });
});
