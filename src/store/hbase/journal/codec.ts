import { randomBytes } from 'node:crypto';
import type { Cell } from '../../contract.js';
import { CELL_HEADER, EMPTY, packSorted, unpackRow } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { MIN_REFERENCED_BYTES } from '../rpc/cells.js';

export const ID_BYTES = 8;

export function randomId(): Buffer {
  return randomBytes(ID_BYTES);
}

export type RowLock =
  | { readonly kind: 'exclusive'; readonly writerId: Buffer; readonly planNumber: bigint }
  | SharedLock;

export interface SharedLock {
  readonly kind: 'shared';
  readonly holders: readonly Holder[];
  /**
   * A number that changes whenever counters of the row are written or a holder joins (`SharedRows`). The field keeps
   * the cell from ever returning to an earlier value when holders come and go. Otherwise a late write of counters could
   * overwrite increments of other front ends, and a late release could end a hold that was acquired after it.
   */
  readonly mark: bigint;
}

export interface Holder {
  readonly writer: Buffer;
  /** The row contains the increments of the writer's records up to this sequence number. */
  readonly foldedSequence: bigint;
}

const EXCLUSIVE = 0x58;
const SHARED = 0x53;
const HOLDER_BYTES = ID_BYTES + 8;
/** Header of a shared lock: the type byte and `mark`. */
const SHARED_HEADER_BYTES = 9;

export function exclusiveLock(writer: Buffer, plan: bigint): Buffer {
  const out = Buffer.allocUnsafe(1 + HOLDER_BYTES);
  out[0] = EXCLUSIVE;
  out.set(writer, 1);
  out.writeBigUInt64BE(plan, 1 + ID_BYTES);
  return out;
}

/** Encodes a shared lock. Returns undefined without holders: the row is free. */
export function sharedLock(holders: readonly Holder[], mark: bigint): Buffer | undefined {
  if (holders.length === 0) return undefined;
  const out = Buffer.allocUnsafe(SHARED_HEADER_BYTES + HOLDER_BYTES * holders.length);
  out[0] = SHARED;
  let offset = out.writeBigUInt64BE(mark, 1);
  for (const { writer, foldedSequence } of holders) {
    out.set(writer, offset);
    offset = out.writeBigUInt64BE(foldedSequence, offset + ID_BYTES);
  }
  return out;
}

export function parseLock(value: Buffer): RowLock {
  if (value[0] === EXCLUSIVE && value.length === 1 + HOLDER_BYTES) {
    return {
      kind: 'exclusive',
      writerId: value.subarray(1, 1 + ID_BYTES),
      planNumber: value.readBigUInt64BE(1 + ID_BYTES),
    };
  }
  const holderCount = (value.length - SHARED_HEADER_BYTES) / HOLDER_BYTES;
  if (value[0] !== SHARED || !Number.isInteger(holderCount) || holderCount <= 0)
    throw new StoreError('corrupt', `lock cell of ${value.length} bytes`);
  const holders: Holder[] = [];
  for (let offset = SHARED_HEADER_BYTES; offset < value.length; offset += HOLDER_BYTES)
    holders.push({
      writer: value.subarray(offset, offset + ID_BYTES),
      foldedSequence: value.readBigUInt64BE(offset + ID_BYTES),
    });
  return { kind: 'shared', holders, mark: value.readBigUInt64BE(1) };
}

/**
 * The redo record of a decided plan: the content that each row shall have. Cells are packed rows (`row.ts`) with the
 * family numbers of the table. Deletes and index marks have empty values, increments have values of 8 bytes.
 */
export interface PlanRecord {
  /** Number of the plan in its row locks. */
  readonly plan: bigint;
  /** Timestamp of the cells that the plan writes. */
  readonly ticket: bigint;
  readonly rowChanges: readonly RowChange[];
  readonly counterAdditions: readonly CounterAddition[];
  readonly indexMarks: readonly IndexMark[];
  readonly appendedRows: readonly AppendedRow[];
  /** Rows that are changed under the lock of another row of the plan, and before it. */
  readonly followerChanges: readonly RowChange[];
}

/** The change of a locked row: the row (`deleteRow`) or some cells are deleted, then cells are put. */
export interface RowChange {
  readonly table: string;
  readonly key: Buffer;
  readonly deleteRow: boolean;
  readonly packedDeletes: Buffer;
  /** Sorted by `compareCells`. */
  readonly puts: readonly Cell[];
}

export interface CounterAddition {
  readonly table: string;
  readonly key: Buffer;
  readonly packedIncrements: Buffer;
  /** `Holder.foldedSequence` when the row was acquired. A hold with a lower value was written by a late request. */
  readonly joinSequence: bigint;
}

export interface IndexMark {
  readonly table: string;
  readonly key: Buffer;
  readonly isPut: boolean;
}

export interface AppendedRow {
  readonly table: string;
  /** A ticket of 8 bytes. */
  readonly key: Buffer;
  readonly row: Buffer;
}

const RECORD_FORMAT = 3;

export interface EncodedRecord {
  readonly parts: readonly Buffer[];
  readonly length: number;
}

/** Encodes the record. Long values are not copied, but referenced as separate buffers in `parts`. */
export function encodeRecord(record: PlanRecord): EncodedRecord {
  const encoder = new RecordEncoder();
  encoder.uint32(RECORD_FORMAT);
  encoder.uint64(record.plan);
  encoder.uint64(record.ticket);
  writeChanges(encoder, record.rowChanges);
  encoder.list(record.counterAdditions, ({ table, key, packedIncrements, joinSequence }) =>
    encoder.text(table).bytes(key).bytes(packedIncrements).uint64(joinSequence),
  );
  encoder.list(record.indexMarks, ({ table, key, isPut }) => encoder.text(table).bytes(key).bool(isPut));
  encoder.list(record.appendedRows, ({ table, key, row }) => encoder.text(table).bytes(key).bytes(row));
  writeChanges(encoder, record.followerChanges);
  return encoder.finish();
}

function writeChanges(encoder: RecordEncoder, changes: readonly RowChange[]): void {
  encoder.list(changes, ({ table, key, deleteRow, packedDeletes, puts }) =>
    encoder.text(table).bytes(key).bool(deleteRow).bytes(packedDeletes).cells(puts),
  );
}

/** Throws `format` for a record of another version, and `corrupt` for a truncated one. */
export function decodeRecord(bytes: Buffer): PlanRecord {
  const decoder = new RecordDecoder(bytes);
  const format = decoder.uint32();
  if (format !== RECORD_FORMAT)
    throw new StoreError('format', `a journal record has format ${format}; this version reads ${RECORD_FORMAT}`);
  return {
    plan: decoder.uint64(),
    ticket: decoder.uint64(),
    rowChanges: readChanges(decoder),
    counterAdditions: decoder.list(() => ({
      table: decoder.text(),
      key: decoder.bytes(),
      packedIncrements: decoder.bytes(),
      joinSequence: decoder.uint64(),
    })),
    indexMarks: decoder.list(() => ({ table: decoder.text(), key: decoder.bytes(), isPut: decoder.uint32() === 1 })),
    appendedRows: decoder.list(() => ({ table: decoder.text(), key: decoder.bytes(), row: decoder.bytes() })),
    followerChanges: readChanges(decoder),
  };
}

function readChanges(decoder: RecordDecoder): RowChange[] {
  return decoder.list(() => ({
    table: decoder.text(),
    key: decoder.bytes(),
    deleteRow: decoder.uint32() === 1,
    packedDeletes: decoder.bytes(),
    puts: unpackRow(decoder.bytes()),
  }));
}

/** Writes big-endian numbers. Byte strings, texts and lists are preceded by their length as uint32. */
class RecordEncoder {
  #buffer = Buffer.allocUnsafe(1024);
  #offset = 0;
  readonly #buffers: Buffer[] = [];
  #totalLength = 0;

  #reserve(bytes: number): number {
    const offset = this.#offset;
    if (offset + bytes > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, offset + bytes));
      this.#buffer.copy(larger, 0, 0, offset);
      this.#buffer = larger;
    }
    this.#offset += bytes;
    return offset;
  }

  uint32(value: number): this {
    const offset = this.#reserve(4);
    this.#buffer.writeUInt32BE(value, offset);
    return this;
  }

  bool(value: boolean): this {
    return this.uint32(value ? 1 : 0);
  }

  uint64(value: bigint): this {
    const offset = this.#reserve(8);
    this.#buffer.writeBigUInt64BE(value, offset);
    return this;
  }

  bytes(value: Buffer): this {
    this.uint32(value.length);
    this.#copyOrReference(value);
    return this;
  }

  #copyOrReference(value: Buffer): void {
    if (value.length >= MIN_REFERENCED_BYTES) {
      this.#closeBuffer();
      this.#addBuffer(value);
    } else {
      const offset = this.#reserve(value.length);
      this.#buffer.set(value, offset);
    }
  }

  /** Completes the current buffer. The bytes written next belong to another buffer. */
  #closeBuffer(): void {
    if (this.#offset > 0) this.#addBuffer(this.#buffer.subarray(0, this.#offset));
    this.#buffer = this.#buffer.subarray(this.#offset);
    this.#offset = 0;
  }

  #addBuffer(buffer: Buffer): void {
    this.#buffers.push(buffer);
    this.#totalLength += buffer.length;
  }

  /** Writes the same bytes as `bytes` with a packed row of the cells. */
  cells(cells: readonly Cell[]): this {
    let length = 0;
    for (const { qualifier, value } of cells) length += CELL_HEADER + qualifier.length + value.length;
    this.uint32(length);
    for (const cell of cells) {
      if (cell.value.length < MIN_REFERENCED_BYTES) {
        this.#copyOrReference(packSorted([cell]));
        continue;
      }
      const header = packSorted([{ ...cell, value: EMPTY }]);
      header.writeUInt32BE(cell.value.length, 3);
      this.#copyOrReference(header);
      this.#copyOrReference(cell.value);
    }
    return this;
  }

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'latin1'));
  }

  list<T>(values: readonly T[], write: (value: T) => unknown): void {
    this.uint32(values.length);
    for (const value of values) write(value);
  }

  finish(): EncodedRecord {
    this.#closeBuffer();
    return { parts: this.#buffers, length: this.#totalLength };
  }
}

class RecordDecoder {
  readonly #bytes: Buffer;
  #offset = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  #take(bytes: number): number {
    const offset = this.#offset;
    if (offset + bytes > this.#bytes.length)
      throw new StoreError('corrupt', `a journal record of ${this.#bytes.length} bytes is cut`);
    this.#offset += bytes;
    return offset;
  }

  uint32(): number {
    return this.#bytes.readUInt32BE(this.#take(4));
  }

  uint64(): bigint {
    return this.#bytes.readBigUInt64BE(this.#take(8));
  }

  bytes(): Buffer {
    const length = this.uint32();
    const offset = this.#take(length);
    return length === 0 ? EMPTY : this.#bytes.subarray(offset, offset + length);
  }

  text(): string {
    return this.bytes().toString('latin1');
  }

  list<T>(read: () => T): T[] {
    return Array.from({ length: this.uint32() }, read);
  }
}
