import type { AttributeType } from '../../schema/schema-types.js';
import type { Cell, Reader, Snapshot, Store } from '../../store/contract.js';
import { cellValue, EMPTY, nextCell, qualifierStart, valueStart } from '../../store/row.js';
import { isGuardFailure, StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import type { DescriptionTable } from './descriptions.js';
import { toLdapError } from './store-errors.js';
import { largeQualifiers, MASTER, MASTER_TABLE } from './tables.js';
import { CHUNK } from './thresholds.js';

/** Bytes of a pointer: length (8) and SHA-256. A chunk name follows if the chunks were written ahead. */
export const POINTER_BYTES = 40;
/** Bytes of a chunk name, which chunks have that were written ahead of their plan (`large-ahead.ts`). */
export const CHUNK_NAME_BYTES = 8;

/** Returns the cells of the chunks of a large value. Their qualifiers: the value's qualifier and a 4-byte number. */
export function chunkCells(qualifier: Buffer, value: Buffer): Cell[] {
  return Array.from(splitChunks(value), (chunk, n) => ({
    family: MASTER.largeValues,
    qualifier: chunkQualifier(qualifier, n),
    value: chunk,
  }));
}

export function* splitChunks(value: Buffer): Generator<Buffer> {
  for (let offset = 0; offset < value.length; offset += CHUNK) yield value.subarray(offset, offset + CHUNK);
}

/** Returns the qualifier of chunk `n`. `chunkName`: set if the chunks were written ahead of their plan. */
export function chunkQualifier(qualifier: Buffer, n: number, chunkName: Buffer = EMPTY): Buffer {
  const result = Buffer.allocUnsafe(qualifier.length + chunkName.length + 4);
  result.set(qualifier, 0);
  result.set(chunkName, qualifier.length);
  result.writeUInt32BE(n, qualifier.length + chunkName.length);
  return result;
}

/** Returns the qualifiers of the chunks of the value behind `pointer`, in order. */
export function chunkQualifiers(qualifier: Buffer, pointer: Buffer): Buffer[] {
  const chunkName = pointer.subarray(POINTER_BYTES);
  return Array.from({ length: chunkCount(pointer) }, (_, n) => chunkQualifier(qualifier, n, chunkName));
}

/** Returns the pointer of a large value: the value of its upAttributes cell. */
export function encodePointer(length: number, sha256: Buffer): Buffer {
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
 * Yields the chunks of the value that `pointer` describes, in order, with only a few in memory. Throws `corrupt` if a
 * chunk is missing. `verify` is called after chunks are read and before they are yielded.
 */
async function* readChunks(
  reader: Reader,
  table: string,
  id: Buffer,
  qualifier: Buffer,
  pointer: Buffer,
  verify?: () => Promise<void>,
): AsyncGenerator<Buffer, void, undefined> {
  const count = chunkCount(pointer);
  let n = 0;
  for await (const chunk of readExistingChunks(reader, table, id, chunkQualifiers(qualifier, pointer), verify)) {
    if (chunk?.length !== Math.min(CHUNK, largeLength(pointer) - n * CHUNK))
      throw new StoreError('corrupt', `a large value lacks chunk ${n} of ${count}; run \`rowan check\``);
    n++;
    yield chunk;
  }
}

/** Yields the chunks with these qualifiers; undefined for each missing chunk. */
export async function* readExistingChunks(
  reader: Reader,
  table: string,
  id: Buffer,
  qualifiers: readonly Buffer[],
  verify?: () => Promise<void>,
): AsyncGenerator<Buffer | undefined, void, undefined> {
  for (let start = 0; start < qualifiers.length; start += PARALLEL_CHUNKS) {
    const group = qualifiers.slice(start, start + PARALLEL_CHUNKS);
    const rows = await Promise.all(group.map((qualifier) => reader.getCells(table, id, MASTER.largeValues, qualifier)));
    await verify?.();
    for (const [i, qualifier] of group.entries()) yield rows[i] && cellValue(rows[i], MASTER.largeValues, qualifier);
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
  let end = 0;
  for await (const chunk of readChunks(reader, table, id, qualifier, pointer, verify)) end += chunk.copy(value, end);
  return value;
}

/** Whether the value was not replaced: its pointer, which contains the SHA-256, is the same. */
async function isCurrentValue(
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

/** Repeats `work`, which uses `readLarge`, if values are replaced meanwhile. `isRetry`: read the row again. */
export async function retryWhileReplaced<T>(work: (isRetry: boolean) => Promise<T>): Promise<T> {
  for (let isRetry = false; ; isRetry = true) {
    try {
      return await work(isRetry);
    } catch (error) {
      if (!isReplacedError(error)) throw error;
    }
  }
}

/** Whether `readLarge` has failed because the value was replaced. */
export function isReplacedError(error: unknown): boolean {
  return isGuardFailure(error);
}

/** Returns the offsets of the cells of large values in a row. */
export function largeOffsets(row: Buffer): number[] {
  const qualifiers = largeQualifiers(row);
  const offsets: number[] = [];
  if (!qualifiers) return offsets;
  for (let offset = 0; offset < row.length; offset = nextCell(row, offset)) {
    if (row[offset] !== MASTER.upAttributes) continue;
    if (qualifiers.has(row.toString('latin1', qualifierStart(offset), valueStart(row, offset)))) offsets.push(offset);
  }
  return offsets;
}

const NO_OFFSETS: readonly number[] = [];

/** Types whose values a filter evaluates. Types that it tests only for presence do not count. */
export type EvaluatedTypes = ReadonlySet<AttributeType> | 'all' | undefined;

/** Returns the offsets of the cells of large values of these types. */
export function largeOffsetsOf(descriptions: DescriptionTable, row: Buffer, types: EvaluatedTypes): readonly number[] {
  if (!types) return NO_OFFSETS;
  return types === 'all' ? largeOffsets(row) : largeOffsetsWhere(descriptions, row, (type) => types.has(type));
}

export function largeOffsetsWhere(
  descriptions: DescriptionTable,
  row: Buffer,
  isWanted: (type: AttributeType) => boolean,
): readonly number[] {
  return largeOffsets(row).filter((at) => isWanted(descriptions.ofCell(row, at).description.type));
}

/** Returns the large values of a row by latin-1 qualifier; undefined if it has none. Throws like `readLarge`. */
export async function readAllLarge(
  reader: Reader,
  table: string,
  id: Buffer,
  row: Buffer,
  offsets: readonly number[] = largeOffsets(row),
): Promise<ReadonlyMap<string, Buffer> | undefined> {
  if (offsets.length === 0) return undefined;
  const values = new Map<string, Buffer>();
  for (const at of offsets) {
    const start = valueStart(row, at);
    const qualifier = row.subarray(qualifierStart(at), start);
    const value = await readLarge(reader, table, id, qualifier, row.subarray(start, nextCell(row, at)));
    values.set(qualifier.toString('latin1'), value);
  }
  return values;
}

/**
 * Reads the large values of one entry in chunks. On a store with snapshots all reads are from one snapshot; otherwise
 * `chunks` fails if the value is replaced meanwhile. Has to be closed.
 */
export class LargeReader {
  readonly #reader: Reader;
  readonly #snapshot: Snapshot | undefined;
  readonly #id: Buffer;
  readonly #row: Buffer;
  /** Qualifiers of the large values in `#row`. A value that was large for the caller may be short by now. */
  readonly #largeQualifiers: ReadonlySet<string> | undefined;

  private constructor(reader: Reader, snapshot: Snapshot | undefined, id: Buffer, row: Buffer) {
    this.#reader = reader;
    this.#snapshot = snapshot;
    this.#id = id;
    this.#row = row;
    this.#largeQualifiers = largeQualifiers(row);
  }

  static async open(store: Store, id: Buffer): Promise<LargeReader> {
    const snapshot = store.supports.snapshot ? store.snapshot() : undefined;
    const reader = snapshot ?? store;
    try {
      return new LargeReader(reader, snapshot, id, (await reader.get(MASTER_TABLE.name, id)) ?? EMPTY);
    } catch (error) {
      snapshot?.close();
      throw error;
    }
  }

  /** Returns the length of the value in bytes; 0 if the value does not exist any more. */
  valueLength(qualifier: Buffer): number {
    const value = cellValue(this.#row, MASTER.upAttributes, qualifier);
    if (!value) return 0;
    return this.#isLarge(qualifier) ? largeLength(value) : value.length;
  }

  #isLarge(qualifier: Buffer): boolean {
    return this.#largeQualifiers?.has(qualifier.toString('latin1')) === true;
  }

  /** Yields the chunks of the value in order, `valueLength` bytes together. Throws LDAP errors. */
  async *chunks(qualifier: Buffer): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* this.#readChunks(qualifier);
    } catch (error) {
      throw toLdapError(error);
    }
  }

  async *#readChunks(qualifier: Buffer): AsyncGenerator<Buffer, void, undefined> {
    const pointer = cellValue(this.#row, MASTER.upAttributes, qualifier);
    if (!pointer) return;
    if (!this.#isLarge(qualifier)) return yield pointer;
    const verify = this.#snapshot ? undefined : () => this.#requireUnchanged(qualifier, pointer);
    yield* readChunks(this.#reader, MASTER_TABLE.name, this.#id, qualifier, pointer, verify);
  }

  async #requireUnchanged(qualifier: Buffer, pointer: Buffer): Promise<void> {
    if (!(await isCurrentValue(this.#reader, MASTER_TABLE.name, this.#id, qualifier, pointer)))
      throw new StoreError('unavailable', 'a large value was replaced while it was read; read it again');
  }

  close(): void {
    this.#snapshot?.close();
  }
}
