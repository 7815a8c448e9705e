import { createHash, randomBytes } from 'node:crypto';
import type { Cell, CellName, Guard, RowStep, Store } from '../../store/contract.js';
import { cellValue, nextCell, qualifierStart, unpackRow, valueStart } from '../../store/row.js';
import { guardsHold } from '../../store/store-error.js';
import type { Draft } from '../model/draft.js';
import { valueQualifier } from '../model/entry-cells.js';
import {
  CHUNK_NAME_BYTES,
  chunkQualifier,
  chunkQualifiers,
  encodePointer,
  largeLength,
  largeOffsets,
  POINTER_BYTES,
  readExistingChunks,
  splitChunks,
} from '../model/large.js';
import { MASTER } from '../model/tables.js';
import { AHEAD_BYTES, AHEAD_CHUNKS, LARGE_VALUE } from '../model/thresholds.js';

/** Set in the first byte of a chunk name. Chunks without a name have a number there, which begins with 0. */
const NAME_BIT = 0x80;

export interface LargeSource {
  readonly qualifier: Buffer;
  /** The value; for a value in another table its pointer. */
  readonly content: Buffer;
  readonly isPointer: boolean;
  /** Returns the chunks in order; undefined for a lost chunk. */
  chunks(): Iterable<Buffer> | AsyncIterable<Buffer | undefined>;
}

/** Values that were written ahead, as the plan that makes them visible needs them. */
export interface WrittenValues {
  /** Guards that the mark exists: the check and repairs have not removed the chunks. */
  readonly guard: Guard;
  /** The mark. The plan deletes it, and the chunks then belong to values. */
  readonly mark: CellName;
  /** Pointers of the values by qualifier (Latin-1). */
  readonly pointers: ReadonlyMap<string, Buffer>;
}

interface PendingValues extends WrittenValues {
  readonly id: Buffer;
  readonly sources: readonly LargeSource[];
  readonly mark: Cell;
  readonly pointers: Map<string, Buffer>;
  /** Names of all chunks that may have been written. */
  readonly chunks: CellName[];
  isComplete: boolean;
}

/**
 * Writes large values into a row ahead of the plan that makes them visible, a few chunks at a time. The chunks get a
 * random name, so that no chunk in use is overwritten. A cell of that name, the *mark*, exists from the start until the
 * plan deletes it. The plan guards that the mark still exists: otherwise the chunks were removed. If the process dies,
 * the check finds its chunks.
 */
export class LargeValueWriter {
  readonly #store: Store;
  readonly #table: string;
  #pendingValues: PendingValues | undefined;

  constructor(store: Store, table: string) {
    this.#store = store;
    this.#table = table;
  }

  /** Writes the values into the row `id`. Skips values that an earlier attempt has written. */
  async write(id: Buffer, sources: readonly LargeSource[]): Promise<WrittenValues> {
    const earlier = this.#pendingValues;
    const isReusable = earlier?.isComplete && earlier.id.equals(id) && isSameSources(earlier.sources, sources);
    if (isReusable && (await this.#isMarked(earlier))) return earlier;
    await this.discard();
    const chunkName = randomBytes(CHUNK_NAME_BYTES);
    chunkName[0]! |= NAME_BIT;
    const mark: Cell = { family: MASTER.largeValues, qualifier: chunkName, value: timeNow() };
    const guard = { op: 'equals', ...mark } as const;
    const writing: PendingValues = { id, sources, guard, mark, pointers: new Map(), chunks: [], isComplete: false };
    this.#pendingValues = writing;
    await this.#commit({ table: this.#table, key: id, put: [mark] });
    for (const source of sources) await this.#writeValue(writing, chunkName, source);
    writing.isComplete = true;
    return writing;
  }

  async #isMarked({ id, mark: { family, qualifier, value } }: PendingValues): Promise<boolean> {
    const cells = await this.#store.getCells(this.#table, id, family, qualifier);
    return cells !== undefined && cellValue(cells, family, qualifier)?.equals(value) === true;
  }

  async #writeValue(writing: PendingValues, name: Buffer, source: LargeSource): Promise<void> {
    const { qualifier, content, isPointer, chunks } = source;
    const hash = isPointer ? undefined : createHash('sha256');
    let portion: Cell[] = [];
    let chunkIndex = 0;
    for await (const value of chunks()) {
      const cellName = { family: MASTER.largeValues, qualifier: chunkQualifier(qualifier, chunkIndex++, name) };
      if (!value) continue;
      hash?.update(value);
      portion.push({ ...cellName, value });
      if (portion.length < AHEAD_CHUNKS) continue;
      await this.#putCells(writing, portion);
      portion = [];
    }
    if (portion.length > 0) await this.#putCells(writing, portion);
    const pointer = hash ? encodePointer(content.length, hash.digest()) : content.subarray(0, POINTER_BYTES);
    writing.pointers.set(qualifier.toString('latin1'), Buffer.concat([pointer, name]));
  }

  async #putCells({ id, guard, chunks }: PendingValues, put: readonly Cell[]): Promise<void> {
    for (const { family, qualifier } of put) chunks.push({ family, qualifier });
    await this.#commit({ table: this.#table, key: id, guards: [guard], put });
  }

  /** Deletes the chunks that no plan has made visible. */
  async discard(): Promise<void> {
    const pendingValues = this.#pendingValues;
    if (!pendingValues) return;
    this.#pendingValues = undefined;
    const { id, guard, mark, chunks } = pendingValues;
    // A guard fails if the chunks belong to stored values by now, or were removed.
    await guardsHold(this.#commit({ table: this.#table, key: id, guards: [guard], delete: [mark, ...chunks] }));
  }

  /** Like `discard`, but never rejects. For a caller that is about to throw the error of the write. */
  discardIfPossible(): Promise<void> {
    // If the store fails here, too, the chunks stay, and the check finds them.
    return this.discard().catch(() => undefined);
  }

  #commit(step: RowStep): Promise<void> {
    return this.#store.commit({ steps: [step], decisive: 0 });
  }
}

function isSameSources(sources: readonly LargeSource[], otherSources: readonly LargeSource[]): boolean {
  return (
    sources.length === otherSources.length &&
    sources.every(({ qualifier, content, isPointer }, i) => {
      const otherSource = otherSources[i]!;
      if (!otherSource.qualifier.equals(qualifier) || otherSource.isPointer !== isPointer) return false;
      return isPointer ? otherSource.content.equals(content) : otherSource.content === content;
    })
  );
}

function timeNow(): Buffer {
  const time = Buffer.allocUnsafe(8);
  time.writeBigUInt64BE(BigInt(Date.now()));
  return time;
}

/** Returns the new large values of an entry that have to be written ahead; undefined for most entries. */
export function newLargeSources(draft: Draft): LargeSource[] | undefined {
  let byteCount = 0;
  const { attributes } = draft;
  for (let i = 0; i < attributes.length; i++) {
    const { values } = attributes[i]!;
    for (let k = 0; k < values.length; k++) byteCount += values[k]!.bytes.length;
  }
  if (byteCount <= AHEAD_BYTES) return undefined;
  const sources: LargeSource[] = [];
  for (const { text, values } of attributes) {
    for (const { bytes: value, index, pointer } of values)
      if (!pointer && value.length > LARGE_VALUE) sources.push(newSource(valueQualifier(text, index), value));
  }
  return totalLength(sources) > AHEAD_BYTES ? sources : undefined;
}

function totalLength(sources: readonly LargeSource[]): number {
  return sources.reduce((sum, { content, isPointer }) => sum + (isPointer ? largeLength(content) : content.length), 0);
}

function newSource(qualifier: Buffer, content: Buffer): LargeSource {
  return { qualifier, content, isPointer: false, chunks: () => splitChunks(content) };
}

export interface MovedValues {
  /** Chunks to write with the plan. */
  readonly chunkCells: readonly Cell[];
  /** Chunks that were written ahead of the plan. */
  readonly writtenValues: WrittenValues | undefined;
}

/** For a row without large values. */
export const NO_MOVED_VALUES: MovedValues = { chunkCells: [], writtenValues: undefined };

/**
 * Copies the large values of the row `id` from `sourceTable` to the table of `largeWriter`, or returns them for the
 * plan. The plan has to guard that the row has not changed. Lost chunks stay lost.
 */
export async function moveLargeValues(
  store: Store,
  largeWriter: LargeValueWriter,
  sourceTable: string,
  id: Buffer,
  row: Buffer,
): Promise<MovedValues> {
  const sources = largeOffsets(row).map((offset): LargeSource => {
    const start = valueStart(row, offset);
    const qualifier = row.subarray(qualifierStart(offset), start);
    const pointer = row.subarray(start, nextCell(row, offset));
    return {
      qualifier,
      content: pointer,
      isPointer: true,
      chunks: () => readExistingChunks(store, sourceTable, id, chunkQualifiers(qualifier, pointer)),
    };
  });
  if (totalLength(sources) > AHEAD_BYTES)
    return { chunkCells: [], writtenValues: await largeWriter.write(id, sources) };
  const chunkCells: Cell[] = [];
  for (const { qualifier, content, chunks } of sources) {
    const names = chunkQualifiers(qualifier, content);
    let n = 0;
    for await (const value of chunks()) {
      if (value) chunkCells.push({ family: MASTER.largeValues, qualifier: names[n]!, value });
      n++;
    }
  }
  return { chunkCells, writtenValues: undefined };
}

/** Returns the cells of the row, with pointers to the large values in the other table. */
export function cellsWithMovedPointers(row: Buffer, { writtenValues }: MovedValues): Cell[] {
  const cells = unpackRow(row);
  if (!writtenValues) return cells;
  return cells.map((cell) => {
    const pointer =
      cell.family === MASTER.upAttributes ? writtenValues.pointers.get(cell.qualifier.toString('latin1')) : undefined;
    return pointer ? { ...cell, value: pointer } : cell;
  });
}

/** Whether a cell of `largeValues` with this qualifier is a mark, which exists while values are written ahead. */
export function isMark(qualifier: Buffer): boolean {
  return qualifier.length === CHUNK_NAME_BYTES && (qualifier[0]! & NAME_BIT) !== 0;
}

/** Age in milliseconds from which a mark is abandoned: its process has died. */
const ABANDONED_MS = 10 * 60_000;

/** Whether the values of the mark may still be being written. `cells`: cells with the mark and its time. */
export function isBeingWritten(cells: Buffer | undefined, mark: Buffer): boolean {
  const time = cells && cellValue(cells, MASTER.largeValues, mark);
  return time?.length === 8 && Math.abs(Date.now() - Number(time.readBigUInt64BE())) < ABANDONED_MS;
}
