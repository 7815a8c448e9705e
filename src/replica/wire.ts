import type { CellName, LoadRow, TableSpec } from '../store/contract.js';
import { EMPTY, packRow, unpackRow } from '../store/row.js';

/**
 * Messages from a primary to a replica (docs/formats/replication.md). Each is a byte for its kind, and a list of byte
 * strings, each after its length (u32). What has no rows is JSON (`encodePlain`).
 */
const KINDS = ['tables', 'load', 'touched', 'log', 'end', 'alive', 'refused', 'state'] as const;
export type MessageKind = (typeof KINDS)[number];

/** Where a stream is. */
export interface StreamPosition {
  /** Number of the last entry of the log that the replica has after this message. */
  readonly position: bigint;
  /** Number of the last entry of the primary's log. */
  readonly last: bigint;
  /** Time of the entry at `position`, and the primary's time: milliseconds since 1970. */
  readonly entryMs: number;
  readonly nowMs: number;
}

/** The tables of a directory. `births`: those of indexes (`indexBirths`), by table; absent where none was made anew. */
export interface TableList {
  readonly specs: readonly TableSpec[];
  readonly births?: Readonly<Record<string, string>>;
}

export type Message =
  | ({ readonly kind: 'tables' } & TableList)
  /** Rows of one table of a copy. `lastKey`: the copy goes on behind it; undefined: the table is complete. */
  | {
      readonly kind: 'load';
      readonly table: string;
      readonly lastKey: Buffer | undefined;
      readonly rows: readonly LoadRow[];
    }
  /** Contents of rows that entries of the log have touched. */
  | { readonly kind: 'touched'; readonly rows: readonly TouchedRow[] }
  | { readonly kind: 'log'; readonly entries: readonly LoadRow[] }
  /** The end of a group, which is applied at once; `alive` follows no group. */
  | ({ readonly kind: 'end' | 'alive' } & StreamPosition)
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'state'; readonly state: ServerState };

/** A term of the log. */
export interface Term {
  readonly term: number;
  /** A random name, so that two promotions to the same term differ. */
  readonly id: string;
  /** Number of the first entry of the term. */
  readonly start: bigint;
}

/** What a server says of itself. */
export interface ServerState {
  readonly role: 'primary' | 'fenced' | 'replica';
  readonly terms: readonly Term[];
  /** As `tableNames`. */
  readonly tables: readonly string[];
  /** Number of the last entry of its log. */
  readonly last: bigint;
  /** The identity of its last entry up to the number that was asked for (`entryUpTo`). */
  readonly entry?: string | undefined;
}

/** Why a primary sends no changes. */
export interface Refusal {
  /**
   * `behind`: the log does not go back to the replica's position; `diverged`: the replica has entries that this server
   * lacks; `stale`: this server's history ends where the replica's goes on: another is the primary.
   */
  readonly reason: 'behind' | 'diverged' | 'stale' | 'none';
  readonly text: string;
}

/** A row as it is now. `put` is empty when nothing is left of it. */
export interface TouchedRow {
  readonly table: string;
  readonly key: Buffer;
  /** `row`: `put` is all of the row but separate families; `whole`: separate cells are dropped, too. */
  readonly kind: 'row' | 'whole' | 'cells';
  /** For `cells`: the cells that `put` may have, and that are gone when it has not. */
  readonly names: readonly CellName[];
  /** Packed cells. */
  readonly put: Buffer;
}

export function encodeMessage(message: Message): Buffer {
  return Buffer.concat([Buffer.from([KINDS.indexOf(message.kind)]), packStrings(messageStrings(message))]);
}

function messageStrings(message: Message): readonly Buffer[] {
  switch (message.kind) {
    case 'load':
      return [Buffer.from(message.table), message.lastKey ?? EMPTY, ...rowStrings(message.rows)];
    case 'touched':
      return message.rows.flatMap(({ table, key, kind, names, put }) => [
        Buffer.from(`${kind} ${table}`),
        key,
        packRow(names.map(({ family, qualifier }) => ({ family, qualifier, value: EMPTY }))),
        put,
      ]);
    case 'log':
      return rowStrings(message.entries);
    default:
      return [encodePlain({ ...message, kind: undefined })];
  }
}

function rowStrings(rows: readonly LoadRow[]): Buffer[] {
  return rows.flatMap(({ key, row, separate }) => [key, row, separate ?? EMPTY]);
}

/** Decodes a message. Throws `RangeError` if it is malformed; the contents of rows are not checked. */
export function decodeMessage(bytes: Buffer): Message {
  const kind = KINDS[bytes[0] ?? KINDS.length];
  const strings = unpackStrings(bytes.subarray(1));
  switch (kind) {
    case 'load': {
      const [table, lastKey, ...rest] = strings as [Buffer, Buffer, ...Buffer[]];
      return { kind, table: table.toString(), lastKey: lastKey.length > 0 ? lastKey : undefined, rows: rowsOf(rest) };
    }
    case 'touched':
      return { kind, rows: inGroups(strings, 4).map(touchedRow) };
    case 'log':
      return { kind, entries: rowsOf(strings) };
    case undefined:
      throw new RangeError(`the primary sent a message of kind ${bytes[0]}; both need the same version of Rowan`);
    default:
      return { ...(decodePlain(strings[0] ?? EMPTY) as Message), kind } as Message;
  }
}

function touchedRow([head, key, names, put]: readonly Buffer[]): TouchedRow {
  const [kind, table] = head!.toString().split(' ') as [TouchedRow['kind'], string];
  return { kind, table, key: key!, names: unpackRow(names!), put: put! };
}

function rowsOf(strings: readonly Buffer[]): LoadRow[] {
  return inGroups(strings, 3).map(([key, row, separate]) => ({
    key: key!,
    row: row!,
    separate: separate!.length > 0 ? separate : undefined,
  }));
}

function inGroups(strings: readonly Buffer[], size: number): (readonly Buffer[])[] {
  if (strings.length % size !== 0) throw new RangeError('a message of the primary is cut short');
  return Array.from({ length: strings.length / size }, (_, i) => strings.slice(i * size, (i + 1) * size));
}

export function packStrings(strings: readonly Buffer[]): Buffer {
  return Buffer.concat(
    strings.flatMap((bytes) => {
      const length = Buffer.allocUnsafe(4);
      length.writeUInt32BE(bytes.length);
      return [length, bytes];
    }),
  );
}

export function unpackStrings(bytes: Buffer): Buffer[] {
  const strings: Buffer[] = [];
  for (let offset = 0; offset < bytes.length; ) {
    const start = offset + 4;
    const end = start + bytes.readUInt32BE(offset);
    if (end > bytes.length) throw new RangeError('a message of the primary is cut short');
    strings.push(bytes.subarray(start, end));
    offset = end;
  }
  return strings;
}

/** Plain data as JSON, for requests between replicas and primaries. Byte arrays, bigints and Infinity are marked. */

export function encodePlain(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value, mark));
}

/** Throws `SyntaxError` if the text is no JSON. The shape is not checked. */
export function decodePlain(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString(), unmark);
}

function mark(this: unknown, key: string, value: unknown): unknown {
  // JSON.stringify passes what `toJSON` of a Buffer returns; the holder has the Buffer.
  const own = (this as Record<string, unknown>)[key];
  if (own instanceof Uint8Array) return { $bytes: Buffer.from(own).toString('base64') };
  if (value === Number.POSITIVE_INFINITY) return { $infinite: true };
  return typeof value === 'bigint' ? { $number: String(value) } : value;
}

function unmark(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  const { $bytes, $number, $infinite } = value as Readonly<Record<string, unknown>>;
  if ($infinite === true) return Number.POSITIVE_INFINITY;
  if (typeof $bytes === 'string') return Buffer.from($bytes, 'base64');
  return typeof $number === 'string' ? BigInt($number) : value;
}
