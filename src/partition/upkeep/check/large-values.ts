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
import { largeQualifiers, MASTER, Q, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { isBeingWritten, isMark } from '../../write/large-ahead.js';
import { type Survey, shown } from './survey.js';

/** The large values of a row. */
export interface LargeValues {
  /** The wanted values by qualifier (Latin-1). */
  readonly values: ReadonlyMap<string, Buffer>;
  /** Whether a value is lost, so that the rows that the entry implies are unknown. */
  readonly broken: boolean;
}

/**
 * Verifies the values over 64 KiB of a row: every chunk exists, length and SHA-256 are right, and no chunk is left
 * over. Returns the wanted values; undefined where the row has no large values.
 */
export async function checkLarge(
  survey: Survey,
  table: string,
  id: Buffer,
  row: Buffer,
  guards: readonly PlanStep[],
  wanted: (qualifier: Buffer) => boolean = () => false,
): Promise<LargeValues | undefined> {
  const qualifiers = largeQualifiers(row);
  const read = survey.reader.namesOfCells(table, id, MASTER.largeValues);
  const found = isPromise(read) ? await read : read;
  if (!qualifiers && found.length === 0) return undefined;
  const where = uuidText(id);
  const names = new Set(found.map((name) => name.toString('latin1')));
  const values = new Map<string, Buffer>();
  let broken = false;
  for (const name of qualifiers ?? []) {
    const qualifier = Buffer.from(name, 'latin1');
    const pointer = cellValue(row, MASTER.upAttributes, qualifier);
    const large: LargeLocation | undefined = pointer && { table, id, qualifier, pointer };
    const value = large && takeNames(names, large) && (await verify(survey, large, wanted(qualifier)));
    if (value) {
      if (value !== true) values.set(name, value);
      continue;
    }
    broken = true;
    const what = pointer
      ? 'chunks are missing, too many, or not what its SHA-256 says'
      : 'it is listed and has no cell';
    await survey.report(
      'large',
      where,
      `value ${shown(qualifier)}: ${what}; it cannot be restored from what the directory holds: delete or replace it, or restore a backup`,
    );
  }
  if (names.size > 0) await excludeActiveWrites(survey, table, id, names);
  if (names.size > 0 && !broken) {
    const gone = [...names].map((name) => ({ family: MASTER.largeValues, qualifier: Buffer.from(name, 'latin1') }));
    await survey.report(
      'large',
      where,
      `${names.size} chunks belong to no value, the first is ${shown(gone[0]!.qualifier)}; repair removes them`,
      [...guards, { table, key: id, delete: gone }],
    );
  }
  return { values, broken };
}

/** Removes from `names` the chunks that a writer is writing at this moment. */
async function excludeActiveWrites(survey: Survey, table: string, id: Buffer, names: Set<string>): Promise<void> {
  const cells = Array.from(names, (name) => Buffer.from(name, 'latin1'));
  for (const mark of await marksOfWriters(survey, table, id, cells)) {
    const name = mark.toString('latin1');
    for (const other of names)
      if (other === name || other.slice(-4 - CHUNK_NAME_BYTES, -4) === name) names.delete(other);
  }
}

/** Returns the marks, among the names of cells, of writers that are active at this moment. */
async function marksOfWriters(survey: Survey, table: string, id: Buffer, names: readonly Buffer[]): Promise<Buffer[]> {
  const marks: Buffer[] = [];
  for (const mark of names.filter(isMark))
    if (isBeingWritten(await survey.reader.getCells(table, id, MASTER.largeValues, mark), mark)) marks.push(mark);
  return marks;
}

/** Number of rows that are read together. */
const ROW_BATCH = 500;

/** Reports chunks whose row does not exist. */
export async function checkLostChunks(survey: Survey, table: string): Promise<void> {
  if (!survey.isWhole(table)) return survey.skip(`large values of no entry in table ${table}`, table);
  let after: Buffer | undefined;
  for (;;) {
    const keys = await survey.reader.keysOfCells(table, MASTER.largeValues, ROW_BATCH, after);
    const rows = await survey.getMany(table, keys);
    for (const [i, key] of keys.entries()) {
      if (rows[i] || !survey.isWhole(table) || (await isBeingAdded(survey, table, key))) continue;
      const where = key.length === UUID_BYTES ? uuidText(key) : `key ${shown(key)}`;
      const guards: Guard[] = [{ op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId }];
      await survey.report('large', where, `chunks of values in table ${table}, but no entry; repair removes them`, [
        { table, key, guards, deleteRow: true },
      ]);
    }
    if (keys.length < ROW_BATCH) return;
    after = keys.at(-1);
    await survey.progress(keys.length);
  }
}

/** Whether a new entry is being written whose large values have been written ahead. */
async function isBeingAdded(survey: Survey, table: string, key: Buffer): Promise<boolean> {
  const names = await survey.reader.namesOfCells(table, key, MASTER.largeValues);
  return (await marksOfWriters(survey, table, key, names)).length > 0;
}

/** The location of a large value. */
interface LargeLocation {
  readonly table: string;
  readonly id: Buffer;
  readonly qualifier: Buffer;
  readonly pointer: Buffer;
}

/** Removes the chunks of a value from `names`. Returns false where a chunk is missing. */
function takeNames(names: Set<string>, { qualifier, pointer }: LargeLocation): boolean {
  if (pointer.length !== POINTER_BYTES && pointer.length !== POINTER_BYTES + CHUNK_NAME_BYTES) return false;
  if (chunkCount(pointer) > names.size) return false;
  return chunkQualifiers(qualifier, pointer).every((name) => names.delete(name.toString('latin1')));
}

/**
 * Verifies the chunks of a value against the pointer. Returns the value, or `true` if not wanted; undefined if wrong.
 */
async function verify(
  survey: Survey,
  { table, id, qualifier, pointer }: LargeLocation,
  wanted: boolean,
): Promise<Buffer | true | undefined> {
  const sum = createHash('sha256');
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of readExistingChunks(survey.reader, table, id, chunkQualifiers(qualifier, pointer))) {
    if (!part) return undefined;
    sum.update(part);
    bytes += part.length;
    if (wanted) parts.push(part);
    await survey.progress(0);
  }
  if (bytes !== largeLength(pointer) || !sum.digest().equals(pointer.subarray(8, POINTER_BYTES))) return undefined;
  return wanted ? Buffer.concat(parts) : true;
}
