import { checkKey } from '../checks.js';
import type { LoadRow, LoadTable, Plan } from '../contract.js';
import { isPromise } from '../maybe.js';
import { unpackRow } from '../row.js';
import { mayBeDone, StoreError } from '../store-error.js';
import { MARK_ROW } from '../tables.js';
import type { OpenTable } from './cluster.js';
import { MAX_KEY } from './journal/plan-rows.js';
import { rollBackBatch } from './journal/roll-back.js';
import { runPlan, throwUnlessStoreError, waitForAll, withGates } from './journal/run.js';
import type { Session } from './journal/session.js';
import { STEP } from './journal/tickets.js';
import { Fenced } from './journal/writer.js';
import { FIRST_KEY_ONLY } from './rpc/requests.js';
import type { RowMutation } from './rpc/rpc-types.js';

/** Rows read, and rows written, at once; so many chunks are on their way together. */
const CHUNK = 2000;
const WRITTEN = 500;
const WINDOW = 4;

/** A table's part of a batch. */
interface Part {
  readonly table: OpenTable;
  readonly load: LoadTable;
  /** Keys and rows as they are to be in HBase. */
  readonly rows: readonly LoadRow[];
}

/**
 * One batch of a bulk load: rows first, then the plan, which decides. The gates of the tables are held meanwhile, so
 * nobody else changes their rows. When it comes to nothing, rows of `absent` tables, index rows and appended ones are
 * taken away again: here, or by who sweeps this writer. Rows that are written over are plans of their own, and stay.
 */
export async function ingest(session: Session, tables: readonly LoadTable[], plan: Plan): Promise<void> {
  const parts: Part[] = [];
  for (const load of tables) {
    const found = session.cluster.table(load.table);
    const table = isPromise(found) ? await found : found;
    parts.push({ table, load, rows: load.append ? [...load.rows] : checked(table, [...load.rows]) });
  }
  const gated = parts.filter(isGated).map(({ table }) => table.spec.name);
  await withGates(session, gated, async () => {
    for (const part of parts) if (part.load.absent) await requireAbsent(session, part);
    const appended = parts.reduce((sum, { load, rows }) => sum + (load.append ? rows.length : 0), 0);
    await session.withTickets(1 + appended, async (first) => {
      const ticket = await first;
      const tables = parts.filter((part) => !isReplaced(part)).map(({ table }) => table.spec.name);
      const batch = await session.writer.announceBatch(ticket, tables);
      await at(session, 'batch announced');
      const window = new Window();
      let isWritten = false;
      try {
        await writeAll(session, parts, ticket, window);
        isWritten = true;
        await runPlan(session, plan, session.createContext(true), gated, batch);
      } catch (error) {
        // Rows may still arrive: whoever sweeps this writer looks for them later, too.
        if (window.isUnknown) session.abandon();
        if (!session.isEnded) await undo(session, batch, ticket, tables);
        // Who gave it up while it stood still may have looked before its last rows were put.
        else if (!isWritten || error instanceof Fenced)
          await rollBackBatch(session.cluster, ticket, tables).catch(throwUnlessStoreError);
        throw error;
      }
    });
  });
}

/** Of a session that ended others find out whether the plan was decided: those who sweep it. */
async function undo(session: Session, batch: Buffer, ticket: bigint, tables: readonly string[]): Promise<void> {
  try {
    await rollBackBatch(session.cluster, ticket, tables);
    await session.writer.retractBatch(batch);
  } catch {
    session.abandon();
  }
}

function at(session: Session, point: string): unknown {
  return session.options.failpoint?.(point);
}

/** Written over row by row. */
function isReplaced(part: Part): boolean {
  return isGated(part) && !part.load.absent;
}

async function writeAll(session: Session, parts: readonly Part[], ticket: bigint, window: Window): Promise<void> {
  try {
    let number = ticket;
    for (const part of parts) {
      await write(session, part, ticket, number, window);
      if (session.options.failpoint) {
        await window.empty();
        await at(session, `batch ${part.table.spec.name}`);
      }
      if (part.load.append) number += STEP * BigInt(part.rows.length);
    }
    await window.empty();
  } catch (error) {
    // Nothing goes on behind the caller's back.
    await window.settle();
    throw error;
  }
}

/** Chunks under way: while some travel, the next is made. */
class Window {
  readonly #running: Promise<void>[] = [];
  /** Whether one failed of which nobody knows if it was done. */
  isUnknown = false;

  /** Returns when there is room for another; rejects when an earlier one failed. */
  async add(work: Promise<void>): Promise<void> {
    work.catch((error: unknown) => {
      if (mayBeDone(error)) this.isUnknown = true;
    });
    this.#running.push(work);
    if (this.#running.length >= WINDOW) await this.#running.shift();
  }

  async empty(): Promise<void> {
    for (const result of await this.settle()) if (result.status === 'rejected') throw result.reason;
  }

  settle(): Promise<PromiseSettledResult<void>[]> {
    return Promise.allSettled(this.#running.splice(0));
  }
}

/** Index rows are written without looking, appended ones are new. */
function isGated({ table, load }: Part): boolean {
  return table.spec.suffixBytes === undefined && !load.append;
}

function checked(table: OpenTable, rows: readonly LoadRow[]): LoadRow[] {
  const suffix = table.spec.suffixBytes;
  if (suffix === undefined) {
    for (const { key } of rows) checkKey(key, table.spec, MAX_KEY);
    return [...rows];
  }
  const whole: LoadRow[] = [];
  for (const { key, row } of rows) {
    for (let at = 0; at < row.length; at += suffix) {
      const one = Buffer.concat([key, row.subarray(at, at + suffix)]);
      checkKey(one, table.spec, MAX_KEY);
      whole.push({ key: one, row: MARKED });
    }
  }
  return whole;
}

/** Stands for the mark: index rows are not unpacked. */
const MARKED = Buffer.alloc(0);

async function requireAbsent(session: Session, { table, rows }: Part): Promise<void> {
  const options = { families: table.stored, filter: FIRST_KEY_ONLY };
  for (let at = 0; at < rows.length; at += CHUNK) {
    const keys = rows.slice(at, at + CHUNK).map((row) => row.key);
    const found = await session.cluster.client.getMany(table.handle, keys, options);
    if (found.some((row) => row !== undefined))
      throw new StoreError('guard', `a row that is to be loaded into ${table.spec.name} is there already`);
  }
}

async function write(session: Session, part: Part, ticket: bigint, first: bigint, window: Window): Promise<void> {
  const { table, load, rows } = part;
  const { client } = session.cluster;
  if (isReplaced(part)) {
    await waitForAll(rows.map((row) => replace(session, table, row)));
    return;
  }
  for (let at = 0; at < rows.length; at += WRITTEN) {
    const chunk = rows.slice(at, at + WRITTEN);
    const keys = chunk.map(({ key }, i) => (load.append ? numbered(first + STEP * BigInt(at + i)) : key));
    // Rows that came after others have taken the batch back would stay.
    await session.writer.ensureLease();
    await window.add(client.putRows(table.handle, keys, chunk.map(packedRow), ticket));
  }
}

function packedRow({ row, separate }: LoadRow): Buffer {
  if (row === MARKED) return MARK_ROW;
  return separate ? Buffer.concat([row, separate]) : row;
}

function numbered(number: bigint): Buffer {
  const key = Buffer.allocUnsafe(8);
  key.writeBigUInt64BE(number);
  return key;
}

function cellsOf({ row, separate }: LoadRow): NonNullable<RowMutation['put']> {
  return separate ? [...unpackRow(row), ...unpackRow(separate)] : unpackRow(row);
}

/** Writes over what is there. */
async function replace(session: Session, table: OpenTable, row: LoadRow): Promise<void> {
  const steps = [{ table: table.spec.name, key: row.key, deleteRow: true, put: cellsOf(row) }];
  await runPlan(session, { steps, decisive: 0 }, session.createContext(true), [table.spec.name]);
}
