import { randomBytes } from 'node:crypto';
import type { Cell } from '../../contract.js';
import { CELL_HEADER, EMPTY, packSorted, unpackRow } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { APART } from '../rpc/cells.js';

/** Bytes of a writer's id. */
export const ID_BYTES = 8;

export function randomId(): Buffer {
  return randomBytes(ID_BYTES);
}

/** The lock cell of a row. */
export type RowLock = { readonly kind: 'exclusive'; readonly writer: Buffer; readonly plan: bigint } | SharedLock;

export interface SharedLock {
  readonly kind: 'shared';
  readonly holders: readonly Holder[];
  /**
   * Ticket of the last change of the row's counters, or a mark of who joined after it. Holders come and go: without it
   * the cell could be again what it was before, and whoever folds on condition of it would write over what others have
   * folded, or a release that arrives late would end a hold that was taken after it.
   */
  readonly counted: bigint;
}

export interface Holder {
  readonly writer: Buffer;
  /** Counters of its records up to this sequence are in the row. */
  readonly folded: bigint;
}

const EXCLUSIVE = 0x58;
const SHARED = 0x53;
const ENTRY = ID_BYTES + 8;
/** Of the lock of a shared row: the byte that says so, and `counted`. */
const SHARED_HEAD = 9;

export function exclusiveLock(writer: Buffer, plan: bigint): Buffer {
  const out = Buffer.allocUnsafe(1 + ENTRY);
  out[0] = EXCLUSIVE;
  out.set(writer, 1);
  out.writeBigUInt64BE(plan, 1 + ID_BYTES);
  return out;
}

/** Undefined for no holder: the row is free. */
export function sharedLock(holders: readonly Holder[], counted: bigint): Buffer | undefined {
  if (holders.length === 0) return undefined;
  const out = Buffer.allocUnsafe(SHARED_HEAD + ENTRY * holders.length);
  out[0] = SHARED;
  let at = out.writeBigUInt64BE(counted, 1);
  for (const { writer, folded } of holders) {
    out.set(writer, at);
    at = out.writeBigUInt64BE(folded, at + ID_BYTES);
  }
  return out;
}

export function parseLock(value: Buffer): RowLock {
  if (value[0] === EXCLUSIVE && value.length === 1 + ENTRY) {
    return {
      kind: 'exclusive',
      writer: value.subarray(1, 1 + ID_BYTES),
      plan: value.readBigUInt64BE(1 + ID_BYTES),
    };
  }
  const entries = (value.length - SHARED_HEAD) / ENTRY;
  if (value[0] !== SHARED || !Number.isInteger(entries) || entries <= 0)
    throw new StoreError('corrupt', `lock cell of ${value.length} bytes`);
  const holders: Holder[] = [];
  for (let at = SHARED_HEAD; at < value.length; at += ENTRY)
    holders.push({
      writer: value.subarray(at, at + ID_BYTES),
      folded: value.readBigUInt64BE(at + ID_BYTES),
    });
  return { kind: 'shared', holders, counted: value.readBigUInt64BE(1) };
}

/**
 * A decided plan: what each row shall be. Cells are packed rows (`row.ts`) whose family numbers are those of the
 * table; deletes and marks have empty values, additions 8-byte ones.
 */
export interface PlanRecord {
  /** The number in the plan's row locks. */
  readonly plan: bigint;
  /** Timestamp of its cells. */
  readonly ticket: bigint;
  readonly rows: readonly RowChange[];
  readonly shared: readonly Addition[];
  readonly blind: readonly Mark[];
  readonly appends: readonly Appended[];
  /** Rows that another of the plan's stands for: changed before it. */
  readonly followers: readonly RowChange[];
}

/** A locked row: everything goes (`wipe`), or some cells; then cells come. */
export interface RowChange {
  readonly table: string;
  readonly key: Buffer;
  readonly wipe: boolean;
  readonly gone: Buffer;
  /** Sorted. */
  readonly come: readonly Cell[];
}

export interface Addition {
  readonly table: string;
  readonly key: Buffer;
  readonly add: Buffer;
  /** `Holder.folded` as the row was taken for it: a hold that says less is of a join that arrived late. */
  readonly since: bigint;
}

/** An index row that comes or goes. */
export interface Mark {
  readonly table: string;
  readonly key: Buffer;
  readonly put: boolean;
}

export interface Appended {
  readonly table: string;
  /** 8 bytes. */
  readonly key: Buffer;
  readonly row: Buffer;
}

const FORMAT = 3;

/** A record's bytes, one part after another. */
export interface EncodedRecord {
  readonly parts: readonly Buffer[];
  readonly length: number;
}

/** Long values are referred to instead of copied. */
export function encodeRecord(record: PlanRecord): EncodedRecord {
  const out = new Writer();
  out.number(FORMAT);
  out.long(record.plan);
  out.long(record.ticket);
  writeChanges(out, record.rows);
  out.list(record.shared, ({ table, key, add, since }) => out.text(table).bytes(key).bytes(add).long(since));
  out.list(record.blind, ({ table, key, put }) =>
    out
      .text(table)
      .bytes(key)
      .number(put ? 1 : 0),
  );
  out.list(record.appends, ({ table, key, row }) => out.text(table).bytes(key).bytes(row));
  writeChanges(out, record.followers);
  return out.end();
}

function writeChanges(out: Writer, changes: readonly RowChange[]): void {
  out.list(changes, ({ table, key, wipe, gone, come }) => {
    out
      .text(table)
      .bytes(key)
      .number(wipe ? 1 : 0);
    out.bytes(gone).cells(come);
  });
}

/** `format` for one of another version; `corrupt` when it is cut. */
export function decodeRecord(bytes: Buffer): PlanRecord {
  const from = new Reader(bytes);
  const format = from.number();
  if (format !== FORMAT)
    throw new StoreError('format', `a journal record has format ${format}; this version reads ${FORMAT}`);
  return {
    plan: from.long(),
    ticket: from.long(),
    rows: readChanges(from),
    shared: from.list(() => ({ table: from.text(), key: from.bytes(), add: from.bytes(), since: from.long() })),
    blind: from.list(() => ({ table: from.text(), key: from.bytes(), put: from.number() === 1 })),
    appends: from.list(() => ({ table: from.text(), key: from.bytes(), row: from.bytes() })),
    followers: readChanges(from),
  };
}

function readChanges(from: Reader): RowChange[] {
  return from.list(() => ({
    table: from.text(),
    key: from.bytes(),
    wipe: from.number() === 1,
    gone: from.bytes(),
    come: unpackRow(from.bytes()),
  }));
}

/** Numbers are u32, longs u64, all big-endian; bytes, texts and lists follow their length. */
class Writer {
  #out = Buffer.allocUnsafe(1024);
  #at = 0;
  readonly #parts: Buffer[] = [];
  #length = 0;

  #room(bytes: number): number {
    const at = this.#at;
    if (at + bytes > this.#out.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#out.length * 2, at + bytes));
      this.#out.copy(larger, 0, 0, at);
      this.#out = larger;
    }
    this.#at += bytes;
    return at;
  }

  number(value: number): this {
    const at = this.#room(4);
    this.#out.writeUInt32BE(value, at);
    return this;
  }

  long(value: bigint): this {
    const at = this.#room(8);
    this.#out.writeBigUInt64BE(value, at);
    return this;
  }

  bytes(value: Buffer): this {
    this.number(value.length);
    this.#raw(value);
    return this;
  }

  #raw(value: Buffer): void {
    if (value.length >= APART) {
      this.#cut();
      this.#add(value);
    } else {
      const at = this.#room(value.length);
      this.#out.set(value, at);
    }
  }

  /** What has been written is a part, and what follows another. */
  #cut(): void {
    if (this.#at > 0) this.#add(this.#out.subarray(0, this.#at));
    this.#out = this.#out.subarray(this.#at);
    this.#at = 0;
  }

  #add(part: Buffer): void {
    this.#parts.push(part);
    this.#length += part.length;
  }

  /** As `bytes` of the packed row. */
  cells(cells: readonly Cell[]): this {
    let length = 0;
    for (const { qualifier, value } of cells) length += CELL_HEADER + qualifier.length + value.length;
    this.number(length);
    for (const cell of cells) {
      if (cell.value.length < APART) {
        this.#raw(packSorted([cell]));
        continue;
      }
      const head = packSorted([{ ...cell, value: EMPTY }]);
      head.writeUInt32BE(cell.value.length, 3);
      this.#raw(head);
      this.#raw(cell.value);
    }
    return this;
  }

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'latin1'));
  }

  list<T>(values: readonly T[], write: (value: T) => unknown): void {
    this.number(values.length);
    for (const value of values) write(value);
  }

  end(): EncodedRecord {
    this.#cut();
    return { parts: this.#parts, length: this.#length };
  }
}

class Reader {
  readonly #from: Buffer;
  #at = 0;

  constructor(from: Buffer) {
    this.#from = from;
  }

  #take(bytes: number): number {
    const at = this.#at;
    if (at + bytes > this.#from.length)
      throw new StoreError('corrupt', `a journal record of ${this.#from.length} bytes is cut`);
    this.#at += bytes;
    return at;
  }

  number(): number {
    return this.#from.readUInt32BE(this.#take(4));
  }

  long(): bigint {
    return this.#from.readBigUInt64BE(this.#take(8));
  }

  bytes(): Buffer {
    const length = this.number();
    const at = this.#take(length);
    return length === 0 ? EMPTY : this.#from.subarray(at, at + length);
  }

  text(): string {
    return this.bytes().toString('latin1');
  }

  list<T>(read: () => T): T[] {
    return Array.from({ length: this.number() }, read);
  }
}
