import { BoundedMap } from '../../cache/bounded-map.js';
import type { Cell } from '../../store/contract.js';
import { nextCell, qualifierStart, valueStart } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';

/** Change records: rows of table `changes` (docs/formats/tables.md). */

export const CHANGE_OPS = ['add', 'modify', 'rename', 'delete', 'restore'] as const;
export type ChangeOp = (typeof CHANGE_OPS)[number];

export const CHANGE = {
  attributes: Buffer.from('attributes'),
  before: Buffer.from('before'),
  by: Buffer.from('by'),
  csn: Buffer.from('csn'),
  dn: Buffer.from('dn'),
  id: Buffer.from('id'),
  newDn: Buffer.from('newDn'),
  op: Buffer.from('op'),
  time: Buffer.from('time'),
} as const;

/** One change of an entry: operation, names, writer, time and the replaced values. */
export interface ChangeRecord {
  readonly op: ChangeOp;
  readonly id: Buffer;
  /** DN before the change, UTF-8. */
  readonly dn: Buffer;
  readonly newDn?: Buffer | undefined;
  /** DN of the writer; empty for the server itself. */
  readonly writerDn: string;
  readonly csn: string | Buffer;
  /** Milliseconds since 1970, in 8 bytes. The row that a deletion writes to table `deleted` has the same time. */
  readonly time: Buffer;
  /** Names of the changed attributes of a modify or rename. */
  readonly attributes?: readonly string[] | undefined;
  /** Image of the entry before the change (`before-image.ts`). A deletion has none: table `deleted` has the entry. */
  readonly beforeImage?: Buffer | undefined;
}

export function changeCells(record: ChangeRecord): Cell[] {
  const { attributes, beforeImage, csn, newDn } = record;
  const cells: Cell[] = [];
  if (attributes) cells.push(makeCell(CHANGE.attributes, textBytes(attributes.join(','))));
  if (beforeImage) cells.push(makeCell(CHANGE.before, beforeImage));
  cells.push(
    makeCell(CHANGE.by, textBytes(record.writerDn)),
    makeCell(CHANGE.csn, typeof csn === 'string' ? Buffer.from(csn) : csn),
    makeCell(CHANGE.dn, record.dn),
    makeCell(CHANGE.id, record.id),
  );
  if (newDn) cells.push(makeCell(CHANGE.newDn, newDn));
  cells.push(makeCell(CHANGE.op, textBytes(record.op)), makeCell(CHANGE.time, record.time));
  return cells;
}

function makeCell(qualifier: Buffer, value: Buffer): Cell {
  return { family: 0, qualifier, value };
}

/** Decodes a row of table `changes` to views of the row. Throws `corrupt` if a mandatory cell is missing. */
export function changeRecord(row: Buffer): ChangeRecord {
  const valuesByName = new Map<string, Buffer>();
  for (let offset = 0; offset < row.length; offset = nextCell(row, offset)) {
    const start = valueStart(row, offset);
    valuesByName.set(row.toString('latin1', qualifierStart(offset), start), row.subarray(start, nextCell(row, offset)));
  }
  const requireValue = (name: keyof typeof CHANGE): Buffer => {
    const value = valuesByName.get(name);
    if (!value) throw new StoreError('corrupt', `a change record has no '${name}'; run \`rowan check\``);
    return value;
  };
  const op = requireValue('op').toString('latin1');
  if (!(CHANGE_OPS as readonly string[]).includes(op))
    throw new StoreError('corrupt', `a change record has op '${op.slice(0, 20)}'; run \`rowan check\``);
  const attributeNames = valuesByName.get('attributes')?.toString();
  return {
    op: op as ChangeOp,
    id: requireValue('id'),
    dn: requireValue('dn'),
    newDn: valuesByName.get('newDn'),
    writerDn: requireValue('by').toString(),
    csn: requireValue('csn').toString('latin1'),
    time: requireValue('time'),
    attributes: attributeNames === undefined ? undefined : attributeNames === '' ? [] : attributeNames.split(','),
    beforeImage: valuesByName.get('before'),
  };
}

let lastMs = 0;
let lastTimeBytes = Buffer.alloc(8);

/** Returns the current time in milliseconds since 1970 as 8 bytes. Callers share the buffer and must not change it. */
export function changeTime(): Buffer {
  const nowMs = Date.now();
  if (nowMs !== lastMs) {
    lastMs = nowMs;
    lastTimeBytes = Buffer.allocUnsafe(8);
    lastTimeBytes.writeBigUInt64BE(BigInt(nowMs));
  }
  return lastTimeBytes;
}

const texts = new BoundedMap<string, Buffer>(256);

/** Returns the UTF-8 of a text that recurs, such as a time. Shared buffer; callers must not change it. */
export function textBytes(text: string): Buffer {
  const cached = texts.get(text);
  if (cached) return cached;
  const bytes = Buffer.from(text);
  texts.set(text, bytes);
  return bytes;
}
