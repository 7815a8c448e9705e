import { createHash } from 'node:crypto';
import type { Guard, PlanStep } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { cellValue } from '../../../store/row.js';
import {
  CHUNK_NAME_BYTES,
  chunkCount,
  chunkQualifiers,
  largeLength,
  POINTER_BYTES,
  readExistingChunks,
} from '../../model/large.js';
import { largeQualifiers, MASTER, Q } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { isBeingWritten, isMark } from '../../write/large-ahead.js';
import { placeOf, printable, type Survey } from './survey.js';

export interface LargeValues {
  /** The requested values by qualifier (Latin-1). */
  readonly values: ReadonlyMap<string, Buffer>;
  /** Whether a value is lost. The rows that the entry implies are then unknown. */
  readonly hasLostValue: boolean;
}

/**
 * Verifies the large values of a row: every chunk exists, length and SHA-256 are right, and there are no other chunks.
 * Returns the requested values; undefined if the row has no large values.
 */
export async function checkLarge(
  survey: Survey,
  table: string,
  id: Buffer,
  row: Buffer,
  guards: readonly PlanStep[],
  isWanted: (qualifier: Buffer) => boolean = () => false,
): Promise<LargeValues | undefined> {
  const qualifiers = largeQualifiers(row);
  const maybeNames = survey.reader.namesOfCells(table, id, MASTER.largeValues);
  const cellNames = isPromise(maybeNames) ? await maybeNames : maybeNames;
  if (!qualifiers && cellNames.length === 0) return undefined;
  const entryId = uuidText(id);
  const extraNames = new Set(cellNames.map((name) => name.toString('latin1')));
  const values = new Map<string, Buffer>();
  let hasLostValue = false;
  for (const name of qualifiers ?? []) {
    const qualifier = Buffer.from(name, 'latin1');
    const pointer = cellValue(row, MASTER.upAttributes, qualifier);
    const names = pointer && takeNames(extraNames, qualifier, pointer);
    const chunks = names && readExistingChunks(survey.reader, table, id, names);
    const value = chunks && (await verifyValue(survey, chunks, pointer!, isWanted(qualifier)));
    if (value) {
      if (value !== true) values.set(name, value);
      continue;
    }
    hasLostValue = true;
    const problem = pointer
      ? 'chunks are missing, too many, or not what its SHA-256 says'
      : 'it is listed and has no cell';
    const message = `value ${printable(qualifier)}: ${problem}; it cannot be restored from what the directory holds: delete or replace it, or restore a backup`;
    await survey.report('large', entryId, message);
  }
  if (extraNames.size > 0) await excludeActiveWrites(survey, table, id, extraNames);
  if (extraNames.size > 0 && !hasLostValue) {
    const extraChunks = [...extraNames].map((name) => ({
      family: MASTER.largeValues,
      qualifier: Buffer.from(name, 'latin1'),
    }));
    const message = `${extraNames.size} chunks belong to no value, the first is ${printable(extraChunks[0]!.qualifier)}; repair removes them`;
    await survey.report('large', entryId, message, [...guards, { table, key: id, delete: extraChunks }]);
  }
  return { values, hasLostValue };
}

/** Removes from `names` the marks (`isMark`) of writers that are writing now, and their chunks. */
async function excludeActiveWrites(survey: Survey, table: string, id: Buffer, names: Set<string>): Promise<void> {
  for (const mark of Array.from(names, (name) => Buffer.from(name, 'latin1')).filter(isMark)) {
    if (!isBeingWritten(await survey.reader.getCells(table, id, MASTER.largeValues, mark), mark)) continue;
    const markKey = mark.toString('latin1');
    for (const name of names)
      if (name === markKey || name.slice(-4 - CHUNK_NAME_BYTES, -4) === markKey) names.delete(name);
  }
}

const ROW_BATCH = 500;

/** Reports chunks in rows of entries that do not exist. */
export async function checkLostChunks(survey: Survey, table: string): Promise<void> {
  if (!survey.isFullyReadable(table)) return survey.noteSkipped(`large values of no entry in table ${table}`, table);
  let lastKey: Buffer | undefined;
  for (;;) {
    const keys = await survey.reader.keysOfCells(table, MASTER.largeValues, ROW_BATCH, lastKey);
    const rows = await survey.getMany(table, keys);
    for (const [i, key] of keys.entries()) {
      if (rows[i] || !survey.isFullyReadable(table) || (await isBeingAdded(survey, table, key))) continue;
      const guards: Guard[] = [{ op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId }];
      await survey.report(
        'large',
        placeOf(key),
        `chunks of values in table ${table}, but no entry; repair removes them`,
        [{ table, key, guards, deleteRow: true }],
      );
    }
    if (keys.length < ROW_BATCH) return;
    lastKey = keys.at(-1);
    await survey.countProgress(keys.length);
  }
}

/** Whether the row is that of a new entry whose large values are being written ahead of its plan. */
async function isBeingAdded(survey: Survey, table: string, key: Buffer): Promise<boolean> {
  const cellNames = await survey.reader.namesOfCells(table, key, MASTER.largeValues);
  const otherNames = new Set(cellNames.map((name) => name.toString('latin1')));
  await excludeActiveWrites(survey, table, key, otherNames);
  return otherNames.size < cellNames.length;
}

/** Removes the names of a value's chunks from `names`, and returns them; undefined if a chunk is missing. */
function takeNames(names: Set<string>, qualifier: Buffer, pointer: Buffer): readonly Buffer[] | undefined {
  if (pointer.length !== POINTER_BYTES && pointer.length !== POINTER_BYTES + CHUNK_NAME_BYTES) return undefined;
  if (chunkCount(pointer) > names.size) return undefined;
  const taken = chunkQualifiers(qualifier, pointer);
  return taken.every((name) => names.delete(name.toString('latin1'))) ? taken : undefined;
}

/** Verifies the chunks of a value. Returns the value, or `true` if it was not requested; undefined if it is wrong. */
async function verifyValue(
  survey: Survey,
  chunks: ReturnType<typeof readExistingChunks>,
  pointer: Buffer,
  isWanted: boolean,
): Promise<Buffer | true | undefined> {
  const hash = createHash('sha256');
  const keptChunks: Buffer[] = [];
  let byteCount = 0;
  for await (const chunk of chunks) {
    if (!chunk) return undefined;
    hash.update(chunk);
    byteCount += chunk.length;
    if (isWanted) keptChunks.push(chunk);
    await survey.countProgress(0);
  }
  if (byteCount !== largeLength(pointer) || !hash.digest().equals(pointer.subarray(8, POINTER_BYTES))) return undefined;
  return isWanted ? Buffer.concat(keptChunks) : true;
}
