import type { LoadRow, LoadTable, Plan } from '../contract.js';
import { StoreError } from '../errors.js';
import { isPromise } from '../maybe.js';
import { MARK, unpackRow } from '../row.js';
import { checkKey } from '../stage.js';
import type { OpenTable } from './cluster.js';
import { MAX_KEY } from './journal/groups.js';
import { runPlan, withGates } from './journal/run.js';
import type { Session } from './journal/session.js';
import { STEP } from './journal/tickets.js';
import { FIRST_KEY_ONLY } from './rpc/requests.js';
import type { RowMutation } from './rpc/types.js';

/** Rows handed to the client at once. */
const CHUNK = 2000;

/** A table's part of a batch. */
interface Part {
  readonly table: OpenTable;
  readonly load: LoadTable;
  /** Keys and rows as they are to be in HBase. */
  readonly rows: readonly LoadRow[];
}

/**
 * One batch of a bulk load: rows first, then the plan. The gates of the tables are held meanwhile, so nobody else changes their rows. When the plan
 * fails, rows of `absent` tables, and index rows, are taken away again.
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
    const ticket = await session.tickets.draw(1 + appended);
    let number = ticket;
    for (const part of parts) {
      await write(session, part, ticket, number);
      if (part.load.append) number += STEP * BigInt(part.rows.length);
    }
    try {
      await runPlan(session, plan, gated);
    } catch (error) {
      await takeAway(session, parts, ticket);
      throw error;
    }
  });
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

async function write(session: Session, part: Part, ticket: bigint, first: bigint): Promise<void> {
  const { table, load, rows } = part;
  const { client } = session.cluster;
  if (isGated(part) && !load.absent) {
    await Promise.all(rows.map((row) => replace(session, table, row)));
    return;
  }
  for (let at = 0; at < rows.length; at += CHUNK) {
    const chunk = rows.slice(at, at + CHUNK);
    const mutations: RowMutation[] = chunk.map((row, i) => ({
      key: load.append ? numbered(first + STEP * BigInt(at + i)) : row.key,
      put: cellsOf(row),
      timestamp: ticket,
    }));
    await client.putMany(table.handle, mutations);
  }
}

function numbered(number: bigint): Buffer {
  const key = Buffer.allocUnsafe(8);
  key.writeBigUInt64BE(number);
  return key;
}

function cellsOf({ row, separate }: LoadRow): NonNullable<RowMutation['put']> {
  if (row === MARKED) return [MARK];
  return separate ? [...unpackRow(row), ...unpackRow(separate)] : unpackRow(row);
}

/** Writes over what is there. */
async function replace(session: Session, table: OpenTable, row: LoadRow): Promise<void> {
  const steps = [{ table: table.spec.name, key: row.key, deleteRow: true, put: cellsOf(row) }];
  await runPlan(session, { steps, decisive: 0 }, [table.spec.name]);
}

async function takeAway(session: Session, parts: readonly Part[], ticket: bigint): Promise<void> {
  for (const part of parts) {
    const { table, load, rows } = part;
    if (load.append || (isGated(part) && !load.absent)) continue;
    // At the ticket of what was put: a deletion wins over it, and masks nothing newer.
    const gone = rows.map((row): RowMutation => {
      const names = cellsOf(row).map(({ family, qualifier }) => ({ family, qualifier }));
      return { key: row.key, delete: names, timestamp: ticket };
    });
    for (let at = 0; at < gone.length; at += CHUNK)
      await session.cluster.client.putMany(table.handle, gone.slice(at, at + CHUNK));
  }
}
