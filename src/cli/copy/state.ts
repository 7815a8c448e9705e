import { createHash } from 'node:crypto';
import { CHANGES_TABLE, META_TABLE } from '../../partition/model/tables.js';
import { SHARED_KEY } from '../../partition/tree/shared-row.js';
import { keysOf } from '../../store/batches.js';
import type { Reader, Store, TableSpec } from '../../store/contract.js';
import { cellValue, EMPTY } from '../../store/row.js';
import { CliError } from '../exit.js';

/**
 * Progress of a copy, stored in the target until the copy is complete. Row `source` has the cell `mark`, which
 * identifies the source directory and its state. Each begun table has a row with its name as key: cell `at` is the last
 * key that is copied with everything that belongs to it; cell `done` is set when the table is complete.
 */
export const COPY_TABLE: TableSpec = { name: 'copy', families: [{ name: 'state' }] };

const SOURCE_KEY = Buffer.from('source');
/** Table names have no colon. */
const tableKey = (table: string): Buffer => Buffer.from(`:${table}`);
const columnOf = (name: string) => ({ family: 0, qualifier: Buffer.from(name) });

/** Returns a hash of the directory and its state, which any change to an entry, a suffix or an index changes. */
export async function hashSource(source: Reader): Promise<Buffer> {
  const sharedRow = await source.get(META_TABLE.name, SHARED_KEY);
  if (!sharedRow) throw new CliError('there is no directory to copy from');
  const scan = source.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1, keysOnly: true });
  const [lastChangeKey = EMPTY] = await keysOf(scan);
  return createHash('sha256').update(sharedRow).update(lastChangeKey).digest();
}

export class CopyState {
  readonly #target: Store;

  private constructor(target: Store) {
    this.#target = target;
  }

  /** Begins a copy in an empty store, or resumes one of the same source. Throws `CliError` when the store is in use. */
  static async open(target: Store, sourceHash: Buffer): Promise<CopyState> {
    const state = new CopyState(target);
    const tables = await target.tables();
    if (tables.length === 0) await target.createTable(COPY_TABLE);
    else if (!tables.some(({ name }) => name === COPY_TABLE.name)) {
      throw new CliError('the target has a directory already; a copy is made where there is none');
    }
    const row = await target.get(COPY_TABLE.name, SOURCE_KEY);
    if (!row) await state.#putCell(SOURCE_KEY, 'mark', sourceHash);
    else if (!cellValue(row, 0, columnOf('mark').qualifier)?.equals(sourceHash)) {
      throw new CliError(
        'the target is half of a copy of something else, or its source has changed since; --restart begins it anew',
      );
    }
    return state;
  }

  /** Removes an unfinished copy. Any other store is left alone. */
  static async remove(target: Store): Promise<void> {
    const tables = await target.tables();
    if (!tables.some(({ name }) => name === COPY_TABLE.name)) return;
    for (const { name } of tables) if (name !== COPY_TABLE.name) await target.dropTable(name);
    await target.dropTable(COPY_TABLE.name);
  }

  /** Returns undefined when the table was not begun. `lastKey`: the last copied key. */
  async tableState(table: string): Promise<{ lastKey: Buffer | undefined; isDone: boolean } | undefined> {
    const row = await this.#target.get(COPY_TABLE.name, tableKey(table));
    if (!row) return undefined;
    return {
      lastKey: cellValue(row, 0, columnOf('at').qualifier),
      isDone: cellValue(row, 0, columnOf('done').qualifier) !== undefined,
    };
  }

  recordLastKey(table: string, lastKey: Buffer): Promise<void> {
    return this.#putCell(tableKey(table), 'at', lastKey);
  }

  recordDone(table: string): Promise<void> {
    return this.#putCell(tableKey(table), 'done', EMPTY);
  }

  recordComplete(): Promise<void> {
    return this.#target.dropTable(COPY_TABLE.name);
  }

  #putCell(key: Buffer, name: string, value: Buffer): Promise<void> {
    return this.#target.commit({
      steps: [{ table: COPY_TABLE.name, key, put: [{ ...columnOf(name), value }] }],
      decisive: 0,
    });
  }
}
