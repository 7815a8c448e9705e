import { setTimeout as delay } from 'node:timers/promises';
import { indexBirths } from '../partition/index/index-admin.js';
import { META_TABLE } from '../partition/model/tables.js';
import type { Cell, LoadRow, Reader, Store, TableSpec } from '../store/contract.js';
import { entryTimeMs, LOG_TABLE, readTouches, type Touch } from '../store/log.js';
import { batchesOf } from '../store/maybe.js';
import { cellAt, counterBytes, EMPTY, packRow, unpackRow } from '../store/row.js';
import { readRowBatches } from '../store/row-batches.js';
import { isNoTable } from '../store/store-error.js';
import { gapAfter } from './history.js';
import { encodeMessage, type Message, type TouchedRow } from './wire.js';

/** Bytes of rows in one message. */
const MESSAGE_BYTES = 256 * 1024;
/** A group of changes has at most this many entries of the log, unless the replica is further behind. */
const GROUP_ENTRIES = 2000;
/** Cells of separate families in one message: chunks of 128 KiB. */
const CELLS_PER_ROW = 16;
/** Time between two looks at the log: it doubles from the first to the second while nothing changes, in ms. */
const SHORTEST_WAIT_MS = 2;
const LONGEST_WAIT_MS = 20;
/** An idle stream says this often that it is alive, in ms. */
const ALIVE_MS = 2000;

/** Where a copy goes on: behind `lastKey` of `table`; undefined: behind the whole table. */
export interface CopyPosition {
  readonly table: string;
  readonly lastKey: Buffer | undefined;
  /** Set when all rows are copied: the last row whose separate cells are. */
  readonly cellsKey?: Buffer | undefined;
}

/** Table `meta` makes the copy a directory, so it comes last. */
const placeOf = (table: string): string => (table === META_TABLE.name ? '~' : table);

/**
 * Yields the messages of a copy of these tables, from `after` on. `rowCount`: rows of a table, postings each. A copy
 * from a store that changes is not of one moment: a replica applies all entries of the log that were written meanwhile,
 * and is consistent then.
 */
export async function* copyMessages(
  reader: Reader,
  specs: readonly TableSpec[],
  after: CopyPosition | undefined,
  maxBytes = MESSAGE_BYTES,
): AsyncGenerator<CopyMessage> {
  for (const spec of [...specs].sort((a, b) => (placeOf(a.name) < placeOf(b.name) ? -1 : 1))) {
    const table = spec.name;
    if (after && placeOf(table) < placeOf(after.table)) continue;
    const begun = after?.table === table ? after : undefined;
    if (begun && !begun.lastKey && !begun.cellsKey) continue;
    try {
      for await (const batch of readRowBatches(reader, spec, begun?.lastKey, maxBytes))
        yield { kind: 'load', table, ...batch };
      for await (const rows of separateRows(reader, spec, begun?.cellsKey)) yield { kind: 'touched', rows };
    } catch (error) {
      // An index was dropped meanwhile: the stream of changes says so.
      if (!isNoTable(error)) throw error;
    }
    yield { kind: 'load', table, lastKey: undefined, rows: [], rowCount: 0 };
  }
}

type CopyMessage =
  | Extract<Message, { kind: 'touched' }>
  | (Extract<Message, { kind: 'load' }> & { readonly rowCount: number });

/** Returns the names of these tables, those of indexes with their births. */
export async function tableNames(store: Store): Promise<string[]> {
  const births = await indexBirths(store);
  return (await tablesOf(store)).map(({ name }) => `${name} ${births[name] ?? ''}`);
}

/** Returns the tables that a replica has, the log aside, in the order of their names. */
export async function tablesOf(store: Pick<Store, 'tables'>): Promise<TableSpec[]> {
  return (await store.tables()).filter(({ name }) => name !== LOG_TABLE.name);
}

/** Yields the separate cells of all rows of a table, which has one separate family at most, behind a row. */
async function* separateRows(
  reader: Reader,
  { name, families }: TableSpec,
  after: Buffer | undefined,
): AsyncGenerator<TouchedRow[]> {
  const family = families.findIndex(({ separate }) => separate);
  if (family < 0) return;
  for (let keys: Buffer[]; ; after = keys.at(-1)) {
    keys = await reader.keysOfCells(name, family, 1000, after);
    if (keys.length === 0) return;
    for (const key of keys) yield* separateCells(reader, { table: name, key, family });
  }
}

/** Yields the cells of one separate family of a row, some at a time: there may be hundreds of megabytes. */
async function* separateCells(
  reader: Reader,
  { table, key, family }: { readonly table: string; readonly key: Buffer; readonly family: number },
): AsyncGenerator<TouchedRow[]> {
  const qualifiers = await reader.namesOfCells(table, key, family);
  for (let i = 0; i < qualifiers.length; i += CELLS_PER_ROW) {
    const names = qualifiers.slice(i, i + CELLS_PER_ROW).map((qualifier) => ({ family, qualifier }));
    yield [{ table, key, kind: 'cells', names, put: await readSeparate(reader, table, key, names) }];
  }
}

async function readSeparate(reader: Reader, table: string, key: Buffer, names: TouchedRow['names']): Promise<Buffer> {
  const cells: Cell[] = [];
  for (const { family, qualifier } of names) {
    const found = await reader.getCells(table, key, family, qualifier);
    // Longer qualifiers begin with this one, too; it comes first.
    if (found && cellAt(found, 0).qualifier.equals(qualifier)) cells.push(cellAt(found, 0));
  }
  return packRow(cells);
}

/** Yields the messages that bring a replica from `position` on, and keep it there, until `signal` is aborted. */
export async function* sendChanges(store: Store, position: bigint, signal: AbortSignal): AsyncGenerator<Buffer> {
  let sent = position;
  /** All entries up to here are sent; on HBase numbers have gaps. */
  let seen = position;
  const longestWaitMs = store.supports.snapshot ? LONGEST_WAIT_MS : LONGEST_WAIT_MS * 20;
  let tables: Buffer | undefined;
  let waitMs = SHORTEST_WAIT_MS;
  let aliveAt = 0;
  while (!signal.aborted) {
    store.renewReads?.();
    const last = await store.settled(LOG_TABLE.name);
    const now = performance.now();
    if (last <= seen) {
      if (now - aliveAt >= ALIVE_MS) {
        aliveAt = now;
        yield encodeMessage({ kind: 'alive', position: sent, last: sent, entryMs: Date.now(), nowMs: Date.now() });
      }
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
      waitMs = Math.min(waitMs * 2, longestWaitMs);
      continue;
    }
    const refusal = await gapAfter(store, sent);
    if (refusal) {
      yield encodeMessage({ kind: 'refused', refusal });
      return;
    }
    // Counters that front ends hold are in their rows then.
    await store.waitUntilQuiet?.();
    for await (const message of sendGroup(store, sent, last)) {
      if (message.isTables && tables?.equals(message.bytes)) continue;
      if (message.isTables) tables = message.bytes;
      yield message.bytes;
      sent = message.position ?? sent;
      waitMs = SHORTEST_WAIT_MS;
    }
    seen = last;
    if (sent > seen) seen = sent;
  }
}

/**
 * Yields one group: the tables, the rows that entries of the log behind `sent` have touched, as they are now, then
 * these entries. With a snapshot the group has all entries up to its moment, so that a replica goes from one state of
 * the primary to another.
 */
async function* sendGroup(
  store: Store,
  sent: bigint,
  settled: bigint,
): AsyncGenerator<{ readonly bytes: Buffer; readonly isTables?: boolean; readonly position?: bigint }> {
  const reader = store.supports.snapshot ? store.snapshot() : undefined;
  try {
    const source = reader ?? store;
    const range = { from: counterBytes(sent + 1n), to: reader ? undefined : counterBytes(settled + 1n) };
    const entries: LoadRow[] = [];
    const touches = new Touches();
    for await (const { keys, rows } of batchesOf(source.scan(LOG_TABLE.name, range))) {
      for (const [i, key] of keys.entries()) {
        entries.push({ key, row: rows[i]! });
        for (const touch of readTouches(key, rows[i]!)) touches.add(touch);
      }
      if (!reader && entries.length >= GROUP_ENTRIES) break;
    }
    const lastEntry = entries.at(-1);
    if (!lastEntry) return;
    // Read after the entries: each table that these touch is there, or dropped, and each index as old as its rows.
    const births = await indexBirths(source);
    yield { bytes: encodeMessage({ kind: 'tables', specs: await tablesOf(store), births }), isTables: true };
    for await (const rows of inMessages(readTouched(source, store, touches)))
      yield { bytes: encodeMessage({ kind: 'touched', rows }) };
    for (let i = 0; i < entries.length; i += GROUP_ENTRIES)
      yield { bytes: encodeMessage({ kind: 'log', entries: entries.slice(i, i + GROUP_ENTRIES) }) };
    const position = lastEntry.key.readBigUInt64BE();
    const last = position > settled ? position : settled;
    const state = { position, last, entryMs: entryTimeMs(lastEntry.row), nowMs: Date.now() };
    yield { bytes: encodeMessage({ kind: 'end', ...state }), position };
  } finally {
    reader?.close();
  }
}

/** The touched rows of a group, each once. */
class Touches {
  readonly #rows = new Map<string, Touch>();

  add(touch: Touch): void {
    const id = `${touch.table}\0${touch.key.toString('latin1')}`;
    const kinds = touch.kind === 'cells' ? `${id}\0cells` : `${id}\0row`;
    const earlier = this.#rows.get(kinds);
    if (!earlier) this.#rows.set(kinds, touch);
    else if (touch.kind === 'whole') this.#rows.set(kinds, touch);
    else if (touch.kind === 'cells') this.#rows.set(kinds, { ...touch, cells: [...earlier.cells, ...touch.cells] });
  }

  [Symbol.iterator](): Iterator<Touch> {
    return this.#rows.values();
  }
}

/** Yields the present content of the rows that entries of a log have touched. `entries`: packed rows of the log. */
export async function* sendTouched(store: Store, entries: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield encodeMessage({ kind: 'tables', specs: await tablesOf(store) });
  const touches = new Touches();
  // An embedded engine has written them: no touch depends on the number of its entry.
  for (const row of entries) for (const touch of readTouches(counterBytes(0n), row)) touches.add(touch);
  for await (const rows of inMessages(readTouched(store, store, touches)))
    yield encodeMessage({ kind: 'touched', rows });
}

async function* readTouched(reader: Reader, store: Store, touches: Touches): AsyncGenerator<TouchedRow> {
  const specs = new Map((await store.tables()).map((spec) => [spec.name, spec]));
  for (const { table, key, kind, cells } of touches) {
    const spec = specs.get(table);
    if (!spec) continue;
    try {
      if (kind === 'cells') {
        const isSeparate = ({ family }: { readonly family: number }): boolean =>
          spec.families[family]?.separate === true;
        const separate = cells.filter(isSeparate);
        const plain = cells.filter((name) => !isSeparate(name));
        if (plain.length > 0) yield { table, key, kind, names: plain, put: await readPlain(reader, table, key, plain) };
        for (let i = 0; i < separate.length; i += CELLS_PER_ROW) {
          const names = separate.slice(i, i + CELLS_PER_ROW);
          yield { table, key, kind, names, put: await readSeparate(reader, table, key, names) };
        }
      } else {
        yield { table, key, kind, names: [], put: (await reader.get(table, key)) ?? EMPTY };
        if (kind !== 'whole') continue;
        for (const [family, { separate }] of spec.families.entries())
          if (separate) for await (const [row] of separateCells(reader, { table, key, family })) yield row!;
      }
    } catch (error) {
      // The table was dropped: the replica drops it, too.
      if (!isNoTable(error)) throw error;
    }
  }
}

async function readPlain(reader: Reader, table: string, key: Buffer, names: TouchedRow['names']): Promise<Buffer> {
  const cells: Cell[] = [];
  for (const { family, qualifier } of names) {
    const to = Buffer.concat([qualifier, Buffer.from([0])]);
    const found = await reader.getColumns(table, key, [{ family, from: qualifier, to }]);
    if (found) cells.push(...unpackRow(found));
  }
  return packRow(cells);
}

async function* inMessages(rows: AsyncIterable<TouchedRow>): AsyncGenerator<TouchedRow[]> {
  let message: TouchedRow[] = [];
  let bytes = 0;
  for await (const row of rows) {
    message.push(row);
    bytes += row.key.length + row.put.length;
    if (bytes < MESSAGE_BYTES) continue;
    yield message;
    message = [];
    bytes = 0;
  }
  if (message.length > 0) yield message;
}
