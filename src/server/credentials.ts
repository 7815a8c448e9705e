import type { DescriptionTable, StoredDescription } from '../partition/descriptions.js';
import type { AttributeType } from '../schema/types.js';
import { CELL_HEADER, INDEX_BYTES, TREE_INFO, UP_ATTRIBUTES } from './entry/row.js';

const USER_PASSWORD = '2.5.4.35';
/** Its length and first byte tell it from the other treeInfo qualifiers. */
const VERSION = Buffer.from('version');

/** What a row says about its owner's credentials. */
export interface RowCredentials {
  readonly version: bigint;
  /** Values of userPassword as stored: views into the row. */
  readonly passwords: readonly Buffer[];
}

/** Whether the type is userPassword or below it: values given in the clear are stored hashed. */
export function isPassword(type: AttributeType): boolean {
  for (let t: AttributeType | undefined = type; t; t = t.superior) if (t.oid === USER_PASSWORD) return true;
  return false;
}

/** Finds passwords in packed master rows. */
export class Credentials {
  readonly #table: DescriptionTable;
  /** By description number: 1 a password, 2 something else. */
  readonly #kinds = new Uint8Array(65_537);

  constructor(table: DescriptionTable) {
    this.#table = table;
  }

  ofRow(row: Buffer): RowCredentials {
    const passwords: Buffer[] = [];
    let version = 0n;
    let last: StoredDescription | undefined;
    for (let at = 0; at < row.length; ) {
      const start = at + CELL_HEADER;
      const value = start + ((row[at + 1]! << 8) | row[at + 2]!);
      const next = value + row.readUInt32BE(at + 3);
      if (next > row.length) throw new RangeError(`packed row of ${row.length} bytes is cut at offset ${at}`);
      const family = row[at];
      if (family === UP_ATTRIBUTES) {
        last = this.#table.internNext(last, row, start, value - INDEX_BYTES);
        if (this.#isPassword(last)) passwords.push(row.subarray(value, next));
      } else if (
        family === TREE_INFO &&
        value - start === VERSION.length &&
        row[start] === VERSION[0] &&
        next - value === 8
      ) {
        version = row.readBigInt64BE(value);
      }
      at = next;
    }
    return { version, passwords };
  }

  #isPassword(stored: StoredDescription): boolean {
    const known = this.#kinds[stored.number];
    if (known) return known === 1;
    const password = isPassword(stored.description.type);
    if (stored.number < this.#kinds.length - 1) this.#kinds[stored.number] = password ? 1 : 2;
    return password;
  }
}

/** The same values, in whatever order. */
export function sameValues(a: readonly Buffer[], b: readonly Buffer[]): boolean {
  if (a.length !== b.length) return false;
  const left = [...b];
  return a.every((value) => {
    const at = left.findIndex((other) => other.equals(value));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}
