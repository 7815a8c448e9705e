import type { AppendStep, CellName, LoadRow, Plan, RowStep, TableSpec } from './contract.js';
import { counterBytes, EMPTY, valueStart } from './row.js';
import { StoreError } from './store-error.js';

/**
 * The log of a store that has replicas: for each plan the rows that it has touched, without their contents. While the
 * table exists, the engine appends an entry for each plan and each bulk batch, in the same transaction. A reader that
 * has the entries up to a number, and the present content of their rows, has the state of a snapshot with that number
 * (docs/formats/replication.md).
 */
export const LOG_TABLE: TableSpec = { name: 'replica_log', families: [{ name: 'log' }], rising: true };

/** Time after which a front end of HBase looks again whether there is a log, in ms. */
export const LOG_LOOK_MS = 3000;

/** What a plan has touched. `row`: cells of the row; `whole`: these and the cells of separate families. */
export type TouchKind = 'row' | 'whole' | 'cells';
/** `earlier`: a row that the same plan has appended; the key is how far its number is below that of the entry. */
const KINDS: readonly (TouchKind | 'earlier')[] = ['row', 'whole', 'cells', 'earlier'];

export interface Touch {
  readonly table: string;
  readonly key: Buffer;
  readonly kind: TouchKind;
  /** Present for `cells`. */
  readonly cells: readonly CellName[];
}

const NO_CELLS: readonly CellName[] = [];
/** An entry takes no more touches after this many bytes: the batch goes on in another entry. */
const MAX_ENTRY_BYTES = 64 * 1024;
const TIME_BYTES = 8;

/** Collects the touches of one plan. */
export class LogWriter {
  #entries: Buffer[][] = [];
  #parts: Buffer[] = [];
  #length = 0;
  #table = '';

  add(table: string, key: Buffer, kind: (typeof KINDS)[number], cells = NO_CELLS): void {
    if (this.#length > MAX_ENTRY_BYTES) this.#startEntry();
    // A touch of the same table as the one before it has an empty name.
    const name = Buffer.from(table === this.#table ? '' : table, 'latin1');
    this.#table = table;
    const head = Buffer.allocUnsafe(4 + name.length);
    head[0] = KINDS.indexOf(kind);
    head[1] = name.length;
    head.set(name, 2);
    head.writeUInt16BE(key.length, 2 + name.length);
    this.#push(head, key);
    if (kind === 'cells') this.#pushCells(cells);
  }

  #pushCells(cells: readonly CellName[]): void {
    const count = Buffer.allocUnsafe(4);
    count.writeUInt32BE(cells.length);
    this.#push(count);
    for (const { family, qualifier } of cells)
      this.#push(Buffer.from([family, qualifier.length >>> 8, qualifier.length & 0xff]), qualifier);
  }

  /** Adds what a step changes. `isSplit`: the engine keeps the row in segments, and reads cells one by one. */
  addStep(step: RowStep, { families, suffixBytes }: TableSpec, isSplit: boolean): void {
    const { table, key, put = [], add = [] } = step;
    if (step.deleteRow) {
      this.add(table, key, suffixBytes === undefined ? 'whole' : 'row');
      return;
    }
    const names: CellName[] = [...(step.delete ?? []), ...put, ...add];
    const separate = names.filter(({ family }) => families[family]?.separate);
    const plain = names.filter(({ family }) => !families[family]?.separate);
    if (separate.length > 0) this.add(table, key, 'cells', separate);
    if (plain.length > 0) this.add(table, key, isSplit ? 'cells' : 'row', isSplit ? plain : NO_CELLS);
  }

  /** Adds a row of a bulk batch, which replaces the separate cells of an earlier row, too. */
  addLoaded({ name, families, suffixBytes }: TableSpec, { key, row }: LoadRow): void {
    if (suffixBytes === undefined)
      this.add(name, Buffer.from(key), families.some(({ separate }) => separate) ? 'whole' : 'row');
    else
      for (let offset = 0; offset < row.length; offset += suffixBytes)
        this.add(name, Buffer.concat([key, row.subarray(offset, offset + suffixBytes)]), 'row');
  }

  #push(...parts: Buffer[]): void {
    this.#parts.push(...parts);
    for (const { length } of parts) this.#length += length;
  }

  #startEntry(): void {
    if (this.#parts.length > 0) this.#entries.push(this.#parts);
    this.#parts = [];
    this.#length = 0;
    this.#table = '';
  }

  /** Returns the steps that append the entries; none if nothing was touched. */
  steps(): AppendStep[] {
    this.#startEntry();
    const time = Buffer.allocUnsafe(TIME_BYTES);
    time.writeBigUInt64BE(BigInt(Date.now()));
    return this.#entries.map((parts) => ({
      table: LOG_TABLE.name,
      append: [{ family: 0, qualifier: EMPTY, value: Buffer.concat([time, ...parts]) }],
    }));
  }
}

/** Returns the time of an entry in milliseconds since 1970. `row`: a packed row of the table. */
export function entryTimeMs(row: Buffer): number {
  return Number(row.readBigUInt64BE(valueStart(row, 0)));
}

export function isChange({ deleteRow, put, delete: deleted, add }: RowStep): boolean {
  return deleteRow === true || [put, deleted, add].some((cells) => cells !== undefined && cells.length > 0);
}

/**
 * Returns the plan with steps that append its entries of the log, for an engine that numbers the appended rows of a
 * plan in steps of `numberStep`. `addMore` adds what else the plan decides.
 */
export function loggedPlan(
  plan: Plan,
  specOf: (table: string) => TableSpec,
  numberStep: bigint,
  addMore?: (log: LogWriter) => void,
): Plan {
  const log = new LogWriter();
  const appends = plan.steps.filter((step) => 'append' in step);
  for (const [i, { table }] of appends.entries())
    log.add(table, counterBytes(BigInt(appends.length - i) * numberStep), 'earlier');
  for (const step of plan.steps)
    if (!('append' in step) && isChange(step)) log.addStep(step, specOf(step.table), false);
  addMore?.(log);
  return { ...plan, steps: [...plan.steps, ...log.steps()] };
}

/** Yields what an entry has touched: a row of the table. Throws `corrupt` for a malformed one. */
export function* readTouches(entryKey: Buffer, row: Buffer): Generator<Touch> {
  let offset = valueStart(row, 0) + TIME_BYTES;
  let table = '';
  const take = (length: number): Buffer => {
    const bytes = row.subarray(offset, offset + length);
    offset += length;
    if (bytes.length < length) throw new StoreError('corrupt', 'an entry of the log is cut short');
    return bytes;
  };
  while (offset < row.length) {
    const [kindNumber, nameLength] = take(2) as unknown as [number, number];
    const kind = KINDS[kindNumber];
    if (!kind) throw new StoreError('corrupt', `an entry of the log has a touch of kind ${kindNumber}`);
    if (nameLength > 0) table = take(nameLength).toString('latin1');
    let key = take(take(2).readUInt16BE());
    const cells: CellName[] = [];
    if (kind === 'cells')
      for (let left = take(4).readUInt32BE(); left > 0; left--) {
        const family = take(1)[0]!;
        cells.push({ family, qualifier: take(take(2).readUInt16BE()) });
      }
    if (kind === 'earlier') key = counterBytes(entryKey.readBigUInt64BE() - key.readBigUInt64BE());
    yield { table, key, kind: kind === 'earlier' ? 'row' : kind, cells };
  }
}
