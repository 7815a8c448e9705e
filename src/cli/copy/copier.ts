import { createHash } from 'node:crypto';
import { CHANGES_TABLE, META_TABLE } from '../../partition/model/tables.js';
import { SHARED_KEY } from '../../partition/tree/shared-row.js';
import { Applier } from '../../replica/applier.js';
import { isReplicaRow } from '../../replica/history.js';
import { type CopyPosition, copyMessages, tablesOf } from '../../replica/sender.js';
import { decodePlain, encodePlain } from '../../replica/wire.js';
import type { Reader, Store, TableSpec } from '../../store/contract.js';
import { keysOf } from '../../store/maybe.js';
import { cellValue, EMPTY } from '../../store/row.js';
import { CliError } from '../exit.js';

/**
 * Progress of a copy, stored in the target until the copy is complete. Cell `mark` of its row identifies the source
 * directory and its state. Cell `at` is the position up to which rows are copied, as JSON.
 */
export const COPY_TABLE: TableSpec = { name: 'copy', families: [{ name: 'state' }] };

const STATE_KEY = Buffer.from('source');
const MARK = Buffer.from('mark');
const AT = Buffer.from('at');
/** Bytes of rows that are written with one batch. */
const BATCH_BYTES = 8 * 1024 * 1024;

/** Returns a hash of the directory and its state, which any change to an entry, a suffix or an index changes. */
async function hashSource(source: Reader): Promise<Buffer> {
  const sharedRow = await source.get(META_TABLE.name, SHARED_KEY);
  if (!sharedRow) throw new CliError('there is no directory to copy from');
  const scan = source.scan(CHANGES_TABLE.name, {}, { reverse: true, limit: 1, keysOnly: true });
  const [lastChangeKey = EMPTY] = await keysOf(scan);
  return createHash('sha256').update(sharedRow).update(lastChangeKey).digest();
}

function saveCell(target: Store, qualifier: Buffer, value: Buffer): Promise<void> {
  const put = [{ family: 0, qualifier, value }];
  return target.commit({ steps: [{ table: COPY_TABLE.name, key: STATE_KEY, put }], decisive: 0 });
}

/**
 * Begins a copy in an empty store, or resumes one of the same source: returns its position. Throws `CliError` when the
 * store is in use.
 */
async function beginCopy(target: Store, mark: Buffer): Promise<CopyPosition | undefined> {
  const names = (await target.tables()).map(({ name }) => name);
  if (names.length > 0 && !names.includes(COPY_TABLE.name))
    throw new CliError('the target has a directory already; a copy is made where there is none');
  await target.createTable(COPY_TABLE);
  const row = await target.get(COPY_TABLE.name, STATE_KEY);
  if (!row) await saveCell(target, MARK, mark);
  else if (!cellValue(row, 0, MARK)?.equals(mark)) {
    throw new CliError(
      'the target is half of a copy of something else, or its source has changed since; --restart begins it anew',
    );
  }
  const at = row && cellValue(row, 0, AT);
  return at && (decodePlain(at) as CopyPosition);
}

/** Removes an unfinished copy. Any other store is left alone. */
export async function removeUnfinishedCopy(target: Store): Promise<void> {
  const names = (await target.tables()).map(({ name }) => name);
  if (!names.includes(COPY_TABLE.name)) return;
  for (const name of names) if (name !== COPY_TABLE.name) await target.dropTable(name);
  await target.dropTable(COPY_TABLE.name);
}

/**
 * Copies a directory to an empty store, or resumes an unfinished copy. The copy is a directory of its own: what belongs
 * to the replicas of the source is left out. Calls `onRows` when `count` more rows of a table are read.
 */
export async function copyDirectory(
  source: Store,
  target: Store,
  onRows: (table: string, count: number) => void,
): Promise<void> {
  const reader = source.snapshot();
  try {
    const mark = await hashSource(reader);
    const specs = (await tablesOf(source)).filter(({ name }) => name !== COPY_TABLE.name);
    let position = await beginCopy(target, mark);
    let cellsKey: Buffer | undefined;
    const save = (reached: CopyPosition): Promise<void> => {
      position = reached;
      return saveCell(target, AT, encodePlain(reached));
    };
    const applier = new Applier(target, COPY_TABLE);
    await applier.apply({ kind: 'tables', specs });
    for await (const message of copyMessages(reader, specs, position, BATCH_BYTES)) {
      if (message.kind === 'touched') {
        const { table, key } = message.rows[0]!;
        const lastKey = position?.table === table ? position.lastKey : undefined;
        // The cells of the row before are complete.
        if (cellsKey && !cellsKey.equals(key)) await save({ table, lastKey, cellsKey });
        cellsKey = key;
        await applier.apply(message);
        await applier.flush();
        continue;
      }
      const { table, lastKey, rowCount } = message;
      cellsKey = undefined;
      onRows(table, rowCount);
      // Table `meta` makes the target a directory, and comes last, only when the other tables are consistent.
      const isMeta = table === META_TABLE.name;
      if (isMeta && !source.supports.snapshot && !(await hashSource(source)).equals(mark)) {
        throw new CliError(
          'the source was changed while it was copied; stop what writes to it, and copy with --restart',
        );
      }
      await applier.apply({ ...message, rows: message.rows.filter(({ key }) => !isMeta || !isReplicaRow(key)) });
      await save({ table, lastKey });
    }
    await target.dropTable(COPY_TABLE.name);
  } finally {
    reader.close();
  }
}
