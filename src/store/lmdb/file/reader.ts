/**
 * The program of the process that `readInProcess` starts: `reader.js FOLDER`. It reads every row of every database
 * through LMDB, and sends where it reads beforehand, since a damaged page may crash LMDB there. It does not verify the
 * checksums of values: those who read the values do.
 */
import { setImmediate as yieldNow } from 'node:timers/promises';
import type { RangeOptions, RootDatabase, Transaction } from 'lmdb';
import { damaged, StoreError } from '../../store-error.js';
import { openEnvironment } from './environment.js';
import { toStoreError } from './lmdb-errors.js';
import { type Db, openDb } from './records.js';

/** Number of rows between two messages. */
const STEP_ROWS = 256;
/** Offsets in LMDB's record of a database: flags (u16), and number of rows (u64). */
const FLAGS_AT = 4;
const ROW_COUNT_AT = 32;

/** What the process sends. */
export interface ReaderMessage {
  /** What LMDB reads next. */
  readonly place?: string;
  /** Rows read so far, and rows by LMDB's own counts. */
  readonly rows?: number;
  readonly total?: number;
  readonly finding?: string;
  /** Why nothing can be read although no damage was found. */
  readonly failure?: string;
}

function send(message: ReaderMessage): void {
  process.send?.(message);
}

/** A run through all databases of an environment. */
class DatabaseReader {
  readonly #root: RootDatabase;
  #rows = 0;
  #total = 0;

  constructor(root: RootDatabase) {
    this.#root = root;
  }

  /** Reads LMDB's list of databases. Returns their names. */
  async readNames(): Promise<string[]> {
    const names: string[] = [];
    await this.read('of databases', undefined, (key, record) => {
      // Names end with a zero byte.
      names.push(key.toString('latin1', 0, key.length - 1));
      this.#total += Number(record.readBigUInt64LE(ROW_COUNT_AT));
    });
    return names;
  }

  /**
   * Reads a state of the database `name`, without it of LMDB's list of databases, as far as rows stand in order and are
   * found by their keys. Sends what is wrong.
   */
  async read(table: string, name?: string, onRow?: (key: Buffer, value: Buffer) => void): Promise<void> {
    // After a damaged page, LMDB refuses all reads in the transaction.
    this.#root.resetReadTxn();
    send({ place: placeAfter(table) });
    let lastKey: Buffer | undefined;
    let transaction: Transaction | undefined;
    try {
      const db = name === undefined ? (this.#root as unknown as Db) : openDb(this.#root, name);
      transaction = this.#root.useReadTransaction();
      let count = 0;
      for (const { key, value } of db.getRange({ transaction } as RangeOptions)) {
        if (lastKey && lastKey.compare(key) >= 0) throw damaged(table, key, 'it does not stand where its key belongs');
        // The branch pages above it may lead elsewhere.
        if (!db.get(key, { transaction })) throw damaged(table, key, 'it is not found by its key');
        lastKey = key;
        onRow?.(key, value);
        if (++count % STEP_ROWS > 0) continue;
        this.#rows += STEP_ROWS;
        send({ place: placeAfter(table, key), rows: this.#rows, total: this.#total });
        await yieldNow();
      }
      const record: Buffer | undefined = name && this.#root.get(Buffer.from(`${name}\0`), { transaction });
      if (record) checkRecord(table, record, count);
    } catch (error) {
      const { message } = error as Error;
      send({ finding: error instanceof StoreError ? message : `${placeAfter(table, lastKey)}: ${message}` });
    } finally {
      transaction?.done();
    }
  }
}

function placeAfter(table: string, key?: Buffer): string {
  return `table ${table}${key ? ` behind row ${key.toString('hex')}` : ''}`;
}

function checkRecord(table: string, record: Buffer, count: number): void {
  const flags = record.readUInt16LE(FLAGS_AT);
  if (flags !== 0) throw damaged(table, undefined, `LMDB's record of it has flags ${flags}`);
  const rowCount = record.readBigUInt64LE(ROW_COUNT_AT);
  if (rowCount !== BigInt(count))
    throw damaged(table, undefined, `it has ${count} rows, and LMDB's record of it tells ${rowCount}`);
}

async function readFolder(folder: string): Promise<void> {
  send({ place: 'the list of tables' });
  const { root, tables } = openEnvironment(folder, { readOnly: true, inOrder: true });
  const reader = new DatabaseReader(root);
  for (const name of await reader.readNames()) {
    const table = [...tables.values()].find(({ id }) => name.split(':')[0] === `t${id}`);
    await reader.read(table ? `${table.spec.name} (${name})` : name, name);
  }
}

process.once('disconnect', () => process.exit());
try {
  await readFolder(process.argv[2]!);
} catch (error) {
  const { code, message } = toStoreError(error, process.argv[2]!) as StoreError;
  send(code === 'damaged' || code === 'corrupt' ? { finding: message } : { failure: message });
}
process.disconnect();
