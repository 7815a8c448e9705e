import type { RootDatabase } from 'lmdb';
import type { TableSpec } from '../../contract.js';
import { counterBytes } from '../../row.js';
import { parseStoredJson } from '../../store-error.js';
import { type Db, openDb } from './database.js';

const GENERATION_KEY = Buffer.from('generation');
const NEXT_ID_KEY = Buffer.from('nextId');
const TABLE_PREFIX = 'table:';
/** The first key after every `table:` key. */
const TABLES_END = Buffer.from('table;');

interface CatalogEntry {
  readonly id: number;
  readonly spec: TableSpec;
}

/** The list of tables, with the counters of each (docs/formats/lmdb.md). Changes need a write transaction. */
export class Catalog {
  readonly #db: Db;

  constructor(root: RootDatabase) {
    this.#db = openDb(root, 'catalog');
  }

  /** A number that rises with every change of the list of tables; inside a write transaction the newest. */
  get generation(): number {
    return this.#readNumber(GENERATION_KEY) ?? 0;
  }

  entries(): Map<string, CatalogEntry> {
    const entries = new Map<string, CatalogEntry>();
    for (const { key, value } of this.#db.getRange({ start: Buffer.from(TABLE_PREFIX), end: TABLES_END })) {
      const name = key.toString('latin1', TABLE_PREFIX.length);
      entries.set(name, parseStoredJson<CatalogEntry>(value, `the entry of table ${name} in the catalog`));
    }
    return entries;
  }

  /** Adds a table under a new id, which no table had before, and returns the id. */
  addEntry(spec: TableSpec): number {
    const id = (this.#readNumber(NEXT_ID_KEY) ?? 0) + 1;
    this.#putNumber(NEXT_ID_KEY, id);
    this.#db.putSync(Buffer.from(TABLE_PREFIX + spec.name), Buffer.from(JSON.stringify({ id, spec })));
    this.#bumpGeneration();
    return id;
  }

  removeEntry(name: string, id: number): void {
    this.#db.removeSync(Buffer.from(TABLE_PREFIX + name));
    this.#db.removeSync(rowNumberKey(id));
    this.#bumpGeneration();
  }

  #bumpGeneration(): void {
    this.#putNumber(GENERATION_KEY, this.generation + 1);
  }

  /** The last row number appended to the table; inside a write transaction the newest. */
  lastRowNumber(id: number): bigint {
    return this.#db.get(rowNumberKey(id))?.readBigUInt64BE() ?? 0n;
  }

  putRowNumber(id: number, rowNumber: bigint): void {
    this.#db.putSync(rowNumberKey(id), counterBytes(rowNumber));
  }

  #readNumber(key: Buffer): number | undefined {
    const bytes = this.#db.get(key);
    return bytes && Number(bytes.readBigUInt64BE());
  }

  #putNumber(key: Buffer, value: number): void {
    this.#db.putSync(key, counterBytes(BigInt(value)));
  }
}

function rowNumberKey(id: number): Buffer {
  return Buffer.from(`appended:${id}`);
}
