import type { LoadRow, LoadTable, Plan, TableSpec } from '../contract.js';
import { loggedPlan } from '../log.js';
import { isPromise } from '../maybe.js';
import { counterBytes, unpackRow } from '../row.js';
import { mayBeApplied, StoreError } from '../store-error.js';
import { checkKey, MARK_ROW } from '../tables.js';
import type { OpenTable } from './cluster.js';
import { rollBackBatch } from './journal/apply.js';
import { runPlan, throwUnlessStoreError, waitForAll, withGates } from './journal/run.js';
import type { Session } from './journal/session.js';
import { TICKET_STEP } from './journal/tickets.js';
import { FencedError } from './journal/writer.js';
import { FIRST_KEY_ONLY } from './rpc/filters.js';
import { MAX_KEY } from './rpc/mutations.js';

/** Number of rows per read request. */
const ROWS_PER_READ = 2000;
/** Number of rows per write request. */
const ROWS_PER_WRITE = 500;
/** Maximum number of concurrent write requests. */
const MAX_WRITES = 4;

interface BatchTable {
  readonly table: OpenTable;
  readonly load: LoadTable;
  /** Keys and rows in the form in which they are stored. */
  readonly rows: readonly LoadRow[];
}

/**
 * Loads a batch: writes the rows, then runs the plan, which decides the batch. Meanwhile the session holds the gates
 * (locks of whole tables), so that no plan changes their rows. If the batch fails, the rows of `absent` tables, index
 * rows and appended rows are deleted again, either here or by the sweeper of this writer. Replaced rows are plans of
 * their own, and stay.
 */
export async function ingest(
  session: Session,
  tables: readonly LoadTable[],
  plan: Plan,
  logSpecs?: ReadonlyMap<string, TableSpec>,
): Promise<void> {
  const batchTables: BatchTable[] = [];
  for (const load of tables) {
    const lookup = session.cluster.table(load.table);
    const table = isPromise(lookup) ? await lookup : lookup;
    const rows = [...load.rows];
    batchTables.push({ table, load, rows: load.append ? rows : checkRows(table, rows) });
  }
  const gatedTables = batchTables.filter(needsGate).map(({ table }) => table.spec.name);
  await withGates(session, gatedTables, async () => {
    for (const batchTable of batchTables) if (batchTable.load.absent) await requireAbsent(session, batchTable);
    const appendedRowCount = batchTables.reduce((sum, { load, rows }) => sum + (load.append ? rows.length : 0), 0);
    await session.withTickets(1 + appendedRowCount, async (firstTicket) => {
      const ticket = await firstTicket;
      const tables = batchTables.filter((loaded) => !isReplacedByPlans(loaded)).map(({ table }) => table.spec.name);
      const batchQualifier = await session.writer.announceBatch(ticket, tables);
      await session.options.failpoint?.('batch announced');
      const writes = new Writes();
      let isWritten = false;
      try {
        await writeAll(session, batchTables, ticket, writes);
        isWritten = true;
        const decided = logSpecs ? loggedBatch(batchTables, plan, logSpecs, ticket) : plan;
        await runPlan(session, decided, session.createContext(true), gatedTables, batchQualifier);
      } catch (error) {
        // Rows of a failed write may still reach HBase. The sweeper of this writer deletes them later.
        if (writes.mayBeApplied) session.abandon();
        if (!session.isEnded) await rollBack(session, batchQualifier, ticket, tables);
        // A sweeper that has ended this writer may have rolled back the batch before its last rows arrived.
        else if (!isWritten || error instanceof FencedError)
          await rollBackBatch(session.cluster, ticket, tables).catch(throwUnlessStoreError);
        throw error;
      }
    });
  });
}

/** Returns the plan with the log of the batch. `ticket`: the number of the first appended row. */
function loggedBatch(
  batchTables: readonly BatchTable[],
  plan: Plan,
  specs: ReadonlyMap<string, TableSpec>,
  ticket: bigint,
): Plan {
  return loggedPlan(
    plan,
    (table) => specs.get(table)!,
    TICKET_STEP,
    (log) => {
      let number = ticket;
      for (const { table, load, rows } of batchTables)
        for (const { key } of rows) {
          const isWhole = table.spec.families.some(({ separate }) => separate);
          if (!load.append) log.add(load.table, key, isWhole ? 'whole' : 'row');
          else {
            log.add(load.table, counterBytes(number), 'row');
            number += TICKET_STEP;
          }
        }
    },
  );
}

/** Rolls back the batch. For a session that has ended, only its sweeper finds out whether the plan was decided. */
async function rollBack(session: Session, qualifier: Buffer, ticket: bigint, tables: readonly string[]): Promise<void> {
  try {
    await rollBackBatch(session.cluster, ticket, tables);
    await session.writer.retractBatch(qualifier);
  } catch {
    // The sweeper of the ended session rolls back.
    session.abandon();
  }
}

/** Whether the rows are replaced by single plans. */
function isReplacedByPlans(batchTable: BatchTable): boolean {
  return needsGate(batchTable) && !batchTable.load.absent;
}

async function writeAll(session: Session, loads: readonly BatchTable[], ticket: bigint, writes: Writes): Promise<void> {
  try {
    let firstRowKey = ticket;
    for (const batchTable of loads) {
      await writeRows(session, batchTable, ticket, firstRowKey, writes);
      if (session.options.failpoint) {
        await writes.drain();
        await session.options.failpoint(`batch ${batchTable.table.spec.name}`);
      }
      if (batchTable.load.append) firstRowKey += TICKET_STEP * BigInt(batchTable.rows.length);
    }
    await writes.drain();
  } catch (error) {
    // No writes may continue after the call.
    await writes.settle();
    throw error;
  }
}

/** Limits concurrent writes, so that the next write is prepared while earlier writes are under way. */
class Writes {
  readonly #pendingWrites: Promise<void>[] = [];
  /** Whether a write has failed that may have been applied. */
  mayBeApplied = false;

  /** Resolves when another write may start. Rejects when an earlier write has failed. */
  async add(work: Promise<void>): Promise<void> {
    work.catch((error: unknown) => {
      if (mayBeApplied(error)) this.mayBeApplied = true;
    });
    this.#pendingWrites.push(work);
    if (this.#pendingWrites.length >= MAX_WRITES) await this.#pendingWrites.shift();
  }

  async drain(): Promise<void> {
    for (const result of await this.settle()) if (result.status === 'rejected') throw result.reason;
  }

  settle(): Promise<PromiseSettledResult<void>[]> {
    return Promise.allSettled(this.#pendingWrites.splice(0));
  }
}

/** Index rows need no gate, because plans write them without reading them, nor do appended rows, which are new. */
function needsGate({ table, load }: BatchTable): boolean {
  return table.spec.suffixBytes === undefined && !load.append;
}

function checkRows(table: OpenTable, rows: LoadRow[]): LoadRow[] {
  const suffixBytes = table.spec.suffixBytes;
  if (suffixBytes === undefined) {
    for (const { key } of rows) checkKey(key, table.spec, MAX_KEY);
    return rows;
  }
  const indexRows: LoadRow[] = [];
  for (const { key, row } of rows) {
    for (let startIndex = 0; startIndex < row.length; startIndex += suffixBytes) {
      const indexKey = Buffer.concat([key, row.subarray(startIndex, startIndex + suffixBytes)]);
      checkKey(indexKey, table.spec, MAX_KEY);
      indexRows.push({ key: indexKey, row: INDEX_ROW });
    }
  }
  return indexRows;
}

/** Content of index rows until `packedRow` replaces it by the index mark. */
const INDEX_ROW = Buffer.alloc(0);

async function requireAbsent(session: Session, { table, rows }: BatchTable): Promise<void> {
  const options = { families: table.rowFamilies, filter: FIRST_KEY_ONLY };
  for (let startIndex = 0; startIndex < rows.length; startIndex += ROWS_PER_READ) {
    const keys = rows.slice(startIndex, startIndex + ROWS_PER_READ).map((row) => row.key);
    const existingRows = await session.cluster.client.getMany(table.handle, keys, options);
    if (existingRows.some((row) => row !== undefined))
      throw new StoreError('guard', `a row that is to be loaded into ${table.spec.name} is there already`);
  }
}

async function writeRows(
  session: Session,
  batchTable: BatchTable,
  ticket: bigint,
  firstKey: bigint,
  writes: Writes,
): Promise<void> {
  const { table, load, rows } = batchTable;
  const { client } = session.cluster;
  if (isReplacedByPlans(batchTable)) {
    await waitForAll(rows.map((row) => replaceRow(session, table, row)));
    return;
  }
  for (let startIndex = 0; startIndex < rows.length; startIndex += ROWS_PER_WRITE) {
    const chunk = rows.slice(startIndex, startIndex + ROWS_PER_WRITE);
    const keys = chunk.map(({ key }, i) =>
      load.append ? counterBytes(firstKey + TICKET_STEP * BigInt(startIndex + i)) : key,
    );
    // Without the lease, another front end may have rolled back the batch, and rows written afterwards would stay.
    await session.writer.ensureLease();
    await writes.add(client.putRows(table.handle, keys, chunk.map(packedRow), ticket));
  }
}

function packedRow({ row, separate }: LoadRow): Buffer {
  if (row === INDEX_ROW) return MARK_ROW;
  return separate ? Buffer.concat([row, separate]) : row;
}

async function replaceRow(session: Session, table: OpenTable, { key, row, separate }: LoadRow): Promise<void> {
  const put = separate ? [...unpackRow(row), ...unpackRow(separate)] : unpackRow(row);
  const steps = [{ table: table.spec.name, key, deleteRow: true, put }];
  await runPlan(session, { steps, decisive: 0 }, session.createContext(true), [table.spec.name]);
}
