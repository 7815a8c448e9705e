import { expect } from 'chai';
import type { Plan, TableSpec } from '../../../src/store/contract.js';
import type { Journal } from '../../../src/store/hbase/journal/journal.js';
import { PACE } from '../../../src/store/hbase/journal/pace.js';
import { cellCounter } from '../../../src/store/row.js';
import { AtOnce, type Front, journalOf, rest } from './at-once.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'a' }] };
const PARENT = Buffer.from('parent');
const COUNT = { family: 0, qualifier: Buffer.from('count') };

/** A row of its own, and one more in the counter of a row that front ends hold shared. */
const plan = (key: string): Plan => ({
  steps: [
    { table: TABLE.name, key: Buffer.from(key), put: [{ ...COUNT, value: Buffer.alloc(8) }] },
    { table: TABLE.name, key: PARENT, add: [{ ...COUNT, by: 1n }] },
  ],
  decisive: 0,
});

describe('waiting until all that was decided is done', () => {
  let writer: Front;
  let reader: Front;
  let journal: Journal;
  let other: Journal;

  beforeEach(async () => {
    const hbase = new AtOnce([TABLE]);
    [writer, reader] = [hbase.front(), hbase.front()];
    [journal, other] = [journalOf(writer), journalOf(reader)];
    await journal.start();
    await other.start();
    // The first is folded before it is answered for, the second waits for the next fold.
    await journal.commit(plan('one'));
    await journal.commit(plan('two'));
  });

  async function stored(): Promise<bigint> {
    const table = (await reader.cluster.findTable(TABLE.name))!;
    const row = await reader.client.get(table.handle, PARENT, {});
    return cellCounter(row, COUNT.family, COUNT.qualifier);
  }

  /** How the wait has ended, as far as it has. */
  function waiting(): { ended: string } {
    const state = { ended: '' };
    void other.waitForDecidedPlans().then(
      () => (state.ended = 'quiet'),
      (error: unknown) => (state.ended = String(error)),
    );
    return state;
  }

  it('lasts while a front end that lives has not folded its counters, however long that takes', async () => {
    expect(await stored()).to.equal(1n);
    const { mutateGuarded } = writer.cluster;
    const held: (() => void)[] = [];
    writer.cluster.mutateGuarded = async (table, mutation) => {
      await new Promise<void>((resolve) => held.push(resolve));
      return mutateGuarded.call(writer.cluster, table, mutation);
    };
    const wait = waiting();
    for (let passed = 0; passed < 20 * PACE.leaseMs; passed += PACE.leaseMs / 5) {
      await writer.clock.pass(PACE.leaseMs / 5);
      await reader.clock.pass(PACE.leaseMs / 5);
    }
    expect([wait.ended, await stored()]).to.deep.equal(['', 1n]);
    writer.cluster.mutateGuarded = mutateGuarded;
    for (const go of held) go();
    await rest();
    await writer.clock.pass(PACE.leaseMs / 5);
    await reader.clock.pass(PACE.leaseMs / 5);
    expect([wait.ended, await stored()]).to.deep.equal(['quiet', 2n]);
  });

  it('ends when the counters of a front end that died are folded by others', async () => {
    const wait = waiting();
    await reader.clock.pass(PACE.leaseMs / 2);
    expect([wait.ended, await stored()]).to.deep.equal(['', 1n]);
    await reader.clock.pass(2 * PACE.leaseMs);
    expect([wait.ended, await stored()]).to.deep.equal(['quiet', 2n]);
  });

  it('does not wait for what is decided meanwhile', async () => {
    const wait = waiting();
    await writer.clock.pass(2 * PACE.foldIntervalMs);
    await journal.commit(plan('three'));
    await journal.commit(plan('four'));
    await reader.clock.pass(PACE.foldIntervalMs);
    expect([wait.ended, await stored()]).to.deep.equal(['quiet', 3n]);
  });

  it('ends with an error where the front end shows no sign of life and nobody takes up what it left', async () => {
    const alone = reader.client;
    const { mutate } = alone;
    // Nothing that this one says of others arrives.
    alone.mutate = async (table, mutation) =>
      table === reader.cluster.journal && mutation.key[0] === 1 ? false : mutate(table, mutation);
    const wait = waiting();
    await reader.clock.pass(10 * PACE.leaseMs);
    expect(wait.ended).to.match(/a plan that was decided is not done, and its front end shows no sign of life; start/);
  });
});
