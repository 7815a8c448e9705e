import { expect } from 'chai';
import type { LoadRow, Plan, TableSpec } from '../../../src/store/contract.js';
import { GATES, type RowClient } from '../../../src/store/hbase/cluster.js';
import { ingest } from '../../../src/store/hbase/ingest.js';
import { JOURNAL } from '../../../src/store/hbase/journal/journal-tables.js';
import { readLock } from '../../../src/store/hbase/journal/locks.js';
import { PACE } from '../../../src/store/hbase/journal/pace.js';
import { runPlan } from '../../../src/store/hbase/journal/run.js';
import type { Session } from '../../../src/store/hbase/journal/session.js';
import type { RowMutation } from '../../../src/store/hbase/rpc/rpc-types.js';
import { packRow } from '../../../src/store/row.js';
import { StoreError } from '../../../src/store/store-error.js';
import { AtOnce, type Front, journalOf, openSession, rest } from './at-once.js';
import { lost } from './rows.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'a' }] };
const LOG: TableSpec = { name: 'log', families: [{ name: 'c' }], rising: true };
const cell = (value: string) => ({ family: 0, qualifier: Buffer.from('id'), value: Buffer.from(value) });

const guard = (value: string) => ({ op: 'equals' as const, ...cell(value) });

function row(key: string): LoadRow {
  return { key: Buffer.from(key), row: packRow([cell(key)]) };
}

const PLAN: Plan = { steps: [{ table: LOG.name, append: [cell('loaded')] }], decisive: 0 };

/** Rows that are written over, each by a plan of its own. */
const load = (session: Session, keys: string): Promise<void> =>
  ingest(session, [{ table: TABLE.name, rows: [...keys].map(row) }], PLAN);

describe('a batch over HBase', () => {
  let hbase: AtOnce;
  let front: Front;
  let session: Session;

  beforeEach(async () => {
    hbase = new AtOnce([TABLE, LOG]);
    front = hbase.front();
    session = await openSession(front);
  });

  const gate = () =>
    readLock(front.cluster, { table: front.cluster.cachedTable(GATES), key: Buffer.from(TABLE.name, 'latin1') });

  /** The lock of the gate is taken off by this. */
  const opensGate = ({ guards, delete: gone }: RowMutation): boolean =>
    guards?.[0]?.op === 'equals' && guards[0].value[0] === 0x58 && gone?.length === 1;

  it('that was decided is told so, although its gate could not be opened, and the next goes on', async () => {
    const { mutate } = front.client;
    let failed = 0;
    front.client.mutate = async (table, mutation) => {
      if (failed > 0 || table !== front.cluster.cachedTable(GATES).handle || !opensGate(mutation))
        return mutate(table, mutation);
      failed++;
      throw new StoreError('unavailable', 'no answer');
    };
    await load(session, 'ab');
    expect(failed).to.equal(1);
    expect(await gate()).to.not.equal(undefined);
    const next = load(session, 'c');
    await front.clock.pass(100);
    await next;
    expect(await gate()).to.equal(undefined);
  });

  it('of which a row fails ends when the others have', async () => {
    const { mutate } = front.client;
    let answer: () => void = () => undefined;
    front.client.mutate = async (table, mutation) => {
      const puts = mutation.put?.[0]?.value.toString();
      if (puts === 'a') throw new StoreError('unavailable', 'no answer');
      if (puts === 'b') await new Promise<void>((resolve) => (answer = resolve));
      return mutate(table, mutation);
    };
    let told: unknown;
    const loading = load(session, 'ab').catch((error: unknown) => {
      told = error;
    });
    await rest();
    expect(told, 'told while a row is being written').to.equal(undefined);
    answer();
    await loading;
    expect(told).to.be.instanceOf(StoreError);
  });

  it('is not seen by guards of plans before it is decided', async () => {
    const key = Buffer.from('a');
    let decide: () => void = () => undefined;
    const written = new Promise<void>((resolve) => {
      front.client.putRows = (table, _keys, _rows, timestamp) => {
        hbase.rows.table(table).mutate({ key, put: [cell('a')], timestamp });
        resolve();
        return new Promise<void>((go) => (decide = go));
      };
    });
    const told = (error: unknown) => error;
    const fails = { steps: [{ table: TABLE.name, key: Buffer.from('b'), guards: [guard('b')] }], decisive: 0 };
    const loading = ingest(session, [{ table: TABLE.name, rows: [row('a')], absent: true }], fails).catch(told);
    await written;
    const other = hbase.front();
    const beside = await openSession(other);
    const steps = [
      { table: TABLE.name, key, guards: [guard('a')] },
      { table: LOG.name, append: [cell('seen')] },
    ];
    const guarded = runPlan(beside, { steps, decisive: 0 }, beside.createContext()).catch(told);
    await rest();
    decide();
    await front.clock.pass(1000);
    expect(await loading).to.include({ code: 'guard' });
    await other.clock.pass(1000);
    expect(await guarded).to.include({ code: 'guard' });
  });

  it('of which a put may still arrive is left to the sweeper', async () => {
    front.client.putRows = () => Promise.reject(lost());
    let told: unknown;
    await ingest(session, [{ table: TABLE.name, rows: [row('a')], absent: true }], PLAN).catch((error: unknown) => {
      told = error;
    });
    expect(told).to.be.instanceOf(StoreError);
    expect(session.isEnded).to.equal(true);
    const written = await front.client.get(front.cluster.journal, session.writer.id, { families: [JOURNAL.plan] });
    expect(written, 'the batch, in the journal').to.not.equal(undefined);
  });

  it('of which nobody knows whether it was announced is left to the sweeper', async () => {
    const { mutate } = front.client;
    front.client.mutate = async (table, mutation) => {
      const done = await mutate(table, mutation);
      if (table === front.cluster.journal && mutation.put?.some(({ family }) => family === JOURNAL.plan)) throw lost();
      return done;
    };
    let told: unknown;
    await load(session, 'a').catch((error: unknown) => {
      told = error;
    });
    expect(told).to.be.instanceOf(StoreError);
    expect(session.isEnded).to.equal(true);
    const other = hbase.front();
    await journalOf(other).start();
    await other.clock.pass(2 * (PACE.lateArrivalMs + PACE.leaseMs));
    expect(hbase.journal()).to.not.include(session.writer.id.toString('hex'));
  });

  it('whose front end died is taken back with rows that arrive after it was taken back', async () => {
    const ticket = await session.tickets.draw(1);
    await session.writer.announceBatch(ticket, [TABLE.name]);
    const other = hbase.front();
    const { handle } = await other.cluster.table(TABLE.name);
    let scans = 0;
    const { scan } = other.client;
    other.client.scan = (table, range, options) => {
      if (table === handle && options?.timestamp === ticket) return arriving(scan(table, range, options));
      return scan(table, range, options);
    };
    const arriving = (given: ReturnType<RowClient['scan']>): ReturnType<RowClient['scan']> => ({
      ...given,
      next: async () => {
        const batch = await given.next();
        // Seen by nobody who has looked before.
        if (!batch && scans++ === 0)
          hbase.rows.table(handle).mutate({ key: Buffer.from('late'), put: [cell('late')], timestamp: ticket });
        return batch;
      },
    });
    const journal = journalOf(other);
    await journal.start();
    const name = session.writer.id.toString('hex');
    await other.clock.pass(2 * PACE.leaseMs);
    expect(scans).to.be.greaterThan(0);
    await other.clock.pass(PACE.lateArrivalMs + PACE.leaseMs);
    expect(hbase.journal()).to.not.include(name);
    expect(await other.client.get(handle, Buffer.from('late'))).to.equal(undefined);
  });
});
