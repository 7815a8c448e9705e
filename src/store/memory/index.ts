import { lastRowNumber } from '../append.js';
import type { LoadRow, LoadTable, Maybe, Plan, Snapshot, Store, TableSpec } from '../contract.js';
import { LOG_TABLE, LogWriter } from '../log.js';
import { counterBytes, nextCell, qualifierStart, valueStart } from '../row.js';
import { Stage, type StageSink, type StageSource } from '../stage.js';
import { StoreError } from '../store-error.js';
import { cellKey, checkKey, checkSpec, MARK_ROW, noTable, sameSpec } from '../tables.js';
import { MemoryReader, type MemoryTable, separateTree } from './memory-reader.js';
import { Tree } from './tree.js';

/** Length of the longest key, in bytes: the limit of HBase. */
const MAX_KEY = 0x7fff;

/** Opens a store in the memory of this process, for tests and trials. All calls complete synchronously. */
export function openMemoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore extends MemoryReader implements Store {
  readonly supports = { atomicPlan: true, snapshot: true, processes: false, durable: false } as const;
  readonly #tables = new Map<string, MemoryTable>();
  #isClosed = false;

  async createTable(spec: TableSpec): Promise<void> {
    this.#checkOpen();
    const checkedSpec = checkSpec(spec);
    const existingTable = this.#tables.get(checkedSpec.name);
    if (existingTable) {
      if (sameSpec(existingTable.spec, checkedSpec)) return;
      throw new StoreError('conflict', `table ${checkedSpec.name} exists with another spec`);
    }
    const families = new Map<number, Tree>();
    for (const [family, { separate }] of checkedSpec.families.entries()) if (separate) families.set(family, new Tree());
    const rows = new Tree();
    this.#tables.set(checkedSpec.name, { spec: checkedSpec, rows, families, lastRowNumber: 0n, isDropped: false });
  }

  async dropTable(name: string): Promise<void> {
    this.#checkOpen();
    const table = this.#tables.get(name);
    if (table) table.isDropped = true;
    this.#tables.delete(name);
  }

  async tables(): Promise<TableSpec[]> {
    this.#checkOpen();
    return [...this.#tables.values()].map((table) => table.spec).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  snapshot(): Snapshot {
    this.#checkOpen();
    return new MemorySnapshot(this.#tables);
  }

  async commit(plan: Plan): Promise<void> {
    this.#checkOpen();
    this.#applyPlan(plan);
  }

  #applyPlan(plan: Plan, log = this.#logOf(plan)): void {
    const stage = new Stage(new TableSource((name) => this.table(name)));
    stage.apply(plan, log);
    stage.drain(STAGE_SINK);
  }

  #logOf(plan: Plan): LogWriter | undefined {
    return plan.unlogged || !this.#tables.has(LOG_TABLE.name) ? undefined : new LogWriter();
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    // The plan may change counters in loaded rows, so the rows are written first. A failure restores the tables.
    const savedTables = tables.map(({ table: name }) => [this.table(name), fork(this.table(name))] as const);
    try {
      const log = this.#logOf(plan);
      for (const table of tables) this.#loadTable(table, log);
      this.#applyPlan(plan, log);
    } catch (error) {
      for (const [table, saved] of savedTables) restore(table, saved);
      throw error;
    }
  }

  #loadTable({ table: name, rows, absent, append }: LoadTable, log: LogWriter | undefined): void {
    const table = this.table(name);
    let lastKey: Buffer | undefined;
    const maxOrder = table.spec.suffixBytes === undefined ? -1 : 0;
    for (const row of rows) {
      if (append) {
        const key = appendRow(table, row.row);
        log?.add(name, key, 'row');
        continue;
      }
      checkKey(row.key, { ...table.spec, suffixBytes: 0 }, MAX_KEY);
      if (lastKey && Buffer.compare(lastKey, row.key) > maxOrder) throw new TypeError('rows to load must rise by key');
      lastKey = row.key;
      if (absent && table.rows.get(row.key))
        throw new StoreError('guard', `a row of ${name} that is to be loaded exists`);
      loadRow(table, row);
      log?.addLoaded(table.spec, row);
    }
  }

  settled(table: string): Maybe<bigint> {
    return lastRowNumber(this, table);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#tables.clear();
  }

  protected override table(name: string): MemoryTable {
    const table = this.#tables.get(name);
    if (table) return table;
    this.#checkOpen();
    throw noTable(name);
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new StoreError('closed', 'store is closed');
  }
}

/** Returns a copy of the table that later changes do not affect. */
function fork(table: MemoryTable): MemoryTable {
  const cells = new Map([...table.families].map(([family, tree]) => [family, tree.fork()]));
  return { ...table, rows: table.rows.fork(), families: cells };
}

/** Restores the table from a copy made by `fork`. */
function restore(table: MemoryTable, saved: MemoryTable): void {
  table.rows.restore(saved.rows);
  for (const [family, tree] of table.families) tree.restore(saved.families.get(family)!);
}

class MemorySnapshot extends MemoryReader implements Snapshot {
  readonly #tables = new Map<string, MemoryTable>();
  #isClosed = false;

  constructor(tables: ReadonlyMap<string, MemoryTable>) {
    super();
    for (const [name, table] of tables) this.#tables.set(name, fork(table));
  }

  protected override table(name: string): MemoryTable {
    if (this.#isClosed) throw new StoreError('closed', 'snapshot is closed');
    const table = this.#tables.get(name);
    if (!table) throw noTable(name);
    return table;
  }

  close(): void {
    this.#isClosed = true;
    this.#tables.clear();
  }
}

class TableSource implements StageSource<MemoryTable> {
  readonly maxKey = MAX_KEY;
  readonly table: (name: string) => MemoryTable;

  constructor(table: (name: string) => MemoryTable) {
    this.table = table;
  }

  readRow(table: MemoryTable, key: Buffer): Buffer | undefined {
    return table.rows.get(key);
  }

  readCell(table: MemoryTable, family: number, key: Buffer): Buffer | undefined {
    return table.families.get(family)!.get(key);
  }

  listCellKeys(table: MemoryTable, family: number, prefix: Buffer): Buffer[] {
    const keys: Buffer[] = [];
    table.families.get(family)!.forward(prefix, false, (key) => {
      if (!key.subarray(0, prefix.length).equals(prefix)) return false;
      keys.push(key);
      return true;
    });
    return keys;
  }

  lastRowNumber(table: MemoryTable): bigint {
    return table.lastRowNumber;
  }
}

/** Writes staged changes. Copies keys and values, since the caller may reuse its buffers after `commit`. */
const STAGE_SINK: StageSink<MemoryTable> = {
  writeRow(table, key, row) {
    if (row) table.rows.set(Buffer.from(key), row as Buffer);
    else table.rows.delete(key);
  },
  writeCell(table, family, key, value) {
    const tree = table.families.get(family)!;
    if (value) tree.set(key, Buffer.from(value));
    else tree.delete(key);
  },
  writeLastRowNumber(table, rowNumber) {
    table.lastRowNumber = rowNumber;
  },
};

function appendRow(table: MemoryTable, row: Buffer): Buffer {
  const key = counterBytes(++table.lastRowNumber);
  table.rows.set(key, Buffer.from(row));
  return key;
}

function loadRow(table: MemoryTable, { key, row, separate }: LoadRow): void {
  const suffixBytes = table.spec.suffixBytes;
  if (suffixBytes !== undefined) {
    for (let offset = 0; offset < row.length; offset += suffixBytes)
      table.rows.set(Buffer.concat([key, row.subarray(offset, offset + suffixBytes)]), MARK_ROW);
    return;
  }
  table.rows.set(Buffer.from(key), Buffer.from(row));
  const source = new TableSource(() => table);
  for (const [family, tree] of table.families) {
    for (const storedKey of source.listCellKeys(table, family, cellKey(key, Buffer.alloc(0)))) tree.delete(storedKey);
  }
  if (!separate) return;
  for (let offset = 0; offset < separate.length; offset = nextCell(separate, offset)) {
    const tree = separateTree(table, separate[offset]!);
    const valueOffset = valueStart(separate, offset);
    const qualifier = separate.subarray(qualifierStart(offset), valueOffset);
    tree.set(cellKey(key, qualifier), Buffer.from(separate.subarray(valueOffset, nextCell(separate, offset))));
  }
}
