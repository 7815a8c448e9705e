import { createHash } from 'node:crypto';
import type { Guard, PlanStep } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { cellValue, EMPTY, unpackRow } from '../../store/row.js';
import { CHUNK, chunkQualifier, largeLength } from '../large.js';
import { largeQualifiers, MASTER, Q, UUID_BYTES } from '../tables.js';
import { uuidText } from '../uuid.js';
import { type Survey, shown } from './survey.js';

const POINTER_BYTES = 40;

export interface LargeValues {
  /** By latin-1 qualifier those values that are wanted. */
  readonly values: ReadonlyMap<string, Buffer>;
  /** A value is lost, so what the entry implies is not known. */
  readonly broken: boolean;
}

/**
 * Verifies the values over 64 KiB of one row: every chunk there, length and SHA-256 right, no chunk left over. Only the
 * values that are `wanted` are joined.
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
  const read = survey.reader.getCells(table, id, MASTER.largeValues, EMPTY);
  const cells = isPromise(read) ? await read : read;
  if (!qualifiers && !cells) return undefined;
  const where = uuidText(id);
  const chunks = new Map(
    (cells ? unpackRow(cells) : []).map((cell) => [cell.qualifier.toString('latin1'), cell.value]),
  );
  const values = new Map<string, Buffer>();
  let broken = false;
  for (const name of qualifiers ?? []) {
    const qualifier = Buffer.from(name, 'latin1');
    const pointer = cellValue(row, MASTER.upAttributes, qualifier);
    const parts = pointer && takeParts(chunks, qualifier, pointer);
    if (parts) {
      if (wanted(qualifier)) values.set(name, Buffer.concat(parts));
    } else {
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
  }
  if (chunks.size > 0 && !broken) {
    const gone = [...chunks.keys()].map((name) => ({
      family: MASTER.largeValues,
      qualifier: Buffer.from(name, 'latin1'),
    }));
    await survey.report(
      'large',
      where,
      `${chunks.size} chunks belong to no value, the first is ${shown(gone[0]!.qualifier)}; repair removes them`,
      [...guards, { table, key: id, delete: gone }],
    );
  }
  return { values, broken };
}

/** Rows looked up together. */
const TOGETHER = 500;

/** Chunks whose row is gone: nothing leads to them. */
export async function checkLostChunks(survey: Survey, table: string): Promise<void> {
  let after: Buffer | undefined;
  for (;;) {
    const keys = await survey.reader.keysOfCells(table, MASTER.largeValues, TOGETHER, after);
    const rows = await survey.getMany(table, keys);
    for (const [i, key] of keys.entries()) {
      if (rows[i]) continue;
      const where = key.length === UUID_BYTES ? uuidText(key) : `key ${shown(key)}`;
      const guards: Guard[] = [{ op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId }];
      await survey.report('large', where, `chunks of values in table ${table}, but no entry; repair removes them`, [
        { table, key, guards, deleteRow: true },
      ]);
    }
    if (keys.length < TOGETHER) return;
    after = keys.at(-1);
    await survey.breathe(keys.length);
  }
}

/** Takes the chunks of one value out of `chunks`; undefined when they are not what the pointer says. */
function takeParts(chunks: Map<string, Buffer>, qualifier: Buffer, pointer: Buffer): Buffer[] | undefined {
  if (pointer.length !== POINTER_BYTES) return undefined;
  const length = largeLength(pointer);
  const parts: Buffer[] = [];
  const sum = createHash('sha256');
  let bytes = 0;
  for (let n = 0; n * CHUNK < length; n++) {
    const name = chunkQualifier(qualifier, n).toString('latin1');
    const part = chunks.get(name);
    if (!part) return undefined;
    parts.push(part);
    sum.update(part);
    bytes += part.length;
    chunks.delete(name);
  }
  return bytes === length && sum.digest().equals(pointer.subarray(8)) ? parts : undefined;
}
