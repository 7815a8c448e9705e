import type { RootDatabase } from 'lmdb';
import type { TableSpec } from '../../contract.js';
import { type Db, openDb } from './database.js';

const GENERATION = Buffer.from('generation');
const NEXT_ID = Buffer.from('nextId');
const TABLE = 'table:';
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
    return this.#number(GENERATION) ?? 0;
  }

  entries(): Map<string, CatalogEntry> {
    const entries = new Map<string, CatalogEntry>();
    for (const { key, value } of this.#db.getRange({ start: Buffer.from(TABLE), end: TABLES_END })) {
      entries.set(key.toString('latin1', TABLE.length), JSON.parse(value.toString()) as CatalogEntry);
    }
    return entries;
  }

  /** Adds a table under a new id, which no table had before, and returns the id. */
  addEntry(spec: TableSpec): number {
    const id = (this.#number(NEXT_ID) ?? 0) + 1;
    this.#put(NEXT_ID, id);
    this.#db.putSync(Buffer.from(TABLE + spec.name), Buffer.from(JSON.stringify({ id, spec })));
    this.#bump();
    return id;
  }

  removeEntry(name: string, id: number): void {
    this.#db.removeSync(Buffer.from(TABLE + name));
    this.#db.removeSync(appendedKey(id));
    this.#bump();
  }

  #bump(): void {
    this.#put(GENERATION, this.generation + 1);
  }

  /** The last row number appended to the table; inside a write transaction the newest. */
  lastAppended(id: number): bigint {
    return this.#db.get(appendedKey(id))?.readBigUInt64BE() ?? 0n;
  }

  putAppended(id: number, last: bigint): void {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigUInt64BE(last);
    this.#db.putSync(appendedKey(id), bytes);
  }

  #number(key: Buffer): number | undefined {
    const bytes = this.#db.get(key);
    return bytes && Number(bytes.readBigUInt64BE());
  }

  #put(key: Buffer, value: number): void {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigUInt64BE(BigInt(value));
    this.#db.putSync(key, bytes);
  }
}

function appendedKey(id: number): Buffer {
  return Buffer.from(`appended:${id}`);
}
