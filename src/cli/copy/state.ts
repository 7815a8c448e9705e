import { createHash } from 'node:crypto';
import { CHANGES_TABLE, META_TABLE } from '../../partition/model/tables.js';
import { SHARED_KEY } from '../../partition/tree/shared-row.js';
import { keysOf } from '../../store/batches.js';
import type { Reader, Store, TableSpec } from '../../store/contract.js';
import { cellValue, EMPTY } from '../../store/row.js';
import { CliError } from '../exit.js';

/**
 * How far a copy has come, in the target itself until it is complete. Row `source`: cell `mark` tells which directory
 * in which state is copied. A row for each table that was begun, key = its name: cell `at`, the last key that is there
 * with all that belongs to it; cell `done`, once all are.
 */
export const COPY_TABLE: TableSpec = { name: 'copy', families: [{ name: 'state' }] };

const SOURCE = Buffer.from('source');
/** Table names have no colon. */
const rowOf = (table: string): Buffer => Buffer.from(`:${table}`);
const cell = (name: string) => ({ family: 0, qualifier: Buffer.from(name) });

/** Tells a directory and its state: any change to an entry, a suffix or an index gives it another one. */
export async function markOf(source: Reader): Promise<Buffer> {
  const shared = await source.get(META_TABLE.name, SHARED_KEY);
  if (!shared) throw new CliError('there is no directory to copy from');
  const scan = source.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1, keysOnly: true });
  const [last = EMPTY] = await keysOf(scan);
  return createHash('sha256').update(shared).update(last).digest();
}

export class CopyState {
  readonly #target: Store;

  private constructor(target: Store) {
    this.#target = target;
  }

  /**
   * Begins a copy in an empty store, or takes up one of the same source. Throws `CliError` for a store that is in use.
   */
  static async open(target: Store, mark: Buffer): Promise<CopyState> {
    const state = new CopyState(target);
    const tables = await target.tables();
    if (tables.length === 0) await target.createTable(COPY_TABLE);
    else if (!tables.some(({ name }) => name === COPY_TABLE.name)) {
      throw new CliError('the target has a directory already; a copy is made where there is none');
    }
    const row = await target.get(COPY_TABLE.name, SOURCE);
    if (!row) await state.#put(SOURCE, 'mark', mark);
    else if (!cellValue(row, 0, cell('mark').qualifier)?.equals(mark)) {
      throw new CliError(
        'the target is half of a copy of something else, or its source has changed since; --restart begins it anew',
      );
    }
    return state;
  }

  /** Removes what an unfinished copy has left. A store that is something else is left alone. */
  static async remove(target: Store): Promise<void> {
    const tables = await target.tables();
    if (!tables.some(({ name }) => name === COPY_TABLE.name)) return;
    for (const { name } of tables) if (name !== COPY_TABLE.name) await target.dropTable(name);
    await target.dropTable(COPY_TABLE.name);
  }

  /** Undefined: not begun. `at`: the last key that was copied. */
  async of(table: string): Promise<{ readonly at: Buffer | undefined; readonly done: boolean } | undefined> {
    const row = await this.#target.get(COPY_TABLE.name, rowOf(table));
    if (!row) return undefined;
    return {
      at: cellValue(row, 0, cell('at').qualifier),
      done: cellValue(row, 0, cell('done').qualifier) !== undefined,
    };
  }

  copied(table: string, at: Buffer): Promise<void> {
    return this.#put(rowOf(table), 'at', at);
  }

  done(table: string): Promise<void> {
    return this.#put(rowOf(table), 'done', EMPTY);
  }

  /** The copy is complete. */
  end(): Promise<void> {
    return this.#target.dropTable(COPY_TABLE.name);
  }

  #put(key: Buffer, name: string, value: Buffer): Promise<void> {
    return this.#target.commit({
      steps: [{ table: COPY_TABLE.name, key, put: [{ ...cell(name), value }] }],
      decisive: 0,
    });
  }
}
