import type { AttributeType } from '../../schema/schema-types.js';
import type { Cell, Reader } from '../../store/contract.js';
import { cellValue, EMPTY, nextCell, qualifierStart, valueStart } from '../../store/row.js';
import { isGuardFailure, StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import type { DescriptionTable } from './descriptions.js';
import { largeQualifiers, MASTER } from './tables.js';
import { CHUNK } from './thresholds.js';

/** Bytes of a pointer: length (8) and SHA-256. The name of chunks that were written ahead of their plan follows. */
export const POINTER_BYTES = 40;
/** Bytes of the name of chunks that were written ahead of their plan (`large-ahead.ts`). */
export const NAME_BYTES = 8;

/** Returns the chunk cells of one large value. Their qualifiers are the value's qualifier and a 4-byte chunk number. */
export function chunkCells(qualifier: Buffer, value: Buffer): Cell[] {
  return Array.from(chunksOf(value), (chunk, n) => ({
    family: MASTER.largeValues,
    qualifier: chunkQualifier(qualifier, n),
    value: chunk,
  }));
}

export function* chunksOf(value: Buffer): Generator<Buffer> {
  for (let at = 0; at < value.length; at += CHUNK) yield value.subarray(at, at + CHUNK);
}

/** Returns the qualifier of chunk `n`. `name` is set for chunks that were written ahead of their plan. */
export function chunkQualifier(qualifier: Buffer, n: number, name: Buffer = EMPTY): Buffer {
  const made = Buffer.allocUnsafe(qualifier.length + name.length + 4);
  made.set(qualifier, 0);
  made.set(name, qualifier.length);
  made.writeUInt32BE(n, qualifier.length + name.length);
  return made;
}

/** Returns the qualifiers of the chunks of the value behind `pointer`, in order. */
export function chunkNames(qualifier: Buffer, pointer: Buffer): Buffer[] {
  const name = pointer.subarray(POINTER_BYTES);
  return Array.from({ length: chunkCount(pointer) }, (_, n) => chunkQualifier(qualifier, n, name));
}

/** Encodes the value of the upAttributes cell of a large value. */
export function pointerOf(length: number, sha256: Buffer): Buffer {
  const pointer = Buffer.allocUnsafe(POINTER_BYTES);
  pointer.writeBigUInt64BE(BigInt(length));
  pointer.set(sha256, 8);
  return pointer;
}

/** Returns the length in bytes of the value behind a pointer. */
export function largeLength(pointer: Buffer): number {
  return Number(pointer.readBigUInt64BE());
}

export function chunkCount(pointer: Buffer): number {
  return Math.ceil(largeLength(pointer) / CHUNK);
}

const PARALLEL_CHUNKS = 4;

/**
 * Yields the chunks of the value behind `qualifier` of the entry `id`, in order, with only a few in memory. Throws
 * `corrupt` if a chunk is missing. `verify` is called after some chunks are read and before they are yielded.
 */
export async function* readChunks(
  reader: Reader,
  table: string,
  id: Buffer,
  qualifier: Buffer,
  pointer: Buffer,
  verify?: () => Promise<void>,
): AsyncGenerator<Buffer, void, undefined> {
  const count = chunkCount(pointer);
  let n = 0;
  for await (const chunk of readExistingChunks(reader, table, id, chunkNames(qualifier, pointer), verify)) {
    if (chunk?.length !== Math.min(CHUNK, largeLength(pointer) - n * CHUNK))
      throw new StoreError('corrupt', `a large value lacks chunk ${n} of ${count}; run \`rowan check\``);
    n++;
    yield chunk;
  }
}

/** Yields the chunks with these names, and undefined for every missing chunk. */
export async function* readExistingChunks(
  reader: Reader,
  table: string,
  id: Buffer,
  names: readonly Buffer[],
  verify?: () => Promise<void>,
): AsyncGenerator<Buffer | undefined, void, undefined> {
  for (let first = 0; first < names.length; first += PARALLEL_CHUNKS) {
    const some = names.slice(first, first + PARALLEL_CHUNKS);
    const read = await Promise.all(some.map((name) => reader.getCells(table, id, MASTER.largeValues, name)));
    await verify?.();
    for (const [i, name] of some.entries()) yield read[i] && cellValue(read[i], MASTER.largeValues, name);
  }
}

/**
 * Returns the complete value behind `qualifier` of the entry `id`, given the `pointer` in its row. Throws `corrupt` if
 * chunks are missing, and `guard` if the value was replaced since the row was read.
 */
export async function readLarge(
  reader: Reader,
  table: string,
  id: Buffer,
  qualifier: Buffer,
  pointer: Buffer,
): Promise<Buffer> {
  const verify = async (): Promise<void> => {
    if (!(await isCurrentValue(reader, table, id, qualifier, pointer)))
      throw new StoreError('guard', 'a large value was replaced while it was read');
  };
  const value = Buffer.allocUnsafe(largeLength(pointer));
  let to = 0;
  for await (const chunk of readChunks(reader, table, id, qualifier, pointer, verify)) to += chunk.copy(value, to);
  return value;
}

/** Yields the existing chunks of all large values of a row. Missing chunks are skipped. */
export async function* storedChunks(
  reader: Reader,
  table: string,
  id: Buffer,
  row: Buffer,
): AsyncGenerator<Cell, void, undefined> {
  for (const at of largeCells(row)) {
    const start = valueStart(row, at);
    const names = chunkNames(row.subarray(qualifierStart(at), start), row.subarray(start, nextCell(row, at)));
    let n = 0;
    for await (const value of readExistingChunks(reader, table, id, names)) {
      const qualifier = names[n++]!;
      if (value) yield { family: MASTER.largeValues, qualifier, value };
    }
  }
}

/** True if the value has not been replaced: it still has this pointer, which contains its SHA-256. */
export async function isCurrentValue(
  reader: Reader,
  table: string,
  id: Buffer,
  qualifier: Buffer,
  pointer: Buffer,
): Promise<boolean> {
  const range = { family: MASTER.upAttributes, from: qualifier, to: keyAfter(qualifier) };
  const row = await reader.getColumns(table, id, [range]);
  return row !== undefined && cellValue(row, MASTER.upAttributes, qualifier)?.equals(pointer) === true;
}

/** Repeats `work`, which uses `readLarge`, while values are replaced during the call. `again`: read the row again. */
export async function retryWhileReplaced<T>(work: (again: boolean) => Promise<T>): Promise<T> {
  for (let again = false; ; again = true) {
    try {
      return await work(again);
    } catch (error) {
      if (!isReplaced(error)) throw error;
    }
  }
}

/** True if `readLarge` ended because the value was replaced. */
export function isReplaced(error: unknown): boolean {
  return isGuardFailure(error);
}

/** Returns the offsets of the cells of large values in a row. */
export function largeCells(row: Buffer): number[] {
  const qualifiers = largeQualifiers(row);
  const found: number[] = [];
  if (!qualifiers) return found;
  for (let at = 0; at < row.length; at = nextCell(row, at)) {
    if (row[at] !== MASTER.upAttributes) continue;
    if (qualifiers.has(row.toString('latin1', qualifierStart(at), valueStart(row, at)))) found.push(at);
  }
  return found;
}

const NONE: readonly number[] = [];

/** Types whose values a filter evaluates, beyond their presence. */
export type EvaluatedTypes = ReadonlySet<AttributeType> | 'all' | undefined;

/** Returns the offsets of the cells of large values of these types. */
export function largeCellsOf(descriptions: DescriptionTable, row: Buffer, types: EvaluatedTypes): readonly number[] {
  if (!types) return NONE;
  return types === 'all' ? largeCells(row) : largeCellsWhere(descriptions, row, (type) => types.has(type));
}

export function largeCellsWhere(
  descriptions: DescriptionTable,
  row: Buffer,
  wanted: (type: AttributeType) => boolean,
): readonly number[] {
  return largeCells(row).filter((at) => wanted(descriptions.ofCell(row, at).description.type));
}

/** Returns all large values of a row, or of `cells`, by latin-1 qualifier, if any. Throws like `readLarge`. */
export async function readAllLarge(
  reader: Reader,
  table: string,
  id: Buffer,
  row: Buffer,
  cells: readonly number[] = largeCells(row),
): Promise<ReadonlyMap<string, Buffer> | undefined> {
  if (cells.length === 0) return undefined;
  const values = new Map<string, Buffer>();
  for (const at of cells) {
    const start = valueStart(row, at);
    const qualifier = row.subarray(qualifierStart(at), start);
    const value = await readLarge(reader, table, id, qualifier, row.subarray(start, nextCell(row, at)));
    values.set(qualifier.toString('latin1'), value);
  }
  return values;
}
