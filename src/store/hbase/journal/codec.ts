import { StoreError } from '../../errors.js';
import { EMPTY } from '../../row.js';

/** Bytes of a writer's id. */
export const ID_BYTES = 8;

/** The lock cell of a row. */
export type RowLock =
  | { readonly kind: 'exclusive'; readonly writer: Buffer; readonly plan: bigint }
  | { readonly kind: 'shared'; readonly holders: readonly Holder[] };

export interface Holder {
  readonly writer: Buffer;
  /** Counters of its records up to this sequence are in the row. */
  readonly folded: bigint;
}

const EXCLUSIVE = 0x58;
const SHARED = 0x53;
const ENTRY = ID_BYTES + 8;

export function exclusiveLock(writer: Buffer, plan: bigint): Buffer {
  const out = Buffer.allocUnsafe(1 + ENTRY);
  out[0] = EXCLUSIVE;
  out.set(writer, 1);
  out.writeBigUInt64BE(plan, 1 + ID_BYTES);
  return out;
}

/** Undefined for no holder: the cell goes. */
export function sharedLock(holders: readonly Holder[]): Buffer | undefined {
  if (holders.length === 0) return undefined;
  const out = Buffer.allocUnsafe(1 + ENTRY * holders.length);
  out[0] = SHARED;
  let at = 1;
  for (const { writer, folded } of holders) {
    out.set(writer, at);
    at = out.writeBigUInt64BE(folded, at + ID_BYTES);
  }
  return out;
}

export function parseLock(value: Buffer): RowLock {
  const entries = (value.length - 1) / ENTRY;
  if (value[0] === EXCLUSIVE && entries === 1) {
    return {
      kind: 'exclusive',
      writer: value.subarray(1, 1 + ID_BYTES),
      plan: value.readBigUInt64BE(1 + ID_BYTES),
    };
  }
  if (value[0] !== SHARED || !Number.isInteger(entries) || entries === 0)
    throw new StoreError('corrupt', `lock cell of ${value.length} bytes`);
  const holders: Holder[] = [];
  for (let at = 1; at < value.length; at += ENTRY)
    holders.push({
      writer: value.subarray(at, at + ID_BYTES),
      folded: value.readBigUInt64BE(at + ID_BYTES),
    });
  return { kind: 'shared', holders };
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
}

/** A locked row: everything goes (`wipe`), or some cells; then cells come. */
export interface RowChange {
  readonly table: string;
  readonly key: Buffer;
  readonly wipe: boolean;
  readonly gone: Buffer;
  readonly come: Buffer;
}

export interface Addition {
  readonly table: string;
  readonly key: Buffer;
  readonly add: Buffer;
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

const FORMAT = 1;

export function encodeRecord(record: PlanRecord): Buffer {
  const out = new Writer();
  out.number(FORMAT);
  out.long(record.plan);
  out.long(record.ticket);
  out.list(record.rows, ({ table, key, wipe, gone, come }) => {
    out
      .text(table)
      .bytes(key)
      .number(wipe ? 1 : 0);
    out.bytes(gone).bytes(come);
  });
  out.list(record.shared, ({ table, key, add }) => out.text(table).bytes(key).bytes(add));
  out.list(record.blind, ({ table, key, put }) =>
    out
      .text(table)
      .bytes(key)
      .number(put ? 1 : 0),
  );
  out.list(record.appends, ({ table, key, row }) => out.text(table).bytes(key).bytes(row));
  return out.end();
}

/** `format` for one of a later version; `corrupt` when it is cut. */
export function decodeRecord(bytes: Buffer): PlanRecord {
  const from = new Reader(bytes);
  const format = from.number();
  if (format > FORMAT)
    throw new StoreError('format', `a journal record has format ${format}; this version reads up to ${FORMAT}`);
  return {
    plan: from.long(),
    ticket: from.long(),
    rows: from.list(() => ({
      table: from.text(),
      key: from.bytes(),
      wipe: from.number() === 1,
      gone: from.bytes(),
      come: from.bytes(),
    })),
    shared: from.list(() => ({ table: from.text(), key: from.bytes(), add: from.bytes() })),
    blind: from.list(() => ({ table: from.text(), key: from.bytes(), put: from.number() === 1 })),
    appends: from.list(() => ({ table: from.text(), key: from.bytes(), row: from.bytes() })),
  };
}

/** Numbers are u32, longs u64, all big-endian; bytes, texts and lists follow their length. */
class Writer {
  #out = Buffer.allocUnsafe(1024);
  #at = 0;

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
    const at = this.#room(value.length);
    this.#out.set(value, at);
    return this;
  }

  text(value: string): this {
    return this.bytes(Buffer.from(value, 'latin1'));
  }

  list<T>(values: readonly T[], write: (value: T) => unknown): void {
    this.number(values.length);
    for (const value of values) write(value);
  }

  end(): Buffer {
    return this.#out.subarray(0, this.#at);
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
